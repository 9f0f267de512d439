"""Pages in memory, and the map that is made of them."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from assay.agents.memory import MemoryItem, MemoryRecord
from assay.agents.page_map import PageMap, apply
from assay.agents.page_memory import (
    MASK,
    PageKey,
    PageMove,
    PageReader,
    RememberedAct,
    RememberedPage,
    of_site,
    page_item,
    page_moves,
    remember_page,
)
from assay.environments.browser.page_text import read_view
from tests.environments.recorded_pages import CALLS, HALL

pytestmark = pytest.mark.quick
PORTER = """Page: "Porter"
Address: "http://door.test/porter/ORD-100234/7"
main
  heading "Porter of ORD-100234" level 1
  term "Pin"
  definition "PIN-123456"
  form "Enter"
    [5] textbox "Code" value=""
    [6] button "Enter\""""


def record(*items: MemoryItem, name: str = "a", passed: bool = True) -> MemoryRecord:
    return MemoryRecord("r", name, f"head-{name}", "task", "digest", passed, items)


def page(heading: str, *offers: str, refused: bool = False, **values: str) -> RememberedPage:
    given = tuple(("form", label, ()) for label in offers)
    return RememberedPage("door.test", "/door", heading, tuple(values.items()), given, refused)


def act(label: str, **texts: str) -> RememberedAct:
    return RememberedAct("form", label, tuple(texts.items()))


def test_identifiers_are_masked_and_named_by_where_they_were_seen() -> None:
    reader = PageReader()
    moves = [
        *reader.read("read_page", {}, PORTER),
        *reader.read("fill", {"bid": "5", "value": "PIN-123456"}, PORTER.replace('value=""', 'value="PIN-123456"')),
        *reader.read("click", {"bid": "6"}, HALL),
    ]
    ((before, done, after),) = moves
    assert (before.path, before.heading, before.values) == ("/porter/*/*", f"Porter of {MASK}", (("pin", MASK),))
    assert (done.texts, done.needs) == ((("Code", "<pin>"),), {"pin"})
    assert (after.heading, after.values) == ("Hall", (("lamp", "off"),))
    assert "123456" not in msgspec.json.encode([before, done, after]).decode()
    assert (reader.codes, reader.refer("PIN-123456"), reader.refer("X-999")) == ({"pin": "PIN-123456"}, "<pin>", MASK)


def test_items_keep_where_they_are_from_and_others_are_passed_over() -> None:
    reader, moves = PageReader(), list[PageMove]()
    for one in CALLS:
        moves += reader.read(one["name"], one["arguments"], one["page"])
    items = [page_item(move, 4, "blake3:s") for move in moves]
    odd = MemoryItem("page", "{", "[]", "x", 1)
    other = MemoryItem("success", "before", "act", "after", 2)
    kept = record(odd, *items, other)
    assert list(page_moves(kept)) == moves
    assert [move.act.kind for move in moves] == ["link", "form"]
    assert (items[0].step, items[0].state) == (4, "blake3:s")
    assert kept.only_acts().items == (other,)
    assert of_site([kept, record(other)], "door.test") == [kept]
    assert list(of_site([kept], "shop.test")) == []
    assert "state" not in msgspec.json.encode(other).decode()  # records of older memories keep their digests


def test_offers_are_those_of_the_main_part() -> None:
    found = remember_page(read_view(HALL))
    assert found.offers == (("form", "Set lamp", ("Lamp", "Colour", "Note", "Remember")),)
    assert (found.site, found.key) == ("door.test", PageKey("/hall", "Hall"))


def test_effects_are_learnt_and_numbers_are_counted() -> None:
    known = PageMap()
    known.learn(PageMove(page("Hall", lamp="off", coins="1"), act("Take"), page("Hall", lamp="on", coins="3")), "a")
    effect = known.effect(PageKey("/door", "Hall"), act("Take"))
    assert effect is not None
    assert dict(effect.sets) == {"lamp": "on", "coins": 2}
    assert apply(effect, {"coins": "4", "lamp": "off"}) == {"coins": "6", "lamp": "on"}
    assert known.initial == {"lamp": "off", "coins": "1"}


@pytest.mark.parametrize("after", ["", "-draft", "+", "-5 seats", "\u00b2", "+99999999999"])
def test_a_number_that_becomes_a_text_is_no_difference(after: str) -> None:
    known = PageMap()
    known.learn(PageMove(page("Hall", state="5"), act("Go"), page("End", state=after)), "r")
    effect = known.effect(page("Hall").key, act("Go"))
    assert effect is not None
    assert apply(effect, {"state": "7"}) == {"state": after}


def test_an_act_needs_what_tells_its_sightings_apart() -> None:
    known, hall = PageMap(), PageKey("/door", "Hall")
    known.learn(PageMove(page("Hall", "Light", lamp="off", coins="0"), act("Light"), page("Hall", "Enter", lamp="on")))
    assert known.may_be_done(hall, act("Enter"), {"lamp": "on", "coins": "5"})
    assert not known.may_be_done(hall, act("Enter"), {"lamp": "off", "coins": "0"})
    refusal = PageMove(page("Hall", "Enter", lamp="on"), act("Enter", Code="x"), page("Hall", refused=True))
    known.learn(refusal)
    assert not known.may_be_done(hall, act("Enter", Code="x"), {"lamp": "on", "coins": "0"})


def test_records_that_are_contradicted_are_given_up() -> None:
    known, hall = PageMap(), PageKey("/door", "Hall")
    known.learn(PageMove(page("Hall", "Up"), act("Up"), page("Attic")), "wrong")
    known.learn(PageMove(page("Hall", "Up"), act("Up"), page("Cellar")), "right")
    assert known.forget(hall, act("Up"), PageKey("/door", "Cellar")) == 1
    effect = known.effect(hall, act("Up"))
    assert effect is not None
    assert effect.to.heading == "Cellar"
    assert known.compare(page("Hall", "Down"), {}) == 1  # the same values, and other offers
    assert known.wrong == {"wrong", "right"}
    assert known.effect(hall, act("Up")) is None


def test_pages_are_retrieved_with_what_they_need_and_the_ways_between() -> None:
    known = PageMap()
    chain = ["Start", "Hall", "Porter", "Gate"]
    for one, other in itertools.pairwise(chain):
        shown = {"pin": MASK} if other == "Porter" else {}
        known.learn(PageMove(page(one), act(f"To {other}"), page(other, **shown)), "a")
    known.learn(PageMove(page("Gate"), act("Enter", Code="<pin>"), page("Garden")), "a")
    for far in range(9):
        known.learn(PageMove(page("Start"), act(f"Far {far}"), page(f"Elsewhere {far}")), "b")
    found = known.retrieve("gate garden", PageKey("/door", "Start"), 2)
    assert [key.heading for key in sorted(found, key=lambda key: key.heading)] == [
        "Garden", "Gate", "Hall", "Porter", "Start",
    ]  # fmt: skip
