"""Transcripts of an attempt: one for each line of its model calls, or one built from its steps.

Messages are canonical (the shape of Chat Completions, arguments as raw text). Steps of attempts without model calls are
converted to the messages that a model would get; the caller provides the preceding messages and the tools as an
`Opening`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from assay.agents.loop import FINISH, LoopOptions
from assay.environments.schemas import tool_definitions
from assay.environments.worlds.opening import open_world
from assay.errors import UserError
from assay.formats.shared.messages import plan_chat_messages, render_chat_message
from assay.formats.shared.tools import recorded_tools
from assay.gateway.tokens.echoes import find_changes
from assay.records import DIGEST_PREFIX, ModelCall, Task, Trajectory
from assay.store import assistant_message, restore_messages, restore_prompt_ids, restore_request

Message = dict[str, Any]


def stored_pictures(messages: Iterable[Any]) -> tuple[str, ...]:
    """Returns the digests of the pictures that messages show."""
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    images = [part.get("image_url") for part in parts if isinstance(part, dict)]
    urls = [image.get("url") for image in images if isinstance(image, dict)]
    return tuple(url for url in urls if isinstance(url, str) and url.startswith(DIGEST_PREFIX))


class Opening(NamedTuple):
    """System prompt, instruction and tools that a model would get before its first turn."""

    messages: list[Message]
    tools: list[dict[str, Any]]


def build_opening(task: Task, *, system: str | None = None) -> Opening:
    """Returns the messages and tools with which the agent `loop` starts, so that an expert's record has a model's form.

    Raises:
        UserError: The task's tools are not known without opening a sandbox.
    """
    said = LoopOptions().system if system is None else system
    messages: list[dict[str, Any]] = [{"role": "system", "content": said}] if said else []
    if isinstance(task.instruction, str):
        messages.append({"role": "user", "content": task.instruction})
    else:
        messages += [{"role": message.role, "content": message.content} for message in task.instruction]
    if task.environment.kind == "workspace":
        raise UserError(
            f"the tools that task {task.id} would offer to a model are known only while its sandbox is open: run an "
            "agent that asks a model there (assay run ... --agent loop --model MODEL)"
        )
    specs = open_world(task.environment).specs()
    offered = specs if any(spec.name == FINISH.name for spec in specs) else (*specs, FINISH)
    return Opening(messages, tool_definitions(offered))


class Transcript(NamedTuple):
    """Messages and tools of one line of calls."""

    branch: str
    messages: list[Message]
    tools: list[dict[str, Any]]
    own: list[bool]
    """For each message, True for an assistant's message that no earlier transcript of the attempt holds."""
    calls: list[str | None]
    """Model call of each message."""
    steps: list[int | None]
    """Step of each message, if no model was called."""


def asked_model(trajectory: Trajectory) -> bool:
    """Returns whether the attempt has an answered model call."""
    return any(assistant_message(call) is not None for call in trajectory.calls)


def has_agent_output(trajectory: Trajectory) -> bool:
    """Returns whether the agent said or did anything."""
    return asked_model(trajectory) or any(step.actor == "agent" for step in trajectory.steps)


SEVERAL_ACTORS = "several actors acted without a model, and what each of them read is not recorded"


def lacks_conversation(trajectory: Trajectory) -> bool:
    """Returns whether actors of a team acted and none asked a model: their steps together are no actor's conversation,
    and the task's whole text is more than each was given."""
    return not asked_model(trajectory) and any(step.actor_name is not None for step in trajectory.steps)


def conversations(trajectory: Trajectory, opening: Opening | None = None) -> Iterator[Transcript]:
    """Yields the transcripts of an attempt, in the order in which they end; `opening` precedes steps without model
    calls.

    Raises:
        UserError: It has neither model calls nor an opening, or `lacks_conversation`.
        StoreError: Its calls do not hold together.
    """
    answered = [call for call in trajectory.calls if assistant_message(call) is not None]
    if answered:
        yield from _lines_of_calls({call.id: call for call in trajectory.calls}, answered)
    elif lacks_conversation(trajectory):
        raise UserError(f"attempt {trajectory.attempt} is no conversation: {SEVERAL_ACTORS}")
    elif opening is not None:
        yield _line_of_steps(trajectory, opening)
    elif any(step.actor == "user" for step in trajectory.steps):
        yield _line_of_steps(trajectory, Opening([], []))
    else:
        raise UserError(
            f"attempt {trajectory.attempt} (agent {trajectory.agent}) asked no model, and no step of it says what the "
            "task was: its task and tools have to be given"
        )


def _lines_of_calls(calls: Mapping[str, ModelCall], answered: list[ModelCall]) -> Iterator[Transcript]:
    parents = {call.id: continued_call(calls, call) for call in answered}
    continued = {parent.id for parent in parents.values() if parent is not None}
    seen_calls: set[str] = set()
    for leaf in answered:
        if leaf.id in continued:
            continue
        request = restore_request(calls, leaf)
        messages: list[Message] = [*request["messages"], {}]
        calls_by_message: list[str | None] = [None] * len(messages)
        at: ModelCall | None = leaf
        while at is not None:
            place = len(restore_messages(calls, at))
            messages[place] = {**(assistant_message(at) or {}), "role": "assistant"}
            calls_by_message[place] = at.id
            at = parents.get(at.id)
        own = [call is not None and call not in seen_calls for call in calls_by_message]
        seen_calls.update(call for call in calls_by_message if call is not None)
        yield Transcript(
            leaf.branch or leaf.id,
            messages,
            request.get("tools") or [],
            own,
            calls_by_message,
            [None] * len(calls_by_message),
        )


def continued_call(calls: Mapping[str, ModelCall], call: ModelCall) -> ModelCall | None:
    """Returns the parent call if the model saw this request as that conversation and its answer, continued.

    Clients send an answer back without its empty fields, or with others that no model sees. Such an echo continues the
    conversation where no token differs: where both calls know their tokens, the prompt begins with the parent's prompt
    and answer; else text, reasoning and tool calls are the same.
    """
    parent = calls.get(call.parent or "")
    answer = assistant_message(parent) if parent is not None else None
    if parent is None or answer is None:
        return None
    place = len(restore_messages(calls, parent))
    if call.shared_messages != place + 1:
        echo = restore_messages(calls, call)[place : place + 1] if call.shared_messages == place else []
        if not echo or echo[0].get("role") != "assistant" or not _keeps_tokens(calls, call, parent, echo[0]):
            return None
    return parent


def _keeps_tokens(calls: Mapping[str, ModelCall], call: ModelCall, parent: ModelCall, echo: Message) -> bool:
    context = restore_prompt_ids(calls, parent)
    if context is not None and parent.completion_token_ids is not None and call.prompt_token_ids is not None:
        return call.shared_tokens == len(context) + len(parent.completion_token_ids)
    answer = assistant_message(parent) or {}
    return not find_changes(answer, echo) and not find_changes(echo, answer)


def _line_of_steps(trajectory: Trajectory, opening: Opening) -> Transcript:
    messages = [*opening.messages]
    own, steps = [False] * len(messages), list[int | None]([None] * len(messages))
    for step in trajectory.steps:
        for part in plan_chat_messages(step):
            message = render_chat_message(step, part)
            messages.append({key: value for key, value in message.items() if value is not None or key == "content"})
            own.append(message["role"] == "assistant")
            steps.append(step.index)
    tools = opening.tools or recorded_tools(trajectory)
    return Transcript(trajectory.chain, messages, tools, own, [None] * len(messages), steps)
