"""Iterators and instances inside an answer are taken only where the reference's answers hold such."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assay.verify.separation_plan import (
    Argument,
    EntryPoint,
    EntryUse,
    SeparationPlan,
    TestPlan,
    encode_plan,
    load_plan,
)
from tests.sampling import draw_sample

from .conftest import IDS, plan_of, solution
from .test_lying_workers import takeover, value

BASKET = "['o', ['shop.core', 'Basket'], {'items': [n]}]"
INSIDE = {
    "an iterator in a list": "v=[n], h=[['l', [n + 1]], ['it']]",
    "an instance in a list": f"v=[n], h=[['l', [n + 1]], {BASKET}]",
    "an instance in a tuple in a list": f"v=[n], h=[['l', [n + 1]], ['t', [n + 2]], {BASKET}]",
    "an instance as a value": f"v=[n], h=[['d', 'a', [n + 1]], {BASKET}]",
    "an instance as a key": f"v=[n], h=[['d', [n + 1], 'a'], {BASKET}]",
    "an instance in a set": f"v=[n], h=[['s', [n + 1]], {BASKET}]",
    "an instance in a queue": f"v=[n], h=[['q', None, [n + 1]], {BASKET}]",
    "an instance in a list in itself": f"v=[n], h=[['l', [n], [n + 1]], {BASKET}]",
}
FOUND = """
import shop


def test_sort_by():
    assert all(shop.sort_by([3, -1, 2], abs))
"""


def with_use(name: str, use: EntryUse) -> SeparationPlan:
    plan = plan_of()
    tests = tuple(msgspec.structs.replace(one, uses=(use,)) if one.id in IDS[name] else one for one in plan.tests)
    return msgspec.structs.replace(plan, tests=tests)


async def judged(shop: Any, command: str, plan: SeparationPlan, name: str, tests: str) -> tuple[str, str]:
    outcome = await shop.judge(command, plan, expected=IDS[name], tests=tests)
    refusals = [one["text"] for found in outcome.of_kind("test_report") for one in found.get("refusals", [])]
    return outcome.verdict.status, str(refusals)


NOTHING_INSIDE = with_use("sort_by", EntryUse("shop.core:sort_by", (), ("dict", "list", "set"), ()))


@pytest.mark.long
async def test_a_right_answer_with_nothing_inside_passes(shop: Any) -> None:
    assert (await judged(shop, solution(), NOTHING_INSIDE, "sort_by", FOUND)) == ("pass", "[]")


@pytest.mark.long
@pytest.mark.parametrize("name", draw_sample(sorted(INSIDE), 4))
async def test_what_the_reference_never_returns_inside_an_answer_is_refused(shop: Any, name: str) -> None:
    lie = takeover(f"n = len(frame['h']); {value(INSIDE[name])}")
    status, refused = await judged(shop, lie, NOTHING_INSIDE, "sort_by", FOUND)
    assert status == "fail"
    assert "never returns inside another" in refused


@pytest.mark.long
@pytest.mark.parametrize("inside", [None, ("iterator", "shop.core:Basket", "unread")])
async def test_what_is_recorded_and_plans_that_record_nothing_take_it(shop: Any, inside: Any) -> None:
    plan = with_use("sort_by", EntryUse("shop.core:sort_by", (), ("list",), inside))
    for name in ("an iterator in a list", "an instance in a list in itself"):
        lie = takeover(f"n = len(frame['h']); {value(INSIDE[name])}")
        assert (await judged(shop, lie, plan, "sort_by", FOUND))[1] == "[]"


ITERATORS = """
import shop


def test_sort_by():
    assert [list(one) for one in shop.sort_by([3, -1, 2], abs)] == [[3], [-1], [2]]
"""


@pytest.mark.long
async def test_iterators_inside_an_answer_are_read(shop: Any) -> None:
    inside = ("iterator", "unread")
    plan = with_use("sort_by", EntryUse("shop.core:sort_by", (), ("iterator", "list"), inside))
    given = solution(sort_by="return [iter([item]) for item in items]")
    assert (await judged(shop, given, plan, "sort_by", ITERATORS)) == ("pass", "[]")


YIELDED = """
import shop


def test_lines():
    assert list(shop.lines(shop.Basket([("a", 3)])))
"""
CHANGES_LATER = """for name, _ in list(basket.items):
        found = []
        yield [found, name]
        found.append(Basket([1]))
    yield [1]"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("inside", "body", "status"),
    [
        ((), "yield Basket()", "fail"),
        ((), "yield [Basket()]", "fail"),
        ((), CHANGES_LATER, "fail"),
        ((), "yield [basket]", "fail"),
        (("iterator", "unread"), "yield [Basket()]", "pass"),
        (("shop.core:Basket",), CHANGES_LATER, "pass"),
    ],
)
async def test_values_of_an_iterator_are_inside(shop: Any, inside: tuple[str, ...], body: str, status: str) -> None:
    plan = with_use("lines", EntryUse("shop.core:lines", (), ("iterator", "list"), inside))
    ruled, refused = await judged(shop, solution(lines=body), plan, "lines", YIELDED)
    assert (ruled, "inside another" in refused) == (status, status == "fail"), refused


