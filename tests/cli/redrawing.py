"""Agents that follow a skill and are tried again: one breaks its world, and one is interrupted."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any, cast

from assay.agents.interface import Attempt, ForwardingAttempt
from assay.agents.oracle import OracleAgent
from assay.agents.rules_world import RulesWorldAgent
from assay.errors import EnvironmentFailure, LimitReached
from assay.records import Observation, ToolCall

TRIES: Counter[str] = Counter()


class BrokenWorld:
    """Tools that fail."""

    def specs(self) -> tuple[()]:
        return ()

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        raise EnvironmentFailure(f"{name} broke the world")

    async def digest(self) -> None:
        return None


class RedrawingAgent(RulesWorldAgent):
    """Acts in another way at each trial of an attempt."""

    name = "redrawing"

    async def run(self, attempt: Attempt) -> None:
        is_helped = "versions" in self._options.skill
        earlier = TRIES[attempt.task.id]
        if is_helped:
            TRIES[attempt.task.id] += 1
            attempt.seed += earlier
        try:
            await super().run(attempt)
        except LimitReached:
            if not is_helped or earlier == 2:
                raise
            attempt.tools = BrokenWorld()
            await attempt.act([ToolCall("b", "do", "{}", {})])


class CutAgent(RulesWorldAgent):
    """Has its trial interrupted from outside after four acts, once, with the skill. Option `draws`: `seed`, or `anew`
    for another draw in each trial, as a model server samples."""

    name = "cut"

    def __init__(self, draws: str, **options: Any) -> None:
        super().__init__(**options)
        self.name, self._draws = f"cut-{draws}", draws

    async def run(self, attempt: Attempt) -> None:
        if self._draws == "anew":
            attempt.seed = random.SystemRandom().getrandbits(32)
        await super().run(cast("Attempt", _CutAttempt(attempt, self._options.skill)))


class _CutAttempt(ForwardingAttempt):
    def __init__(self, attempt: Attempt, skill: str) -> None:
        super().__init__(attempt)
        self._made, self._mark = 0, Path(skill).parents[3] / "cut" if "versions" in skill else None

    async def act(self, *arguments: Any, **options: Any) -> Any:
        self._made += 1
        if self._made == 5 and self._mark is not None and not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        return await self._attempt.act(*arguments, **options)


class SecondDrawAgent(OracleAgent):
    """Follows the plan at the second trial of an attempt; at the first it acts once and breaks its world."""

    name = "second-draw"

    async def run(self, attempt: Attempt) -> None:
        key = f"second draw of {attempt.task.id}, {attempt.seed}"
        first = not TRIES[key]
        TRIES[key] += 1
        if first:
            await attempt.act([ToolCall("a", "do", '{"act":"look"}', {"act": "look"})])
            attempt.tools = BrokenWorld()
            await attempt.act([ToolCall("b", "do", "{}", {})])
        await super().run(attempt)
