"""Recorded operations become programs that hold what a call needs and what the test read back, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from assay.verify.calls.programs import RecordedOperation, Recording, slice_programs

pytestmark = pytest.mark.quick


def operation(n: int, *op: Any, test: str = "t", target: bool = False, result: str = "instance") -> RecordedOperation:
    return RecordedOperation(n, test, [n, *op], target, result)  # type: ignore[arg-type]


def call(name: str, *args: Any) -> list[Any]:
    return ["call", ["g", "p", name], "", list(args), []]


GRAPH, OTHER = ["o", 0], ["o", 1]
RECORDED = (
    operation(0, *call("Graph")),
    operation(1, *call("Graph")),
    operation(2, "method", GRAPH, "add", [1], [], result="none"),
    operation(3, "method", OTHER, "add", [2], [], result="none"),
    operation(4, *call("measure", GRAPH), target=True),
    operation(5, "attr", ["o", 4], "size", result="data"),
    operation(6, "attr", OTHER, "size", result="data"),
)


def kinds(operations: tuple[Any, ...]) -> list[Any]:
    return [one[1] if one[1] != "call" else one[2][2] for one in operations]


def test_a_program_holds_what_the_call_rests_on_and_what_is_read_back() -> None:
    (program,) = slice_programs([Recording("f", RECORDED)])
    assert kinds(program.operations) == ["Graph", "method", "measure", "attr"]
    assert program.observed == 2
    assert program.operations[3][2] == ["o", 2]


def test_an_object_that_a_function_changes_and_returns_is_changed_first() -> None:
    recorded = (
        operation(0, *call("Graph")),
        operation(1, *call("cycle", 7, GRAPH), result="none"),
        operation(2, *call("measure", GRAPH), target=True),
    )
    (program,) = slice_programs([Recording("f", recorded)])
    assert kinds(program.operations) == ["Graph", "cycle", "measure"]


def test_tests_that_failed_while_recorded_give_no_program() -> None:
    assert slice_programs([Recording("f", RECORDED, failed=("t",))]) == ()


def test_programs_come_in_turns_from_the_tests_and_no_two_alike() -> None:
    recorded = [operation(n, *call("f", n // 2), test="ab"[n % 2], target=True) for n in range(8)]
    programs = slice_programs([Recording("f", tuple(recorded))])
    assert [one.test for one in programs] == ["a"] * 4
    assert len({repr(one.operations) for one in programs}) == 4
