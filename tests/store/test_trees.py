"""Folders as content-addressed data: what goes in comes out, and a hostile listing writes nothing outside."""

from __future__ import annotations

import contextlib
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.records import AttemptEnded, Evidence, EvidenceAdded, canonical_bytes
from assay.store import BlobStore, RunStore, TreeTooLarge, audit, gc, read_tree, store_tree, write_tree
from tests.store.conftest import started

pytestmark = pytest.mark.quick


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "folder"
    (top / "sub" / "empty").mkdir(parents=True)
    (top / "run.sh").write_text("echo")
    (top / "run.sh").chmod(0o750)
    (top / "sub" / "large").write_bytes(os.urandom(9 << 20))
    (top / "sub" / "link").symlink_to("../run.sh")
    return top


def shape(top: Path) -> list[tuple[str, int, bytes]]:
    found = []
    for path in sorted(top.rglob("*")):
        content = str(path.readlink()).encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
        found.append((str(path.relative_to(top)), path.lstat().st_mode, content))
    return found


def test_a_folder_comes_back_as_it_was(folder: Path, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    kept = store_tree(blobs, folder, most_bytes=1 << 30)
    write_tree(blobs, kept.listing, tmp_path / "again")
    assert shape(tmp_path / "again") == shape(folder)
    assert (kept.files, kept.bytes) == (2, 4 + (9 << 20))


def test_a_lone_file_comes_back(folder: Path, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    kept = store_tree(blobs, folder / "run.sh", most_bytes=10)
    write_tree(blobs, kept.listing, tmp_path / "again")
    assert ((tmp_path / "again").read_text(), (tmp_path / "again").stat().st_mode & 0o777) == ("echo", 0o750)


def test_too_much_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TreeTooLarge, match="8 MiB"):
        store_tree(BlobStore(tmp_path / "blobs"), folder, most_bytes=8 << 20)


@pytest.mark.parametrize(
    "entries",
    [
        [{"path": "../out", "digest": "D"}],
        [{"path": "/etc/out", "digest": "D"}],
        [{"path": "a/../../out", "digest": "D"}],
        [{"path": "a", "target": "/etc"}, {"path": "a/out", "digest": "D"}],
        [{"path": "a", "target": ".."}],
        [{"path": "a", "digest": "D"}, {"path": "a", "digest": "D"}],
        [{"path": "a/b", "digest": "D"}],
        [{"path": "", "digest": "D"}, {"path": "b", "digest": "D"}],
        {"path": "a"},
        [{"path": "a", "mode": "x"}],
    ],
)
def test_a_hostile_listing_is_refused(entries: object, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    listing = blobs.put(canonical_bytes(entries).replace(b'"D"', f'"{blobs.put(b"x")}"'.encode()))
    with pytest.raises(StoreError, match="not a listing"):
        write_tree(blobs, listing, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_listing_or_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        blobs = BlobStore(Path(folder))
        with contextlib.suppress(StoreError):
            assert isinstance(read_tree(blobs, blobs.put(data)), tuple)


def test_what_a_listing_names_is_kept_by_gc_and_checked_by_audit(folder: Path, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    kept = store_tree(blobs, folder, most_bytes=1 << 30)
    evidence = Evidence("e1", "state", "task", {"listing": kept.listing}, (kept.listing,))
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append("a@0.0", [started(), EvidenceAdded(evidence), AttemptEnded("done")])
    lost = blobs.put(b"nobody names this")
    assert gc(tmp_path, min_age_s=0).blobs == (lost,)
    assert audit(tmp_path, "r") == ()
    named = next(e.digest for e in read_tree(blobs, kept.listing) if e.digest)
    blobs.remove(named)
    (problem,) = audit(tmp_path, "r")
    assert (problem.index, named in problem.what) == (1, True)


def test_threads_may_keep_the_same_bytes_at_once(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    with ThreadPoolExecutor(16) as pool:
        for number in range(200):
            data = [f"{number}".encode()] * 16
            assert len(set(pool.map(blobs.put, data))) == 1
    assert not list((tmp_path / "blobs").rglob("*.tmp"))
