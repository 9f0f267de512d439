"""Aviary's environment and ldp's rollout manager, with a scripted agent. The fourth argument `log` turns its log on."""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aviary.core import Environment, Message, Tool, ToolCall, ToolRequestMessage, ToolResponseMessage
from episode import INSTRUCTION, SAID, SYSTEM, TURNS, given, measure
from ldp.agent import Agent
from ldp.alg.callbacks import TrajectoryFileCallback
from ldp.alg.rollout import RolloutManager

LOGGED = sys.argv[4:] == ["log"]


class Counter(Environment[int]):
    """A number that `add` moves."""

    def __init__(self) -> None:
        self.state = 0

    @classmethod
    def from_task(cls, task: str) -> Counter:  # noqa: ARG003
        """Aviary asks for it; unused."""
        return cls()

    def add(self, by: int) -> str:
        """Adds to the counter.

        Args:
            by: How much.
        """
        self.state += by
        return str(self.state)

    async def reset(self) -> tuple[list[Message], list[Tool]]:
        """The task and its tool."""
        self.tools = [Tool.from_function(self.add)]
        return [Message(role="system", content=SYSTEM), Message(content=INSTRUCTION)], self.tools

    async def step(self, action: ToolRequestMessage) -> tuple[list[ToolResponseMessage], float, bool, bool]:
        """Executes the calls."""
        seen = await self.exec_tool_calls(action)
        return seen, float(self.state >= TURNS), self.state >= TURNS, False

    def export_frame(self) -> Any:
        """Aviary's log may ask for a picture; there is none."""
        raise NotImplementedError


class Scripted(Agent[list]):
    """Says the same on every turn."""

    async def init_state(self, tools: list[Tool]) -> list[Message]:
        """An empty conversation."""
        return []

    async def get_asv(self, agent_state: list[Message], obs: list[Message]) -> tuple[Any, list[Message], float]:
        """The next call."""
        call = ToolCall.from_name("add", by=1)
        action = ToolRequestMessage(content=SAID, tool_calls=[call])
        return await self.wrap_action(action), [*agent_state, *obs, action], 0.0


def run(attempts: int, folder: Path) -> int:
    """All attempts, as many under way as were asked for."""
    folder.mkdir(parents=True)
    callbacks = [TrajectoryFileCallback(folder)] if LOGGED else []
    manager = RolloutManager(
        Scripted(),
        catch_agent_failures=False,
        catch_env_failures=False,
        callbacks=callbacks,
        concurrency_limit=given().at_once,
    )
    done = asyncio.run(manager.sample_trajectories(environments=[Counter() for _ in range(attempts)]))
    return sum(len(trajectory.steps) for trajectory in done)


measure(f"fhaviary {version('fhaviary')}, ldp {version('ldp')}", run)
