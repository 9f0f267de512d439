"""Queries on a live run write only what is new, and never anything that the events do not say."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from assay.records import Body, Noted
from assay.store import RunStore, audit, live_tables, query, seal

pytestmark = pytest.mark.newest
Fill = Callable[..., None]
SQL = "FROM steps ORDER BY ALL"


@pytest.fixture(autouse=True)
def kept_from_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tables, "CACHE_EVENTS", 1)


def kept(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "runs" / "r" / "tables").rglob("*") if path.is_file())


def grow(root: Path, chain: Callable[..., list[Body]], number: int) -> None:
    with RunStore.open(root, "r", write=True) as store:
        blob = next(store.blobs.addresses())
        store.append(f"t.a.{number}.0", chain(blob, number))


def test_the_second_query_writes_only_what_is_new(tmp_path: Path, fill: Fill, chain: Callable[..., list[Body]]) -> None:
    fill()
    first = query(tmp_path, SQL)
    (one,) = kept(tmp_path)
    grow(tmp_path, chain, 7)
    assert len(query(tmp_path, SQL).rows) == len(first.rows) + 1
    assert [name for name in kept(tmp_path) if name == one] == [one]
    assert sorted(name.split(".")[1] for name in kept(tmp_path)) == ["0-22", "22-29"]


@pytest.mark.long
def test_kept_tables_say_what_fresh_ones_say(tmp_path: Path, fill: Fill, chain: Callable[..., list[Body]]) -> None:
    fill()
    names = ("steps", "calls", "verdicts", "evidence", "events", "trajectories")
    for number in (7, 8, 9):
        for name in names:
            query(tmp_path, f"SELECT count(*) FROM {name}")
        grow(tmp_path, chain, number)
    found = {name: query(tmp_path, f"FROM {name} ORDER BY ALL") for name in names}
    seal(tmp_path, "r")
    assert {name: query(tmp_path, f"FROM {name} ORDER BY ALL") for name in names} == found
    assert kept(tmp_path) == []


def test_small_additions_are_not_kept(tmp_path: Path, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tables, "CACHE_EVENTS", 1000)
    fill()
    assert len(query(tmp_path, SQL).rows) == 3
    assert kept(tmp_path) == []


def test_a_kept_table_of_another_history_is_not_used(tmp_path: Path, fill: Fill) -> None:
    fill()
    query(tmp_path, SQL)
    (name,) = kept(tmp_path)
    folder = next((tmp_path / "runs" / "r" / "tables").iterdir())
    (folder / name).rename(folder / "steps.0-22.0123456789abcdef.parquet")
    (folder / "steps.0-900.0123456789abcdef.parquet").write_bytes(b"not mine")
    assert len(query(tmp_path, SQL).rows) == 3


def test_a_forged_table_of_a_live_run_is_found(tmp_path: Path, fill: Fill) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fill()
    query(tmp_path, "FROM verdicts")
    assert audit(tmp_path, "r") == ()
    (path,) = (p for p in (tmp_path / "runs" / "r" / "tables").rglob("*.parquet"))
    table = pq.read_table(path)
    at = table.column_names.index("status")
    pq.write_table(table.set_column(at, table.field(at), pa.array(["fail"] * 3)), path)
    assert ["tables/" in problem.what for problem in audit(tmp_path, "r")] == [True]
    path.write_bytes(b"PAR1 and nothing else")
    assert ["cannot be read" in problem.what for problem in audit(tmp_path, "r")] == [True]


def test_an_event_that_is_hidden_from_queries_is_found(tmp_path: Path, fill: Fill) -> None:
    fill()
    with closing(sqlite3.connect(tmp_path / "runs" / "r" / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE events SET type = 'note' WHERE chain = 't.a.1.0' AND idx = 4")
    connection.close()
    assert [(p.chain, p.index) for p in audit(tmp_path, "r")] == [("t.a.1.0", 4)]


def test_two_queries_at_once_beside_a_writer_agree_with_the_events(tmp_path: Path, fill: Fill) -> None:
    fill()
    counts: list[int] = []

    def ask() -> None:
        counts.extend(query(tmp_path, "SELECT count(*) FROM events").rows[0][0] for _ in range(5))

    with RunStore.open(tmp_path, "r", write=True) as store:
        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        for _ in range(40):
            store.append("t.a.99.0", [Noted("x")])
        for thread in asking:
            thread.join()
    assert len(counts) == 10
    assert query(tmp_path, "SELECT count(*) FROM events").rows == ((62,),)
    assert audit(tmp_path, "r") == ()


def test_a_folder_that_cannot_be_written_is_queried_all_the_same(tmp_path: Path, fill: Fill) -> None:
    fill()
    (tmp_path / "runs" / "r" / "tables").write_text("a file in the way")
    assert len(query(tmp_path, SQL).rows) == 3
