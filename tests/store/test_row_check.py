"""Summary rows that do not say what their chains say are named, and the chains' own account is what is shown."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.records import Verdict, VerdictAdded
from assay.store import RunStore, annotate, check_rows, current_verdicts_by_chain, row_check, seal
from assay.store.row_cache import MAX_ENTRIES, RowCache
from assay.store.row_check import CheckedRows
from benchmarks.store import attempt_bodies
from tests.counting import count_calls

Fill = Callable[..., None]
pytestmark = pytest.mark.newest


def checked(root: Path) -> CheckedRows:
    with RunStore.open(root, "r") as store:
        found = check_rows(store)
        if not found.differing:
            assert found.rows == store.attempts()
        return found


def forge(root: Path, **fields: object) -> None:
    """Rewrites one summary row, as anybody may who can write the file."""
    path = next((root / "runs" / "r").glob("run.sqlite"))
    with closing(sqlite3.connect(path)) as connection, connection:
        (raw,) = connection.execute("SELECT row FROM attempts WHERE chain = 't.a.1.0'").fetchone()
        row = json.dumps({**json.loads(raw), **fields}).encode()
        connection.execute("UPDATE attempts SET row = ? WHERE chain = 't.a.1.0'", (row,))


@pytest.mark.parametrize("sealing", [False, True])
def test_honest_rows_agree(tmp_path: Path, fill: Fill, sealing: bool) -> None:
    fill()
    if sealing:
        seal(tmp_path, "r")
    assert checked(tmp_path).differing == {}
    assert checked(tmp_path).warning() is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("outcome", "fail"), ("score", 0.5), ("integrity", "pass"), ("steps", 7), ("head", "blake3:0"), ("agent", "b"),
     ("broke", "environment"), ("metrics", {}), ("task", "easy"), ("retried", True)],
)  # fmt: skip
def test_a_forged_field_is_named_and_not_shown(tmp_path: Path, fill: Fill, field: str, value: object) -> None:
    fill()
    honest = checked(tmp_path).rows
    forge(tmp_path, **{field: value})
    found = checked(tmp_path)
    assert found.differing == {"t.a.1.0": (field,)}
    assert found.rows == honest
    assert "(t.a.1.0: " in (found.warning() or "")


def test_rows_without_chains_and_chains_without_rows_are_named(tmp_path: Path, fill: Fill) -> None:
    fill()
    with closing(sqlite3.connect(tmp_path / "runs" / "r" / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE attempts SET chain = 'invented' WHERE chain = 't.a.1.0'")
    found = checked(tmp_path)
    assert found.differing == {"invented": ("missing events",), "t.a.1.0": ("missing row",)}
    assert "invented" not in {row.chain for row in found.rows}


def test_an_attempt_of_another_run_is_named(tmp_path: Path, fill: Fill) -> None:
    fill()
    fill("other")
    paths = [tmp_path / "runs" / run / "run.sqlite" for run in ("r", "other")]
    with closing(sqlite3.connect(paths[0])) as connection:
        connection.execute("ATTACH ? AS other", (str(paths[1]),))
        with connection:
            connection.execute("DELETE FROM events WHERE chain = 't.a.1.0'")
            columns = "chain, idx, type, body, previous, digest"
            there = f"SELECT {columns} FROM other.events WHERE chain = 't.a.1.0' ORDER BY idx"
            connection.execute(f"INSERT INTO events ({columns}) {there}")
    found = checked(tmp_path)
    assert {fields[0] for fields in found.differing.values()} == {"run"}
    assert list(found.differing) == ["t.a.1.0"]


def test_a_verdict_that_was_rewritten_with_its_row_is_named(tmp_path: Path, fill: Fill) -> None:
    fill()
    with closing(sqlite3.connect(tmp_path / "runs" / "r" / "run.sqlite")) as connection, connection:
        change = "UPDATE events SET body = replace(CAST(body AS TEXT), 'pass', 'fail') WHERE type = 'verdict'"
        connection.execute(change + " AND chain = 't.a.1.0'")
    forge(tmp_path, outcome="fail")
    assert checked(tmp_path).differing == {"t.a.1.0": ("events",)}


def test_a_forged_row_of_a_sealed_run_is_named(tmp_path: Path, fill: Fill) -> None:
    fill()
    seal(tmp_path, "r")
    (path,) = (tmp_path / "runs" / "r").rglob("trajectories.parquet")
    table = pq.read_table(path)
    rows = [json.dumps({**json.loads(raw), "outcome": "fail"}).encode() for raw in table["row"].to_pylist()]
    at = table.schema.get_field_index("row")
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(rows, table.schema.field(at).type)), path)
    found = checked(tmp_path)
    assert {fields for fields in found.differing.values()} == {("outcome",)}
    assert {row.outcome for row in found.rows if row.finished} == {"pass"}


def test_a_forged_table_of_verdicts_of_a_sealed_run_counts_for_nothing(tmp_path: Path, fill: Fill) -> None:
    fill()
    annotate(tmp_path, "r", "t.a.1.0", [VerdictAdded(Verdict("audit", "integrity", "fail", None, "seen"))])
    seal(tmp_path, "r")
    (path,) = (tmp_path / "runs" / "r").rglob("verdicts.parquet")
    table = pq.read_table(path)
    at = table.schema.get_field_index("status")
    forged = pa.array(["pass"] * len(table), table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), forged), path)
    with RunStore.open(tmp_path, "r") as store:
        checked = check_rows(store)
        assert current_verdicts_by_chain(store, checked.rows, checked.verdicts)["t.a.1.0"].integrity == "fail"


def rewrite_events(root: Path, **options: object) -> None:
    (path,) = (root / "runs" / "r").rglob("events.parquet")
    table = pq.read_table(path)
    pq.write_table(table, path, **options)


@pytest.mark.parametrize(
    "options", [{"use_dictionary": False}, {"row_group_size": 1}, {"dictionary_pagesize_limit": 8}]
)
def test_rows_do_not_depend_on_how_the_events_file_is_laid_out(tmp_path: Path, fill: Fill, options: object) -> None:
    fill()
    seal(tmp_path, "r")
    before = checked(tmp_path)
    rewrite_events(tmp_path, **options)  # type: ignore[arg-type]
    assert checked(tmp_path) == before


def test_one_chain_of_a_sealed_run_is_checked_alone(tmp_path: Path, fill: Fill) -> None:
    fill()
    seal(tmp_path, "r")
    with RunStore.open(tmp_path, "r") as store:
        every = {row.chain: row for row in check_rows(store).rows}
        assert len(every) > 1
        for chain, row in every.items():
            assert check_rows(store, chain).rows == [row]


@pytest.mark.long
def test_attempts_of_a_sealed_run_cost_few_calls_to_list(tmp_path: Path, fill: Fill) -> None:
    def calls(count: int) -> int:
        root = tmp_path / str(count)
        with RunStore.create(root, "b", {}) as store:
            store.append_all([(f"c{number:06d}.0", attempt_bodies(number)) for number in range(count)])
        seal(root, "b")
        with RunStore.open(root, "b") as store:
            return count_calls(
                lambda: current_verdicts_by_chain(store, (found := check_rows(store)).rows, found.verdicts)
            )

    calls(1)
    assert calls(120) - calls(20) < 100 * 70  # 59; 100 where digests and verdicts were each handled on their own


@pytest.fixture
def kept(tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seals a run whose checked rows are kept, and checks it once; returns the folder of entries."""
    monkeypatch.setattr(row_check, "LEAST_CHAINS", 1)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    fill()
    seal(tmp_path, "r")
    before = checked(tmp_path)
    monkeypatch.setattr(row_check, "_fold_rows", lambda *_, **__: pytest.fail("the rows were folded again"))
    assert checked(tmp_path) == before
    return tmp_path / "cache" / "rows"


