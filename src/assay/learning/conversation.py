"""The conversations of an attempt as messages: one for each line of its model calls, or the one that its steps tell.

Messages are canonical (the shape of Chat Completions, arguments as raw text). Of attempts that asked no model the steps
are put into the form in which a model would have been told them; what stood before the first of them, and which tools
there were, no step says: who asks gives an `Opening`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from assay.errors import UserError
from assay.formats.shared.messages import plan_chat_messages, render_chat_message
from assay.records import ModelCall, Trajectory
from assay.store import assistant_message, restore_messages, restore_request

__all__ = ["Conversation", "Opening", "asked", "conversations", "spoke"]

Message = dict[str, Any]


class Opening(NamedTuple):
    """What a model would have been told before its first turn."""

    messages: list[Message]
    tools: list[dict[str, Any]]


class Conversation(NamedTuple):
    """One line of an attempt."""

    branch: str
    messages: list[Message]
    tools: list[dict[str, Any]]
    own: list[bool]
    """For each message whether it is an assistant's that no earlier conversation of the attempt holds."""
    calls: list[str | None]
    """For each message the model call that said it."""
    steps: list[int | None]
    """For each message the step that it is of, where no model was asked."""


def asked(trajectory: Trajectory) -> bool:
    """Whether a model answered it."""
    return any(assistant_message(call) is not None for call in trajectory.calls)


def spoke(trajectory: Trajectory) -> bool:
    """Whether its agent said or did anything: an attempt that broke before has no conversation."""
    return asked(trajectory) or any(step.actor == "agent" for step in trajectory.steps)


def conversations(trajectory: Trajectory, opening: Opening | None = None) -> Iterator[Conversation]:
    """The conversations of an attempt, in the order in which they end.

    Args:
        trajectory: The attempt.
        opening: What stands before the steps of an attempt that asked no model.

    Raises:
        UserError: It asked no model, and there is no opening.
        StoreError: Its calls do not hold together.
    """
    answered = [call for call in trajectory.calls if assistant_message(call) is not None]
    if answered:
        yield from _of_calls({call.id: call for call in trajectory.calls}, answered)
    elif opening is not None:
        yield _of_steps(trajectory, opening)
    elif any(step.actor == "user" for step in trajectory.steps):
        yield _of_steps(trajectory, Opening([], []))
    else:
        raise UserError(
            f"attempt {trajectory.attempt} (agent {trajectory.agent}) asked no model, and no step of it says what the "
            "task was: its task and tools have to be given"
        )


def _of_calls(calls: Mapping[str, ModelCall], answered: list[ModelCall]) -> Iterator[Conversation]:
    above = {call.id: _goes_on_with(calls, call) for call in answered}
    inner = {parent for parent in above.values() if parent is not None}
    told: set[str] = set()
    for leaf in answered:
        if leaf.id in inner:
            continue
        line: dict[int, str] = {}
        at: str | None = leaf.id
        while at is not None:
            line[len(restore_messages(calls, calls[at]))] = at
            at = above.get(at)
        request = restore_request(calls, leaf)
        messages = [*request["messages"], {**(assistant_message(leaf) or {}), "role": "assistant"}]
        said = [line.get(place) for place in range(len(messages))]
        own = [call is not None and call not in told for call in said]
        told.update(line.values())
        yield Conversation(leaf.branch or leaf.id, messages, request.get("tools") or [], own, said, [None] * len(said))


def _goes_on_with(calls: Mapping[str, ModelCall], call: ModelCall) -> str | None:
    """The call whose request and answer begin this one's request whole."""
    parent = calls.get(call.parent or "")
    if parent is None or assistant_message(parent) is None:
        return None
    return parent.id if call.shared_messages == len(restore_messages(calls, parent)) + 1 else None


def _of_steps(trajectory: Trajectory, opening: Opening) -> Conversation:
    messages = [*opening.messages]
    own, steps = [False] * len(messages), list[int | None]([None] * len(messages))
    for step in trajectory.steps:
        for part in plan_chat_messages(step):
            message = render_chat_message(step, part)
            messages.append({key: value for key, value in message.items() if value is not None or key == "content"})
            own.append(message["role"] == "assistant")
            steps.append(step.index)
    return Conversation(trajectory.chain, messages, opening.tools, own, [None] * len(messages), steps)
