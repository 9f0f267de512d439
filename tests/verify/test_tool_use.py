"""Completeness, efficiency and precision of tool use, against counts worked out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.world import LoggedCall, ServiceWorld
from assay.records import Check, EnvironmentSpec, Task
from assay.verify.tool_use import (
    CallCount,
    Completeness,
    WriteCount,
    count_calls,
    count_requirements,
    count_writes,
    match_state,
    replay_calls,
)
from tests.environments.services.lending import Book, Member

SEED = 1
SERVICE = "tests.environments.services.lending:lending"
PARAMETERS = {"services": [SERVICE]}


def opened() -> ServiceWorld:
    return ServiceWorld(PARAMETERS, SEED)


def rows(kind: Any) -> list[Any]:
    world = opened()
    return [world.tables[kind].to_row(values) for values in world.database.rows(world.tables[kind])]


BOOKS = [book.id for book in rows(Book)]
MEMBERS = [member.id for member in rows(Member) if not member.suspended]
SUSPENDED = next(member.id for member in rows(Member) if member.suspended)
READ = ("list_loans", {"member_id": MEMBERS[0]})
LEND = ("lend_book", {"book_id": BOOKS[0], "member_id": MEMBERS[0]})
OTHER = ("lend_book", {"book_id": BOOKS[1], "member_id": MEMBERS[0]})
REFUSED = ("lend_book", {"book_id": BOOKS[0], "member_id": SUSPENDED})
PLAN = (READ, LEND)
Calls = tuple[tuple[str, dict[str, Any]], ...]


def after(calls: Calls) -> ServiceWorld:
    world = opened()
    for name, arguments in calls:
        world.act(name, arguments)
    return world


def task_of(wanted: Calls, **more: Any) -> Task:
    world = after(wanted)
    outcome = {"changes": as_json(expected_changes(world.composition.tables, world.database.changes(judged_only=True)))}
    plan = [{"action": name, "arguments": arguments} for name, arguments in wanted]
    checks = (Check("state", "state", {"outcomes": [outcome], **more}),)
    return Task("t", "do it", EnvironmentSpec("services", {**PARAMETERS, "plan": plan}, SEED), checks, "blake3:0")


def measure(calls: Calls, **more: Any) -> tuple[Completeness, CallCount | None, WriteCount | None]:
    task, world = task_of(PLAN, **more), after(calls)
    facts = msgspec.json.decode(msgspec.json.encode(world.facts()))
    found = match_state(task, facts)
    assert found is not None
    return count_requirements(found), count_calls(world.calls, task), count_writes(world.calls, task, found)


def test_the_plan_itself() -> None:
    assert measure(PLAN) == (Completeness(2, 2), CallCount(2, 2), WriteCount(1, 1, 1, 1))


def test_nothing_done_has_neither_efficiency_nor_precision() -> None:
    requirements, calls, writes = measure(())
    assert (requirements, calls and calls.efficiency, writes and writes.precision) == (Completeness(0, 2), None, None)


@pytest.mark.parametrize(
    ("calls", "efficiency", "wanted", "writes"),
    [
        ((LEND,), 1.0, 1, 1),  # fewer calls than the plan are no more than efficient
        ((READ, READ, READ, LEND), 0.5, 1, 1),
        ((LEND, OTHER), 1.0, 1, 2),
        ((REFUSED, LEND), 1.0, 1, 2),
        ((OTHER,), 1.0, 0, 1),
        ((("no_such_tool", {}), LEND), 1.0, 1, 1),
    ],
)
def test_calls_by_hand(calls: Calls, efficiency: float, wanted: int, writes: int) -> None:
    _, made, found = measure(calls)
    assert made is not None
    assert found is not None
    assert (made.efficiency, found.wanted, found.writes) == (efficiency, wanted, writes)


def test_writes_that_were_undone_are_not_wanted() -> None:
    loan = after((OTHER,)).database.changes(judged_only=True)[1].key[0]
    _, _, found = measure((OTHER, ("return_book", {"loan_id": loan}), LEND))
    assert found is not None
    assert (found.wanted, found.writes) == (1, 3)


def test_messages_to_the_person_are_no_calls() -> None:
    calls = [
        LoggedCall("agent", "send_message", {"text": "Hi"}, None, "", ""),
        LoggedCall("user", "x", {}, None, "", ""),
    ]
    assert count_calls(calls, task_of(PLAN)) == CallCount(0, 2)


def test_a_write_to_tables_that_the_check_leaves_to_others_is_not_counted() -> None:
    _, _, found = measure((READ, LEND), ignored=["lending_books", "lending_loans"])
    assert found == WriteCount(1, 1, 0, 0)


def test_another_state_than_the_logged_one_is_not_measured() -> None:
    calls = [msgspec.structs.replace(call, digest="blake3:0") for call in after(PLAN).calls]
    assert replay_calls(opened(), calls) is None
    found = match_state(task_of(PLAN), after(PLAN).facts())
    assert found is not None
    assert count_writes(calls, task_of(PLAN), found) is None


def test_a_logged_success_that_is_refused_now_is_not_measured() -> None:
    call = LoggedCall("agent", "no_such_tool", {}, None, "", opened().database.digest())
    assert replay_calls(opened(), [call]) is None


def test_what_is_no_state_is_not_matched() -> None:
    task = task_of(PLAN)
    assert match_state(task, {}) is None
    assert match_state(task, {"changes": "all"}) is None
    assert match_state(msgspec.structs.replace(task, checks=()), after(PLAN).facts()) is None
    assert count_calls([], Task("t", "do it", EnvironmentSpec("services"), (), "blake3:0")) is None


@given(st.lists(st.sampled_from([READ, LEND, OTHER, REFUSED]), max_size=6))
def test_measures_stay_within_their_bounds_and_reads_change_no_precision(
    calls: list[tuple[str, dict[str, Any]]],
) -> None:
    requirements, made, found = measure(tuple(calls))
    assert found is not None
    assert made is not None
    assert 0 <= requirements.met <= requirements.required == 2
    assert 0 <= found.wanted <= found.writes == sum(name == "lend_book" for name, _ in calls)
    assert made.efficiency is None or 0 < made.efficiency <= 1
    without = measure(tuple(call for call in calls if call is not READ))[2]
    assert without is not None
    assert (without.wanted, without.writes) == (found.wanted, found.writes)
