"""The agent that does again what a recorded attempt did: same calls, same order, in a fresh environment.

It asks no model. What came out differently from the record is noted as evidence, so that an environment that is not
deterministic is seen; it is no failure of the replay.

Not replayed: what an agent did to `attempt.workspace` beside its steps, such as the oracle's upload of the solution;
what it tried in forks, which left no trace.
"""

from __future__ import annotations

from typing import Any

from assay.errors import UserError
from assay.records import Evidence, Observation, Step

from .interface import FORK_SHELL, Attempt

__all__ = ["ReplayAgent"]

_LISTED = 50


class ReplayAgent:
    """Executes the tool calls of `attempt.prior` step by step."""

    name = "replay"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        """See `Agent.run`.

        Raises:
            UserError: There is nothing to replay.
        """
        steps = [step for step in attempt.prior if step.actor == "agent"]
        if not steps:
            message = f"nothing to replay for task {attempt.task.id!r}: the recorded attempt holds no step of an agent"
            raise UserError(message)
        compared, different = 0, []
        for step in steps:
            if not step.tool_calls or all(call.name == FORK_SHELL for call in step.tool_calls):
                attempt.say(step.message or "", reasoning=step.reasoning)
                continue
            seen = await _again(attempt, step)
            compared += min(len(step.observations), len(seen))
            different += _differences(step, seen)
        attempt.note(_evidence(compared, different))
        attempt.finish(f"replayed {len(steps)} steps; {len(different)} of {compared} observations differ")


async def _again(attempt: Attempt, step: Step) -> tuple[Observation, ...]:
    command = _own_command(step)
    if command is None:
        return await attempt.act(step.tool_calls, message=step.message, reasoning=step.reasoning)
    result = await attempt.shell(command, message=step.message)
    return (
        Observation(
            content=result.stdout,
            exit_code=result.exit_code,
            error=result.exit_code != 0,
            stderr=result.stderr,
            timed_out=result.timed_out,
        ),
    )


def _own_command(step: Step) -> str | list[str] | None:
    """The command of a step that an agent took through `attempt.shell`, which takes more than a model's tool does."""
    call = step.tool_calls[0]
    if step.call is not None or len(step.tool_calls) != 1 or call.name != "shell" or call.error is not None:
        return None
    command = call.parsed.get("command") if call.parsed is not None and len(call.parsed) == 1 else None
    if isinstance(command, list):
        return command if all(isinstance(word, str) for word in command) else None
    return command if isinstance(command, str) else None


def _differences(step: Step, seen: tuple[Observation, ...]) -> list[dict[str, Any]]:
    found = []
    for position, (before, now) in enumerate(zip(step.observations, seen, strict=False)):
        parts = [
            name
            for name in ("content", "stderr", "exit_code", "error", "timed_out")
            if getattr(before, name) != getattr(now, name)
        ]
        if parts:
            found.append({"step": step.index, "call": position, "differs": parts})
    return found


def _evidence(compared: int, different: list[dict[str, Any]]) -> Evidence:
    data = {"compared": compared, "different": len(different), "first": different[:_LISTED]}
    return Evidence(id="replay", channel="audit", kind="replay", data=data)