@pytest.mark.parametrize("name", ["events.parquet", "trajectories.parquet"])
def test_kept_rows_are_those_of_the_files_as_they_are(tmp_path: Path, kept: Path, name: str) -> None:
    (path,) = (tmp_path / "runs" / "r").rglob(name)
    pq.write_table(pq.read_table(path), path, compression="none")
    with pytest.raises(pytest.fail.Exception, match="folded again"):
        checked(tmp_path)
    assert len(list(kept.iterdir())) == 1


def test_rows_that_another_user_may_have_kept_count_for_nothing(tmp_path: Path, kept: Path) -> None:
    (entry,) = kept.iterdir()
    assert (entry.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o600, 0o700)
    entry.chmod(0o602)
    with pytest.raises(pytest.fail.Exception, match="folded again"):
        checked(tmp_path)
    entry.chmod(0o600)
    entry.write_bytes(entry.read_bytes()[:-1])
    with pytest.raises(pytest.fail.Exception, match="folded again"):
        checked(tmp_path)


def test_rows_of_other_code_are_folded_again(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.store.row_cache._code_digest", lambda: "blake3:other")
    with pytest.raises(pytest.fail.Exception, match="folded again"):
        checked(tmp_path)


def test_where_the_cache_cannot_be_written_rows_are_folded_each_time(
    tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_check, "LEAST_CHAINS", 1)
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file"))
    fill()
    seal(tmp_path, "r")
    assert checked(tmp_path) == checked(tmp_path)


def test_the_oldest_entries_are_deleted(tmp_path: Path) -> None:
    cache = RowCache(int, tmp_path)
    for number in range(MAX_ENTRIES + 3):
        cache.save(f"{number:03d}", number)
        os.utime(tmp_path / f"{number:03d}", (number, number))
    assert cache.load("000") is None
    assert cache.load(f"{MAX_ENTRIES + 2:03d}") == MAX_ENTRIES + 2
    assert len(list(tmp_path.iterdir())) == MAX_ENTRIES


@pytest.fixture
def folded(tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fills a live run whose checked rows are kept, and checks it once; returns the chains that are folded later."""
    monkeypatch.setattr(row_check, "LEAST_CHAINS", 1)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    fill()
    before = checked(tmp_path)
    found: list[str] = []
    fold = row_check._check_chain

    def note(facts: Any, records: Any) -> Any:
        found.append(facts[1])
        return fold(facts, records)

    monkeypatch.setattr(row_check, "_check_chain", note)
    assert checked(tmp_path) == before
    assert found == []
    return found


def test_of_a_live_run_only_new_chains_are_folded(tmp_path: Path, folded: list[str]) -> None:
    with RunStore.open(tmp_path, "r", write=True) as store:
        store.append("new.0", attempt_bodies(7))
    assert "new.0" in {row.chain for row in checked(tmp_path).rows}
    assert folded == ["new.0"]


@pytest.fixture
def resting(tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fills a live run to which nothing is written any more, and checks it once; returns its file."""
    monkeypatch.setattr(row_check, "LEAST_LIVE_BYTES", 1)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    fill()
    (path,) = (tmp_path / "runs" / "r").glob("run.sqlite")
    os.utime(path, (1, 1))
    before = checked(tmp_path)
    monkeypatch.setattr(row_check, "_fold_rows", lambda *_, **__: pytest.fail("the rows were folded again"))
    assert checked(tmp_path) == before
    return path


def test_a_live_run_at_rest_is_known_by_its_file(tmp_path: Path, resting: Path) -> None:
    os.utime(resting, (2, 2))
    checked(tmp_path)
    os.utime(resting)  # something may be writing
    with pytest.raises(pytest.fail.Exception, match="folded again"):
        checked(tmp_path)


def test_a_changed_byte_of_a_live_run_at_rest_is_folded_again(tmp_path: Path, resting: Path) -> None:
    data = bytearray(resting.read_bytes())
    data[-1] ^= 1
    resting.write_bytes(data)
    os.utime(resting, (1, 1))
    with pytest.raises(pytest.fail.Exception, match="folded again"):
        checked(tmp_path)


def test_what_is_written_to_a_live_run_at_rest_is_folded(tmp_path: Path, resting: Path) -> None:
    with closing(sqlite3.connect(resting)) as connection:
        with connection:
            connection.execute("UPDATE attempts SET row = replace(row, 'pass', 'fail') WHERE chain = 't.a.1.0'")
        for path in resting.parent.glob("run.sqlite*"):
            os.utime(path, (1, 1))
        with pytest.raises(pytest.fail.Exception, match="folded again"):
            checked(tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE attempts SET row = replace(row, 'pass', 'fail') WHERE chain = 't.a.1.0'", "outcome"),
        (
            "UPDATE events SET body = replace(body, 'pass', 'fail') WHERE chain = 't.a.1.0' AND type = 'verdict'",
            "events",
        ),
        ("UPDATE events SET digest = 'blake3:0' WHERE chain = 't.a.1.0' AND type = 'attempt_started'", "events"),
    ],
)
def test_a_forged_chain_of_a_live_run_whose_rows_are_kept_is_named(
    tmp_path: Path, folded: list[str], change: str, told: str
) -> None:
    (path,) = (tmp_path / "runs" / "r").glob("run.sqlite")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    assert told in checked(tmp_path).differing["t.a.1.0"]
    assert folded == ["t.a.1.0"]
