"""Conformance checks of agents: the contract of `interface` on fake attempts. Says nothing about solving ability."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from assay.environments.conformance import PropertyResult
from assay.errors import AssayError, LimitReached
from assay.records import Limits

from .interface import Agent
from .testing import FakeAttempt

MakeAttempt = Callable[[int, Limits], FakeAttempt]
Property = Callable[[Callable[[], Agent], MakeAttempt], Awaitable[None]]
_FREE = Limits(turns=500)


async def check_agent(
    make_agent: Callable[[], Agent], make_attempt: MakeAttempt, *, timeout_s: float = 10.0
) -> tuple[PropertyResult, ...]:
    """Tries each property. One that fails, raises or times out (each has `timeout_s`) is a finding with a problem."""
    findings = []
    for trial in (agent_is_named, agent_says_when_it_is_done, seed_decides, attempts_are_apart, limits_stop_it):
        try:
            async with asyncio.timeout(timeout_s):
                await trial(make_agent, make_attempt)
            problem = None
        except (AssertionError, AssayError, TimeoutError, OSError, TypeError, ValueError, LookupError) as exc:
            problem = f"{type(exc).__name__}: {exc}"
        findings.append(PropertyResult(trial.__name__, problem))
    return tuple(findings)


def _expect(holds: object, what: str) -> None:
    if not holds:
        raise AssertionError(what)


async def agent_is_named(make_agent: Callable[[], Agent], _attempt: MakeAttempt) -> None:
    """Checks that it has a name and declares whether it needs a model."""
    agent = make_agent()
    _expect(isinstance(agent, Agent), "an agent has `name`, `needs_model` and `run`")
    _expect(type(agent.name) is str and len(agent.name) > 0, "`name` is a text that is not empty")
    _expect(type(agent.needs_model) is bool, "`needs_model` is True or False")


async def agent_says_when_it_is_done(make_agent: Callable[[], Agent], make_attempt: MakeAttempt) -> None:
    """Checks that it calls `finish`, or is stopped by a limit."""
    attempt = make_attempt(1, _FREE)
    try:
        await make_agent().run(attempt)
    except LimitReached:
        return
    _expect(attempt.ended is not None, "`run` returned without a call of `attempt.finish`")


async def seed_decides(make_agent: Callable[[], Agent], make_attempt: MakeAttempt) -> None:
    """Checks that two attempts with one seed are equal, step by step."""
    first, second = make_attempt(7, _FREE), make_attempt(7, _FREE)
    await _run(make_agent(), first)
    await _run(make_agent(), second)
    _expect(first.steps == second.steps, "one seed gave two different attempts: use `attempt.seed` and nothing else")


async def attempts_are_apart(make_agent: Callable[[], Agent], make_attempt: MakeAttempt) -> None:
    """Checks that one object on two concurrent attempts acts as two objects in sequence."""
    shared, together = make_agent(), [make_attempt(seed, _FREE) for seed in (1, 2)]
    async with asyncio.TaskGroup() as group:
        for attempt in together:
            group.create_task(_run(shared, attempt))
    for seed, attempt in zip((1, 2), together, strict=True):
        alone = make_attempt(seed, _FREE)
        await _run(make_agent(), alone)
        _expect(attempt.steps == alone.steps, "attempts at once disturb each other: keep nothing of one on the agent")


async def limits_stop_it(make_agent: Callable[[], Agent], make_attempt: MakeAttempt) -> None:
    """Checks that `LimitReached` passes through: without a turn left, nothing is recorded and the call returns."""
    attempt = make_attempt(1, Limits(turns=0))
    await _run(make_agent(), attempt)
    _expect(not attempt.steps, "steps were recorded after the limit was met")


async def _run(agent: Agent, attempt: FakeAttempt) -> None:
    try:
        await agent.run(attempt)
    except LimitReached:
        return
