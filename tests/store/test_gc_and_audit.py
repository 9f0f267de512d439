from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from assay.errors import StoreError
from assay.records import Evidence, EvidenceAdded, Noted
from assay.store import BlobStore, RunStore, append_addendum, audit, gc, seal

pytestmark = pytest.mark.quick
Fill = Callable[..., None]
DAY = 86_400.0


def aged(root: Path) -> Path:
    """The same store a day later."""
    for path in root.rglob("*"):
        os.utime(path, (time.time() - DAY, time.time() - DAY))
    return root


def test_gc_drops_only_what_no_run_refers_to(tmp_path: Path, fill: Fill) -> None:
    fill()
    lost = BlobStore(tmp_path / "blobs").put(b"nobody wants me")
    aged(tmp_path)
    assert gc(tmp_path, dry_run=True).blobs == (lost,)
    report = gc(tmp_path)
    assert (report.blobs, report.bytes_freed, report.kept, report.young) == ((lost,), 15, 1, 0)
    assert audit(tmp_path, "r") == ()
    assert gc(tmp_path).blobs == ()


def test_gc_leaves_the_young_unless_told(tmp_path: Path, fill: Fill) -> None:
    fill()
    lost = BlobStore(tmp_path / "blobs").put(b"about to be referred to")
    assert gc(tmp_path).young == 1
    assert gc(tmp_path, min_age_s=0).blobs == (lost,)


@pytest.mark.parametrize("again", ["put", "put_stream", "put_file", "has"])
def test_a_blob_that_is_asked_for_again_is_young_again(tmp_path: Path, again: str) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    digest = blobs.put(b"seen before")
    aged(tmp_path)
    (tmp_path / "file").write_bytes(b"seen before")
    arguments = {
        "put": b"seen before",
        "put_stream": [b"seen ", b"before"],
        "put_file": tmp_path / "file",
        "has": digest,
    }
    getattr(blobs, again)(arguments[again])
    assert gc(tmp_path).blobs == ()
    assert blobs.intact(digest)


def test_evidence_of_unsealed_runs_goes_only_when_told(tmp_path: Path, fill: Fill) -> None:
    fill("sealed_one")
    seal(tmp_path, "sealed_one")
    fill("live_one")
    aged(tmp_path)
    assert gc(tmp_path).blobs == ()
    assert len(gc(tmp_path, evidence=True).blobs) == 1
    assert audit(tmp_path, "sealed_one") == ()
    assert {"is missing" in p.what for p in audit(tmp_path, "live_one")} == {True}


def test_a_run_that_is_being_written_keeps_its_evidence(tmp_path: Path, fill: Fill) -> None:
    fill()
    aged(tmp_path)
    with RunStore.open(tmp_path, "r", write=True):
        assert gc(tmp_path, evidence=True).blobs == ()


def test_addenda_keep_their_evidence(tmp_path: Path, fill: Fill) -> None:
    fill()
    seal(tmp_path, "r")
    blob = BlobStore(tmp_path / "blobs").put(b"learnt later")
    append_addendum(tmp_path, "r", [EvidenceAdded(Evidence("e9", "state", "file", {}, (blob,)))])
    assert gc(aged(tmp_path)).blobs == ()
    BlobStore(tmp_path / "blobs").remove(blob)
    assert [(p.chain, p.index) for p in audit(tmp_path, "r")] == [("addendum.0", 0)]


def test_a_run_that_cannot_be_read_stops_gc_before_anything_goes(tmp_path: Path, fill: Fill) -> None:
    fill()
    BlobStore(tmp_path / "blobs").put(b"nobody wants me")
    (tmp_path / "runs" / "r" / "run.sqlite").write_bytes(b"SQLite format 3\x00 and nothing else" * 100)
    with pytest.raises(StoreError, match=r"run\.sqlite"):
        gc(aged(tmp_path), min_age_s=0)
    assert len(list(BlobStore(tmp_path / "blobs").addresses())) == 2


