"""Summary rows that do not say what their chains say are named, and the chains' own account is what is shown."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assay.records import Verdict, VerdictAdded
from assay.store import RunStore, annotate, check_rows, current_verdicts_of, seal
from assay.store.row_check import CheckedRows
from benchmarks.store import attempt_bodies
from tests.counting import count_calls

Fill = Callable[..., None]
pytestmark = pytest.mark.quick


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
        assert current_verdicts_of(store, checked.rows, checked.verdicts)["t.a.1.0"].integrity == "fail"


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


def test_attempts_of_a_sealed_run_cost_few_calls_to_list(tmp_path: Path, fill: Fill) -> None:
    def calls(count: int) -> int:
        root = tmp_path / str(count)
        with RunStore.create(root, "b", {}) as store:
            store.append_all([(f"c{number:06d}.0", attempt_bodies(number)) for number in range(count)])
        seal(root, "b")
        with RunStore.open(root, "b") as store:
            return count_calls(lambda: current_verdicts_of(store, (found := check_rows(store)).rows, found.verdicts))

    calls(1)
    assert calls(120) - calls(20) < 100 * 70  # 59; 100 where digests and verdicts were each handled on their own
