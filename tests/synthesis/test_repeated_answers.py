"""False answers that tell a test nothing new, and runs of programs on one server."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from assay.synthesis._entry_trace import PAYLOAD

BARE = {"changes": [], "shapes": []}


@pytest.fixture
def honest(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PAYLOAD))
    return importlib.import_module("repeated_answers").HonestCalls


def told(calls: Any, name: str, bound: frozenset[str] = frozenset(), **use: object) -> bool:
    return not calls.repeats(name, {"a:f": {**BARE, **use}}, bound)


@pytest.mark.parametrize(
    ("name", "kinds", "is_told"),
    [
        ("None where it raises", ["int", "int"], False),
        ("None where it raises", ["int", "raise"], True),
        ("None where it raises", ["generator"], True),
        ("flipped", ["int"], False),
        ("flipped", ["bool"], True),
        ("flipped", ["raise"], True),
        ("first answer again", ["list"], False),
        ("first answer again", ["list", "list"], True),
        ("first answer again", ["generator"], True),
        ("remembered argument", ["int"], False),
        ("None", ["int"], True),
        ("raise KeyError", ["int"], True),
    ],
)
def test_a_lie_is_told_where_it_changes_an_answer(honest: Any, name: str, kinds: list[str], is_told: bool) -> None:
    calls = honest({"a:f": {kind: kinds.count(kind) for kind in kinds}})
    assert told(calls, name) == is_told


def test_an_argument_is_remembered_where_two_entry_points_are_called(honest: Any) -> None:
    assert told(honest({"a:f": {"int": 1}, "a:g": {"int": 1}}), "remembered argument")


@pytest.mark.parametrize("name", ["arguments emptied", "arguments levelled"])
def test_arguments_are_changed_where_the_reference_changes_some(honest: Any, name: str) -> None:
    calls = honest({"a:f": {"int": 1}})
    assert told(calls, name, changes=[["items", []]])
    assert not told(calls, name)


def test_truth_values_are_answered_where_the_reference_has_shapes(honest: Any) -> None:
    calls = honest({"a:f": {"tuple": 1}})
    assert told(calls, "truth values True, the rest None", shapes=[["tuple", None]])
    assert not told(calls, "truth values True, the rest None")


def test_the_own_argument_of_a_plain_function_is_its_first(honest: Any) -> None:
    calls = honest({"a:f": {"int": 1}})
    assert told(calls, "own argument", frozenset({"a:f"}))
    assert not told(calls, "own argument", frozenset({"a:g"}))


def test_nothing_is_told_through_what_the_test_does_not_call(honest: Any) -> None:
    assert not told(honest({"a:g": {"int": 1}}), "as another function")


def test_calls_are_counted_by_the_kind_of_their_answers(honest: Any) -> None:
    calls = honest()
    for answer in (1, 2, (n for n in ())):
        calls.add("a:f", answer)
    calls.add_raised("a:f")
    assert calls.kinds == {"a:f": {"int": 2, "generator": 1, "raise": 1}}
