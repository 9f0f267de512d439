"""Answers of entry points that repaired nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assay.synthesis._entry_trace import PAYLOAD
from assay.synthesis._false_answers import ANSWERS, LIARS_ANSWERS, SHAPED_ANSWERS


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PAYLOAD))
    return importlib.import_module("false_answers")


def refuse(*_args: object) -> None:
    raise NotImplementedError


def begin(items: list[int]) -> Iterator[int]:
    yield items[0]
    raise NotImplementedError


def test_every_answer_has_its_name_in_the_table(answers: Any) -> None:
    named = {*ANSWERS, *SHAPED_ANSWERS, *LIARS_ANSWERS}
    assert {name for name in named if not name.startswith("raise ")} == set(answers.ANSWERS)


@pytest.mark.parametrize(("before", "expected"), [({"a:f": 1, "a:g": 2, "a:me": 3}, 2), ({"a:me": 3}, 10), ({}, 10)])
def test_the_remembered_argument_is_of_another_entry_point(answers: Any, before: dict[str, Any], expected: int) -> None:
    call = answers.FunctionCall("a:me", lambda n: 2 * n, (5,), {}, {}, before=before)
    assert answers.ANSWERS["remembered argument"](call) == expected


def test_an_iterator_without_items_is_true(answers: Any) -> None:
    found = answers.ANSWERS["empty iterator"](answers.FunctionCall("a:f", refuse, (), {}, {}))
    assert found
    assert list(found) == []


@pytest.mark.parametrize("function", [refuse, begin])
def test_an_error_is_replaced_also_where_it_comes_with_the_items(answers: Any, function: Callable[..., Any]) -> None:
    call = answers.FunctionCall("a:f", function, ([1],), {}, {})
    assert answers.ANSWERS["True where it raises"](call) is True
    assert answers.ANSWERS["own argument where it raises"](call) == [1]


def test_an_answer_without_error_is_the_unrepaired_one(answers: Any) -> None:
    lie = answers.ANSWERS["None where it raises"]
    assert lie(answers.FunctionCall("a:f", sorted, ([2, 1],), {}, {})) == [1, 2]
    assert list(lie(answers.FunctionCall("a:f", lambda items: (n for n in items), ([2],), {}, {}))) == [2]


@pytest.mark.parametrize(
    ("rest", "expected"), [("empty", (True, [], [True, 0, None])), ("None", (True, None, [True, None, None]))]
)
def test_truth_values_are_lied_about_in_the_shape_of_the_answer(answers: Any, rest: str, expected: object) -> None:
    shape = ["tuple", [["bool", None], ["list", None], ["list", [["bool", None], ["int", None], ["a:Box", None]]]]]
    call = answers.FunctionCall("a:f", refuse, (), {}, {}, shapes=[shape])
    assert answers.ANSWERS[f"truth values True, the rest {rest}"](call) == expected


def test_a_generator_of_truth_values_is_lied_about_as_one(answers: Any) -> None:
    call = answers.FunctionCall("a:f", refuse, (), {}, {}, shapes=[["generator", [["bool", None]]]])
    assert list(answers.ANSWERS["truth values False, the rest None"](call)) == [False]


class Sized:
    def __init__(self, size: int) -> None:
        self.size = size
        self.parts = [size]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sized) and (self.size, self.parts) == (other.size, other.parts)

    __hash__ = None  # type: ignore[assignment]


class Shelf:
    def __init__(self, items: list[Any]) -> None:
        self.items = items


def arrange(items: Any) -> None: ...


@pytest.mark.parametrize("make", [lambda: [Sized(3), Sized(1)], lambda: [[3], [1]], lambda: {"a": [3], "b": [1]}])
def test_objects_in_what_the_reference_reorders_are_made_alike(answers: Any, make: Callable[[], Any]) -> None:
    for wrap, path in ((lambda items: items, []), (Shelf, ["items"])):
        items = make()
        parts = list(items.values()) if isinstance(items, dict) else list(items)
        call = answers.FunctionCall("a:arrange", arrange, (wrap(items),), {}, {}, changes=[("items", path)])
        answers.ANSWERS["arguments levelled"](call)
        assert parts == parts[::-1]
        assert len(items) == 2
