"""A team's attempt in the viewer: every actor has a lane, and every step names its actor."""

from __future__ import annotations

from pathlib import Path

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from tests.viewer.chains_made import shown


async def test_each_actor_has_a_lane_and_each_step_names_its_actor(tmp_path: Path) -> None:
    roles = [{"name": name, "agent": "clue-solver"} for name in ("one", "two")]
    team = {"roles": roles, "channels": [{"name": "table"}]}
    config = RunConfig(tasks=("family:split-constraints,n=1",), agent="team", agent_options=team, run="r")
    await start_run(config, Settings(tmp_path / "cache", tmp_path), Tally())
    with RunStore.open(tmp_path, "r") as store:
        chain = store.attempts()[0].chain
        steps = store.trajectory(chain).steps
    lines = shown(tmp_path, "outline", chain=chain)["lines"]
    lanes = [(lane["name"], lane["steps"]) for lane in lines["lanes"]]
    counts = [sum(step.actor_name == name for step in steps) for name in ("one", "two")]
    assert lanes == [("main", 0), ("one", counts[0]), ("two", counts[1])]
    listed = shown(tmp_path, "lines", "0", chain=chain)["lines"]
    names = [one["who"] for one in listed if one["kind"] == "step"]
    assert names == [step.actor_name for step in steps[: len(names)]]
