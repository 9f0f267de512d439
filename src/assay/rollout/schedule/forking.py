"""Rebuilds the states that forks begin in, from the record: the recorded prefix is done again in a place of its own,
every state on the way is compared with the recorded one, and a snapshot is taken at its end.

Nothing of this is recorded, and it can be done again at any time: a resumed run rebuilds what it needs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from assay.agents.interface import FORK_SHELL, Prior
from assay.agents.replay import own_command
from assay.environments.interface import KeepsStates, Snapshot, Tools, Workspace
from assay.environments.tools import WorkspaceTools
from assay.environments.worlds.opening import open_world
from assay.errors import AssayError, EnvironmentFailure
from assay.records import Step, Trajectory
from assay.rollout.attempt.live_snapshot import state_of
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.attempt.steps import step_tasks
from assay.rollout.schedule.allocation import Anchor, Path
from assay.store import RunStore
from assay.tasks import LoadedTask

__all__ = ["Begin", "fork_states", "path_of"]


class Begin(NamedTuple):
    """Where a fork begins. One of both states is there."""

    prior: Prior
    """The steps that led there."""
    snapshot: Snapshot | None = None
    world: bytes | None = None


def path_of(trajectory: Trajectory, score: float | None) -> Path:
    """An attempt as states. One whose steps do not tell all that it did has none that a fork could begin in."""
    fork = trajectory.started.config.get("fork")
    forked = str(fork["state"]) if isinstance(fork, dict) and "state" in fork else None
    states = tuple(step.state for step in trajectory.steps if step.actor == "agent")
    return Path(trajectory.chain, states if _told_whole(trajectory) else (), score, forked)


def _told_whole(trajectory: Trajectory) -> bool:
    if any(step.actor != "agent" for step in trajectory.steps):
        return False
    if any(call.raw_request is not None for call in trajectory.calls):
        return False  # a program in the sandbox acted, with tools of its own
    return not any(item.data.get("beside") for item in trajectory.evidence)


@asynccontextmanager
async def fork_states(
    store: RunStore, wanted: Sequence[tuple[LoadedTask, Anchor]], preparer: Preparer | None
) -> AsyncIterator[dict[Anchor, Begin | None]]:
    """The states of these anchors, by anchor; None where a state could not be rebuilt exactly. Released at the end."""
    found: dict[Anchor, Begin | None] = {}
    try:
        for loaded, anchor in wanted:
            if anchor not in found:
                found[anchor] = await _begin(store, loaded, anchor, preparer)
        yield found
    finally:
        for begin in found.values():
            if preparer is not None and begin is not None and begin.snapshot is not None:
                await preparer.backend.release(begin.snapshot)


async def _begin(store: RunStore, loaded: LoadedTask, anchor: Anchor, preparer: Preparer | None) -> Begin | None:
    if len(step_tasks(loaded)) != 1:
        return None
    trajectory = store.trajectory(anchor.chain)
    steps = [step for step in trajectory.steps if step.actor == "agent"][: anchor.prefix]
    prior = Prior(acts=tuple(steps))
    try:
        if loaded.task.environment.kind != "workspace":
            world = await _world_state(loaded, steps)
            return None if world is None else Begin(prior, world=world)
        snapshot = None if preparer is None else await _snapshot(preparer, loaded, steps)
        return None if snapshot is None else Begin(prior, snapshot)
    except AssayError:
        return None  # what cannot be rebuilt is no place to begin; the fork becomes an attempt from the start


async def _world_state(loaded: LoadedTask, steps: Sequence[Step]) -> bytes | None:
    world = open_world(loaded.task.environment)
    try:
        if not isinstance(world, KeepsStates) or not await _done_again(world, None, steps):
            return None
        return world.snapshot()
    finally:
        await world.close()


async def _snapshot(preparer: Preparer, loaded: LoadedTask, steps: Sequence[Step]) -> Snapshot | None:
    workspace = await preparer.backend.open(await preparer.spec(loaded))
    try:
        if not await _done_again(WorkspaceTools(workspace), workspace, steps):
            return None
        return (await state_of(workspace)).snapshot
    finally:
        await workspace.close()


async def _done_again(tools: Tools, workspace: Workspace | None, steps: Sequence[Step]) -> bool:
    """Does the steps; whether each led to the state that was recorded."""
    for step in steps:
        command = own_command(step) if step.tool_calls else None
        if command is not None and workspace is not None:
            await workspace.exec(command)
        else:
            for call in step.tool_calls:
                if call.name == FORK_SHELL:
                    raise EnvironmentFailure("it tried things in a fork")
                if call.error is None and call.parsed is not None:
                    await tools.call(call.name, call.parsed)
        if step.tool_calls and (step.state is None or await tools.digest() != step.state):
            return False
    return bool(steps)
