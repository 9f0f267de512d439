"""What an agent is: anything that acts on an attempt.

An agent gets an `Attempt`: the task, a place to act, a model if it asked for one, a seed, and the record. It returns
when it is done; the loop around it holds the limits, records, stops what it left behind, and judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from assay.environments.interface import ExecResult, Tools, Workspace
from assay.gateway.interface import ModelReply, ModelRequest
from assay.records import Evidence, Observation, Step, Task, ToolCall

__all__ = ["Agent", "Attempt"]


class Attempt(Protocol):
    """What an agent may use. Every method that acts raises `LimitReached` when a limit is met; let it pass."""

    task: Task
    seed: int
    """The only source of randomness an agent may use."""
    workspace: Workspace | None
    """The sandbox, already recorded: each exec through it lands in the audit channel. None for in-process worlds."""
    tools: Tools
    """The same place as tools for a model (shell, read, edit), or the in-process world's own."""
    solution: Path | None
    """The task's solution folder on the host, for the oracle alone; None for every other agent."""
    prior: tuple[Step, ...]
    """Recorded steps to replay, for the replay agent alone."""

    async def shell(
        self, command: str | Sequence[str], *, message: str | None = None, timeout_s: float | None = None
    ) -> ExecResult:
        """Runs a command as one recorded step of the agent (tool call, observation, state digest)."""
        ...

    async def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        """Executes tool calls in order as one recorded step. A malformed call (`error` set) is answered with an
        error observation and executed not at all."""
        ...

    def say(self, message: str, *, reasoning: str | None = None, call: str | None = None) -> None:
        """Records a step without an act."""
        ...

    def note(self, evidence: Evidence) -> None:
        """Adds a fact that the agent itself established (channel and kind set by the agent)."""
        ...

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        """Asks the model; the exchange is recorded, its tokens and cost are charged to the limits.

        Returns:
            The id of the recorded call, and the reply.

        Raises:
            UserError: The run names no model.
            ProviderError: The server failed for good.
            LimitReached: Tokens or cost are spent.
        """
        ...

    def finish(self, message: str) -> None:
        """Says that the agent is done, in words; recorded as `ended`."""
        ...


@runtime_checkable
class Agent(Protocol):
    """Acts. One object serves many attempts at once: keep nothing of an attempt on it.

    Built as `Agent(**options)` with the options of `--agent-option key=value`; an unknown option raises `TypeError`,
    which the loop turns into a `UserError` that lists the known ones.
    """

    name: str
    needs_model: bool

    async def run(self, attempt: Attempt) -> None:
        """Acts until done. Exceptions other than `AssayError` are recorded as `broke: agent`."""
        ...
