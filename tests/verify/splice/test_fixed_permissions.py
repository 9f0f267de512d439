"""What may change of the arguments is fixed when a call begins: moving another object below it permits nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assay.verify.separation_plan import Argument, EntryUse, SeparationPlan

from .conftest import IDS, plan_of, solution
from .test_lying_workers import takeover


def changing(name: str, *arguments: Argument) -> SeparationPlan:
    """Returns a plan in which one function of the shop changes some parts of its arguments."""
    uses = {IDS[name][0]: (EntryUse(f"shop.core:{name}", arguments),)}
    plan = plan_of()
    tests = tuple(msgspec.structs.replace(test, uses=uses.get(test.id, test.uses)) for test in plan.tests)
    if name == "sort_by":
        more = EntryUse("shop.core:refill", (Argument("basket", ("items",)),))
        tests = tuple(msgspec.structs.replace(t, uses=(*t.uses, more)) if t.id in uses else t for t in tests)
    return msgspec.structs.replace(plan, tests=tests)


ITEMS_OF_BASKET = changing("lines", Argument("basket", ("items",)))
NOTED = """
import shop


def test_lines():
    basket = shop.Basket([("a", 3)])
    basket.notes["a"] = 1
    assert list(shop.lines(basket)) == ["a: 3", "a: 3"]
    assert basket.notes == {"a": 2}
"""
MOVES_THEN_CHANGES = """
    number = {entry[0]: n for n, entry in enumerate(frame.get("h", ()))}
    if frame["op"] == "call":
        fields = frame["h"][number["o"]][2]
        STATE[:] = [fields["items"][0], fields["notes"][0], 0]
        return send(frame, k="value", v=[len(frame["h"])], h=[["it"]])
    items, notes, pulls = STATE
    STATE[2] += 1
    if pulls < 2:
        change = [[items, ["l", [notes]]], [notes, ["d", "a", 2]]][pulls]
        return send(frame, k="value", v="a: 3", c=[change])
    send(frame, k="stop")
"""


@pytest.mark.long
async def test_an_argument_that_was_moved_below_a_changeable_one_stays_as_it_is(shop: Any) -> None:
    command = takeover(MOVES_THEN_CHANGES).replace("test = -1\n", "test = -1\nSTATE = []\n")
    outcome = await shop.judge(command, ITEMS_OF_BASKET, tests=NOTED, expected=IDS["lines"])
    refused = [refusal["text"] for report in outcome.of_kind("test_report") for refusal in report["refusals"]]
    assert outcome.verdict.status == "fail"
    assert "reply_refused" in outcome.verdict.marks
    assert refused == ["a change of an argument that the reference leaves as it is (dict)"]


TWICE = """
import shop


def test_sort_by():
    items, kept = [], {"a": 1}
    shop.sort_by(items, kept)
    shop.sort_by(items, None)
    assert kept == {"a": 2}
"""
MOVES_IN_ONE_CALL_AND_CHANGES_IN_THE_NEXT = """
    numbers = {entry[0]: n for n, entry in enumerate(frame.get("h", ()))}
    if "d" in numbers and not STATE:
        STATE.append(1)
        held = WRAPPED
        return send(frame, k="value", v=None, c=[[numbers["l"], ["l", held]]], h=NEW)
    send(frame, k="value", v=None, c=[[numbers["l"], ["l"]], [numbers["d"], ["d", "a", 2]]])
"""


@pytest.mark.long
@pytest.mark.parametrize("wrapped", [False, True])
async def test_an_argument_that_was_moved_in_one_call_stays_as_it_is_in_the_next(shop: Any, wrapped: bool) -> None:
    held, new = ("[[len(frame['h'])]]", "[['t', [numbers['d']]]]") if wrapped else ("[[numbers['d']]]", "[]")
    answer = MOVES_IN_ONE_CALL_AND_CHANGES_IN_THE_NEXT.replace('["l", held]', '["l", *held]')
    command = takeover(answer.replace("WRAPPED", held).replace("NEW", new))
    plan = changing("sort_by", Argument("items"))
    command = command.replace("test = -1\n", "test = -1\nSTATE = []\n")
    outcome = await shop.judge(command, plan, tests=TWICE, expected=IDS["sort_by"])
    refused = [refusal["text"] for report in outcome.of_kind("test_report") for refusal in report["refusals"]]
    assert outcome.verdict.status == "fail"
    assert refused == ["a change of an argument that the reference leaves as it is (dict)"]


PASSED_ON = """
import shop


def test_sort_by():
    items, kept = [], {"a": 1}
    shop.sort_by(items, kept)
    items[0]["a"] = 3
    shop.sort_by(items, None)
    shop.sort_by(kept, None)
    assert kept == {"a": 3, "b": 4} and items == [kept, 5]
