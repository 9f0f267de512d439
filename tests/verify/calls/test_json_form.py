"""Calls and answers as JSON: what is written, what is refused, and how a program's lines are read."""

from __future__ import annotations

from typing import Any

import pytest

from assay.verify.calls import CalledProgram, CallProgram, ProgramLanguage, read_json_answer, same_answer, write_request
from assay.verify.calls.json_form import NO_FORM, collapse_call, json_answer, write_json_answer

LANGUAGE = ProgramLanguage("X", "main.x", ("x", "main.x"))
CALLED = CalledProgram(LANGUAGE, "shapes:area", ("width", "height"), "more")


def call(*args: Any, **named: Any) -> CallProgram:
    return CallProgram(
        "t", ([0, "call", ["g", "shapes", "area"], "", list(args), [[k, v] for k, v in named.items()]],), 0
    )


def ok(tree: Any, *after: Any) -> tuple[Any, ...]:
    return ([0, "ok", tree, *after],)


def test_arguments_are_named_and_further_ones_are_an_array() -> None:
    assert write_request(call(2, ["f", "0x1.8p+0"]), CALLED) == '{"width": 2, "height": 1.5}'
    assert write_request(call(2, height=["t", 1, None]), CALLED) == '{"width": 2, "height": [1, null]}'
    assert write_request(call(1, 2, 3, 4), CALLED) == '{"width": 1, "height": 2, "more": [3, 4]}'


@pytest.mark.parametrize(
    "tree", [["i", "0x20000000000001"], ["f", "inf"], ["S", 1], ["y", "00"], ["d", 1, 2], "x" * 20000]
)
def test_what_json_cannot_say_is_no_request(tree: Any) -> None:
    assert write_request(call(tree), CALLED) is None


def test_a_parameter_named_twice_is_no_request() -> None:
    assert write_request(call(1, width=2), CALLED) is None


def test_a_program_sees_lists_and_whole_numbers() -> None:
    collapsed = collapse_call(call(["t", ["f", "0x1.0p+1"], ["f", "0x1.8p+0"]]))
    assert collapsed.operations[0][4] == [["l", 2, ["f", "0x1.8p+0"]]]


def test_tuples_and_whole_iterators_are_answered_as_arrays() -> None:
    assert json_answer(ok(["t", 1, ["I", True, "a"]]), call(1)) == ((0, "ok", ["l", 1, ["l", "a"]]),)
    assert json_answer(ok(["I", False, 1]), call(1)) == NO_FORM


def test_a_call_that_changes_its_argument_has_no_answer() -> None:
    assert json_answer(ok(3, ["l", 1, 2]), call(["l", 1, 2])) == ((0, "ok", 3),)
    assert json_answer(ok(3, ["l", 1]), call(["l", 1, 2])) == NO_FORM


def test_exceptions_are_named_without_their_module() -> None:
    answer = json_answer(([0, "!", "shapes.core.ShapeError", True],), call(1))
    assert answer == ((0, "!", "ShapeError", True),)
    assert write_json_answer(((0, "!", "ShapeError", True),)) == '{"error": "ShapeError"}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "[]",
        "{}",
        '{"result": 1, "error": "x"}',
        '{"error": 3}',
        '{"result": NaN}',
        '{"result":' + "[" * 500,
        "x",
    ],
)
def test_other_lines_are_no_answers(text: str) -> None:
    assert read_json_answer(text) is None


def test_deep_and_wide_answers_are_refused() -> None:
    assert read_json_answer('{"result": ' + "[" * 80 + "]" * 80 + "}") is None
    assert read_json_answer('{"result": [' + "1," * 50_000 + "1]}") is None
    assert read_json_answer('{"result": "' + "x" * 600_000 + '"}') is None


def test_large_integers_stay_themselves() -> None:
    answer = read_json_answer('{"result": 123456789012345678901234567890}')
    assert answer is not None
    assert not same_answer(((0, "ok", 1),), answer)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('{"result": {"b": [1.0], "a": 2}}', True),
        ('{"result": {"a": 2, "b": [true]}}', False),
        ('{"error": "a"}', False),
    ],
)
def test_numbers_are_compared_as_numbers_and_objects_without_order(text: str, same: bool) -> None:
    read = read_json_answer(text)
    assert read is not None
    assert same_answer(((0, "ok", ["d", "a", 2, "b", ["l", 1]]),), read) is same
