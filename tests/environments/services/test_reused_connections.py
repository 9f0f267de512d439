"""Connections that serve one database after another: exactly the initial state, and nothing of another world."""

from __future__ import annotations

import gc
import sqlite3
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from assay.environments.services import database
from assay.environments.services.database import Database
from assay.environments.services.world import ServiceWorld
from tests.environments.services.lending import lending

pytestmark = pytest.mark.quick


def opened() -> ServiceWorld:
    return ServiceWorld.of([lending], 5)


def content(of: Database) -> list[list[tuple[Any, ...]]]:
    return [of.rows(table) for table in of.tables]


FRESH = content(opened().database)


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> None:
    gc.collect()
    database._KEPT._queue.clear()


def spoil(world: ServiceWorld, books: int = 2) -> None:
    """Lends books."""
    (member, *_), every = world.database.rows(world.composition.tables[2]), world.database.rows(BOOKS)
    for book in every[:books]:
        world.act("lend_book", {"book_id": book[0], "member_id": member[0]})


BOOKS = next(table for table in opened().composition.tables if table.sql_name == "lending_books")


def test_a_dropped_world_leaves_its_connection_to_the_next_one() -> None:
    world = opened()
    connection = world.database.connection
    spoil(world)
    assert content(world.database) != FRESH
    place = id(connection)
    del connection
    del world
    other = opened()
    assert id(other.database.connection) == place
    assert content(other.database) == FRESH
    assert other.database.changes() == ()
    assert other.database.digest() == other.database.image.digest
    assert other.database.connection.execute("SELECT count(*) FROM temp.journal").fetchone() == (0,)


def test_a_closed_world_is_closed_though_its_connection_lives() -> None:
    world = opened()
    database_of_it = world.database
    database_of_it.close()
    database_of_it.close()
    other = opened()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database_of_it.rows(BOOKS)
    spoil(other)


def test_a_connection_that_something_refers_to_is_closed() -> None:
    world = opened()
    cursor = world.database.connection.execute(f"SELECT * FROM {BOOKS.sql_name}")
    del world
    assert not database._KEPT._queue
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        cursor.fetchone()


def test_a_connection_in_a_transaction_is_closed() -> None:
    world = opened()
    world.database.connection.execute("BEGIN")
    world.database.connection.execute(f"DELETE FROM {BOOKS.sql_name}")
    del world
    assert not database._KEPT._queue
    assert content(opened().database) == FRESH


def test_many_changes_are_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_MOST_UNDONE", 1)
    world = opened()
    spoil(world)
    place = id(world.database.connection)
    del world
    other, further = opened(), opened()
    assert content(other.database) == content(further.database) == FRESH
    assert len({place, id(other.database.connection), id(further.database.connection)}) >= 2


def test_what_cannot_be_undone_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    world = opened()
    spoil(world)
    del world
    monkeypatch.setattr(database.RowChange, "reversed", lambda change: change)
    assert content(opened().database) == FRESH


def test_worlds_of_other_images_are_not_mixed_up() -> None:
    world = opened()
    spoil(world)
    del world
    other = ServiceWorld.of([lending], 6)
    assert other.database.digest() == other.database.image.digest
    assert content(other.database) != FRESH


def test_few_connections_are_kept() -> None:
    worlds = [opened() for _ in range(database._MOST_KEPT + 5)]
    del worlds
    assert len(database._KEPT._queue) == database._MOST_KEPT


def test_large_images_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = [opened() for _ in range(6)]
    size = len(worlds[0].database.image.data)
    del worlds
    monkeypatch.setattr(database, "_MOST_KEPT_BYTES", 3 * size)
    assert content(opened().database) == FRESH
    assert len(database._KEPT._queue) <= 3


class Worlds(RuleBasedStateMachine):
    """Worlds that are opened, forked, changed, restored and dropped, beside what their rows must be."""

    def __init__(self) -> None:
        super().__init__()
        self.worlds: list[tuple[ServiceWorld, list[list[tuple[Any, ...]]]]] = []

    @initialize()
    def begin(self) -> None:
        self.worlds.append((opened(), FRESH))

    @rule()
    def open(self) -> None:
        self.worlds.append((opened(), FRESH))

    @rule(at=st.integers(0, 50))
    def fork(self, at: int) -> None:
        if self.worlds:
            world, rows = self.worlds[at % len(self.worlds)]
            self.worlds.append((world.fork(), rows))

    @rule(at=st.integers(0, 50), book=st.integers(0, 7), breaks=st.booleans())
    def act(self, at: int, book: int, breaks: bool) -> None:
        if not self.worlds:
            return
        at %= len(self.worlds)
        world, _ = self.worlds[at]
        member = world.database.connection.execute("SELECT id FROM lending_members").fetchone()[0]
        book_id = world.database.rows(BOOKS)[book % len(world.database.rows(BOOKS))][0]
        world.act("lend_book", {"book_id": book_id, "member_id": member})
        if breaks:
            world.act("break_rule", {"loan_id": "none"})
        self.worlds[at] = (world, content(world.database))

    @rule(at=st.integers(0, 50), to=st.integers(0, 50))
    def restore(self, at: int, to: int) -> None:
        if self.worlds:
            (source, rows), target = self.worlds[at % len(self.worlds)], to % len(self.worlds)
            world, _ = self.worlds[target]
            world.restore(source.snapshot())
            self.worlds[target] = (world, rows)

    @rule(at=st.integers(0, 50), explicitly=st.booleans())
    def drop(self, at: int, explicitly: bool) -> None:
        if self.worlds:
            world, _ = self.worlds.pop(at % len(self.worlds))
            if explicitly:
                world.database.close()

    @invariant()
    def each_world_has_its_own_rows(self) -> None:
        for world, rows in self.worlds:
            assert content(world.database) == rows
            fresh = rows == FRESH
            assert (world.database.digest() == world.database.image.digest) == fresh
        connections = {id(world.database.connection) for world, _ in self.worlds}
        assert len(connections) == len(self.worlds)


Worlds.TestCase.settings = settings(max_examples=30, stateful_step_count=20)
test_worlds_share_nothing = Worlds.TestCase
