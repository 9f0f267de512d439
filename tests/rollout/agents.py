"""Agents with one habit each, for tests of the loop around them."""

from __future__ import annotations

import asyncio
from typing import Any

from assay import errors
from assay.agents.interface import Attempt
from assay.errors import EnvironmentFailure, ProviderError
from assay.records import Observation, ToolCall


def add(by: int, call: str = "t") -> ToolCall:
    return ToolCall(call, "add", f'{{"by": {by}}}', {"by": by})


class Solver:
    """Adds what is missing, in steps of five."""

    name = "solver"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        await attempt.act([add(5)])
        await attempt.act([add(5)])
        attempt.finish("reached ten")


class Endless(Solver):
    name = "endless"

    async def run(self, attempt: Attempt) -> None:
        while True:
            await attempt.act([add(1)])
            await asyncio.sleep(0)


class Sleeper(Solver):
    name = "sleeper"

    async def run(self, attempt: Attempt) -> None:
        await attempt.act([add(1)])
        await asyncio.sleep(60)


class Crasher(Solver):
    name = "crasher"

    async def run(self, attempt: Attempt) -> None:
        await attempt.act([add(10)])
        text = "the agent's own bug"
        raise RuntimeError(text)


class Failing:
    """Tools that fail."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    def specs(self) -> tuple[()]:
        return ()

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        raise self.failure

    async def digest(self) -> None:
        return None


class Unlucky(Solver):
    """Its world breaks twice, then holds."""

    name = "unlucky"

    def __init__(self) -> None:
        self.tries = 0

    async def run(self, attempt: Attempt) -> None:
        self.tries += 1
        if self.tries <= 2:
            attempt.tools = Failing(EnvironmentFailure("the sandbox went away"))
        await super().run(attempt)


class Refused(Solver):
    name = "refused"

    async def run(self, attempt: Attempt) -> None:
        attempt.tools = Failing(ProviderError("the server does not know the model", retryable=False))
        await super().run(attempt)


class Pretender(Solver):
    """Solves nothing, acts, and says that something else failed."""

    name = "pretender"

    def __init__(self, says: str = "ProviderError") -> None:
        self.says = says

    async def run(self, attempt: Attempt) -> None:
        await attempt.act([add(1)])
        raise getattr(errors, self.says)("it was not me")
