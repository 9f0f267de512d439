"""What the reference solution did on another seed is done again, without a look at this one."""

from __future__ import annotations

from assay.agents.interface import Attempt
from assay.records import Step

from .interface import Cheat, Knowledge

__all__ = ["CHEAT"]


async def _act(attempt: Attempt, knowledge: Knowledge) -> None:
    for step in (s for s in knowledge.steps if s.actor == "agent" and s.tool_calls):
        command = _command(step)
        if command is None:
            await attempt.act(step.tool_calls, message=step.message)
        else:
            await attempt.shell(command, message=step.message)


def _command(step: Step) -> str | list[str] | None:
    """The command of a step that is one call of the shell."""
    call = step.tool_calls[0]
    if len(step.tool_calls) != 1 or call.name != "shell" or call.parsed is None:
        return None
    command = call.parsed.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return list(command)
    return command if isinstance(command, str) else None


def _applies(knowledge: Knowledge) -> str | None:
    commands = [str(_command(step)) for step in knowledge.steps if step.actor == "agent" and step.tool_calls]
    if not commands:
        return "no actions of a reference solution on another seed are recorded"
    if all("/solution" in command for command in commands):
        return "the recorded actions run the solution's own files, which another agent does not have"
    return None


CHEAT = Cheat(
    name="blind-replay",
    exploits="Every seed of the task has the same answer, so that actions that solved one solve all.",
    incident="https://arxiv.org/abs/2605.08261",
    act=_act,
    closed_by=("instances that differ by seed", "hidden tests with other values"),
    applies=_applies,
)