"""


@pytest.mark.long
async def test_an_argument_that_was_moved_may_change_where_the_test_passes_it_itself(shop: Any) -> None:
    body = (
        "if key is not None:\n        items.append(key)\n"
        "    elif isinstance(items, list):\n        items.append(5)\n    else:\n        items['b'] = 4"
    )
    plan = changing("sort_by", Argument("items"))
    outcome = await shop.judge(solution(sort_by=body), plan, tests=PASSED_ON, expected=IDS["sort_by"])
    refusals = [report["refusals"] for report in outcome.of_kind("test_report")]
    assert (outcome.verdict.status, outcome.verdict.marks) == ("pass", ()), refusals


GROWN = """
import shop


def test_lines():
    basket = shop.Basket([("a", 3)])
    names = []
    for name in shop.lines(basket):
        names.append(name)
    assert names == ["a", "3"]
    (node,) = basket.items[1:]
    assert type(node) is shop.Basket and node.items == ["a", 3] and node.notes == {"of": basket}
"""
GROWS = """for name, amount in list(basket.items):
        node = Basket([name])
        basket.items.append(node)
        yield name
        node.items.append(amount)
        node.notes = {'of': basket}
        yield str(amount)"""


@pytest.mark.long
async def test_new_objects_in_a_changeable_list_change_between_the_values_of_an_iterator(shop: Any) -> None:
    outcome = await shop.judge(solution(lines=GROWS), ITEMS_OF_BASKET, tests=GROWN, expected=IDS["lines"])
    refusals = [report["refusals"] for report in outcome.of_kind("test_report")]
    assert (outcome.verdict.status, outcome.verdict.marks) == ("pass", ()), refusals


VISITED = """
import shop


def test_sort_by():
    items = []
    assert list(shop.sort_by(items, lambda node: node.notes.update(seen=1))) == [1, 2]
    (node,) = items
    assert node.notes == {"seen": 1}
"""
VISITS = "node = Basket()\n    items.append(node)\n    yield 1\n    key(node)\n    yield 2"
NESTED = """
import shop


def test_sort_by():
    baskets = [shop.Basket("ab"), shop.Basket("c")]
    first, second = baskets
    found = shop.sort_by(baskets, lambda basket: shop.refill(basket, "z") or len(basket.items))
    assert found == [second, first] and first.items == ["a", "b", "z"] and second.items == ["c", "z"]
"""
SORT_CASES = {
    "a function changes a new object": (VISITED, VISITS, Argument("items")),
    "a function calls another entry point": (
        NESTED,
        "return sorted(items, key=key)",
        Argument("items", ("*", "items")),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SORT_CASES))
async def test_functions_of_the_test_change_what_may_change(shop: Any, name: str) -> None:
    tests, body, argument = SORT_CASES[name]
    plan = changing("sort_by", argument)
    outcome = await shop.judge(solution(sort_by=body), plan, tests=tests, expected=IDS["sort_by"])
    refusals = [report["refusals"] for report in outcome.of_kind("test_report")]
    assert (outcome.verdict.status, outcome.verdict.marks) == ("pass", ()), refusals


class Box:
    def __init__(self, *items: Any) -> None:
        self.items = list(items)


def test_what_is_added_after_the_beginning_is_not_permitted(programs: Any) -> None:
    protected: list[int] = [1]
    box, shared = Box([2]), [3]
    box.items.append(shared)
    named = {"box": box, "kept": [protected, shared]}
    permitted = programs.splice_changes.PermittedChanges(
        named, [{"name": "box", "path": ["items"]}], programs.splice_changes.MovedObjects()
    )
    before = box.items
    box.items = [*before, protected]
    before.append(protected)
    assert permitted.fields(box) == {"items"}
    assert not permitted.is_whole(box)
    assert [permitted.is_whole(one) for one in (before, before[0], shared)] == [True] * 3, "as the test passed them"
    assert not any(permitted.is_whole(one) for one in (protected, box.items, named["kept"]))


def test_the_ids_of_what_may_change_are_not_used_again(programs: Any) -> None:
    named: dict[str, Any] = {"boxes": [Box(n) for n in range(50)]}
    paths = [{"name": "boxes", "path": ["*", "items"]}]
    permitted = programs.splice_changes.PermittedChanges(named, paths, programs.splice_changes.MovedObjects())
    named["boxes"].clear()
    others = [Box(n) for n in range(500)]
    assert not any(permitted.fields(one) or permitted.is_whole(one.items) for one in others)


def test_too_many_parts_are_refused(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs.splice_changes, "MAX_COMPARED", 100)
    changes, moved = [{"name": "items", "path": []}], programs.splice_changes.MovedObjects()
    with pytest.raises(programs.splice_decoder.RefusedReply, match="too many parts"):
        programs.splice_changes.PermittedChanges({"items": [[n] for n in range(200)]}, changes, moved)
