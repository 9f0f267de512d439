"""MiniWoB++ in a real Chromium: what its pages ask for, its own rewards, and partial credit that is no success.

The pages are those of the package, and the utterances those that were recorded with it elsewhere; where either is not
here, the tests of it are skipped.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.environments.browser.miniwob.family import MiniWobTasks
from assay.environments.browser.miniwob.solvers import SCRIPTS
from assay.environments.browser.miniwob.world import HOME, MiniWobWorld, find_pages, list_pages
from assay.errors import UserError
from assay.http.messages import RequestHead
from assay.verify.facts import judge_facts
from tests.environments.services.benchmark_data import read_json, shared_folder
from tests.sampling import draw_sample

from .test_acts import number

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("browsers"), pytest.mark.timeout(600)]
SEEDS = (0, 1, 2)
AT_ONCE = 4


@pytest.fixture(scope="session", autouse=True)
def pages_of_miniwob() -> Path:
    try:
        return find_pages()
    except UserError as exc:
        pytest.skip(str(exc))


async def do(page: str, seed: int) -> dict[str, Any]:
    """Follows the script of a page; returns the facts."""
    world = MiniWobWorld({"page": page, "pictures": False}, seed)
    try:
        while (call := world.advice()) is not None:
            observation = await world.call(call.name, call.parsed or {})
            assert not observation.error, observation.content
        return world.facts()
    finally:
        await world.close()


async def utterance(page: str, seed: int, turn: asyncio.Semaphore) -> str:
    async with turn:
        world = MiniWobWorld({"page": page, "pictures": False}, seed)
        try:
            await world.open()
            return world.utterance
        finally:
            await world.close()


def test_there_are_130_pages_and_30_scripts() -> None:
    assert len(list_pages()) == 130
    assert len(SCRIPTS) == 30
    assert SCRIPTS.keys() <= set(list_pages())


async def test_pages_ask_for_what_they_asked_for_elsewhere() -> None:
    recorded = read_json(shared_folder("environments", "miniwob", "utterances_seeds_0_1_2.json"))
    chosen = draw_sample([(page, seed) for page in recorded for seed in SEEDS], 12)
    turn = asyncio.Semaphore(AT_ONCE)
    found = await asyncio.gather(*(utterance(page, seed, turn) for page, seed in chosen))
    differing = {
        (page, seed): (said, recorded[page][str(seed)])
        for (page, seed), said in zip(chosen, found, strict=True)
        if said != recorded[page][str(seed)]
    }
    assert differing == {}


@pytest.mark.parametrize("page", draw_sample(sorted(SCRIPTS), 4))
async def test_scripts_get_the_pages_own_reward(page: str) -> None:
    for facts in await asyncio.gather(*(do(page, seed) for seed in SEEDS)):
        assert (facts["raw_reward"], facts["done"], facts["success"]) == (1.0, True, True)


async def test_a_part_of_the_reward_is_no_success() -> None:
    world = MiniWobWorld({"page": "click-checkboxes", "pictures": False}, 0)
    try:
        tree = (await world.call("read_page", {})).content
        ended = await world.call("click", {"bid": number(tree, 'button "Submit"')})
        assert "The episode has ended" in ended.content
        facts = world.facts()
        assert facts["done"]
        assert -1 <= facts["raw_reward"] < 1
        assert not facts["success"]
        (task,) = MiniWobTasks(page="click-checkboxes").tasks(1, 0)
        assert judge_facts(task, facts)[0].verdict.status == "fail"
        assert (await world.call("click", {"bid": "1"})).error
        assert world.episode()["rewards"] == [facts["raw_reward"]]
    finally:
        await world.close()


async def test_pages_reach_nothing_but_the_package() -> None:
    world = MiniWobWorld({"page": "click-test"}, 0)
    for target in ("/../../etc/passwd", "/%2e%2e/%2e%2e/environment.py", "/core/../../environment.py", "/core"):
        response = await world._serve(HOME.rstrip("/"), RequestHead("GET", target, {}), b"")
        assert response is not None
        assert response.status == 404
    assert await world._serve("http://other.test", RequestHead("GET", "/core/core.js", {}), b"") is None


def test_wrong_options_are_refused() -> None:
    for parameters in ({"page": "no-such-page"}, {"page": "../core"}, {"page": "click-test", "x": 1}, {}):
        with pytest.raises(ValueError, match="MiniWoB"):
            MiniWobWorld(parameters, 0)
    with pytest.raises(UserError, match="of the family 'miniwob'"):
        MiniWobTasks(page="nothing").tasks(1, 0)


def without_reward(world: MiniWobWorld) -> bool:
    facts = world.facts()
    return (facts["raw_reward"], facts["success"]) == (0.0, False)


@pytest.mark.parametrize("address", ["miniwob/click-test.html", "core/core.css"])
async def test_an_episode_that_is_left_has_ended_without_a_reward(address: str) -> None:
    world = MiniWobWorld({"page": "book-flight", "pictures": False}, 1)
    try:
        left = await world.call("goto", {"url": f"{HOME}{address}"})
        assert "The episode has ended with the reward 0." in left.content
        assert (await world.call("mouse_click", {"x": 80, "y": 100})).error  # which would begin an easier episode
        assert world.facts()["done"]
        assert without_reward(world)
    finally:
        await world.close()


async def test_an_episode_of_another_tab_does_not_count() -> None:
    world = MiniWobWorld({"page": "click-test", "pictures": False}, 1)
    try:
        await world.call("new_tab", {})
        shown = (await world.call("mouse_click", {"x": 80, "y": 100})).content
        assert "10 / 10sec" in shown  # the page of the tab began an episode of its own
        await world.call("click", {"bid": number(shown, 'button "Click Me!"')})
        assert without_reward(world)
        shown = (await world.call("tab_focus", {"index": 0})).content
        await world.call("click", {"bid": number(shown, 'button "Click Me!"')})
        assert world.facts()["success"]
    finally:
        await world.close()


async def test_a_wrong_answer_is_not_undone_by_the_second_click_of_two() -> None:
    world = MiniWobWorld({"page": "click-test-2", "pictures": False}, 1)
    try:
        tree = (await world.call("read_page", {})).content
        assert world.utterance == "Click button ONE."
        await world.call("dblclick", {"bid": number(tree, 'button "TWO"')})  # the second one begins another episode
        assert world.facts()["done"]
        assert without_reward(world)
    finally:
        await world.close()


async def test_acts_that_no_record_can_hold_are_errors_of_the_agent() -> None:
    world = MiniWobWorld({"page": "click-test", "pictures": False}, 1)
    try:
        for value in ("\ud800", "\0", "x" * 300_000):
            assert (await world.call("fill", {"bid": "1", "value": value})).error
        assert world.episode()["errors"] == [True] * 3
        assert await world.digest()
    finally:
        await world.close()
