"""Calls an agent's `run`, so that neither its cancellations nor its exits leave it, and no failure that it makes up.

A failure of infrastructure takes an attempt out of every rate and gives it another trial. So it counts only if it came
out of Assay's own code, through which an agent reaches its model and its environment; one that the agent's code raised
is the agent's. It may still say that a task is not for it, before it has acted.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback

from assay.agents.interface import Agent
from assay.errors import AgentError, BoundaryError, TaskError
from assay.rollout.attempt.recorded_attempt import LiveAttempt

_AGENTS_OWN = ("assay.agents.", "assay.errors")


async def call_agent(agent: Agent, attempt: LiveAttempt) -> None:
    """Awaits the agent in a task of its own, so that an agent that cancels its current task does not cancel the trial.

    Raises `AgentError` if its `run` is not asynchronous, ends the process, or raises `CancelledError` though nothing
    cancelled the trial, as awaiting a task that was cancelled does; and in place of another boundary's failure that the
    agent's own code raised.
    """
    acts = attempt.acts
    try:
        await asyncio.create_task(_await_agent(agent, attempt), name=f"agent {agent.name}")
    except BoundaryError as exc:
        may_refuse = isinstance(exc, TaskError) and attempt.acts == acts
        if isinstance(exc, AgentError) or may_refuse or _came_through_assay(exc):
            raise
        raise AgentError(f"agent {agent.name}: its own code raised {type(exc).__name__}: {exc}") from exc
    except asyncio.CancelledError as exc:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise AgentError(f"agent {agent.name}: raised CancelledError, though nothing cancelled it") from exc


async def _await_agent(agent: Agent, attempt: LiveAttempt) -> None:
    try:
        running = agent.run(attempt)
        if not inspect.isawaitable(running):
            raise AgentError(
                f"agent {agent.name}: `run` returned {type(running).__name__} at once, so it is not asynchronous: "
                "write `async def run(self, attempt)`"
            )
        await running
    except SystemExit as exc:
        raise AgentError(f"agent {agent.name}: called sys.exit({exc.code!r})") from exc


def _came_through_assay(exc: BoundaryError) -> bool:
    """Returns whether code of Assay below the agent raised a failure, or code that it called."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(exc.__traceback__)]
    below = modules[len(modules) - modules[::-1].index(__name__) :]
    return any(one.startswith("assay.") and not one.startswith(_AGENTS_OWN) for one in below)
