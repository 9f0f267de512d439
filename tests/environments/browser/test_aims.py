"""Aims of acts in a real Chromium: the oracle is always right, other clicks are not, and boxes hold points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.cli.pointing_table import pointing_rows, read_pointing, sum_pointing
from assay.environments.browser.site_world import SiteWorld
from assay.environments.services.machines.machine import Start
from assay.environments.services.machines.search import explore, steps_from
from assay.environments.services.shortest_paths import only_machine
from assay.learning.turn_facts import TurnFacts
from assay.records import Task
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.sites.family import SiteTasks
from assay.verify.interface import WorldInput
from assay.verify.pointing_check import PointingCheck

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("browsers"), pytest.mark.timeout(600)]


def open_site(task: Task) -> SiteWorld:
    parameters = task.environment.parameters
    return SiteWorld({**parameters, "site": {**parameters["site"], "pictures": False}}, task.environment.seed)


def aims_of(world: SiteWorld) -> list[bool | None]:
    return [aim["right"] for aim in world.facts()["browser"]["aims"]]


async def score_of(task: Task, world: SiteWorld) -> tuple[str, float | None]:
    check = task.checks[-1]
    verdict = (await PointingCheck().judge_world(WorldInput(task, check, world.facts(), None))).verdict
    return verdict.status, verdict.score


@pytest.mark.parametrize(
    "family",
    [SiteTasks(site="museum+gym", aims=True), ServiceTasks(app="shop", interface="pages", level="explicit", aims=True)],
    ids=["sites", "services"],
)
async def test_the_reference_plan_aims_at_targets_alone(family: Any) -> None:
    for task in family.tasks(2, seed=1):
        world = open_site(task)
        try:
            while (act := world.advice()) is not None:
                await world.call(act.name, act.parsed or {})
            assert False not in aims_of(world)
            assert aims_of(world).count(True) >= len(world.service.plan)
            assert await score_of(task, world) == ("pass", 1.0)
            assert world.episode()["progress"][-1] == 1
        finally:
            await world.close()


async def test_points_in_the_box_of_a_target_are_right_and_others_wrong() -> None:
    (task,) = SiteTasks(site="museum", aims=True).tasks(1, seed=1)
    world = open_site(task)
    try:
        await world.call("read_page", {})
        await world.call("mouse_click", {"x": 1279, "y": 799})
        assert world.last_screen is not None
        assert world.last_screen.aim is not None
        assert world.last_screen.aim.right is False
        first = world.last_screen.aim.targets[0]
        assert first.box is not None
        left, top, width, _ = first.box
        kept = world.snapshot()
        await world.call("mouse_click", {"x": left + width - 0.5, "y": top + 0.5})
        await world.call("press", {"bid": first.bid, "key_comb": "Tab"})
        await world.call("click", {"bid": 3})
        await world.call("clack", {"bid": "3"})
        assert aims_of(world) == [None, False, True, None, None, None]
        assert [one["valid"] for one in world.facts()["browser"]["aims"]] == [True, True, True, True, False, False]
        again = open_site(task)
        again.restore(kept)
        assert aims_of(again) == [None, False]
        await again.call("click", {"bid": first.bid})
        assert aims_of(again) == [None, False, True]
        await again.close()
    finally:
        await world.close()


async def test_after_a_detour_the_ways_from_there_are_meant() -> None:
    (task,) = SiteTasks(site="museum", aims=True).tasks(1, seed=1)
    world = open_site(task)
    only = only_machine(task.environment.parameters)
    assert only is not None
    reach = explore(*only)
    goal = reach.machine.begin(msgspec.convert(task.checks[1].parameters["goal"], Start))
    back = reach.ways_back(goal)
    on_the_way = [step for step, _ in reach.due_steps(reach.start, back)]
    leaving = [(step, after) for step, after in steps_from(reach.machine, reach.start) if step not in on_the_way]
    wrong, after = next((step, after) for step, after in leaving if after in back and after.state != reach.start.state)
    try:
        world.service.act(wrong.transition.name, dict(wrong.given))
        await world.call("read_page", {})
        await world.call("click", {"bid": "999"})
        await world.call("mouse_click", {"x": 1279, "y": 799})
        assert world.last_screen is not None
        assert world.last_screen.aim is not None
        tab = (await world.open()).context.current_tab()
        meant = [tab.numbering.elements[int(one.bid)].node.attributes for one in world.last_screen.aim.targets]
        due = {f"/museum/{step.transition.name}" for step, _ in reach.due_steps(after, back)}
        assert meant
        assert {one.get("form") or one.get("href") for one in meant} <= {*due, "/museum"}
    finally:
        await world.close()


async def test_runs_store_targets_beside_screens_and_are_summed_up(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    tasks = ("family:sites,site=gym,n=1,seed=1,aims=true,least=2,most=4",)
    for agent, options in (("oracle", {}), ("random-world", {"steps": 6})):
        await start_run(RunConfig(tasks=tasks, agent=agent, agent_options=options, run=agent), settings, Tally())
    with RunStore.open(settings.store, "oracle") as store:
        (row,) = store.attempts()
        attempt = store.trajectory(row.chain)
    screens = [item.data for item in attempt.evidence if item.kind == "screen"]
    pointed = [one for one in screens if one["aim"]["right"]]
    for one in pointed:
        boxes = [target["box"] for target in one["aim"]["targets"] if target["box"]]
        x, y = one["point"] or (boxes[0][0], boxes[0][1])
        assert any(left <= x <= left + wide and top <= y <= top + high for left, top, wide, high in boxes)
    facts = [TurnFacts(attempt).of_step(step.index) for step in attempt.steps]
    assert [fact["progress"] for fact in facts][-1] == 1
    assert sum(fact["reward"] for fact in facts) == len(pointed) > 0
    with RunStore.open(settings.store, "random-world") as store:
        (row,) = store.attempts()
        verdicts = {one.check: one for one in store.trajectory(row.chain).verdicts}
    assert row.outcome == "fail"
    assert 0 < (verdicts["pointing"].score or 0) < 1
    sums = sum_pointing(read_pointing(settings.store, ["oracle", "random-world"]))
    assert [(one["agent"], one["right"] == one["aimed"], one["path"] == 1) for one in sums] == [
        ("oracle", True, True),
        ("random-world", False, False),
    ]
    assert pointing_rows(sums)[0]["on target"] == f"{len(pointed)} of {len(pointed)}"
