"""Tasks in worlds: the same again, with distinct ids, solvable by who knows the world, and admitted or refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from assay.admission.battery import admit
from assay.admission.config import AdmitConfig
from assay.admission.worlds import collect_hooks
from assay.environments.worlds.families import GridTasks
from assay.environments.worlds.opening import open_world, text_world, world_kind
from assay.environments.worlds.played import solution
from assay.errors import TaskError, UserError
from assay.records import EnvironmentSpec
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig, ReverifyConfig
from assay.rollout.rejudge.replay import replay
from assay.rollout.rejudge.reverify import reverify
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask, find_tasks
from assay.verify import judge_facts

FAMILIES = ("grid", "maze", "key-value", "tables", "subset-sum", "graph-path", "constraints", "sokoban", "adventure")


@pytest.mark.quick
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_gives_the_same_tasks_again_and_more_where_more_are_asked_for(family: str) -> None:
    few, many = (find_tasks([f"family:{family},n={n},seed=4"]) for n in (3, 8))
    assert [one.task for one in few] == [one.task for one in many[:3]]
    assert len({one.task.digest for one in many}) == 8
    assert all(open_world(one.task.environment).facts()["solved"] is False for one in many)


@pytest.mark.quick
@pytest.mark.parametrize("options", ["check=naive", "part=half", "size=9", "wrap=fog", "twins=true"])
def test_options_that_a_family_has_not_are_refused(options: str) -> None:
    with pytest.raises((UserError, TaskError), match=options.split("=", maxsplit=1)[0].rstrip("s")):
        find_tasks([f"family:tables,n=2,{options}"])


async def ran(where: Path, task: str, agent: str, **options: Any) -> list[Any]:
    settings = Settings(where / "cache", where / "store")
    done = await start_run(RunConfig(tasks=(task,), agent=agent, agent_options=options), settings, Tally())
    with RunStore.open(settings.store, done.run) as store:
        return [(row, store.trajectory(row.chain)) for row in store.attempts()]


@pytest.mark.parametrize("family", FAMILIES)
async def test_who_knows_the_world_solves_it_and_the_record_says_how(family: str, tmp_path: Path) -> None:
    for row, trajectory in await ran(tmp_path, f"family:{family},n=2,seed=5", "expert"):
        (episode,) = (e.data for e in trajectory.evidence if e.kind == "episode")
        assert (row.outcome, row.ended, episode["terminated"]) == ("pass", "the world came to its end", True)
        assert (episode["steps"], episode["reward"]) == (list(range(len(trajectory.steps))), 1.0)
        assert len({step.state for step in trajectory.steps}) == len(trajectory.steps)


async def test_a_world_that_is_cut_is_a_stop_and_not_an_end(tmp_path: Path) -> None:
    task = "family:grid,n=1,seed=5,solvable=false"
    ((row, trajectory),) = await ran(tmp_path, task, "random-world")
    assert (row.outcome, row.ended, row.stopped, len(trajectory.steps)) == ("fail", None, "turns", 8)


async def test_noise_of_an_expert_is_in_the_record(tmp_path: Path) -> None:
    ((_, trajectory),) = await ran(tmp_path, "family:maze,n=1,seed=5", "expert", noise=0.5)
    (noise,) = (e.data for e in trajectory.evidence if e.kind == "expert_noise")
    assert noise["noise"] == 0.5
    assert 0 < len(noise["random_steps"]) < len(trajectory.steps)


async def test_runs_in_worlds_are_judged_again_and_replayed_from_their_acts(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    task = "family:grid,n=4,seed=5,walls=3,wrap=failures:rate=0.4+noise"
    done = await start_run(RunConfig(tasks=(task,), agent="expert", agent_options={"noise": 0.4}), settings, Tally())
    report = await reverify(done.run, ReverifyConfig(again=1), settings)
    assert [one.mark for one in report.results] == 4 * ["agree"], report
    again = await replay(done.run, ReplayConfig(all=True), settings, Tally())
    assert again.counts == {"agree": 4, "differ": 0, "cannot": 0}


@pytest.mark.parametrize(("option", "admitted"), [("check=naive", False), ("check=true", True)])
async def test_a_shortcut_that_is_paid_is_found_and_refused(option: str, admitted: bool, tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    config = AdmitConfig(tasks=(f"family:grid,n=2,seed=3,shortcut=true,{option}",))
    reports = (await admit(config, settings, Tally())).reports
    assert [report.admitted["default"] for report in reports] == 2 * [admitted]
    kinds = {finding.kind for report in reports for finding in report.findings}
    assert ("cheat-passed" in kinds) is not admitted


@pytest.mark.quick
async def test_the_naive_check_believes_a_claim_and_the_true_one_does_not() -> None:
    for option, status in (("naive", "pass"), ("true", "fail")):
        (loaded,) = find_tasks([f"family:grid,n=1,seed=3,shortcut=true,check={option}"])
        world = open_world(loaded.task.environment)
        await world.call("claim", {})
        assert judge_facts(loaded.task, world.facts())[0].verdict.status == status


async def test_another_worlds_solution_that_solves_this_one_is_no_cheat() -> None:
    found = set()
    for seed in range(60):
        one, other = (text_world(world_kind("grid"), {"size": 3}, number) for number in (seed, seed + 1))
        for act in solution(other):
            one.act(*act)
        (loaded,) = find_tasks(["family:grid,n=1,size=3"])
        spec = EnvironmentSpec("grid", {"size": 3}, seed)
        hooks = await collect_hooks(LoadedTask(structs.replace(loaded.task, environment=spec), None), 1)
        assert (hooks.elsewhere is None) == one.facts()["solved"]
        found.add(hooks.elsewhere is None)
    assert found == {True, False}


def test_the_levels_of_a_curriculum_have_ids_of_their_own() -> None:
    levels = ["family:grid,n=2", "family:grid,n=2,size=3", "family:grid,n=2,size=8", "family:grid,n=2,size=8,part=test"]
    found = [task.task.id for task in find_tasks([*levels, "family:grid,n=2,wrap=failures:rate=0.1"])]
    assert found[:4] == ["grid-0-0", "grid-0-1", "grid-size3-0-0", "grid-size3-0-1"]
    assert found[6:8] == ["grid-test-size8-0-0", "grid-test-size8-0-1"]
    assert len(set(found)) == len(found) == 10
    assert all(len(one) < 40 for one in found)


def test_an_id_is_short_however_many_options_were_given() -> None:
    options = {f"option_{n}": f"value_{n}" for n in range(20)}
    first, second = (GridTasks(**options, last=last)._id_prefix for last in (1, 2))
    assert first != second
    assert all(re.fullmatch(r"grid-\.[0-9a-f]{8}", one) for one in (first, second))