@pytest.mark.long
async def test_a_subclass_of_a_recorded_class_is_taken(shop: Any) -> None:
    more = "class Other(Basket):\n    pass\n\n\ndef sort_by(items, key):\n    return [Other(items)]\n"
    command = solution() + f"cat >> shop/core.py <<'PYTHON'\n{more}\nPYTHON\n"
    plan = with_use("sort_by", EntryUse("shop.core:sort_by", (), ("list",), ("shop.core:Basket",)))
    assert (await judged(shop, command, plan, "sort_by", FOUND)) == ("pass", "[]")


OWNED = """
import shop


def test_sort_by():
    owner = shop.Basket([1])
    owner.notes["of"] = other = shop.Basket()
    assert shop.sort_by([owner], lambda one: 0)[0] is owner and owner.notes["of"] is other
"""


@pytest.mark.long
async def test_an_instance_that_is_as_the_test_sent_it_is_not_opened(shop: Any) -> None:
    plan = with_use("sort_by", EntryUse("shop.core:sort_by", (), ("list",), ("shop.core:Basket",)))
    body = "items[0].notes.get('of'); return sorted(items, key=key)"
    assert (await judged(shop, solution(sort_by=body), plan, "sort_by", OWNED)) == ("pass", "[]")
    nothing = with_use("sort_by", EntryUse("shop.core:sort_by", (), ("list",), ()))
    assert (await judged(shop, solution(sort_by=body), nothing, "sort_by", OWNED))[0] == "fail"


