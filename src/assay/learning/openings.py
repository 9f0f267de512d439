"""Builds the opening of a task for agents without a model, so that their attempts can be trained on.

The opening equals that of the agent `loop`: system prompt, instruction, the environment's tools, and `finish` if the
environment has no such tool. So an expert's record has the same form as a model's.
"""

from __future__ import annotations

from typing import Any

from assay.agents.loop import FINISH, LoopOptions
from assay.environments.interface import ToolSpec
from assay.environments.schemas import tool_definitions
from assay.environments.worlds.opening import open_world
from assay.errors import UserError
from assay.records import Task

from .conversation import Opening


def build_opening(task: Task, *, system: str | None = None) -> Opening:
    """Returns the messages and tools with which the agent `loop` starts.

    Raises:
        UserError: The task's tools are not known without opening a sandbox.
    """
    said = LoopOptions().system if system is None else system
    messages: list[dict[str, Any]] = [{"role": "system", "content": said}] if said else []
    if isinstance(task.instruction, str):
        messages.append({"role": "user", "content": task.instruction})
    else:
        messages += [{"role": message.role, "content": message.content} for message in task.instruction]
    specs = task_tools(task)
    offered = specs if any(spec.name == FINISH.name for spec in specs) else (*specs, FINISH)
    return Opening(messages, tool_definitions(offered))


def task_tools(task: Task) -> tuple[ToolSpec, ...]:
    """Returns the tools of a task's in-process world."""
    kind = task.environment.kind
    if kind == "workspace":
        raise UserError(
            f"task {task.id} is in a sandbox, whose tools only an open sandbox tells: record a model in it instead"
        )
    return open_world(task.environment).specs()
