"""Connections that later worlds use again: nothing of one world is ever seen in another."""

from __future__ import annotations

import asyncio
import gc
import random
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from assay.environments.services import database
from assay.environments.services.net_changes import JournalFold
from assay.environments.services.transaction import Transaction
from assay.environments.services.world import ServiceWorld
from tests.environments.services.lending import Book, lending
from tests.environments.services.properties import initial_rows

Call = tuple[str, dict[str, Any]]
SHELVE = (
    "INSERT OR REPLACE INTO lending_books SELECT id, title || ' again', 'lost' FROM lending_books ORDER BY id LIMIT 2"
)


def opened() -> ServiceWorld:
    return ServiceWorld.of([lending], 1)


def replayed(calls: list[Call]) -> ServiceWorld:
    """Returns a world on a connection of its own, after these calls."""
    world = opened()
    world.database.close()
    world.database.connection = database._open(world.database.image)
    for call in calls:
        perform(world, call)
    return world


def perform(world: ServiceWorld, call: Call) -> str:
    """Makes a call; `replace` stands for a statement that overwrites rows, `crash` for an action that breaks."""
    name, arguments = call
    if name not in ("replace", "crash"):
        return world.act(name, arguments).content
    with suppress(ZeroDivisionError), world.database.transaction():
        world.database.connection.execute(SHELVE)
        _ = 1 // (name != "crash")
    return ""


def drawn_call(world: ServiceWorld, kind: str, number: int) -> Call:
    execute = world.database.connection.execute
    books = [row[0] for row in execute("SELECT id FROM lending_books")]
    members = [row[0] for row in execute("SELECT id FROM lending_members")]
    loans = [row[0] for row in execute("SELECT id FROM lending_loans")]
    loan = loans[number % len(loans)] if loans else "none"
    arguments: dict[str, dict[str, Any]] = {
        "lend_book": {"book_id": books[number % len(books)], "member_id": members[number % len(members)]},
        "return_book": {"loan_id": loan},
        "charge_fine": {"loan_id": loan, "amount": number + 1},
        "break_rule": {"loan_id": loan},
        "wait": {"hours": 24 * (number + 1)},
        "search_books": {"text": "title"},
    }
    return kind, arguments.get(kind, {})


class Pair(NamedTuple):
    """A world, and what it must be equal to."""

    world: ServiceWorld
    calls: list[Call]
    reference: ServiceWorld


KINDS = ("lend_book", "return_book", "charge_fine", "break_rule", "wait", "search_books", "replace", "crash")
CHANGED_SCHEMAS = ("CREATE TEMP TABLE kept AS SELECT 1", "CREATE TABLE kept (a)", "DROP TRIGGER lending_books_u")
NUMBERS = st.integers(0, 20)


