"""Calls an agent's `run`, so that neither its cancellations nor its exits leave it."""

from __future__ import annotations

import asyncio
import inspect

from assay.agents.interface import Agent
from assay.errors import AgentError
from assay.rollout.attempt.recorded_attempt import LiveAttempt


async def call_agent(agent: Agent, attempt: LiveAttempt) -> None:
    """Awaits the agent in a task of its own, so that an agent that cancels its current task does not cancel the trial.

    Raises `AgentError` if its `run` is not asynchronous, ends the process, or raises `CancelledError` though nothing
    cancelled the trial, as awaiting a task that was cancelled does.
    """
    try:
        await asyncio.create_task(_await_agent(agent, attempt), name=f"agent {agent.name}")
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
