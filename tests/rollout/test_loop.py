"""The loop around an attempt, in an in-process world: what is recorded, and whose failure it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.errors import UserError
from assay.records import Limits
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import AttemptRow, RunStore
from tests.rollout.counting import counting_task
from tests.store.chains import verify_chain

pytestmark = pytest.mark.quick
AGENTS = Path(__file__).with_name("agents.py")


async def run_agent(tmp_path: Path, agent: str, *, limits: Limits | None = None, **fields: Any) -> list[AttemptRow]:
    config = RunConfig(tasks=("-",), agent=f"{AGENTS}:{agent}", run="r", **fields)
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    await start_run(config, settings, Tally(), tasks=[counting_task(limits=limits)])
    with RunStore.open(settings.store, "r") as store:
        for row in store.attempts():
            assert verify_chain(store.events(row.chain), head=row.head) is None
        return store.attempts()


async def test_solved_attempt_passes(tmp_path: Path) -> None:
    (row,) = await run_agent(tmp_path, "Solver")
    assert (row.outcome, row.score, row.ended, row.steps) == ("pass", 1.0, "reached ten", 2)
    assert row.isolation == "not needed"


async def test_steps_hold_tool_calls_observations_and_state(tmp_path: Path) -> None:
    (row,) = await run_agent(tmp_path, "Solver")
    with RunStore.open(tmp_path / "store", "r") as store:
        first, second = store.trajectory(row.chain).steps
    assert [o.content for o in (*first.observations, *second.observations)] == ["5", "10"]
    assert first.state != second.state
    assert first.tool_calls[0].arguments == '{"by": 5}'


async def test_turn_limit_stops_and_still_judges(tmp_path: Path) -> None:
    (row,) = await run_agent(tmp_path, "Endless", limits=Limits(turns=3))
    assert (row.stopped, row.ended, row.broke, row.outcome, row.steps) == ("turns", None, None, "fail", 3)


async def test_wall_limit_stops_and_still_judges(tmp_path: Path) -> None:
    (row,) = await run_agent(tmp_path, "Sleeper", limits=Limits(wall_s=0.2))
    assert (row.stopped, row.broke, row.outcome) == ("wall_s", None, "fail")


async def test_stricter_limit_of_run_and_task_holds(tmp_path: Path) -> None:
    config = RunConfig(tasks=("-",), agent=f"{AGENTS}:Endless", run="r", limits=Limits(turns=2))
    settings = Settings(cache=tmp_path, store=tmp_path)
    await start_run(config, settings, Tally(), tasks=[counting_task(limits=Limits(turns=9))])
    with RunStore.open(tmp_path, "r") as store:
        assert store.attempts()[0].steps == 2


async def test_agent_crash_is_its_own_and_the_state_is_judged(tmp_path: Path) -> None:
    (row,) = await run_agent(tmp_path, "Crasher")
    assert (row.broke, row.outcome, row.retried) == ("agent", "pass", False)
    assert "the agent's own bug" in (row.error or "")


async def test_infrastructure_failure_is_tried_again_and_every_try_kept(tmp_path: Path) -> None:
    rows = await run_agent(tmp_path, "Unlucky")
    assert [(r.retry, r.broke, r.outcome, r.final) for r in rows] == [
        (0, "environment", None, False),
        (1, "environment", None, False),
        (2, None, "pass", True),
    ]


async def test_retries_are_bounded(tmp_path: Path) -> None:
    rows = await run_agent(tmp_path, "Unlucky", retries=1)
    assert [(r.broke, r.outcome, r.final) for r in rows] == [("environment", None, False), ("environment", None, True)]


async def test_hopeless_provider_failure_is_not_tried_again(tmp_path: Path) -> None:
    (row,) = await run_agent(tmp_path, "Refused")
    assert (row.broke, row.outcome, row.final) == ("provider", None, True)


@pytest.mark.parametrize("says", ["ProviderError", "EnvironmentFailure", "TaskError", "UserFailure", "StoreError"])
async def test_agent_that_makes_up_a_failure_of_infrastructure_is_judged(tmp_path: Path, says: str) -> None:
    (row,) = await run_agent(tmp_path, "Pretender", agent_options={"says": says})
    assert (row.broke, row.outcome, row.retried, row.final) == ("agent", "fail", False, True)


async def test_agent_that_needs_a_model_is_refused_without_one(tmp_path: Path) -> None:
    config = RunConfig(tasks=("-",), agent="loop")
    with pytest.raises(UserError, match="--model"):
        await start_run(config, Settings(cache=tmp_path, store=tmp_path), Tally(), tasks=[counting_task()])
    assert not (tmp_path / "runs").exists()


async def test_unknown_agent_option_is_refused(tmp_path: Path) -> None:
    config = RunConfig(tasks=("-",), agent="null", agent_options={"depth": 3})
    with pytest.raises(UserError, match="depth"):
        await start_run(config, Settings(cache=tmp_path, store=tmp_path), Tally(), tasks=[counting_task()])


async def test_a_model_that_cannot_be_opened_leaves_no_run(tmp_path: Path) -> None:
    config = RunConfig(tasks=("-",), agent="loop", model="scripted:absent.json")
    with pytest.raises(UserError, match=r"absent\.json"):
        await start_run(config, Settings(cache=tmp_path, store=tmp_path), Tally(), tasks=[counting_task()])
    assert not (tmp_path / "runs").exists()
