"""Right solutions of another shape than the reference pass judged from outside, as they pass in process."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import solution


def appended(text: str) -> str:
    return f"cat >> shop/core.py <<'PYTHON'\n{text}\nPYTHON\n"


DECORATED = """
def _summed(function):
    import functools

    @functools.wraps(function)
    def wrapped(items):
        return sum(amount for _, amount in items)

    return wrapped


total = _summed(total)
"""
DISPATCHED = """
import functools


@functools.singledispatch
def total(items):
    raise TypeError(items)


@total.register(list)
def _(items):
    return sum(amount for _, amount in items)
"""
ITERATOR = """
class _Lines:
    def __init__(self, items):
        self.left = list(items)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        name, amount = self.left.pop(0)
        return f"{name}: {amount}"


def lines(basket):
    return _Lines(basket.items)
"""
ITERABLE = """
class _Texts:
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return (f"{name}: {amount}" for name, amount in self.items)


def lines(basket):
    return _Texts(basket.items)
"""
OTHER_PARAMETERS = "def ordered(*names, start=(), reverse=False):\n    return sorted([*start, *names], reverse=reverse)"
MORE_PARAMETERS = "def total(items, start=0, name=1):\n    return sum((pair[name] for pair in items), start)"
EXCEPTION = "class Gone(ShopError):\n    pass\n\n\ndef missing(name):\n    raise Gone('no ' + name)"
NOTED = "error = ShopError('no ' + name)\n    error.seen = object()\n    raise error"
SUBCLASS = "class Ordered(list):\n    pass\n\n\ndef sort_by(items, key):\n    return Ordered(sorted(items, key=key))"
INTEGER = "class Sum(int):\n    pass\n\n\ndef total(items):\n    return Sum(sum(amount for _, amount in items))"
TEXTS = "f'{n}: {a}' for n, a in basket.items"
NAMED_TUPLE = f"import collections\n    return collections.namedtuple('Texts', 'a b')(*({TEXTS}))"
SOLUTIONS = {
    "decorator, iterator class, other parameters, exception class, list class": (
        solution(total="return 0")
        + appended(DECORATED)
        + appended(ITERATOR)
        + appended(OTHER_PARAMETERS)
        + appended(EXCEPTION)
        + appended(SUBCLASS)
    ),
    "single dispatch, iterable class, exception with field": (
        solution(missing=NOTED) + appended(DISPATCHED) + appended(ITERABLE)
    ),
    "more parameters, named tuple": solution(lines=NAMED_TUPLE) + appended(MORE_PARAMETERS),
    "integer class, queue": solution(lines=f"import collections\n    return collections.deque({TEXTS})")
    + appended(INTEGER),
    "view": solution(lines=f"return dict.fromkeys({TEXTS}).keys()"),
}
"""Solutions that differ in several functions: each is right only where all of them are taken."""


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SOLUTIONS))
async def test_a_right_solution_of_another_shape_passes_as_separate(shop: Any, name: str) -> None:
    outcome = await shop.judge(SOLUTIONS[name])
    refusals = [report["refusals"] for report in outcome.of_kind("test_report") if "refusals" in report]
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), refusals
    assert outcome.verdict.separations == {"separate": 8}


async def test_a_class_of_the_workers_own_is_data_alone(shop: Any) -> None:
    text = (
        "class Any_(list):\n    __eq__ = lambda *_: True\n    __hash__ = None\n\n\ndef sort_by(*_):\n    return Any_()"
    )
    outcome = await shop.judge(solution() + appended(text))
    assert outcome.verdict.status == "fail"


async def test_a_wrong_solution_behind_a_decorator_fails(shop: Any) -> None:
    wrong = DECORATED.replace("amount for _, amount", "1 for _, amount")
    assert (await shop.judge(solution() + appended(wrong))).verdict.status == "fail"
