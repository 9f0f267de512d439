"""Sequences are mined where passing attempts make linked calls; their arguments are bound to where they come from."""

from __future__ import annotations

from typing import Any

import pytest

from assay.agents.composites import ArgumentSource, RecordedCall
from assay.learning.skills.composites import ProvenTool
from assay.learning.skills.records import EvidenceRef
from assay.learning.skills.sequences import CallAttempt, find_readers, mine_sequences
from assay.rollout.rejudge.folded_replay import FoldedReplay

pytestmark = pytest.mark.quick


def attempt(number: int, *calls: RecordedCall, passed: bool = True) -> CallAttempt:
    name = f"t{number}"
    return CallAttempt(EvidenceRef("r", name, name, "h", ()), name, passed, calls)


def made(tool: str, arguments: dict[str, Any], result: Any = None, **fields: bool) -> RecordedCall:
    return RecordedCall(0, tool, arguments, result, **{"is_error": False, "changed": False, **fields})


def lookup(number: int) -> tuple[RecordedCall, ...]:
    """A search whose only result is read, then its owner."""
    found = {"id": f"item-{number}", "owner": f"owner-{number}"}
    return (
        made("search", {"text": f"word {number}", "limit": 20}, [found]),
        made("read", {"item_id": f"item-{number}"}, {"id": f"item-{number}"}),
        made("read_owner", {"owner_id": f"owner-{number}", "item_id": f"item-{number}"}, {}),
    )


def test_arguments_come_from_parameters_constants_and_results() -> None:
    (mined,) = mine_sequences([attempt(n, *lookup(n)) for n in range(4)])
    assert mined.tool.name == "search_then_read_then_read_owner"
    assert [one.arguments for one in mined.tool.calls] == [
        {"limit": ArgumentSource(constant=20), "text": ArgumentSource(parameter="text")},
        {"item_id": ArgumentSource(result=0, path=("[]", "id"))},
        {
            "item_id": ArgumentSource(result=0, path=("[]", "id")),
            "owner_id": ArgumentSource(result=0, path=("[]", "owner")),
        },
    ]
    assert (mined.passing, mined.failing, mined.tasks, mined.saved) == (4, 0, 4, 8)


def test_an_argument_given_twice_is_one_parameter() -> None:
    attempts = [
        attempt(n, made("see", {"id": f"id-{n}"}, {}), made("list", {"of": f"id-{n}", "kind": f"kind-{n}"}, []))
        for n in range(3)
    ]
    (mined,) = mine_sequences(attempts)
    assert mined.tool.parameters == {"id": ("see", "id"), "kind": ("list", "kind")}
    assert mined.tool.calls[1].arguments["of"] == ArgumentSource(parameter="id")


def test_calls_that_merely_follow_each_other_make_no_tool() -> None:
    attempts = [attempt(n, made("a", {"x": f"one-{n}"}, {}), made("b", {"y": f"two-{n}"}, {})) for n in range(5)]
    assert mine_sequences(attempts) == []


def test_small_values_are_not_taken_for_linked() -> None:
    attempts = [attempt(n, made("a", {"x": n % 3}, {}), made("b", {"y": n % 3}, {})) for n in range(6)]
    assert mine_sequences(attempts) == []


@pytest.mark.parametrize("fields", [{"is_error": True}, {"changed": True}])
def test_failed_calls_and_calls_that_change_the_state_are_no_part(fields: dict[str, bool]) -> None:
    def parts(n: int) -> tuple[RecordedCall, ...]:
        first, second, third = lookup(n)
        return (first, second._replace(**fields), third)

    assert mine_sequences([attempt(n, *parts(n)) for n in range(4)]) == []


def test_a_change_may_end_a_sequence_if_that_is_asked_for() -> None:
    attempts = [attempt(n, *lookup(n)[:1], lookup(n)[1]._replace(changed=True)) for n in range(4)]
    assert mine_sequences(attempts) == []
    (mined,) = mine_sequences(attempts, writes=True)
    assert mined.tool.name == "search_then_read"


def test_too_few_tasks_make_no_tool() -> None:
    assert mine_sequences([attempt(0, *lookup(0)) for _ in range(9)]) == []
    assert mine_sequences([attempt(n, *lookup(n)) for n in range(2)]) == []


def test_a_sequence_that_failing_attempts_hold_more_often_is_left_out() -> None:
    passing = [attempt(n, *(lookup(n) if n < 3 else ())) for n in range(6)]
    failing = [attempt(10 + n, *lookup(10 + n), passed=False) for n in range(3)]
    assert mine_sequences(passing) != []
    assert mine_sequences([*passing, *failing]) == []


def test_only_the_occurrences_that_fit_are_counted() -> None:
    strange = (lookup(9)[0], lookup(8)[1])  # it read another item than it found
    attempts = [*(attempt(n, *lookup(n)[:2]) for n in range(3)), attempt(9, *strange)]
    (mined,) = mine_sequences(attempts)
    assert (mined.tasks, len(mined.occurrences)) == (3, 3)


def test_tools_that_ever_changed_the_state_are_no_readers() -> None:
    tools, states = ["look", "look", "write", "look", "write"], ["a", "a", "b", "b", "b"]
    assert find_readers([(tools, states)]) == frozenset({"look"})
    assert find_readers([(["look", "look"], [None, None])]) == frozenset()
    assert find_readers([(["look"], ["a"])]) == frozenset()


@pytest.mark.parametrize(
    ("problems", "leaks", "problem"),
    [
        ((None, None), (), ""),
        ((None, "the final state differs from the recorded one"), (), "the final state differs from the recorded one"),
        ((), (), "it was not executed"),
        ((None,), ("literal of task t: 'ACME-1'",), "it holds a literal of task t: 'ACME-1'"),
    ],
)
def test_a_tool_is_offered_only_if_every_execution_supports_it_and_nothing_leaks(
    problems: tuple[str | None, ...], leaks: tuple[str, ...], problem: str
) -> None:
    (mined,) = mine_sequences([attempt(n, *lookup(n)) for n in range(4)])
    executions = tuple(FoldedReplay(mined.tool.name, "c", "r", "a", one) for one in problems)
    proven = ProvenTool(mined, executions, leaks)
    assert (proven.problem, proven.is_offered) == (problem, not problem)


def test_long_names_are_cut_and_stay_apart() -> None:
    def parts(n: int, tool: str) -> tuple[RecordedCall, ...]:
        return tuple(made(tool + letter * 30, {"id": f"id-{n}"}, {}) for letter in "abc")

    (mined,) = mine_sequences([attempt(n, *parts(n, "tool")) for n in range(3)])
    assert len(mined.tool.name) <= 64
