"""Rebuilds the initial states of forks by replaying recorded prefixes.

Every state on the way must equal the recorded one; a snapshot is taken at the end. Nothing of this is recorded, and a
resumed run rebuilds what it needs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from assay.agents.interface import FORK_SHELL, Prior
from assay.agents.replay import own_command
from assay.analysis.judged_path import opens_branches
from assay.environments.interface import KeepsStates, Snapshot, Tools, Workspace
from assay.environments.tools import WorkspaceTools
from assay.environments.worlds.opening import open_world
from assay.errors import AssayError, EnvironmentFailure
from assay.records import Step, Trajectory, world_calls
from assay.rollout.attempt.live_snapshot import snapshot_live_state
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.attempt.steps import step_tasks
from assay.rollout.plan import PlannedAttempt
from assay.rollout.schedule.allocation import Anchor, StatePath
from assay.store import RunStore
from assay.tasks import LoadedTask


class ForkOrigin(NamedTuple):
    """The starting point of a fork, as a snapshot or a world state."""

    prior: Prior
    """The steps before it."""
    snapshot: Snapshot | None = None
    world: bytes | None = None


def anchor_after(chain: str, steps: Sequence[Step]) -> Anchor | None:
    """Returns the state after an agent's first steps in an attempt; None without steps, at the start of the task."""
    state = next((step.state for step in reversed(steps) if step.state is not None), "")
    return Anchor(chain, len(steps), state) if steps else None


def plan_fork(plan: PlannedAttempt, anchor: Anchor | None, origin: ForkOrigin) -> PlannedAttempt:
    """Returns a planned attempt that begins at a fork, which its first event names; `anchor` is None at the start of
    the task."""
    fork: dict[str, Any] = {} if anchor is None else {"fork": anchor._asdict()}
    return plan._replace(
        extra_config={**plan.extra_config, **fork},
        prior=(origin.prior,) if origin.prior.acts else (),
        state=origin.snapshot,
        world_state=origin.world,
    )


def path_of(trajectory: Trajectory, score: float | None) -> StatePath:
    """Returns an attempt's states; an attempt with acts outside its steps has none that a fork could start from."""
    fork = trajectory.started.config.get("fork")
    forked = str(fork["state"]) if isinstance(fork, dict) and "state" in fork else None
    states = tuple(step.state for step in trajectory.steps if step.actor == "agent")
    return StatePath(trajectory.chain, states if _is_fully_recorded(trajectory) else (), score, forked)


def _is_fully_recorded(trajectory: Trajectory) -> bool:
    if any(step.actor != "agent" for step in trajectory.steps) or opens_branches(trajectory):
        return False
    if any(call.raw_request is not None for call in trajectory.calls):
        return False  # a program in the sandbox acted, with tools of its own
    return not any(item.data.get("beside") for item in trajectory.evidence)


@asynccontextmanager
async def fork_states(
    store: RunStore, wanted: Sequence[tuple[LoadedTask, Anchor]], preparer: Preparer | None
) -> AsyncIterator[dict[Anchor, ForkOrigin | None]]:
    """Yields the origin of each anchor; None if its state could not be rebuilt exactly. Released at the end."""
    found: dict[Anchor, ForkOrigin | None] = {}
    try:
        for loaded, anchor in wanted:
            if anchor not in found:
                found[anchor] = await _rebuild_origin(store, loaded, anchor, preparer)
        yield found
    finally:
        for begin in found.values():
            if preparer is not None and begin is not None and begin.snapshot is not None:
                await preparer.backend.release(begin.snapshot)


async def _rebuild_origin(
    store: RunStore, loaded: LoadedTask, anchor: Anchor, preparer: Preparer | None
) -> ForkOrigin | None:
    if len(step_tasks(loaded)) != 1:
        return None
    trajectory = store.trajectory(anchor.chain)
    steps = [step for step in trajectory.steps if step.actor == "agent"][: anchor.prefix]
    prior = Prior(acts=tuple(steps))
    try:
        if loaded.task.environment.kind != "workspace":
            world = await _world_state(loaded, steps)
            return None if world is None else ForkOrigin(prior, world=world)
        snapshot = None if preparer is None else await _snapshot(preparer, loaded, steps)
        return None if snapshot is None else ForkOrigin(prior, snapshot)
    except AssayError:
        return None  # what cannot be rebuilt is no place to begin; the fork becomes an attempt from the start


async def _world_state(loaded: LoadedTask, steps: Sequence[Step]) -> bytes | None:
    world = open_world(loaded.task.environment)
    try:
        if not isinstance(world, KeepsStates) or not await _replay_steps(world, None, steps):
            return None
        return world.snapshot()
    finally:
        await world.close()


async def _snapshot(preparer: Preparer, loaded: LoadedTask, steps: Sequence[Step]) -> Snapshot | None:
    workspace = await preparer.backend.open(await preparer.spec(loaded))
    try:
        if not await _replay_steps(WorkspaceTools(workspace), workspace, steps):
            return None
        return (await snapshot_live_state(workspace)).snapshot
    finally:
        await workspace.close()


async def _replay_steps(tools: Tools, workspace: Workspace | None, steps: Sequence[Step]) -> bool:
    """Replays the steps; returns whether each led to its recorded state."""
    for step in steps:
        command = own_command(step) if step.tool_calls else None
        if command is not None and workspace is not None:
            await workspace.exec(command)
        else:
            for call in world_calls(step):
                if call.name == FORK_SHELL:
                    raise EnvironmentFailure("it tried things in a fork")
                if call.error is None and call.parsed is not None:
                    await tools.call(call.name, call.parsed)
        if step.tool_calls and (step.state is None or await tools.digest() != step.state):
            return False
    return bool(steps)
