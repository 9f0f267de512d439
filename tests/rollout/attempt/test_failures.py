"""Failures around an attempt: of making and releasing its place, of what tasks share, of a runner that dies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay.environments.interface import WorkspaceSpec
from assay.environments.workspace.layer_use import LayerPins
from assay.environments.workspace.process import ProcessBackend
from assay.errors import EnvironmentFailure, UserError
from assay.records import EnvironmentSpec, Limits
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.attempt.trial import Services, run_trial
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask
from tests.rollout.counting import CountingWorld, counting_task

pytestmark = pytest.mark.quick
AGENTS = Path(__file__).parents[1] / "agents.py"


class BrittleWorld(CountingWorld):
    """Cannot be made, or not be closed, as its parameters say."""

    def __init__(self, parameters: dict[str, Any], seed: int) -> None:
        super().__init__(parameters, seed)
        self.fate = parameters["fate"]
        if self.fate == "unmade":
            message = "no such world"
            raise ValueError(message)

    async def close(self) -> None:
        if self.fate == "unclosed":
            message = "it does not let go"
            raise EnvironmentFailure(message)


def brittle(fate: str) -> LoadedTask:
    from msgspec.structs import replace

    task = counting_task(fate).task
    return LoadedTask(replace(task, environment=EnvironmentSpec(f"{__file__}:BrittleWorld", {"fate": fate})), None)


async def run(tmp_path: Path, agent: str, *tasks: LoadedTask, **fields: Any) -> RunStore:
    config = RunConfig(tasks=("-",), agent=f"{AGENTS}:{agent}", run="r", concurrency=1, **fields)
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    await start_run(config, settings, Tally(), tasks=tasks)
    return RunStore.open(settings.store, "r")


async def test_a_world_that_cannot_be_made_is_its_tasks_failure_alone(tmp_path: Path) -> None:
    with await run(tmp_path, "Solver", brittle("unmade"), counting_task()) as store:
        rows = {row.task: row for row in store.attempts()}
    assert (rows["unmade"].broke, rows["unmade"].outcome, rows["count"].outcome) == ("task", None, "pass")
    assert "no such world" in (rows["unmade"].error or "")


async def test_a_world_of_an_unknown_kind_starts_nothing(tmp_path: Path) -> None:
    from msgspec.structs import replace

    task = replace(counting_task().task, environment=EnvironmentSpec("unheard-of"))
    with pytest.raises(UserError, match="unheard-of"):
        await run(tmp_path, "Solver", LoadedTask(task, None))
    assert not (tmp_path / "store" / "runs").exists()


async def test_a_place_that_cannot_be_released_is_noted_and_stops_nothing(tmp_path: Path) -> None:
    with await run(tmp_path, "Solver", brittle("unclosed"), counting_task()) as store:
        assert [row.outcome for row in store.attempts()] == ["pass", "pass"]
        notes = [e.body for e in store.events("unclosed@0.0") if type(e.body).__name__ == "Noted"]
    assert [(note.name, note.data["error"]) for note in notes] == [("not released", "it does not let go")]  # type: ignore[union-attr]


async def test_what_was_done_is_kept_while_the_agent_goes_on(tmp_path: Path) -> None:
    task = counting_task(limits=Limits(wall_s=1.0))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(run(tmp_path, "Sleeper", task))
        await asyncio.sleep(0.5)
        with RunStore.open(tmp_path / "store", "r") as store:
            assert [row.steps for row in store.attempts()] == [1]
    running.result().close()


class Slow:
    """A place that takes for ever to open."""

    isolation = None
    artifacts: ClassVar[dict[str, str]] = {}

    async def open(self, attempt: Any, recorder: Any) -> None:
        await asyncio.sleep(60)

    async def close(self) -> None:
        return None


async def test_a_try_that_is_cut_before_it_began_leaves_no_chain(tmp_path: Path) -> None:
    from assay.agents.null import NullAgent
    from assay.rollout.plan import plan

    (planned,) = plan([counting_task()], "null", 1, seed=0, limits=Limits())
    with RunStore.create(tmp_path, "r", {}) as store:
        place: Any = lambda _: Slow()  # noqa: E731
        services = Services(RunConfig(tasks=("-",)), "r", store, store.blobs, NullAgent(), None, place)
        trying = asyncio.create_task(run_trial(services, planned, 0, may_retry=True))
        await asyncio.sleep(0.05)
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying
        assert store.attempts() == []


async def test_what_tasks_share_is_made_anew_after_trouble_that_may_pass(tmp_path: Path) -> None:
    preparer = Preparer(ProcessBackend(), RunConfig(tasks=("-",)), Settings(cache=tmp_path, store=tmp_path))
    fates: list[Exception | None] = [EnvironmentFailure("gone"), None, UserError("never")]
    made: list[WorkspaceSpec] = []

    async def make(_: LayerPins) -> WorkspaceSpec:
        fate = fates.pop(0)
        if fate is not None:
            raise fate
        made.append(WorkspaceSpec())
        return made[-1]

    with pytest.raises(EnvironmentFailure, match="gone"):
        await preparer._once("t", "a", make)
    assert await preparer._once("t", "a", make) is await preparer._once("t", "a", make) is made[0]
    for _ in range(2):
        with pytest.raises(UserError, match="never"):
            await preparer._once("t", "b", make)


async def test_a_step_without_network_among_others_with_it_is_refused(tmp_path: Path) -> None:
    config = RunConfig(tasks=("-",), allow_network=True)
    preparer = Preparer(ProcessBackend(), config, Settings(cache=tmp_path, store=tmp_path))
    from msgspec.structs import replace

    from assay.tasks import load_tasks

    (loaded,) = load_tasks([Path(__file__).parents[2] / "tasks" / "harbor" / "three-steps"])
    parameters = {**loaded.task.environment.parameters, "network_mode": "public"}
    open_task = replace(loaded.task, environment=replace(loaded.task.environment, parameters=parameters))
    with pytest.raises(UserError, match="step 'collect' 'no-network'"):
        await preparer.spec(loaded._replace(task=open_task))


class Cancelled:
    """An agent that awaits a task that was cancelled."""

    name = "cancelled"
    needs_model = False

    async def run(self, attempt: object) -> None:
        waiting = asyncio.ensure_future(asyncio.sleep(60))
        waiting.cancel()
        await waiting


async def test_an_agent_that_raises_cancelled_error_has_failed(tmp_path: Path) -> None:
    config = RunConfig(tasks=("-",), agent=f"{__file__}:Cancelled", run="r")
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    await start_run(config, settings, Tally(), tasks=[counting_task()])
    with RunStore.open(settings.store, "r") as store:
        (row,) = store.attempts()
    assert (row.broke, row.outcome) == ("agent", "fail")
    assert "raised CancelledError, though nothing cancelled it" in (row.error or "")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(turns=0), "turns is 0: it must be at least 1"),
        (Limits(tokens=-1), "tokens is -1"),
        (Limits(wall_s=float("nan")), "wall_s is nan: it must be a number above 0"),
        (Limits(working_s=-5.0), "working_s is -5"),
        (Limits(cost_usd=float("inf")), "cost_usd is inf"),
    ],
)
def test_a_limit_that_nothing_can_keep_is_refused(limits: Limits, message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig(tasks=("-",), limits=limits)
    assert RunConfig(tasks=("-",), limits=Limits(cost_usd=0.0)).limits.cost_usd == 0.0
