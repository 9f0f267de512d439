"""A blob is erased for good, and the record says so: nothing else can be taken out unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.errors import StoreError, UserError
from assay.records import AttemptEnded, AttemptStarted, Body, Evidence, EvidenceAdded
from assay.store import RunStore, audit, erase_blob, gc, list_erasures, seal, store_tree

pytestmark = pytest.mark.quick
SECRET = b"password: correct horse"


def record(root: Path, run: str, *, tree: Path | None = None, ended: bool = True) -> str:
    """A run whose first chain refers to the secret's blob, its second does not."""
    with RunStore.create(root, run, {}) as store:
        blob = store.blobs.put(SECRET)
        data: dict[str, object] = {}
        blobs: tuple[str, ...] = (blob,)
        if tree is not None:
            kept = store_tree(store.blobs, tree, most_bytes=1000)
            data, blobs = {"listing": kept.listing}, (kept.listing,)
        refers: list[Body] = [EvidenceAdded(Evidence("e1", "audit", "file", data, blobs))]
        for number, extra in enumerate((refers, [])):
            started = AttemptStarted(run, f"t@{number}", "t", "d", "a", None, 1, number)
            store.append(f"t@{number}.0", [started, *extra, *([AttemptEnded("done", at=2.0)] if ended else [])])
    return blob


@pytest.mark.parametrize("finish", [lambda root, run: None, seal])
def test_an_erased_blob_is_gone_and_the_run_still_verifies(
    tmp_path: Path, finish: Callable[[Path, str], object]
) -> None:
    blob = record(tmp_path, "r")
    finish(tmp_path, "r")
    report = erase_blob(tmp_path, blob, "personal data")
    assert (report.size_bytes, report.chains) == (len(SECRET), {"r": ("t@0.0",)})
    assert not [path for path in (tmp_path / "blobs").rglob("*") if path.is_file() and SECRET in path.read_bytes()]
    assert audit(tmp_path, "r") == ()
    assert [(one.chain, one.blob, one.reason) for one in list_erasures(tmp_path, "r")] == [
        ("t@0.0", blob, "personal data")
    ]


def test_a_blob_that_is_removed_otherwise_is_still_a_problem(tmp_path: Path) -> None:
    blob = record(tmp_path, "r")
    other = record(tmp_path, "s")
    assert blob == other
    erase_blob(tmp_path, blob, "personal data")
    with RunStore.create(tmp_path, "t", {}) as store:
        added = store.blobs.put(b"more")
        started = AttemptStarted("t", "t@0", "t", "d", "a", None, 1, 0)
        found = EvidenceAdded(Evidence("e1", "audit", "file", {}, (blob, added)))
        store.append("t@0.0", [started, found, AttemptEnded("done", at=2.0)])
        store.blobs.remove(added)
    assert audit(tmp_path, "s") == ()
    assert sorted(problem.what.split()[-2:] for problem in audit(tmp_path, "t")) == [["is", "missing"]] * 2


def test_a_file_of_a_stored_folder_is_erased_too(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "key.txt").write_bytes(SECRET)
    blob = record(tmp_path / "s", "r", tree=folder)
    assert erase_blob(tmp_path / "s", blob, "a key").chains == {"r": ("t@0.0",)}
    assert audit(tmp_path / "s", "r") == ()


def test_erasing_twice_adds_one_tombstone(tmp_path: Path) -> None:
    blob = record(tmp_path, "r")
    assert erase_blob(tmp_path, blob[:20], "personal data", dry_run=True).size_bytes == len(SECRET)
    assert list_erasures(tmp_path, "r") == ()
    erase_blob(tmp_path, blob[:20], "personal data")
    again = erase_blob(tmp_path, blob, "personal data")
    assert (again.size_bytes, again.chains, len(list_erasures(tmp_path, "r"))) == (None, {}, 1)


def test_a_killed_run_gets_its_tombstone_and_the_collector_agrees(tmp_path: Path) -> None:
    blob = record(tmp_path, "r", ended=False)
    erase_blob(tmp_path, blob, "personal data")
    assert len(list_erasures(tmp_path, "r")) == 1
    assert gc(tmp_path, min_age_s=0).blobs == ()
    assert audit(tmp_path, "r") == ()


def test_nothing_is_erased_while_a_run_is_written_or_without_a_reason(tmp_path: Path) -> None:
    blob = record(tmp_path, "r")
    with RunStore.create(tmp_path, "live", {}), pytest.raises(StoreError, match="'live' is being written"):
        erase_blob(tmp_path, blob, "personal data")
    for name, reason, message in (
        (blob, " ", "no reason"),
        ("zebra", "x", "is not a content address"),
        ("0" * 9, "x", "no blob begins with 000000000"),
    ):
        with pytest.raises(UserError, match=message):
            erase_blob(tmp_path, name, reason)
    assert audit(tmp_path, "r") == ()


def test_the_commands_say_what_was_erased_and_why(tmp_path: Path) -> None:
    blob = record(tmp_path, "r")

    def call(*words: str) -> str:
        result = CliRunner().invoke(build_app(), [*words, "--store", str(tmp_path)])
        assert result.exit_code == 0, result.output
        return result.output

    shown = call("store", "erase", blob, "--reason", "personal data, request 17")
    assert shown == f"{blob} is erased ({len(SECRET)} bytes)\n  run r: t@0.0\n"
    assert f"erased on purpose: {blob[:19]}: personal data, request 17\n" in call("verify", "r")
    assert f"erased: {blob}: personal data, request 17\n" in call("show", "t@0", "--run", "r")
