"""Teams in a world of split knowledge: what each actor is told, and that a channel is what helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.agents.clue_solver import read_clues
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import replay
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import find_tasks

TASKS = "family:split-constraints,n=12,variables=5,values=4,seed=3"
LOOKER = f"{Path(__file__).with_name('teaming.py')}:Looker"


def team(*, channel: bool, **fields: Any) -> dict[str, Any]:
    roles = [{"name": name, "agent": "clue-solver"} for name in ("one", "two")]
    return {"roles": roles, "channels": [{"name": "table"}] if channel else [], **fields}


async def run(tmp_path: Path, options: dict[str, Any], tasks: str = TASKS, **fields: Any) -> list[Trajectory]:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    config = RunConfig(tasks=(tasks,), run="r", agent="team", agent_options=options, **fields)
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        return [store.trajectory(row.chain) for row in store.attempts()]


def passed(made: list[Trajectory]) -> int:
    return sum(one.outcome == "pass" for one in made)


async def test_a_channel_helps_and_the_record_replays(tmp_path: Path) -> None:
    with_channel = await run(tmp_path / "with", team(channel=True))
    without = await run(tmp_path / "without", team(channel=False))
    assert passed(with_channel) - passed(without) >= 4
    settings = Settings(tmp_path / "with" / "cache", tmp_path / "with" / "store")
    report = await replay("r", ReplayConfig(all=True, no_experiments=True), settings, Tally())
    assert report.counts == {"agree": 12, "differ": 0, "cannot": 0}


@pytest.mark.parametrize("wrap", ["", ",wrap=paraphrase"])
async def test_each_actor_is_told_its_own_part_and_none_gets_the_whole_by_default(tmp_path: Path, wrap: str) -> None:
    roles = [{"name": name, "agent": LOOKER} for name in ("a", "b", "c")]
    tasks = TASKS.replace("n=12", "n=1") + wrap
    (made,) = await run(tmp_path, {"roles": roles}, tasks)
    told = [read_clues(item.data["instruction"]) for item in made.evidence if item.kind == "looked"]
    if not wrap:
        assert sorted(told[0] + told[1]) == sorted(read_clues(str(find_tasks([tasks])[0].task.instruction)))
    assert not set(told[0]) & set(told[1])
    assert told[2] == []
    (recorded,) = [item.data for item in made.evidence if item.kind == "team"]
    assert recorded["views"] == {"a": 1, "b": 2, "c": 0}


async def test_a_view_that_the_world_does_not_have_is_the_tasks_failure(tmp_path: Path) -> None:
    (made,) = await run(
        tmp_path,
        {"roles": [{"name": "a", "agent": "null", "view": 3}]},
        "family:split-constraints,n=1",
    )
    assert made.finished is not None
    assert made.finished.broke == "task"
    assert "view=3" in str(made.finished.error)


async def test_a_contract_denies_one_actor_while_the_other_may(tmp_path: Path) -> None:
    path = tmp_path / "contract.toml"
    path.write_text('contract = "order"\n[[agents]]\nname = "one"\nmay_call = ["team_*"]\n')
    made, *_ = await run(tmp_path, team(channel=True), TASKS.replace("n=12", "n=1"), contracts=(str(path),))
    denied = {item.data["tool"] for item in made.evidence if item.kind == "guard" and item.data["decision"] == "denied"}
    assert denied == {"assign"}
    assigned = [
        step.actor_name
        for step in made.steps
        if any(call.name == "assign" for call in step.tool_calls) and not step.observations[0].error
    ]
    assert set(assigned) == {"two"}