def test_leftover_temporary_files_go(tmp_path: Path, fill: Fill) -> None:
    fill()
    folder = tmp_path / "runs" / "r" / "sealed.7.tmp"
    folder.mkdir()
    for path in (tmp_path / "blobs" / "x.tmp", tmp_path / "blobs" / "00" / "y.1.tmp", folder / "steps.parquet"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    assert gc(tmp_path).temporary == ()
    assert len(gc(aged(tmp_path)).temporary) == 3
    assert not list(tmp_path.rglob("*.tmp"))


DAMAGE = {
    "body": (
        "UPDATE events SET body = replace(body, 'remark', 'demark') WHERE chain = 't.a.1.0'",
        5,
        "changed: its bytes",
    ),
    "space": ("UPDATE events SET body = body || ' ' WHERE chain = 't.a.1.0' AND idx = 2", 2, "changed: its bytes"),
    "removed": ("DELETE FROM events WHERE chain = 't.a.1.0' AND idx = 3", 3, "removed"),
    "cut": ("DELETE FROM events WHERE chain = 't.a.1.0' AND idx = 6", 6, "the head says"),
    "all": ("DELETE FROM events WHERE chain = 't.a.1.0'", None, "no events"),
    "row": (
        "UPDATE attempts SET row = replace(row, '\"pass\"', '\"fail\"') WHERE chain = 't.a.1.0'",
        None,
        "differs from its events in outcome",
    ),
    "rowless": ("DELETE FROM attempts WHERE chain = 't.a.1.0'", None, "no summary row"),
    "undecodable": ("UPDATE events SET body = x'00' WHERE chain = 't.a.1.0' AND idx = 4", 4, "changed"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_audit_locates_damage_of_a_live_run(tmp_path: Path, fill: Fill, name: str) -> None:
    fill()
    assert audit(tmp_path, "r") == ()
    statement, index, what = DAMAGE[name]
    with closing(sqlite3.connect(tmp_path / "runs" / "r" / "run.sqlite")) as connection, connection:
        connection.execute(statement)
    connection.close()
    found = [p for p in audit(tmp_path, "r") if what in p.what]
    assert [(p.run, p.chain, p.index) for p in found] == [("r", "t.a.1.0", index)]


def test_audit_locates_missing_and_changed_blobs(tmp_path: Path, fill: Fill) -> None:
    fill(attempts=1)
    blobs = BlobStore(tmp_path / "blobs")
    path = blobs.path(next(blobs.addresses()))
    path.chmod(0o644)
    path.write_bytes(b"something else")
    assert {p.index for p in audit(tmp_path, "r") if "bytes of its address" in p.what} == {2, 3, 6}
    path.unlink()
    assert {p.index for p in audit(tmp_path, "r") if "is missing" in p.what} == {2, 3, 6}


def test_audit_finds_a_forged_table_even_with_a_new_digest_in_the_seal(tmp_path: Path, fill: Fill) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from assay.store.sealed import SealManifest, file_digest

    fill()
    seal(tmp_path, "r")
    path = tmp_path / "runs" / "r" / "sealed" / "verdicts.parquet"
    old, table = file_digest(path), pq.read_table(path)
    pq.write_table(table.set_column(7, table.field(7), pa.array(["fail"] * 3)), path)
    manifest = path.with_name("seal.json")
    forged = msgspec.json.decode(manifest.read_text().replace(old, file_digest(path)), type=SealManifest)
    manifest.write_bytes(msgspec.structs.replace(forged, digest=forged.own_digest()).written())
    assert [(p.chain, p.index) for p in audit(tmp_path, "r")] == [("t.a.0.0", 4)]


def test_audit_of_a_run_under_a_writer_sees_one_moment(tmp_path: Path, fill: Fill) -> None:
    fill()
    with RunStore.open(tmp_path, "r", write=True) as store:
        store.append("t.a.99.0", [Noted("x")])
        assert audit(tmp_path, "r") == ()


WRITER = """
import sys
from pathlib import Path
from assay.records import Evidence, EvidenceAdded
from assay.store import RunStore
with RunStore.create(Path(sys.argv[1]), "w", {}) as store:
    for number in range(1500):
        blob = store.blobs.put(b"%d" % (number % 50))  # mostly old ones, which gc may want
        store.append("c", [EvidenceAdded(Evidence(str(number), "state", "file", {}, (blob,)))])
"""


@pytest.mark.long
def test_gc_beside_a_writer_takes_nothing_that_it_refers_to(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    for number in range(50):
        blobs.put(b"%d" % number)
    aged(tmp_path)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)]) as process:
        removed = 0
        while process.poll() is None:
            removed += len(gc(tmp_path, min_age_s=1.0).blobs)
    assert process.returncode == 0
    assert removed > 0
    assert audit(tmp_path, "w") == ()