class Worlds(RuleBasedStateMachine):
    """Worlds that are opened, forked, restored and closed in all orders, each beside a fresh one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[Pair] = []
        self.leaked: list[sqlite3.Cursor] = []

    def add(self, world: ServiceWorld, calls: list[Call]) -> None:
        self.pairs.append(Pair(world, list(calls), replayed(calls)))

    @initialize()
    def start(self) -> None:
        self.open_world()

    @precondition(lambda self: len(self.pairs) < 5)
    @rule()
    def open_world(self) -> None:
        self.add(opened(), [])

    @precondition(lambda self: 0 < len(self.pairs) < 5)
    @rule(number=NUMBERS)
    def fork(self, number: int) -> None:
        pair = self.pairs[number % len(self.pairs)]
        self.add(pair.world.fork(), pair.calls)

    @precondition(lambda self: self.pairs)
    @rule(number=NUMBERS, kind=st.sampled_from(KINDS), drawn=NUMBERS)
    def call(self, number: int, kind: str, drawn: int) -> None:
        pair = self.pairs[number % len(self.pairs)]
        call = drawn_call(pair.reference, kind, drawn)
        pair.calls.append(call)
        assert perform(pair.world, call) == perform(pair.reference, call)

    @precondition(lambda self: self.pairs)
    @rule(number=NUMBERS, source=NUMBERS)
    def restore(self, number: int, source: int) -> None:
        state, calls = (pair := self.pairs[source % len(self.pairs)]).world.snapshot(), pair.calls
        world = self.pairs.pop(number % len(self.pairs)).world
        world.restore(state)
        self.add(world, calls)

    @precondition(lambda self: self.pairs)
    @rule(number=NUMBERS)
    def fail_to_restore(self, number: int) -> None:
        world = self.pairs[number % len(self.pairs)].world
        perform(broken := world.fork(), drawn_call(world, "lend_book", number))
        state = broken.snapshot().replace(b'"lent"', b'"bent"')
        if b'"bent"' in state:
            with pytest.raises(ValueError, match="do not fit"):
                world.restore(state)

    @precondition(lambda self: self.pairs)
    @rule(number=NUMBERS, explicit=st.booleans())
    def close(self, number: int, explicit: bool) -> None:
        pair = self.pairs.pop(number % len(self.pairs))
        if explicit:
            pair.world.database.close()

    @precondition(lambda self: self.pairs)
    @rule(number=NUMBERS)
    def close_in_a_transaction(self, number: int) -> None:
        world = self.pairs.pop(number % len(self.pairs)).world
        world.database.connection.execute("BEGIN")
        world.database.connection.execute(SHELVE)
        world.database.close()

    @precondition(lambda self: self.pairs)
    @rule(number=NUMBERS, statement=st.sampled_from(CHANGED_SCHEMAS))
    def close_with_another_schema(self, number: int, statement: str) -> None:
        world = self.pairs.pop(number % len(self.pairs)).world
        world.database.connection.execute(statement)
        world.database.close()

    @precondition(lambda self: self.pairs)
    @rule(number=NUMBERS)
    def close_under_a_cursor(self, number: int) -> None:
        world = self.pairs.pop(number % len(self.pairs)).world
        self.leaked.append(world.database.connection.execute("SELECT * FROM lending_books"))
        self.leaked[-1].fetchone()
        world.database.close()

    @invariant()
    def worlds_are_equal_to_fresh_ones(self) -> None:
        for world, _, reference in self.pairs:
            assert world.database.digest() == reference.database.digest()
            assert world.database.changes() == reference.database.changes()
            assert initial_rows(world) == initial_rows(reference)
            assert world.facts() == reference.facts()

    @invariant()
    def closed_worlds_are_out_of_reach(self) -> None:
        for cursor in self.leaked:
            with pytest.raises(sqlite3.ProgrammingError):
                cursor.fetchone()


TestWorlds = Worlds.TestCase
TestWorlds.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


@pytest.fixture(autouse=True)
def no_idle_connections() -> None:
    gc.collect()  # worlds of earlier tests that only a cycle holds give their connections back
    database._IDLE.clear()


def test_the_next_world_gets_the_connection_of_a_closed_one() -> None:
    world = opened()
    perform(world, drawn_call(world, "lend_book", 0))
    number = id(world.database.connection)
    del world
    again = opened()
    assert id(again.database.connection) == number
    assert again.database.changes() == ()
    assert again.database.connection.execute("SELECT count(*) FROM journal").fetchone() == (0,)


def entered(context: AbstractContextManager[None]) -> AbstractContextManager[None]:
    context.__enter__()
    return context


HOLDERS: dict[str, Callable[[ServiceWorld], Any]] = {
    "connection": lambda world: world.database.connection,
    "method": lambda world: world.database.connection.execute,
    "cursor": lambda world: world.database.connection.execute("SELECT * FROM lending_books"),
    "action": lambda world: Transaction(world, world.database.connection, "lending", "system", ""),
    "transaction": lambda world: entered(world.database.transaction()),
    "view": lambda world: entered(world.database.reading()),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_a_connection_that_something_refers_to_is_closed_for_good(name: str) -> None:
    world = opened()
    held = HOLDERS[name](world)
    world.database.close()
    world.database.close()
    assert database._IDLE._held == []
    with pytest.raises(sqlite3.ProgrammingError):
        world.act("search_books", {"text": "title"})
    if isinstance(held, AbstractContextManager):
        with pytest.raises(sqlite3.ProgrammingError):
            held.__exit__(None, None, None)


def test_what_changed_too_much_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_MOST_UNDONE", 3)
    for changes, kept in ((1, 1), (2, 0)):  # a replaced row is two entries
        database._IDLE.clear()
        world = opened()
        world.database.connection.execute(SHELVE.replace("LIMIT 2", f"LIMIT {changes}"))
        world.database.close()
        assert len(database._IDLE._held) == kept


def test_idle_connections_are_bounded_and_the_oldest_close_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_MOST_IDLE", 3)
    worlds = [ServiceWorld.of([lending], seed) for seed in range(5)]
    images = [world.database.image for world in worlds]
    for world in worlds:
        world.database.close()
    assert [image for image, _ in database._IDLE._held] == images[:1:-1]
    monkeypatch.setattr(database, "_MOST_IDLE_BYTES", len(images[0].data))
    opened().database.close()
    assert len(database._IDLE._held) == 1


def test_a_finaliser_that_interrupts_the_pool_does_without_it() -> None:
    world = opened()
    with database._IDLE._lock:
        world.database.close()
        again = opened()
    assert database._IDLE._held == []
    assert again.database.changes() == ()


def changed_and_dropped(seed: int) -> bool:
    """Returns whether a world was as it should be at each step of a life."""
    draw, world = random.Random(seed), opened()
    expected = [world.database.digest() == world.database.image.digest]
    for _ in range(4):
        perform(world, drawn_call(world, draw.choice(KINDS), draw.randrange(20)))
        fork = world.fork()
        expected += [fork.database.digest() == world.database.digest(), initial_rows(fork) == initial_rows(world)]
        perform(fork, drawn_call(fork, draw.choice(KINDS), draw.randrange(20)))
    return all(expected)


def test_worlds_of_many_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(changed_and_dropped, range(60)))
    assert initial_rows(opened()) == initial_rows(replayed([]))


async def test_worlds_of_many_tasks() -> None:
    async def live(seed: int) -> None:
        draw, world, calls = random.Random(seed), opened(), list[Call]()
        for _ in range(4):
            calls.append(drawn_call(world, draw.choice(KINDS), draw.randrange(20)))
            perform(world, calls[-1])
            await asyncio.sleep(0)
            world, last = world.fork(), world
            await last.close()
        assert initial_rows(world) == initial_rows(replayed(calls))

    async with asyncio.TaskGroup() as tasks:
        for seed in range(8):
            tasks.create_task(live(seed))


def test_a_row_that_is_overwritten_is_journaled() -> None:
    world = opened()
    table = world.tables[Book]
    before = world.database.rows(table)
    world.database.connection.execute(SHELVE)
    changes = world.database.changes()
    assert [list((change.before or {}).values()) for change in changes] == [list(row) for row in before[:2]]
    assert {msgspec.convert(change.after, Book).status for change in changes} == {"lost"}


@pytest.mark.parametrize(("method", "at"), [("_number", 1), ("copy", 1), ("copy", 2), ("copy", 3)])
def test_an_exception_at_any_place_leaves_nothing_to_the_next_world(
    monkeypatch: pytest.MonkeyPatch, method: str, at: int
) -> None:
    """Ctrl-C in the middle of a digest or of a fork: the world that follows begins in the initial state."""
    database._IDLE.clear()
    world = opened()
    perform(world, drawn_call(world, "lend_book", 1))
    (loan,) = (row[0] for row in world.database.connection.execute("SELECT id FROM lending_loans").fetchall()[-1:])
    number, whole = iter(range(1, 100)), getattr(JournalFold, method)

    def interrupted(fold: JournalFold, *given: Any) -> Any:
        if next(number) == at:
            raise KeyboardInterrupt
        return whole(fold, *given)

    monkeypatch.setattr(JournalFold, method, interrupted)
    with suppress(KeyboardInterrupt):
        world.act("return_book", {"loan_id": loan})
        for _ in range(4):
            world.fork()
    monkeypatch.undo()
    if method == "_number":
        with pytest.raises(RuntimeError, match="interrupted"):
            world.database.digest()
    del world
    for _ in range(3):
        assert initial_rows(opened()) == initial_rows(replayed([]))
        assert opened().database.changes() == ()


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA foreign_keys = OFF",
        "PRAGMA recursive_triggers = OFF",
        "ATTACH ':memory:' AS other",
        "CREATE TABLE t (a)",
    ],
)
def test_a_connection_with_other_settings_is_not_used_again(statement: str) -> None:
    database._IDLE.clear()
    world = opened()
    world.database.connection.execute(statement)
    world.database.close()
    assert not database._IDLE._held


def test_a_connection_with_another_row_factory_is_not_used_again() -> None:
    database._IDLE.clear()
    world = opened()
    world.database.connection.row_factory = sqlite3.Row
    world.database.close()
    assert not database._IDLE._held


@pytest.mark.long
def test_worlds_in_a_cycle_leave_open_connections() -> None:
    gc.collect()
    database._IDLE.clear()
    worlds = [opened() for _ in range(3)]
    for world in worlds:
        world.sink = lambda _call, held=tuple(worlds): None
    del world, worlds
    gc.collect()
    assert len(database._IDLE._held) == 3
    for _ in range(3):
        assert initial_rows(opened()) == initial_rows(replayed([]))
