"""Whatever a store holds, its readers give an answer or a sentence."""

from __future__ import annotations

import importlib
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay.errors import AssayError, StoreError, UserError
from assay.records import Evidence, EvidenceAdded, Noted, Verdict, VerdictAdded
from assay.store import (
    BlobStore,
    QueryLimits,
    RunStore,
    append_addendum,
    audit,
    gc,
    list_runs,
    query,
    seal,
)
from assay.store.database import WriterLock, has_writer

pytestmark = pytest.mark.newest
Fill = Callable[..., None]
DAY = 86_400.0


def aged(root: Path) -> Path:
    for path in root.rglob("*"):
        os.utime(path, (time.time() - DAY, time.time() - DAY))
    return root


def changed(root: Path, statement: str) -> None:
    connection = sqlite3.connect(root / "runs" / "r" / "run.sqlite")
    connection.execute(statement)
    connection.commit()
    connection.close()


DAMAGE = [
    "UPDATE attempts SET row = 'nonsense' WHERE chain = 't.a.1.0'",
    "UPDATE attempts SET row = 3",
    "UPDATE attempts SET row = x'ff00'",
    "INSERT INTO attempts SELECT 'second', row FROM attempts WHERE chain = 't.a.1.0'",
    "UPDATE events SET digest = 5 WHERE idx = 2",
    "UPDATE events SET digest = x'00' WHERE idx = 2",
    "UPDATE events SET previous = x'ff' WHERE idx = 2",
    "UPDATE events SET chain = x'ff' WHERE idx = 2 AND chain = 't.a.1.0'",
    "UPDATE events SET idx = 'two' WHERE idx = 2",
    "UPDATE events SET body = 7 WHERE idx = 2",
    "UPDATE events SET body = CAST('[[[[' AS BLOB) WHERE idx = 2",
    "UPDATE meta SET value = '{' WHERE key = 'manifest'",
    "UPDATE meta SET value = '[1]' WHERE key = 'manifest'",
    "DELETE FROM meta",
    "PRAGMA user_version = -3",
    "DROP TABLE events",
    "DROP TABLE attempts",
]


def said(act: Callable[[], object]) -> str:
    """What an act raises or returns, as a text; anything but our own errors is a failure."""
    try:
        return str(act())
    except AssayError as exc:
        return str(exc)


def opened(root: Path, act: Callable[[RunStore], object]) -> object:
    """What an act on the run returns."""
    with RunStore.open(root, "r") as store:
        return act(store)


@pytest.mark.parametrize("statement", DAMAGE)
def test_a_damaged_live_run_is_told_and_never_a_traceback(tmp_path: Path, fill: Fill, statement: str) -> None:
    fill()
    changed(tmp_path, statement)
    assert said(lambda: audit(tmp_path, "r")) != "()"
    assert said(lambda: opened(tmp_path, RunStore.attempts))
    assert said(lambda: opened(tmp_path, RunStore.manifest))
    assert said(lambda: query(tmp_path, "SELECT count(*) FROM steps"))
    assert said(lambda: seal(tmp_path, "r"))
    assert said(lambda: gc(tmp_path))


def test_a_chain_of_another_run_is_found(tmp_path: Path, fill: Fill) -> None:
    fill("r")
    fill("other")
    changed(tmp_path, "DELETE FROM attempts WHERE chain = 't.a.1.0'")
    changed(tmp_path, "DELETE FROM events WHERE chain = 't.a.1.0'")
    other = tmp_path / "runs" / "other" / "run.sqlite"
    connection = sqlite3.connect(tmp_path / "runs" / "r" / "run.sqlite")
    connection.execute(f"ATTACH '{other}' AS other")
    columns = "chain, idx, type, body, previous, digest"
    connection.execute(f"INSERT INTO events ({columns}) SELECT {columns} FROM other.events WHERE chain = 't.a.1.0'")
    connection.execute(
        "INSERT INTO attempts SELECT chain, replace(row, '\"other\"', '\"r\"') FROM other.attempts "
        "WHERE chain = 't.a.1.0'"
    )
    connection.commit()
    connection.close()
    assert "it was recorded in run 'other'" in [p.what for p in audit(tmp_path, "r")]


