"""Disturbances of a sandbox as the agent meets it: commands fail without being run, are slow, or print unrelated lines.

Only the commands of the agent's steps are disturbed: not the set-up, not the verifier's sandboxes, and not what
programs do inside the sandbox. What is drawn depends on the task and the number of the command.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Unpack

import msgspec
from msgspec import Meta

from assay.environments.interface import ExecOptions, ExecResult, Workspace, WorkspaceSpec
from assay.environments.wrapping import CHATTER, TEMPORARY_FAILURE, TROUBLES, WRAP, Rate, read_wrappers
from assay.records import Task
from assay.rollout.recording.capabilities import capable_class
from assay.rollout.recording.task_archive import undisturbed_digest
from assay.rollout.recording.workspace_wrapper import WorkspaceWrapper


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: Rate = 0.1
    """Share of commands that are disturbed."""
    seed: int = 0
    """Draws other disturbances for the same task and commands."""


class SandboxDisturbance:
    """A disturbance of commands; changes nothing.

    Args:
        options: Its options.
        task: Digest of the task, which the draws depend on.
    """

    kind: ClassVar[str]
    Options: ClassVar[type[_Options]] = _Options

    def __init__(self, options: Any, task: str) -> None:
        self.options = options
        self._task = task

    def draw(self, number: int) -> random.Random:
        """Returns the source of randomness of a command."""
        return random.Random(f"{self.kind}/{self.options.seed}/{self._task}/{number}")

    async def before(self, number: int) -> ExecResult | None:
        """Returns a result in place of running the command; None runs it."""
        return None

    def after(self, number: int, result: ExecResult) -> ExecResult:
        """Returns the result as the agent reads it."""
        return result


class _FailuresOptions(_Options, frozen=True):
    in_row: Annotated[int, Meta(ge=1, le=20)] = 2
    """Maximum number of consecutive failures."""


class CommandFailures(SandboxDisturbance):
    """Commands that are not run and end with exit code 75; a retry helps."""

    kind = "failures"
    Options = _FailuresOptions

    def __init__(self, options: Any, task: str) -> None:
        super().__init__(options, task)
        self._row = 0

    async def before(self, number: int) -> ExecResult | None:
        draw = self.draw(number)
        if draw.random() >= self.options.rate or self._row >= self.options.in_row:
            self._row = 0
            return None
        self._row += 1
        text = f"temporary failure: {draw.choice(TROUBLES)}; the command was not run, try again\n"
        return ExecResult(TEMPORARY_FAILURE, "", text, 0.0, stderr_bytes=len(text))


class _SlowOptions(_Options, frozen=True):
    seconds: Annotated[float, Meta(ge=0, le=600)] = 2.0
    """Seconds that a slow command takes longer."""


class SlowCommands(SandboxDisturbance):
    """Commands that start late."""

    kind = "slow"
    Options = _SlowOptions

    async def before(self, number: int) -> ExecResult | None:
        if self.draw(number).random() < self.options.rate:
            await asyncio.sleep(self.options.seconds)
        return None


class CommandNoise(SandboxDisturbance):
    """Output with unrelated lines before and after it."""

    kind = "noise"

    def after(self, number: int, result: ExecResult) -> ExecResult:
        draw = self.draw(number)
        if draw.random() >= self.options.rate:
            return result
        first, last = draw.choice(CHATTER), draw.choice(CHATTER)
        gap = "" if not result.stdout or result.stdout.endswith("\n") else "\n"
        text = f"{first}\n{result.stdout}{gap}{last}\n"
        added = len(text.encode()) - len(result.stdout.encode())
        return msgspec.structs.replace(result, stdout=text, stdout_bytes=result.stdout_bytes + added)


SANDBOX_DISTURBANCES: Final[Mapping[str, type[SandboxDisturbance]]] = {
    one.kind: one for one in (CommandFailures, SlowCommands, CommandNoise)
}


def disturb_workspace(inner: Workspace, task: Task) -> Workspace:
    """Returns the sandbox as the agent of a task meets it. Raises `ValueError` for an invalid specification."""
    specs = read_wrappers(task.environment.parameters.get(WRAP) or [], SANDBOX_DISTURBANCES)
    if not specs:
        return inner
    digest = undisturbed_digest(task)
    layers = tuple(SANDBOX_DISTURBANCES[kind](options, digest) for kind, options in specs)
    return capable_class(DisturbedWorkspace, inner)(inner, layers)


class DisturbedWorkspace(WorkspaceWrapper):
    """A sandbox whose commands are disturbed; the first layer is the innermost."""

    def __init__(self, inner: Workspace, layers: Sequence[SandboxDisturbance]) -> None:
        super().__init__(inner)
        self._layers = layers
        self._count = 0

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        self._count += 1
        number = self._count
        result = None
        for layer in reversed(self._layers):
            result = result or await layer.before(number)
        result = result or await self._inner.exec(command, **options)
        for layer in self._layers:
            result = layer.after(number, result)
        return result

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """Opens a copy, which is not disturbed."""
        return await self._inner.fork(spec)
