"""Agents that ask the model over HTTP as command-line programs do, in a place that is a dictionary of files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from assay.agents.interface import Agent, Attempt
from assay.agents.testing import FakeWorkspace
from assay.environments.interface import Workspace
from assay.gateway.interface import ModelBackend
from assay.records import Limits, Trajectory
from assay.rollout import PlannedAttempt, RunConfig, Tally
from assay.rollout.attempt.endpoint import GatewayHandle
from assay.rollout.attempt.recorded_attempt import LiveAttempt, ModelAccess
from assay.rollout.attempt.site import AttemptSite
from assay.rollout.attempt.trial import Services
from assay.rollout.attempt.world_site import WorldSite
from assay.rollout.limits.contract_guards import ActiveContracts
from assay.rollout.limits.run_budget import RunBudget
from assay.rollout.plan import plan
from assay.rollout.recording.recorder import Recorder
from assay.rollout.schedule.runner import run_plan
from assay.store import RunStore
from tests.rollout.counting import CountingWorld, counting_task


class Desk(WorldSite):
    """A world with a fake workspace beside it, so that there is something to write to and to listen in."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(lambda: CountingWorld({}, 0))
        self._workspace = workspace

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        await super().open(attempt, recorder)
        attempt.workspace = self._workspace


class Program:
    """Asks, writes the files that it is told to write, and stops when no tool is called."""

    name = "program"
    needs_model = True

    def __init__(self, *, stubborn: bool = False) -> None:
        self.stubborn = stubborn
        """Whether it swallows every error and asks again."""
        self.errors: list[tuple[int, Any]] = []
        self.written: dict[str, bytes] = {}

    async def run(self, attempt: Attempt) -> None:
        endpoint = await attempt.endpoint()
        headers = {"Authorization": f"Bearer {endpoint.key}"}
        async with aiohttp.ClientSession(headers=headers) as client:
            await self.converse(attempt, client, f"{endpoint.url}/v1/chat/completions")

    async def converse(self, attempt: Attempt, client: aiohttp.ClientSession, url: str) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Write the files."}]
        while True:
            async with client.post(url, json={"model": "m", "messages": messages}) as response:
                status, body = response.status, json.loads(await response.read())
            if status != 200:
                self.errors.append((status, body))
                if self.stubborn:
                    await asyncio.sleep(0.01)
                    continue
                return
            message = body["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                attempt.finish(message["content"] or "")
                return
            messages += [await self.act(attempt, call) for call in message["tool_calls"]]

    async def act(self, attempt: Attempt, call: dict[str, Any]) -> dict[str, Any]:
        given = json.loads(call["function"]["arguments"])
        assert attempt.workspace is not None
        await attempt.workspace.write(given["path"], given["text"].encode())
        return {"role": "tool", "tool_call_id": call["id"], "content": f"wrote {given['path']}"}


def write(path: str, text: str = "x") -> dict[str, Any]:
    return {"content": f"I write {path}.", "tool_calls": [{"name": "write", "arguments": {"path": path, "text": text}}]}


async def run_program(
    folder: Path,
    agent: Agent,
    backend: ModelBackend,
    *,
    limits: Limits | None = None,
    secrets: Mapping[str, str] | None = None,
    workspace: Workspace | None = None,
    held: ActiveContracts | None = None,
    budget: RunBudget | None = None,
) -> list[Trajectory]:
    """Runs one attempt at one task; every try of it."""
    gateway_handle, desk = GatewayHandle(), workspace or FakeWorkspace()
    access = ModelAccess(backend, asyncio.Semaphore(4), gateway_handle)
    planned = plan([counting_task(limits=limits)], agent.name, 1, seed=0, limits=Limits())

    def place(_: PlannedAttempt) -> AttemptSite:
        return Desk(desk)

    with RunStore.create(folder, "r", {}) as store:
        config = RunConfig(tasks=("-",), retries=1)
        services = Services(config, "r", store, store.blobs, agent, access, place, secrets or {}, held, budget)
        try:
            await run_plan(services, planned, Tally())
        finally:
            await gateway_handle.close()
        return list(store.trajectories())
