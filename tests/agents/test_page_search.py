"""The search on forks: it reads pages as text, tries nothing in the attempt, and does what is final at the end."""

from __future__ import annotations

from typing import Any

import pytest

from assay.agents._page_reading import Act, acts_on, confirming_click, distance, read_goal
from assay.agents.page_search import PageSearchAgent
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.environments.browser.page_text import read_view
from assay.environments.browser.pool import close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.errors import TaskError
from tests.environments.services.test_machines import DOOR
from tests.optional import require_browser

GOAL = "Use the site “door” until its current screen is “Inside” and these values hold:\n- lamp: on\n\nBegin now."
TREE = """[1] link "Skip"
main
  heading "Hall" level 1
  term "Lamp"
  definition "off"
  term "Pin"
  definition "PIN-123456"
  form "Set lamp"
    group "Lamp"
      [2] radio "Off" checked
      [3] radio "On"
    [4] button "Set lamp"
  form "Enter"
    [5] textbox "Code" value="" required
    [6] button "Enter"
  listitem [7] link "Elsewhere\""""


def test_goals_and_pages_are_read_from_text() -> None:
    goal, view = read_goal(GOAL), read_view(TREE)
    assert (goal.title, goal.wishes) == ("Inside", {"lamp": "on"})
    assert (view.heading, view.values["lamp"], view.codes) == ("Hall", "off", {"PIN-123456"})
    acts = list(acts_on(view, ["PIN-123456"]))
    assert [act.about for act in acts] == ["Set lamp: Off", "Set lamp: On", "Enter: PIN-123456"]
    assert acts[1].calls == (("click", {"bid": "3"}), ("click", {"bid": "4"}))
    assert acts[2].calls[0] == ("fill", {"bid": "5", "value": "PIN-123456"})


def test_links_are_acts_where_a_page_has_no_form() -> None:
    tree = '[1] link "Skip"\nmain\n  heading "Start" level 1\n    [5] link "Door"\n    [6] link "Door"'
    assert list(acts_on(read_view(tree), [])) == [Act("Door", (("click", {"bid": "5"}),))]


def test_a_page_that_asks_once_more_is_answered() -> None:
    asking = read_view('heading "Enter: please confirm" level 1\nform "Enter"\n  [9] button "Confirm"')
    assert confirming_click(asking) == ("click", {"bid": "9"})
    assert confirming_click(read_view('dialog\n  [8] button "Yes"\n  [9] button "Back"')) == ("click", {"bid": "8"})
    assert confirming_click(read_view(TREE)) is None


def test_what_is_missing_and_what_was_spoilt_is_far() -> None:
    goal = read_goal(GOAL)
    assert distance(goal, {"coins": "0"}, {"coins": "0", "lamp": "on"}, "Inside") == 0
    assert distance(goal, {"coins": "0"}, {"coins": "0"}, "Inside") == 2
    assert distance(goal, {"coins": "0"}, {"coins": "1", "lamp": "on"}, "Hall") == 3


@pytest.mark.parametrize(("about", "is_final"), [("Send: X-1", True), ("Add: send it", False), ("Pay now", True)])
def test_words_mark_what_cannot_be_taken_back(about: str, is_final: bool) -> None:
    assert Act(about, ()).is_irreversible is is_final


async def test_other_environments_are_refused() -> None:
    with pytest.raises(TaskError, match="searches sites in a browser alone"):
        await PageSearchAgent().run(FakeAttempt(tools=FakeTools({})))


def door(end: str) -> SiteWorld:
    """Returns a site whose last step has a name and asks for the code, without coins."""
    last = {"name": end, "at": ["hall"], "to": "inside", "about": "Goes in.", "code": "pin"}
    last["needs"] = [{"variable": "lamp", "equals": "on"}]
    steps = [one for one in DOOR["transitions"] if one["name"] not in ("enter", "take_coin")]
    inside = {"name": "inside", "title": "Inside", "text": "You are inside.", "shows": ["lamp"]}
    machine: dict[str, Any] = {**DOOR, "transitions": [*steps, last], "screens": [*DOOR["screens"][:2], inside]}
    return SiteWorld({"machines": [machine]}, 5)


@pytest.mark.long
@pytest.mark.parametrize("wanted", ["on", "dim"])
async def test_what_is_final_is_done_last_and_only_for_the_goal(wanted: str) -> None:
    require_browser()
    world = door("send_key")
    attempt = FakeAttempt(task=fake_task(GOAL.replace("lamp: on", f"lamp: {wanted}")), tools=world)
    try:
        await PageSearchAgent(forks=40).run(attempt)
        calls = [call.action for call in world.service.calls if call.action != "look_at_door"]
        difference = world.facts()["difference"]
    finally:
        await world.close()
        await close_browsers()
    (search,) = [one.data for one in attempt.evidence if one.kind == "search"]
    assert search["acts"] <= 40
    assert search["merged"] > 0
    if wanted == "on":
        assert calls[-1] == "send_key"
        assert calls.count("send_key") == 1
        assert difference == ["progress 1: screen hall -> inside, lamp off -> on"]
    else:  # inside the lamp is on, so no plan ends there with another value
        assert (calls, search["found"], search["refused"] > 0) == ([], False, True)
