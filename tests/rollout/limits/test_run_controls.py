"""Runs that are controlled from outside: shared slots, pause, resume, abort."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.agents.interface import Attempt
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.interface import ModelReply, ModelRequest, OnDeltas
from assay.records import Limits
from assay.rollout import RunConfig, RunParts, Tally, start_run
from assay.rollout.limits.meter import Meter
from assay.rollout.limits.run_controls import AttemptClock, RunControls
from assay.settings import Settings
from assay.store import AttemptRow, RunStore
from tests.rollout.counting import counting_task

pytestmark = pytest.mark.quick


class Asker:
    """Asks the model three times."""

    name = "asker"
    needs_model = True

    async def run(self, attempt: Attempt) -> None:
        for turn in range(3):
            await attempt.ask(ModelRequest([{"role": "user", "content": f"turn {turn}"}]))
        attempt.finish("done")


class Watched(ScriptedBackend):
    """A model that counts its calls, and can hold them."""

    def __init__(self) -> None:
        super().__init__(lambda _: {"content": "yes"}, name="watched")
        self.calls = self.under_way = self.most = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        self.calls += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            await self.answers.wait()
            return await super().complete(request, on_deltas)
        finally:
            self.under_way -= 1


async def run(root: Path, name: str, controls: RunControls, backend: Watched, **limits: Any) -> list[AttemptRow]:
    config = RunConfig(tasks=("-",), agent=f"{__file__}:Asker", model="scripted:given", run=name, concurrency=4)
    tasks = [counting_task(f"t{n}", limits=Limits(**limits)) for n in range(3)]
    settings = Settings(cache=root / "cache", store=root / "store")
    await start_run(config, settings, Tally(), tasks=tasks, backend=backend, parts=RunParts(controls=controls))
    with RunStore.open(settings.store, name) as store:
        return store.attempts()


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def test_runs_share_their_slots(tmp_path: Path) -> None:
    controls, backend = RunControls(2), Watched()
    backend.answers.clear()
    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(run(tmp_path, name, controls, backend))
        await until(lambda: backend.under_way == 2)
        await asyncio.sleep(0.05)
        backend.answers.set()
    assert backend.calls == 18
    assert backend.most == 2


async def test_a_pause_holds_calls_and_stops_clocks(tmp_path: Path) -> None:
    controls, backend = RunControls(4), Watched()
    backend.answers.clear()
    running = asyncio.create_task(run(tmp_path, "a", controls, backend, wall_s=1.0))
    await until(lambda: backend.under_way == 3)
    controls.pause()
    controls.pause()
    backend.answers.set()
    await asyncio.sleep(1.2)  # longer than the limit
    assert backend.calls == 3
    controls.resume()
    controls.resume()
    rows = await running
    assert [row.stopped for row in rows] == [None, None, None]
    assert all(row.metrics["paused_s"] > 1 > row.metrics["wall_s"] for row in rows)
    assert all(row.metrics["working_s"] <= row.metrics["wall_s"] for row in rows)
    with RunStore.open(tmp_path / "store", "a") as store:
        notes = [note for row in rows for note in store.trajectory(row.chain).notes if note.name == "paused"]
    assert [note.data for note in notes] == [{"pauses": 1}] * 3


async def test_the_limit_holds_after_a_pause(tmp_path: Path) -> None:
    controls, backend = RunControls(4), Watched()
    backend.answers.clear()
    running = asyncio.create_task(run(tmp_path, "a", controls, backend, wall_s=0.3))
    await until(lambda: backend.under_way == 3)
    controls.pause()
    await asyncio.sleep(0.4)
    controls.resume()
    assert {row.stopped for row in await running} == {"wall_s"}


async def test_nothing_begins_during_a_pause(tmp_path: Path) -> None:
    controls, backend = RunControls(4), Watched()
    controls.pause()
    running = asyncio.create_task(run(tmp_path, "a", controls, backend))
    await asyncio.sleep(0.1)
    assert backend.calls == 0
    controls.resume()
    assert all(row.ended == "done" for row in await running)


async def test_an_aborted_trial_is_kept_and_made_again(tmp_path: Path) -> None:
    controls, backend = RunControls(4), Watched()
    backend.answers.clear()
    running = asyncio.create_task(run(tmp_path, "a", controls, backend))
    await until(lambda: backend.under_way == 3)
    assert controls.abort("a", "t1@0")
    assert not controls.abort("a", "t9@0")
    assert not controls.abort("b", "t1@0")
    await until(lambda: backend.calls == 4)
    backend.answers.set()
    rows = await running
    assert sorted((row.attempt, row.retry, row.interrupted, row.final) for row in rows) == [
        ("t0@0", 0, False, True),
        ("t1@0", 0, True, False),
        ("t1@0", 1, False, True),
        ("t2@0", 0, False, True),
    ]
    with RunStore.open(tmp_path / "store", "a") as store:
        (cut,) = [note for note in store.trajectory("t1@0.0").notes if note.name == "interrupted"]
    assert cut.data == {"cause": "aborted"}


async def test_a_run_that_is_cancelled_is_no_aborted_one(tmp_path: Path) -> None:
    controls, backend = RunControls(4), Watched()
    backend.answers.clear()
    running = asyncio.create_task(run(tmp_path, "a", controls, backend))
    await until(lambda: backend.under_way == 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert backend.under_way == 0
    assert backend.calls == 3


async def test_a_clock_that_has_run_out_stays_so() -> None:
    meter = Meter(Limits())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0) as timeout:
            await asyncio.sleep(0.01)
    clock = AttemptClock(timeout, meter)
    clock.stop()
    clock.start()
    assert timeout.expired()