def test_a_changed_manifest_is_found(tmp_path: Path, fill: Fill) -> None:
    fill()
    path = tmp_path / "runs" / "r" / "manifest.json"
    path.write_text(path.read_text().replace("a test", "a feat"))
    assert ["manifest.json" in p.what for p in audit(tmp_path, "r")] == [True]
    path.write_text("{")
    assert ["manifest.json" in p.what for p in audit(tmp_path, "r")] == [True]
    path.unlink()
    assert [p.what for p in audit(tmp_path, "r")] == ["manifest.json is missing"]


def test_wrong_counts_in_the_seal_are_found(tmp_path: Path, fill: Fill) -> None:
    fill()
    seal(tmp_path, "r")
    path = tmp_path / "runs" / "r" / "sealed" / "seal.json"
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "events": 23}))
    found = " ".join(p.what for p in audit(tmp_path, "r"))
    assert "wrong counts" in found
    assert "not match its own digest" in found


def test_parts_of_an_audit_can_be_left_out(tmp_path: Path, fill: Fill) -> None:
    fill(attempts=1)
    BlobStore(tmp_path / "blobs").remove(next(BlobStore(tmp_path / "blobs").addresses()))
    assert audit(tmp_path, "r", blobs=False) == ()
    assert audit(tmp_path, "r", chains=False) == audit(tmp_path, "r") != ()


@pytest.mark.parametrize("lost", ["sealed/seal.json", "run.sqlite"])
def test_gc_drops_nothing_where_a_run_has_lost_its_heart(tmp_path: Path, fill: Fill, lost: str) -> None:
    fill()
    if lost.startswith("sealed"):
        seal(tmp_path, "r")
    else:
        (tmp_path / "runs" / "r" / "addenda").mkdir()
        (tmp_path / "runs" / "r" / "addenda" / "0.json").write_text("{}")
    (tmp_path / "runs" / "r" / lost).unlink()
    with pytest.raises(StoreError, match=r"holds parts of a run .* restore"):
        gc(aged(tmp_path))
    assert len(list(BlobStore(tmp_path / "blobs").addresses())) == 1


def test_gc_leaves_what_a_writer_may_name_later(tmp_path: Path, fill: Fill) -> None:
    fill()
    aged(tmp_path)
    with RunStore.open(tmp_path, "r", write=True) as store:
        before = time.time() - DAY / 2
        os.utime(tmp_path / "runs" / "r" / "lock", (before, before))  # it has been at work for half a day
        blob = store.blobs.put(b"the output of a test that takes hours")
        os.utime(store.blobs.path(blob), (before + 60, before + 60))
        assert gc(tmp_path).blobs == ()
        store.append("t.a.99.0", [EvidenceAdded(Evidence("e", "audit", "execution", {}, (blob,)))])
    assert audit(tmp_path, "r") == ()


def test_looking_whether_a_run_is_written_changes_nothing(tmp_path: Path, fill: Fill) -> None:
    fill()
    lock = aged(tmp_path) / "runs" / "r" / "lock"
    before = lock.stat().st_mtime_ns
    assert not has_writer(lock)
    held = WriterLock(lock)
    assert has_writer(lock)
    held.release()
    os.utime(lock, ns=(before, before))
    gc(tmp_path)
    assert lock.stat().st_mtime_ns == before
    assert not has_writer(lock.with_name("absent"))


def test_a_store_that_is_a_file_is_not_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file, not a store"):
        list_runs(tmp_path / "file")
    with pytest.raises(UserError, match="file is a file, not a store"):
        RunStore.create(tmp_path / "file" / "store", "r", {})
    (tmp_path / "runs").write_text("x")
    with pytest.raises(StoreError, match="a file lies where a folder belongs"):
        list_runs(tmp_path)
    assert list_runs(tmp_path / "nowhere") == []


def test_a_changed_blob_is_not_given_out(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    digest = blobs.put(b"what was said")
    path = blobs.path(digest)
    path.chmod(0o644)
    path.write_bytes(b"what was put in its place")
    with pytest.raises(StoreError, match="was changed"):
        blobs.get(digest)
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError, match="cannot be read"):
        blobs.get(digest)


