"""The family `sites`: its tasks can be done by their shortest way and by nothing cheaper, and losses have a place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.cli.route_table import read_routes, sum_routes
from assay.environments.services.machines.machine import Start, read_machine
from assay.environments.services.machines.search import Reach
from assay.environments.services.plans import PlannedCall, foreign_plan, outcome_key, play
from assay.environments.services.world import ServiceWorld
from assay.errors import TaskError, UserError
from assay.records import Check, EnvironmentSpec, Task, Verdict
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.sites.domains import DOMAINS
from assay.synthesis.sites.drawing import draw_machine
from assay.synthesis.sites.family import SiteTasks
from assay.synthesis.sites.walk_family import WalkTasks
from assay.verify.interface import WorldInput
from assay.verify.route_check import RouteCheck, follow
from assay.verify.state_check import StateCheck
from tests.environments.services import test_machines


def world_of(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def judge(task: Task, plan: Sequence[PlannedCall]) -> tuple[Verdict, Verdict]:
    """Returns the verdicts on state and route of a plan."""
    facts = play(world_of(task), plan).facts()
    state, route = (WorldInput(task, check, facts, None) for check in task.checks)
    return asyncio.run(StateCheck().judge_world(state)).verdict, asyncio.run(RouteCheck().judge_world(route)).verdict


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    return SiteTasks(interface="tools").tasks(12, seed=4)


def test_the_shortest_way_passes_and_no_part_of_it_does(tasks: Sequence[Task]) -> None:
    assert len({task.id for task in tasks}) == len(tasks) == 12
    for task in tasks:
        plan = world_of(task).plan
        assert len(plan) == task.metadata["shortest"]
        assert [verdict.status for verdict in judge(task, plan)] == ["pass", "pass"]
        for part in (plan[:-1], ()):
            state, route = judge(task, part)
            assert (state.status, route.status, route.kind) == ("fail", "fail", "process")
            assert route.score is not None
            assert route.score < 1
            assert route.marks[0].startswith("lost_at_")


def test_the_same_seed_makes_the_same_tasks_and_another_one_others(tasks: Sequence[Task]) -> None:
    assert SiteTasks(interface="tools").tasks(12, seed=4) == tuple(tasks)
    other = SiteTasks(interface="tools").tasks(12, seed=5)
    assert not {task.digest for task in other} & {task.digest for task in tasks}


def test_the_calls_of_another_world_do_not_do_a_task(tasks: Sequence[Task]) -> None:
    for task in tasks:
        world = world_of(task)
        elsewhere = ServiceWorld(task.environment.parameters, task.environment.seed + 1)
        blind = play(world, foreign_plan(world, elsewhere, world.plan))
        assert outcome_key(blind) != outcome_key(play(world, world.plan))


def test_tasks_begin_in_any_state() -> None:
    found = SiteTasks(site="museum", interface="tools", start="any", least=3, most=9).tasks(4, seed=2)
    starts = {str(task.environment.parameters.get("knobs")) for task in found}
    assert len(found) == 4 == len(starts)
    for task in found:
        assert [verdict.status for verdict in judge(task, world_of(task).plan)] == ["pass", "pass"]


def test_no_way_to_a_goal_goes_without_a_code() -> None:
    found = SiteTasks(site="permits", interface="tools", start="any", least=1).tasks(10, seed=1)
    for task in found:
        machine = read_machine(task.environment.parameters["machines"][0])
        knobs = task.environment.parameters.get("knobs", {machine.name: {"start": {}}})
        reach = Reach(machine, msgspec.convert(knobs[machine.name]["start"], Start))
        goal = machine.begin(msgspec.convert(task.checks[1].parameters["goal"], Start))
        assert goal in reach.states
        assert goal not in reach.unread_states


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_every_drawn_site_can_be_walked_to_its_end(domain: Any) -> None:
    for seed in (0, 1):
        machine = draw_machine(domain, seed)
        reach = Reach(machine)
        assert {state.screen for state in reach.states} == set(machine.by_screen)
        taken = {step.transition.name for state in reach.states for step, _ in machine.known_steps[state]}
        assert taken == set(machine.by_transition)


def test_losses_are_broken_down_by_skill() -> None:
    (task,) = SiteTasks(site="bakery", interface="tools").tasks(1, seed=0)
    world, machine = world_of(task), read_machine(task.environment.parameters["machines"][0])
    goal = msgspec.convert(task.checks[1].parameters["goal"], Start)
    for length in range(len(world.plan) + 1):
        done = play(world, world.plan[:length])
        course = follow(machine, Start(), goal, done.facts()["calls"])
        left = len(world.plan) - length
        assert (course.left, course.nearest, sum(course.done.values())) == (left, left, length)
        due = "" if not left else machine.by_transition[world.plan[length].action].skill
        assert course.lost == due
    refused = play(world, [*world.plan[:1], PlannedCall("no_such_tool"), *world.plan[1:3]])
    assert follow(machine, Start(), goal, refused.facts()["calls"]).astray == {}


DOOR = read_machine(test_machines.DOOR)
PORTER = [{"action": name, "arguments": {}, "code": None} for name in ("visit_porter", "take_coin", "take_coin")]
ENTER = [
    {"action": "set_lamp", "arguments": {"lamp": "on"}, "code": None},
    {"action": "enter", "arguments": {}, "code": None},
]


def test_a_goal_that_was_left_is_lost_at_the_way_back_or_at_stopping() -> None:
    goal = Start("porter", {"coins": 1})
    for_good = follow(DOOR, Start(), goal, PORTER)
    assert (for_good.left, for_good.nearest, for_good.lost) == (None, 0, "stop")
    back = [*PORTER[:2], {"action": "back", "arguments": {}, "code": None}]
    left = follow(DOOR, Start(), goal, back)
    assert (left.left, left.nearest, left.lost) == (1, 0, "follow")
    away = follow(DOOR, Start(), goal, [*PORTER[:1], back[-1]])
    assert (away.left, away.astray, away.done) == (2, {"follow": 1}, {"follow": 1})


async def test_the_start_can_be_the_goal() -> None:
    environment = EnvironmentSpec("services", {"machines": [test_machines.DOOR]}, 0)
    check = Check("route", "route", {"goal": {}})
    task = Task("t", "i", environment, (check,), "blake3:0")
    for calls, status, score in (((), "pass", 1.0), (PORTER[:1], "fail", 1.0)):
        result = await RouteCheck().judge_world(WorldInput(task, check, {"calls": calls}, None))
        assert (result.verdict.status, result.verdict.score, result.verdict.kind) == (status, score, "process")


def test_a_goal_that_only_a_guess_leads_to_is_reached() -> None:
    hall, porter, inside = test_machines.DOOR["screens"]
    machine = read_machine(
        test_machines.changed(codes=["pin", "tag"], screens=[hall, {**porter, "shows": ["pin", "tag"]}, inside])
    )
    goal = Start("inside", {"lamp": "on", "coins": 1})
    guessed = follow(machine, Start("hall", {"coins": 1}), goal, ENTER)
    assert (guessed.left, guessed.nearest, guessed.lost) == (0, 0, "")


@pytest.mark.parametrize("lamp", [["on"], {"a": 1}, None, True, float("nan"), 3])
def test_steps_with_values_that_no_service_takes_lead_nowhere(lamp: Any) -> None:
    calls = [3, {"action": ["enter"]}, {"action": "set_lamp", "arguments": {"lamp": lamp}, "code": None}]
    assert follow(DOOR, Start(), Start("inside", {"lamp": "on", "coins": 1}), calls).steps == 0


def test_the_route_of_other_worlds_is_an_error(tasks: Sequence[Task]) -> None:
    task = tasks[0]
    other = msgspec.structs.replace(task.environment, parameters={"services": ["shop"]})
    given = WorldInput(msgspec.structs.replace(task, environment=other), task.checks[1], {"calls": []}, None)
    with pytest.raises(TaskError, match="one state machine"):
        asyncio.run(RouteCheck().judge_world(given))
    silent = WorldInput(task, task.checks[1], {}, None)
    assert asyncio.run(RouteCheck().judge_world(silent)).verdict.status == "unknown"


@pytest.mark.parametrize(
    "options",
    [
        {"site": "shop"},
        {"interface": "cli"},
        {"start": "last"},
        {"least": 0},
        {"least": 9, "most": 3},
        {"marks": "yes"},
        {"marks": True, "interface": "tools"},
        {"picture_type": "gif"},
        {"aims": "yes"},
        {"aims": True, "interface": "tools"},
        {"theme": -1},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="family 'sites'"):
        SiteTasks(**options)


@pytest.mark.parametrize(
    "family",
    [
        partial(SiteTasks, site="museum"),
        partial(ServiceTasks, app="shop", interface="pages"),
        partial(WalkTasks, site="bakery", walks=20),
    ],
    ids=["sites", "services", "walks"],
)
def test_pictures_are_options_of_each_family_with_pages_and_change_nothing_else(family: Any) -> None:
    (plain,), (marked,) = (family(**more).tasks(1, seed=0) for more in ({}, {"marks": True, "picture_type": "png"}))
    site = {"marks": True, "picture_type": "png"}
    assert marked.environment.parameters == {**plain.environment.parameters, "site": site}
    assert (marked.instruction, marked.checks) == (plain.instruction, plain.checks)
    assert marked.digest != plain.digest


def test_lengths_that_occur_nowhere_end_the_search() -> None:
    assert SiteTasks(site="gym", least=90, most=99).tasks(2, seed=0) == ()


@pytest.mark.long
def test_losses_of_a_run_are_summed_up_by_skill(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    for agent in ("oracle", "null"):
        config = RunConfig(tasks=("family:sites,site=gym,interface=tools,n=2,seed=1",), agent=agent, run=agent)
        asyncio.run(start_run(config, settings, Tally()))
    routes = read_routes(settings.store, ["oracle", "null"])
    rows = sum_routes(routes)
    by_agent = {agent: [row for row in rows if row["agent"] == agent] for agent in ("oracle", "null")}
    assert all(row["done"] == row["needed"] > 0 == row["lost"] for row in by_agent["oracle"])
    assert all(row["done"] == 0 for row in by_agent["null"])
    assert sum(row["lost"] for row in by_agent["null"]) == 2
    assert [row["skill"] for row in by_agent["null"] if row["lost"]] == ["follow"]
