"""The team of planner, executor and validator that the how-to shows, in a world of ours."""

from __future__ import annotations

from pathlib import Path

from assay.agents.teams.spec import read_team
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from tests.rollout.attempt import teaming

FILE = Path(__file__).parents[3] / "docs_src" / "planner_team.toml"


async def run_team(tmp_path: Path) -> list[Trajectory]:
    config = RunConfig(
        tasks=("family:key-value,n=3,writes=2,seed=4",), agent="team", agent_options={"file": str(FILE)},
        model=f"scripted:{teaming.__file__}:planned", run="r",
    )  # fmt: skip
    await start_run(config, Settings(tmp_path / "cache", tmp_path / "store"), Tally())
    with RunStore.open(tmp_path / "store", "r") as store:
        return [store.trajectory(row.chain) for row in store.attempts()]


async def test_the_validator_returns_what_is_left_and_the_planner_hands_it_back(tmp_path: Path) -> None:
    for made in await run_team(tmp_path):
        handed = [item.data for item in made.evidence if item.kind == "hand_off"]
        asked = [(one["receiver"], one["text"]) for one in handed if not one["returns"]]
        assert [to for to, _ in asked] == ["executor", "validator", "executor", "validator"]
        returned = [one["text"] for one in handed if one["returns"]]
        assert (returned[1], returned[3]) == ("LEFT: out2", "DONE")
        assert "LEFT: out2" in asked[2][1]
        assert made.outcome == "pass"


async def test_each_role_has_its_own_tools_alone(tmp_path: Path) -> None:
    for made in await run_team(tmp_path):
        used = {(step.actor_name, call.name) for step in made.steps for call in step.tool_calls}
        changes = {name for name, tool in used if tool == "set"}
        assert (changes, {name for name, tool in used if tool == "submit"}) == ({"executor"}, {"planner"})
    allowed = {role.name: role.tools for role in read_team({"file": str(FILE)}).roles}
    assert allowed == {"planner": ("submit",), "executor": ("get", "set"), "validator": ("get",)}
