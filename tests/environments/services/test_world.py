"""Worlds of services: state, digests, forks, time, and refusals."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from assay.environments.interface import KeepsStates, World
from assay.environments.services.arguments import MOST_ARGUMENTS
from assay.environments.services.declaration import Service
from assay.environments.services.schema import Cents, Date, Timestamp
from assay.environments.services.transaction import ActionError, Generator, Transaction
from assay.environments.services.world import MOST_LOGGED, LoggedCall, ServiceWorld
from assay.errors import EnvironmentFailure
from tests.environments.services.lending import Book, Loan, Notice, lending


def opened(seed: int = 1, **knobs: int) -> ServiceWorld:
    return ServiceWorld.of([lending], seed, {"lending": knobs})


def result(world: ServiceWorld, name: str, **arguments: Any) -> Any:
    observation = world.act(name, arguments)
    assert not observation.error, observation.content
    return json.loads(observation.content) if observation.content[:1] in "[{n" else observation.content


def member(world: ServiceWorld, number: int = 0) -> str:
    return str(result(world, "find_member", email=f"m{number}@example.org")["id"])


def books(world: ServiceWorld) -> list[str]:
    return [book["id"] for book in result(world, "search_books", text="title", limit=50)]


def test_protocol() -> None:
    world = opened()
    assert isinstance(world, World)
    assert isinstance(world, KeepsStates)


def test_same_seed_same_world_and_other_seed_other_world() -> None:
    assert opened(3).database.digest() == opened(3).database.digest() != opened(4).database.digest()


def test_digest_covers_content_and_not_the_path() -> None:
    world, other = opened(), opened()
    one, two, who = books(world)[0], books(world)[1], member(world)
    initial = world.database.digest()
    loan = result(world, "lend_book", book_id=one, member_id=who)
    assert world.database.digest() != initial
    result(world, "charge_fine", loan_id=loan["id"], amount=5)
    result(world, "lend_book", book_id=two, member_id=member(world, 1))
    result(other, "lend_book", book_id=one, member_id=who)
    for _ in range(5):
        result(other, "list_loans", member_id=who)
    result(other, "lend_book", book_id=two, member_id=member(other, 1))
    result(other, "charge_fine", loan_id=loan["id"], amount=5)
    assert world.database.digest() == other.database.digest()


def test_an_undone_write_leaves_no_trace() -> None:
    world = opened()
    book = world.database.connection.execute("SELECT id FROM lending_books").fetchone()[0]
    initial = world.database.digest()
    with world.database.transaction():
        world.database.connection.execute("UPDATE lending_books SET status = 'lost' WHERE id = ?", (book,))
    assert world.database.digest() != initial
    with world.database.transaction():
        world.database.connection.execute("UPDATE lending_books SET status = 'on shelf' WHERE id = ?", (book,))
    assert world.database.digest() == initial
    assert world.database.changes() == ()


def test_an_action_that_raises_changes_nothing() -> None:
    world = opened()
    loan = result(world, "lend_book", book_id=books(world)[0], member_id=member(world))
    before = world.database.digest()
    refused = world.act("break_rule", {"loan_id": loan["id"]})
    assert refused.error
    assert refused.content == "Error (invalid): No."
    dangling = world.act("break_rule", {"loan_id": "none"})  # its fine refers to a loan that does not exist
    assert dangling.content.startswith("Error (conflict): The change cannot be stored: FOREIGN KEY")
    assert world.database.digest() == before
    assert world.database.connection.execute("SELECT count(*) FROM lending_fines").fetchone() == (0,)


def test_a_broken_service_is_the_environments_failure_and_changes_nothing() -> None:
    broken = Service("broken", "Raises.")

    @broken.table()
    class Thing(msgspec.Struct, frozen=True):
        id: str

    @broken.action()
    def fail(tx: Transaction) -> None:
        """Adds a thing and divides by zero."""
        tx.insert(Thing("a"))
        raise ZeroDivisionError

    world = ServiceWorld.of([broken])
    before = world.database.digest()
    with pytest.raises(EnvironmentFailure, match="the service broken: ZeroDivisionError"):
        world.act("fail", {})
    assert world.database.digest() == before
    assert world.calls == []


def test_results_are_json_except_those_that_are_declared_as_text() -> None:
    notes = Service("notes", "Keeps words.")

    @notes.table()
    class Note(msgspec.Struct, frozen=True):
        text: str

    @notes.view()
    def read_text(tx: Transaction) -> str:
        """Returns a text."""
        return "a"

    @notes.view()
    def read_optional(tx: Transaction) -> str | None:
        """Returns a text or nothing."""
        return "a"

    @notes.action()
    def add_unreadable(tx: Transaction) -> Any:
        """Adds a note and returns what JSON cannot hold."""
        tx.insert(Note("a"))
        return object()

    world = ServiceWorld.of([notes])
    assert [world.act(name, {}).content for name in ("read_text", "read_optional")] == ["a", '"a"']
    with pytest.raises(EnvironmentFailure, match="the service notes: TypeError"):
        world.act("add_unreadable", {})
    assert world.database.changes() == ()


def test_a_scope_inside_of_a_view_hides_no_write() -> None:
    database = opened().database
    before = database.digest()

    def write_and_nest() -> None:
        with database.reading():
            database.connection.execute("UPDATE lending_books SET status = 'lost'")
            for scope in (database.reading(), database.transaction()):
                with pytest.raises(sqlite3.OperationalError, match="within a transaction"), scope:
                    pass

    with pytest.raises(PermissionError, match="a view has written"):
        write_and_nest()
    assert not database.connection.in_transaction
    assert database.digest() == before


def test_a_view_cannot_write() -> None:
    sly = Service("sly", "Writes in a view.")

    @sly.table()
    class Thing(msgspec.Struct, frozen=True):
        id: str

    @sly.view()
    def peek(tx: Transaction) -> None:
        """Adds a thing."""
        tx.insert(Thing("a"))

    world = ServiceWorld.of([sly])
    with pytest.raises(EnvironmentFailure, match="PermissionError: a view has written"):
        world.act("peek", {})
    assert world.database.changes() == ()


@pytest.mark.parametrize(
    ("name", "arguments", "code", "part"),
    [
        ("no_tool", {}, "not_found", "there are: "),
        ("wait", {}, "invalid", "missing required field `hours`"),
        ("wait", {"hours": 0}, "invalid", "`int` >= 1"),
        ("wait", {"hours": 1, "minutes": 1}, "invalid", "unknown field `minutes`"),
        ("find_member", {"email": "x' OR '1'='1"}, "not_found", "Nobody has"),
        ("find_member", {"email": "a\0b"}, "invalid", "U+0000"),
        ("find_member", {"email": "\ud800"}, "invalid", "not JSON data"),
        ("search_books", {"text": "x" * (MOST_ARGUMENTS + 1)}, "invalid", "too large"),
        ("search_books", {"text": "title", "limit": 2**70}, "invalid", "`int` <= 50"),
        ("lend_book", {"book_id": "BOOK-1; DROP TABLE lending_books", "member_id": "x"}, "not_found", "no book"),
        ("charge_fine", {"loan_id": "x", "amount": 1.5}, "invalid", "Expected `int`"),
    ],
)
def test_bad_calls_are_typed_errors(name: str, arguments: dict[str, Any], code: str, part: str) -> None:
    world = opened()
    before = world.database.digest()
    observation = world.act(name, arguments)
    assert observation.error
    assert observation.content.startswith(f"Error ({code}): ")
    assert part in observation.content
    assert world.database.digest() == before
    assert world.calls[-1].code == code


def test_deep_arguments() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert opened().act("search_books", {"text": deep}).error


def test_roles() -> None:
    world = opened()
    assert {spec.name for spec in world.specs_for("user")} == {"current_time", "wait", "list_loans"}
    assert world.act("lend_book", {}, role="user").content.startswith("Error (not_found): There is no tool 'lend_book'")
    assert world.act("remind", {"loan_id": "x"}).error  # an event is no tool


def test_events_run_in_order_and_a_refused_one_changes_nothing() -> None:
    world = opened()
    lent = [result(world, "lend_book", book_id=book, member_id=member(world)) for book in books(world)[:3]]
    result(world, "return_book", loan_id=lent[1]["id"])
    assert world.act("wait", {"hours": 24 * 14 - 1}).content == "2026-03-16T08:00"
    assert world.database.rows(world.tables[Notice]) == []
    assert result(world, "wait", hours=1) == "2026-03-16T09:00"
    assert [row[0] for row in world.database.rows(world.tables[Notice])] == [lent[0]["id"], lent[2]["id"]]
    result(world, "wait", hours=24 * 7 + 5)  # the second reminder of each
    assert len(world.database.rows(world.tables[Notice])) == 4
    assert world.now == "2026-03-23T14:00"
    assert {change.table for change in world.database.changes(judged_only=True)} == {"lending_books", "lending_loans"}


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Élan vital", "élan"),
        ("élan vital", "ÉLAN"),
        ("Hauptstraße", "HAUPTSTRASSE"),
        ("Ωmega", "ωmega"),
        ("Zoë", "Zoe\N{COMBINING DIAERESIS}"),
        ("Zoe\N{COMBINING DIAERESIS}", "ZOË"),
        ("İz", "İz"),
    ],
)
def test_search_knows_the_case_of_all_letters(title: str, text: str) -> None:
    for _ in range(2):  # the second world uses the first one's connection again
        world = opened()
        book = books(world)[0]
        with world.database.transaction():
            world.database.connection.execute("UPDATE lending_books SET title = ? WHERE id = ?", (title, book))
        for each in (world, world.fork()):
            assert [book["title"] for book in result(each, "search_books", text=text)] == [title]
        world.database.close()


class Slot(msgspec.Struct, frozen=True):
    day: Date
    others: list[Slot] = []


calendar = Service("calendar", "Bookings.")


@calendar.action()
def book_days(
    tx: Transaction,
    days: Annotated[list[Date], Meta(max_length=9)] | None = None,
    slot: Slot | None = None,
    named: dict[str, Date] | None = None,
    pair: tuple[str, Timestamp] | None = None,
    several: tuple[Date, ...] = (),
) -> str:
    """Books days."""
    given = [*(days or []), *([slot.day] if slot else []), *(named or {}).values()]
    return ",".join(tx.later(days=1, start=day) for day in given)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"days": ["2026-02-28", "2026-02-30"]}, "days[1]"),
        ({"slot": {"day": "2026-02-30"}}, "slot.day"),
        ({"slot": {"day": "2026-02-03", "others": [{"day": "2026-13-01"}]}}, "slot.others[0].day"),
        ({"named": {"party": "2026-02-30"}}, "named[party]"),
        ({"pair": ["x", "2026-02-30T10:00"]}, "pair[1]"),
        ({"several": ["2026-02-03", "2026-02-30"]}, "several[1]"),
    ],
)
def test_dates_inside_of_arguments_exist(arguments: dict[str, Any], field: str) -> None:
    world = ServiceWorld.of([calendar])
    refused = world.act("book_days", arguments)
    assert refused.error
    assert f"`{field}` is '" in refused.content
    assert "which does not exist" in refused.content
    assert result(world, "book_days", days=["2026-02-28"], pair=["2026-02-30", "2026-02-28T10:00"])


def test_the_clock_is_read_again_after_time_could_not_pass() -> None:
    busy = Service("busy", "An event a minute.")

    @busy.event()
    def tick(tx: Transaction) -> None:
        """Ticks."""
        tx.schedule(tx.later(minutes=0), tick)

    @busy.generator
    def begin(make: Generator, _knobs: object) -> None:
        make.schedule(make.later(minutes=1), tick)

    world = ServiceWorld.of([busy])
    before = world.now
    with pytest.raises(ActionError, match="events would happen"):
        world.pass_time(5)
    assert world.now == before


def test_the_calendar_of_a_world_ends() -> None:
    world = opened()
    for _ in range(3):
        result(world, "wait", hours=24 * 31)
    assert "ends at 2026-06-10T09:00" in world.act("wait", {"hours": 24 * 8}).content
    assert result(world, "wait", hours=24 * 7) == "2026-06-10T09:00"
    assert world.act("wait", {"hours": 1}).error


def test_services_subscribe_to_what_others_publish() -> None:
    bell = Service("bell", "Rings.")

    @bell.table()
    class Ring(msgspec.Struct, frozen=True):
        loan: str

    @bell.subscribe("overdue")
    def ring(tx: Transaction, loan_id: str) -> None:
        """Rings."""
        tx.insert(Ring(loan_id))

    world = ServiceWorld.of([lending, bell], 1)
    loan = result(world, "lend_book", book_id=books(world)[0], member_id=member(world))
    result(world, "wait", hours=24 * 14)
    assert world.database.rows(world.tables[Ring]) == [(loan["id"],)]


def test_two_services_with_one_name_of_an_action() -> None:
    other = Service("other", "Another library.")

    @other.view()
    def find_member(tx: Transaction) -> str:
        """Finds nobody."""
        return tx.now

    with pytest.raises(ValueError, match="'lending' and 'other' both have an action 'find_member'"):
        ServiceWorld.of([lending, other])


def test_snapshot_restore_and_fork_go_on_equally() -> None:
    world = opened()
    result(world, "lend_book", book_id=books(world)[0], member_id=member(world))
    state, twin = world.snapshot(), world.fork()
    later = opened()
    later.restore(state)
    assert later.database.digest() == twin.database.digest() == world.database.digest()
    assert later.calls == world.calls
    for each in (world, twin, later):
        result(each, "lend_book", book_id=books(each)[1], member_id=member(each))
        result(each, "wait", hours=24 * 30)
    assert world.database.digest() == twin.database.digest() == later.database.digest()
    assert world.snapshot() == later.snapshot()


@pytest.mark.parametrize("state", [b"", b"{}", b"\xff", b'{"world": 1}', b"[" * 100_000])
def test_restore_refuses_other_bytes(state: bytes) -> None:
    world = opened()
    before = world.database.digest()
    with pytest.raises(ValueError, match="not a state of a world of services"):
        world.restore(state)
    assert world.database.digest() == before


def test_restore_refuses_another_worlds_state_and_changes_that_do_not_fit() -> None:
    world = opened()
    result(world, "lend_book", book_id=books(world)[0], member_id=member(world))
    with pytest.raises(ValueError, match="The state is of"):
        opened(2).restore(world.snapshot())
    with pytest.raises(ValueError, match="do not fit"):
        opened().restore(world.snapshot().replace(b"lending_loans", b"lending_moans"))
    fined = opened()
    loan = result(fined, "lend_book", book_id=books(fined)[0], member_id=member(fined))
    result(fined, "charge_fine", loan_id=loan["id"], amount=77777)
    with pytest.raises(ValueError, match="do not fit"):
        opened().restore(fined.snapshot().replace(b":77777", b":" + b"7" * 30))


def test_every_call_is_logged_and_told_to_the_sink() -> None:
    world, told = opened(), list[LoggedCall]()
    world.sink = told.append
    who = member(world)
    world.act("lend_book", {"book_id": "none", "member_id": who})
    world.act("list_loans", {"member_id": who}, role="user")
    assert told == world.calls
    assert [(call.role, call.action, call.code) for call in told] == [
        ("agent", "find_member", None),
        ("agent", "lend_book", "not_found"),
        ("user", "list_loans", None),
    ]
    assert {call.digest for call in told} == {world.database.digest()}


def test_arguments_beyond_the_limit_are_not_kept() -> None:
    world, text = opened(), "x" * (MOST_ARGUMENTS - 100)
    accepted = 0
    while not (answer := world.act("search_books", {"text": text})).error:
        accepted += 1
    assert accepted == MOST_LOGGED // MOST_ARGUMENTS
    assert "Too much was sent" in answer.content
    world.act("search_books", {"text": text})
    assert [call.arguments for call in world.calls[accepted:]] == [{}, {}]


def test_facts_tell_changes_in_words() -> None:
    world = opened()
    one = books(world)[0]
    loan = result(world, "lend_book", book_id=one, member_id=member(world))
    result(world, "charge_fine", loan_id=loan["id"], amount=3990, remark="late")
    assert world.facts()["difference"] == [
        f"book {one}: status on shelf -> lent",
        f"fine FINE-100000 added: loan id {loan['id']}, amount 39.90, remark late",
        f"loan {loan['id']} added: book id {one}, member id {member(world)}, due 2026-03-16T09:00",
    ]
    json.dumps(world.facts())


def test_knobs() -> None:
    assert len(opened(books=20).database.rows(opened().tables[Book])) == 20
    with pytest.raises(ValueError, match=r"Knobs of the service 'lending': .*it has members, books"):
        opened(bookz=2)
    with pytest.raises(ValueError, match="Knobs for 'shop', not a service of this world"):
        ServiceWorld.of([lending], 1, {"shop": {}})
    with pytest.raises(ValueError, match="known options: services"):
        ServiceWorld({"service": "x"}, 0)


def test_schema_of_a_tool() -> None:
    specs = {spec.name: spec for spec in opened().specs()}
    assert specs["search_books"].description == "Returns books whose title holds all words of a text."
    assert specs["search_books"].parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "Words of the title."},
            "limit": {"type": "integer", "default": 10, "minimum": 1, "maximum": 50}
            | {"description": "Maximum number of books."},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    actions = lending.actions
    assert actions["lend_book"].takes == {"book_id": "book", "member_id": "member"}
    assert actions["list_loans"].gives == {"loan", "book", "member"}


class _Float(msgspec.Struct):
    id: str
    price: float


def test_declarations_are_checked() -> None:
    service = Service("wrong", "Wrong.")
    with pytest.raises(TypeError, match=r"_Float.price: <class 'float'> cannot be a column"):
        service.table()(_Float)
    with pytest.raises(TypeError, match="needs a docstring"):

        @service.action()
        def undocumented(tx: Transaction) -> None: ...

    with pytest.raises(TypeError, match="its wish names 'what'"):

        @service.action(wish="do {what}")
        def nothing(tx: Transaction) -> None:
            """Does nothing."""

    with pytest.raises(TypeError, match="one lower-case word"):
        Service("Two words", "")


def test_declarations_of_questions_are_checked() -> None:
    service = Service("asked", "Asked.")

    @service.view()
    def look(tx: Transaction, name: str) -> int:
        """Looks."""
        return len(name)

    @service.question(look, "tell me twice the length of {name}")
    def twice(found: int) -> list[tuple[int, Cents]]:
        return [(2 * found, 2 * found)]

    (question,) = service.questions
    assert (question.cells, question.is_list) == (("number", "cents"), True)
    assert question.answer("21") == [["42", "0.42"]]
    with pytest.raises(TypeError, match="its wish names 'length', which look does not take"):

        @service.question(look, "tell me {length}")
        def length(found: int) -> int: ...

    with pytest.raises(TypeError, match="an answer is str, int, Cents"):

        @service.question(look, "tell me whether {name} is long")
        def is_long(found: int) -> bool: ...

    with pytest.raises(TypeError, match="'twice' is not a view of this service"):

        @service.question(twice, "tell me")
        def again(found: int) -> int: ...


CALLS = st.lists(
    st.tuples(st.sampled_from(["lend", "return", "fine", "wait", "fail"]), st.integers(0, 7), st.integers(0, 3)),
    max_size=25,
)


def play(world: ServiceWorld, calls: list[tuple[str, int, int]]) -> None:
    shelf, who = books(world), [member(world, number) for number in range(4)]
    for kind, book, person in calls:
        loans = [row[0] for row in world.database.rows(world.tables[Loan])]
        loan = loans[book % len(loans)] if loans else "LOAN-0"
        if kind == "lend":
            world.act("lend_book", {"book_id": shelf[book], "member_id": who[person]})
        elif kind == "return":
            world.act("return_book", {"loan_id": loan})
        elif kind == "fine":
            world.act("charge_fine", {"loan_id": loan, "amount": person + 1})
        elif kind == "wait":
            world.act("wait", {"hours": 24 * (book + 1)})
        else:
            world.act("break_rule", {"loan_id": loan})


@settings(max_examples=25, deadline=None)
@given(CALLS, st.integers(0, 25))
def test_net_changes_are_the_difference_of_the_contents(calls: list[tuple[str, int, int]], cut: int) -> None:
    """The journal against a comparison of all rows; and a world restored in the middle ends as the other does."""
    world, initial = opened(), opened()
    play(world, calls[:cut])
    twin = opened()
    twin.restore(world.snapshot())
    play(world, calls[cut:])
    play(twin, calls[cut:])
    assert twin.database.digest() == world.database.digest()
    expected = set()
    for table in world.database.tables:
        before = {tuple(row[at] for at in table.key_positions): row for row in initial.database.rows(table)}
        after = {tuple(row[at] for at in table.key_positions): row for row in world.database.rows(table)}
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                expected.add((table.sql_name, key, before.get(key), after.get(key)))
    found = {
        (
            change.table,
            change.key,
            None if change.before is None else tuple(change.before.values()),
            None if change.after is None else tuple(change.after.values()),
        )
        for change in world.database.changes()
    }
    assert found == expected
    assert (world.database.digest() == initial.database.digest()) == (not expected)
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_the_key_of_a_row_stays() -> None:
    world = opened()
    with pytest.raises(sqlite3.IntegrityError, match="the key of a row cannot be changed"):
        world.database.connection.execute("UPDATE lending_books SET id = 'x' || id")


POSTPONED = '''
from __future__ import annotations

from typing import Annotated

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Transaction

ThingId = Annotated[str, identifier("thing", "THG-")]
things = Service("things", "Things.")


@things.table()
class Thing(msgspec.Struct, frozen=True):
    id: ThingId


@things.action()
def add_thing(tx: Transaction) -> Thing:
    """Adds a thing."""
    return tx.insert(Thing(tx.new_id(Thing)))
'''


def test_a_service_in_a_file_with_postponed_annotations(tmp_path: Path) -> None:
    path = tmp_path / "things.py"
    path.write_text(POSTPONED)
    world = ServiceWorld({"services": [f"{path}:things"]}, 0)
    assert world.act("add_thing", {}).content == '{"id":"THG-100000"}'


def test_worlds_of_one_file_share_its_services_until_the_file_changes(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "things.py" for folder in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(POSTPONED.replace("THG-", f"{path.parent.name.upper()}-"))
    one, again, other = (ServiceWorld({"services": [f"{path}:things"]}, 0) for path in (paths[0], *paths))
    assert one.composition is again.composition
    assert one.database.image is again.database.image
    assert [world.act("add_thing", {}).content[7:10] for world in (one, other)] == ["ONE", "TWO"]
    assert {world.composition.actions["add_thing"].gives for world in (one, other)} == {frozenset({"thing"})}
    paths[0].write_text(POSTPONED.replace("THG-", "NEW-"))
    changed = ServiceWorld({"services": [f"{paths[0]}:things"]}, 0)
    assert changed.act("add_thing", {}).content[7:10] == "NEW"