REFILLED = """
import shop


def test_refill():
    basket = shop.Basket()
    shop.refill(basket, 1)
    assert basket.items
    for one in basket.items:
        assert one == 1
"""
KEYED = """
import shop


def test_sort_by():
    seen = []

    def key(one):
        assert one
        seen.append([part == 1 for part in one])
        return 0

    assert shop.sort_by([[1]], key) == [[1]]
    assert seen and all(all(parts) for parts in seen)
"""
RAISED = """
import pytest
import shop


def test_missing():
    with pytest.raises(shop.ShopError) as caught:
        shop.missing("pears")
    assert caught.value.args[0]
    for one in caught.value.args[0]:
        assert one == "pears"
"""
FULL = "['o', ['shop.core', 'Basket'], {'items': 'ab'}]"
ENDS = "if frame['op'] == 'next': return send(frame, k='stop')\n    "
NUMBERS = "n = len(frame['h']); b = {entry[0]: at for at, entry in enumerate(frame['h'])}.get('o')\n    "
HANDED = {
    "an iterator in a field": (
        "refill", REFILLED, "basket.items.append(item)",
        f"{ENDS}{NUMBERS}send(frame, k='value', v=None, h=[['it']], "
        "c=[[b, ['o', ['shop.core', 'Basket'], {'items': [n], 'notes': frame['h'][b][2]['notes']}]]])",
    ),
    "an instance in a field": (
        "refill", REFILLED.partition("    for")[0], "basket.items.append(item)",
        f"{NUMBERS}send(frame, k='value', v=None, h=[{FULL}], "
        "c=[[b, ['o', ['shop.core', 'Basket'], {'items': [n], 'notes': frame['h'][b][2]['notes']}]]])",
    ),
    "an iterator for a function": (
        "sort_by", KEYED, "return sorted(items, key=key)",
        f"{ENDS}number = {{entry[0]: at for at, entry in enumerate(frame['h'])}}\n    "
        "if 'k' in number:\n        STATE[:] = [len(frame['h'])]\n        "
        "return send(frame, k='callback', n=number['k'], a=[[STATE[0]]], w={}, h=[['it']])\n    "
        "n = STATE[0] + 1 + len(frame['h']); send(frame, k='value', v=[n], h=[['l', [n + 1]], ['l', 1]])",
    ),
    "an iterator in an exception": (
        "missing", RAISED, "raise ShopError([name])",
        f"{ENDS}n = len(frame['h']); "
        "send(frame, k='raise', e=[['shop.core', 'ShopError'], ['builtins', 'ValueError']], a=[[n]], h=[['it']])",
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", draw_sample([*HANDED], 2))
async def test_what_else_reaches_the_test_holds_what_the_references_does(shop: Any, name: str) -> None:
    entry, tests, right, lie = HANDED[name]
    changes = (Argument("basket", ("items",)),) if entry == "refill" else ()
    lies = takeover(lie).replace("test = -1\n", "test = -1\nSTATE = []\n")
    for handed, permitted in (((), False), (None, True), (("iterator", "unread", "shop.core:Basket"), True)):
        plan = with_use(entry, EntryUse(f"shop.core:{entry}", changes, None, None, handed))
        assert (await judged(shop, solution(**{entry: right}), plan, entry, tests)) == ("pass", "[]")
        status, refused = await judged(shop, lies, plan, entry, tests)
        assert (status, "never puts there" in refused) == ("fail", not permitted), refused


TAKEN_APART = """
import operator
import shop


def test_sort_by():
    assert shop.sort_by([1], operator.attrgetter("items")) == [1]
"""


@pytest.mark.long
async def test_a_getter_may_take_what_the_worker_made(shop: Any) -> None:
    plan = with_use("sort_by", EntryUse("shop.core:sort_by", (), None, None, ()))
    body = "return [key(Basket([one]))[0] for one in items]"
    assert (await judged(shop, solution(sort_by=body), plan, "sort_by", TAKEN_APART)) == ("pass", "[]")


def test_an_empty_record_is_stored_and_is_not_no_record(tmp_path: Any) -> None:
    uses = (EntryUse("a:f", (Argument("b"),), (), (), ()), EntryUse("a:f"))
    tests = tuple(TestPlan(str(number), "splice", (), (use,)) for number, use in enumerate(uses))
    (tmp_path / "tests").mkdir()
    stored = encode_plan(SeparationPlan("a", (EntryPoint("a", "f"),), tests))
    (tmp_path / "tests/separation.json").write_bytes(stored)
    known = load_plan(tmp_path)
    assert known is not None
    assert [test.uses[0].inside for test in known.tests] == [(), None]
    assert [test.uses[0].handed for test in known.tests] == [(), None]


OF_A_CLASS = """
import shop


def test_discounted():
    cheaper = shop.discounted(shop.Basket([("a", 100)]), 25)
    assert cheaper.names
"""


@pytest.mark.long
async def test_a_class_is_no_answer_where_the_reference_returns_an_instance(shop: Any) -> None:
    given = {"name": "discounted", "tests": OF_A_CLASS}
    plan = with_use("discounted", EntryUse("shop.core:discounted", (), ("shop.core:Basket",), ()))
    assert (await judged(shop, solution(), plan, **given)) == ("pass", "[]")
    status, refusals = await judged(shop, solution(discounted="return Basket"), plan, **given)
    assert status == "fail"
    assert "never returns" in refusals
    plan = with_use("discounted", EntryUse("shop.core:discounted", (), ("shop.core:Basket", "type"), ()))
    assert (await judged(shop, solution(discounted="return Basket"), plan, **given))[0] == "pass"


async def test_a_class_in_a_list_is_no_answer_where_the_reference_returns_a_list_of_others(shop: Any) -> None:
    plan = with_use("sort_by", EntryUse("shop.core:sort_by", (), ("list",), ()))
    status, refusals = await judged(shop, solution(sort_by="return [Basket, int]"), plan, "sort_by", FOUND)
    assert status == "fail"
    assert "never returns inside" in refusals


@pytest.mark.long
async def test_a_function_of_the_test_is_no_answer_where_the_reference_returns_none(shop: Any) -> None:
    tests = FOUND.replace("all(shop.sort_by([3, -1, 2], abs))", "shop.sort_by([3, -1, 2], lambda n: n).__class__")
    plan = with_use("sort_by", EntryUse("shop.core:sort_by", (), ("list",), ()))
    assert (await judged(shop, solution(), plan, "sort_by", tests)) == ("pass", "[]")
    status, refusals = await judged(shop, solution(sort_by="return key"), plan, "sort_by", tests)
    assert status == "fail"
    assert "never returns" in refusals


GIVEN_A_CLASS = """
import shop


def test_refill():
    basket = shop.Basket()
    shop.refill(basket, 1)
    assert basket.items[-1].names
"""


@pytest.mark.long
@pytest.mark.parametrize(("handed", "status"), [((), "fail"), (("type",), "pass"), (None, "pass")])
async def test_a_class_reaches_the_test_where_the_references_does(
    shop: Any, handed: tuple[str, ...] | None, status: str
) -> None:
    changes = (Argument("basket", ("items",)),)
    plan = with_use("refill", EntryUse("shop.core:refill", changes, None, None, handed))
    found, refused = await judged(shop, solution(refill="basket.items.append(Basket)"), plan, "refill", GIVEN_A_CLASS)
    assert (found, "never puts there" in refused) == (status, status == "fail"), refused
