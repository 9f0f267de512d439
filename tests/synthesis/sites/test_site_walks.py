"""Walks over sites from state machines: the same tree and gates as for applications, with and without a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from assay.environments.services.machines.search import Step
from assay.environments.services.outcome import as_json
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Task
from assay.synthesis.sites.browser_client import make_in_browser
from assay.synthesis.sites.domains import DOMAINS
from assay.synthesis.sites.page_client import PageClient
from assay.synthesis.sites.reward_writer import Unreadable
from assay.synthesis.sites.searched_site import SearchedSite
from assay.synthesis.sites.site_walks import GoalReader, SiteWalks, WalkedSite, shorten
from assay.synthesis.sites.walk_family import WalkReport, WalkTasks
from assay.verify.interface import WorldInput
from assay.verify.state_check import StateCheck
from tests.optional import require_browser


def world_of(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def judge(task: Task, plan: Sequence[PlannedCall]) -> str:
    given = WorldInput(task, task.checks[0], play(world_of(task), plan).facts(), None)
    return asyncio.run(StateCheck().judge_world(given)).verdict.status


@pytest.fixture(scope="module")
def made() -> tuple[tuple[Task, ...], WalkReport]:
    return WalkTasks(site="bakery+garage", walks=100).make(8, seed=1)


@pytest.fixture
def bakery() -> SearchedSite:
    return SearchedSite.drawn(DOMAINS[0], 1)


def test_walks_share_what_they_play(made: tuple[tuple[Task, ...], WalkReport]) -> None:
    tasks, report = made
    assert len(tasks) == report.tasks == 8
    assert report.walked > 3 * report.played
    assert report.played + report.worlds == report.nodes + report.merged + sum(report.pruned.values())
    assert report.pruned["what it did was taken back"] > 0
    assert {task.tags[2] for task in tasks} == {"bakery", "garage"}
    assert WalkTasks(site="bakery+garage", walks=100).tasks(8, seed=1) == tasks


def test_the_walk_passes_and_nothing_else_does(made: tuple[tuple[Task, ...], WalkReport]) -> None:
    for task in made[0]:
        world = world_of(task)
        assert judge(task, world.plan) == "pass"
        parts = [world.plan[:at] for at in range(len(world.plan))]
        others = [[PlannedCall(c.name, c.parsed or {}) for c in calls] for calls in world.perturb(5).values()]
        assert {judge(task, plan) for plan in [*parts, *others]} == {"fail"}


def test_sites_take_turns() -> None:
    tasks = WalkTasks(site="hotel+museum+gym", walks=60).tasks(11, seed=1)
    assert {task.tags[2] for task in tasks} == {"hotel", "museum", "gym"}
    assert {judge(task, world_of(task).plan) for task in tasks} == {"pass"}


def test_the_reward_is_written_from_the_text_alone(made: tuple[tuple[Task, ...], WalkReport]) -> None:
    task = made[0][0]
    machine = SearchedSite.drawn(
        next(one for one in DOMAINS if one.name == task.tags[2]), task.environment.seed
    ).machine
    reader = GoalReader(machine, ServiceWorld({"machines": [machine]}, task.environment.seed))
    text = str(task.instruction).partition("\n\n")[0]
    wanted = task.checks[0].parameters["outcomes"][0]["changes"]
    assert as_json(reader.write(text)) == wanted
    wish = next(line for line in text.splitlines() if line.startswith("- "))
    twice, unknown, other = (text.replace(wish, new) for new in (f"{wish}\n{wish}", "- luck: much", f"{wish} or so"))
    for bad in ("", twice, unknown, other, text.replace("“Order placed”", "“Nowhere”"), text.replace("“b", "“B")):
        with pytest.raises(Unreadable):
            reader.write(bad)


def test_a_walk_that_only_looks_around_or_takes_back_means_nothing(bakery: SearchedSite) -> None:
    explored = WalkedSite(bakery, "pages")
    world = explored.world.fork()
    for _ in range(len(bakery.machine.screens) + 1):
        step = next(one for one in bakery.machine.leaving[_screen(world)] if one.name.startswith(("open_", "back_")))
        assert not world.act(step.name, {}).error
    assert explored.read_effect(world) == "it only looks around"
    counted = next(one for one in bakery.machine.transitions if one.name == "add_candles")
    way = bakery.reach.way_to(next(s for s in bakery.reach.states if s.screen == counted.at[0]))
    assert way is not None
    there = play(explored.world, [PlannedCall(step.transition.name, {}) for step in way])
    there.act("add_candles", {})
    assert explored.read_effect(there) == ""
    there.act("remove_candles", {})
    assert explored.read_effect(there) == "what it did was taken back"
    assert len(explored.effects) == 1


def _screen(world: ServiceWorld) -> str:
    return str(world.database.connection.execute("SELECT screen FROM bakery_progress").fetchone()[0])


def test_parts_that_the_end_does_not_need_are_left_out(bakery: SearchedSite) -> None:
    reach = bakery.reach
    goal = max(reach.states, key=lambda state: reach.states[state])
    way = list(reach.way_to(goal) or ())
    back = reach.ways_back(reach.start.state)
    loop = [next(Step(one, ()) for one in bakery.machine.leaving["home"] if one.name.startswith("open_"))]
    node = reach.follow(reach.start, loop[0])
    while node is not None and node.state != reach.start.state:
        step = back[node][1]
        assert step is not None
        loop.append(step)
        node = reach.follow(node, step)
    assert len(shorten(reach, [*loop, *way])) == len(way)


async def test_a_form_takes_no_code_that_no_page_showed(bakery: SearchedSite) -> None:
    explored = SiteWalks("bakery", "pages").open(1, 0)
    reader = PageClient(explored.world.fork(), explored.world.seed)
    await explored.walk(reader, 1, 60)
    refused = [call for call in reader.world.calls if call.code == "invalid"]
    assert refused == []
    assert explored.figures is not None
    assert explored.figures.saved > 0.3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"site": "nowhere"}, "site=nowhere"),
        ({"site": "bakery", "app": "bank"}, "give one of them"),
        ({}, "give one of them"),
        ({"site": "bakery", "interface": "mail"}, "interface=mail"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        WalkTasks(**options)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", [{"site": "bakery"}, {"app": "bank"}])
async def test_walks_in_a_browser_are_those_of_this_process(place: dict[str, str]) -> None:
    require_browser()
    family = WalkTasks(walks=2, **place)
    tasks, report = await asyncio.to_thread(family.make, 1, 1)
    assert await make_in_browser(family, 1, 1) == (tasks, report)
    assert report.played > 10
