"""A recorded attempt as a world: what matches goes on, what does not is patched or ends it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from assay.environments.browser.page_text import read_view
from assay.environments.browser.recorded.record import RecordedCall, read_pages
from assay.environments.browser.recorded.site import RecordedSite
from assay.environments.browser.recorded.tree_text import form_values, set_value, toggle
from assay.records import Observation
from tests.environments.recorded_pages import ASKED, CALLS, DONE, FILLED, HALL, RIGHT, START

pytestmark = pytest.mark.quick


def world(**parameters: Any) -> RecordedSite:
    return RecordedSite({"calls": CALLS, **parameters}, 1)


async def play(site: RecordedSite, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Observation]:
    return [await site.call(name, arguments) for name, arguments in calls]


async def test_the_recorded_calls_match_to_the_end() -> None:
    site = world()
    seen = await play(site, RIGHT)
    assert [one.content for one in seen] == [START, HALL, seen[2].content, seen[3].content, FILLED, ASKED, DONE]
    facts = site.facts()
    assert (facts["completed"], facts["outcomes"], facts["divergences"]) == (True, ["matched"] * 3, [])
    assert (site.terminated, site.truncated, site.episode()["reward"]) == (False, False, 1.0)


async def test_order_and_detours_within_a_form_do_not_matter() -> None:
    site = world()
    detour = [("fill", {"bid": "7", "value": "no"}), ("click", {"bid": "8"}), ("click", {"bid": "8"})]
    await play(site, [RIGHT[0], RIGHT[1], RIGHT[4], *detour, RIGHT[4], RIGHT[3], RIGHT[2], RIGHT[5], RIGHT[6]])
    assert site.facts()["completed"]


async def test_a_form_with_another_value_diverges_and_ends_it_without_a_patch() -> None:
    site = world()
    *_, last = await play(site, [*RIGHT[:3], *RIGHT[4:6]])
    assert last.error
    assert site.terminated
    (found,) = site.facts()["divergences"]
    assert (found["step"], "Colour=Red" in found["expected"], "Colour=Choose" in found["made"]) == (1, True, True)
    (after,) = await play(site, [RIGHT[0]])
    assert after.error
    assert not site.facts()["completed"]


async def test_a_patch_puts_the_recorded_step_in_place_and_says_so() -> None:
    site = world(patches=1, strategy="off-policy")
    await play(site, [RIGHT[0], ("click", {"bid": "3"})])
    assert site.patches[0] is None
    patch = site.patches[1]
    assert patch is not None
    assert ([one.name for one in patch.calls], patch.thought) == (["click"], "Into the hall.")
    await play(site, RIGHT[2:])
    assert (site.facts()["completed"], site.facts()["outcomes"]) == (True, ["patched", "matched", "matched"])
    assert site.episode()["reward"] == pytest.approx(2 / 3)


async def test_going_on_after_the_last_step_is_no_success() -> None:
    site = world(patches=3)
    await play(site, [*RIGHT, ("send_msg_to_user", {"text": "done"}), ("read_page", {})])
    assert site.facts()["completed"]
    await play(site, [("go_back", {})])
    assert (site.facts()["completed"], site.facts()["overrun"], site.terminated) == (False, True, True)


@pytest.mark.parametrize(
    "call",
    [
        ("click", {"bid": "99"}), ("fill", {"bid": "2", "value": "x"}),
        ("select_option", {"bid": "6", "options": "No"}),
        ("fill", {"bid": "7", "value": 3}), ("fill", {}), ("no_such_tool", {}), ("select_option", {"bid": "6"}),
    ],
)  # fmt: skip
async def test_what_the_page_does_not_offer_is_an_error_and_no_divergence(call: tuple[str, dict[str, Any]]) -> None:
    site = world()
    await play(site, RIGHT[:2])
    (seen,) = await play(site, [call])
    assert seen.error
    assert (site.facts()["divergences"], site.facts()["outcomes"]) == ([], ["matched"])


async def test_advice_mends_a_form_and_comes_to_the_end() -> None:
    site = world()
    await play(site, [*RIGHT[:2], ("fill", {"bid": "7", "value": "x"}), ("click", {"bid": "8"})])
    while (advised := site.advice()) is not None:
        await play(site, [(advised.name, advised.parsed or {})])
    assert site.facts()["completed"]


async def test_endless_acts_are_cut() -> None:
    site = world()
    for _ in range(200):
        act = site.any_act(random.Random(1))
        assert act is not None
        await play(site, [("read_page", {})])
        if site.truncated:
            break
    assert site.truncated
    assert (await site.call("click", {"bid": "2"})).error


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        ([], "calls"),
        (CALLS[1:], "does not begin with a look"),
        ([CALLS[0]], "0 steps between pages"),
        ([CALLS[0], {**CALLS[1], "page": "no tree"}], "was not recorded as a tree"),
        ([CALLS[0], {**CALLS[1], "more": 1}], "more"),
    ],
)
def test_a_record_that_cannot_be_replayed_is_refused(calls: list[Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        world(calls=calls)


def test_forms_are_read_and_set_in_the_text_of_a_tree() -> None:
    view = read_view(HALL)
    button = view.element("9")
    assert button is not None
    values = dict(form_values(view, view.form_parts(button)))
    assert values == {"Lamp": "Off", "Colour": "Choose", "Note": "", "Remember": "off"}
    after = read_view(toggle(set_value(toggle(HALL, "5"), "7", 'say "hi" [8] checkbox'), "8"))
    button = after.element("9")
    assert button is not None
    values = dict(form_values(after, after.form_parts(button)))
    assert values == {"Lamp": "On", "Colour": "Choose", "Note": 'say "hi" [8] checkbox', "Remember": "on"}


def test_what_a_page_says_is_no_element() -> None:
    view = read_view('main\n  heading "Hi" level 1\n  "see [7] link now"\n  row [5] link "A" | "[7] textbox" | "x"')
    assert view.element("7") is None
    assert view.element("5") is not None


def test_an_entered_step_is_that_of_its_button() -> None:
    entered = [*CALLS[:5], {**CALLS[5], "name": "press", "arguments": {"bid": "7", "key_comb": "Enter"}}, CALLS[6]]
    steps = [read_pages([RecordedCall(**one) for one in calls]).steps[1] for calls in (CALLS, entered)]
    assert steps[0].key == steps[1].key
    assert [one.name for one in steps[0].calls] == ["click", "select_option", "fill", "click"]