def test_no_writer_gets_in_after_a_sealing(tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    fill()
    data = (tmp_path / "runs" / "r" / "run.sqlite").read_bytes()
    taken = WriterLock.__init__

    def sealed_meanwhile(lock: WriterLock, path: Path) -> None:
        monkeypatch.setattr(WriterLock, "__init__", taken)
        seal(tmp_path, "r")
        (tmp_path / "runs" / "r" / "run.sqlite").write_bytes(data)  # that sealing was killed before its last act
        taken(lock, path)

    monkeypatch.setattr(WriterLock, "__init__", sealed_meanwhile)
    with pytest.raises(StoreError, match="is sealed"):
        RunStore.open(tmp_path, "r", write=True)
    assert seal(tmp_path, "r").already


def verdict(status: str, name: str = "again") -> VerdictAdded:
    return VerdictAdded(Verdict(name, "outcome", status, 0.0, "judged anew", ("e1",)))  # type: ignore[arg-type]


def test_verdicts_learnt_later_are_in_the_view_with_their_addendum(tmp_path: Path, fill: Fill) -> None:
    fill()
    seal(tmp_path, "r")
    append_addendum(tmp_path, "r", [verdict("fail"), Noted("x")], about="t.a.1.0")
    append_addendum(tmp_path, "r", [verdict("unknown", "whole")])
    append_addendum(tmp_path, "r", [EvidenceAdded(Evidence("e9", "state", "file", {"a": 1}))], about="t.a.0.0")
    sql = 'SELECT run, chain, task, "check", status, addendum FROM verdicts WHERE addendum >= 0 ORDER BY addendum'
    assert query(tmp_path, sql).rows == (
        ("r", "t.a.1.0", "t", "again", "fail", 0),
        ("r", None, None, "whole", "unknown", 1),
    )
    assert query(tmp_path, "SELECT count(*), count(addendum) FROM verdicts").rows == ((5, 2),)
    assert query(tmp_path, "SELECT id, chain FROM evidence WHERE addendum = 2").rows == (("e9", "t.a.0.0"),)
    assert query(tmp_path, "SELECT DISTINCT outcome FROM trajectories WHERE final").rows == (("pass",),)


def test_live_and_sealed_runs_are_asked_together_with_addenda(tmp_path: Path, fill: Fill) -> None:
    fill("old")
    seal(tmp_path, "old")
    append_addendum(tmp_path, "old", [verdict("fail")], about="t.a.1.0")
    fill("new")
    sql = "SELECT run, count(*), count(addendum) FROM verdicts GROUP BY run ORDER BY run"
    assert query(tmp_path, sql).rows == (("new", 3, 0), ("old", 4, 1))


def test_columns_of_one_name_are_told_apart(tmp_path: Path, fill: Fill) -> None:
    fill()
    assert query(tmp_path, "SELECT 1 AS a, 2 AS a, 3 AS a_2").columns == ("a", "a_2", "a_2_2")


def test_a_result_takes_bounded_memory(tmp_path: Path, fill: Fill) -> None:
    fill()
    with pytest.raises(UserError, match=r"larger than 4 MiB.*--limit"):
        query(tmp_path, "SELECT repeat('x', 100000) FROM range(1000)", bounds=QueryLimits(result_mib=4))
    with pytest.raises(UserError, match="at least 1 row"):
        query(tmp_path, "SELECT 1", limit=0)


def test_a_run_that_is_sealed_while_it_is_asked_is_asked_again(
    tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("assay.store.query")
    fill()
    locked = module._connect_locked

    def sealed_first(*given: object) -> object:
        monkeypatch.setattr(module, "_connect_locked", locked)
        seal(tmp_path, "r")
        message = "the file is gone"
        raise StoreError(message)

    monkeypatch.setattr(module, "_connect_locked", sealed_first)
    assert query(tmp_path, "SELECT count(*) FROM steps").rows == ((3,),)


def test_folders_of_other_people_are_no_runs(tmp_path: Path, fill: Fill) -> None:
    fill()
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "file.txt").write_text("x")
    shutil.copytree(tmp_path / "runs" / "r", tmp_path / "runs" / "a copy of r")
    assert list_runs(tmp_path) == ["r"]
    with pytest.raises(StoreError, match="a copy of r"):
        gc(tmp_path)
