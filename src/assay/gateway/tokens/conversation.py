"""The token side of one session: what each finished call was told and what it sampled, and from that the next prompt.

Invariant: a prompt that goes on with a call begins with that call's prompt and its sampled tokens, unchanged. Where
that cannot be, the prompt is rendered anew and the call begins a branch, with its cause and the first token position
that differs from the conversation it left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.gateway.forest import Node, Placement
from assay.gateway.interface import ModelRequest
from assay.records import BranchCause, Certificate, ModelCall

from .echoes import changes_in
from .interface import Renderer
from .messages import names_in
from .rows import certify, context_of

__all__ = ["Conversation", "Echo", "Prompt"]


class Echo(NamedTuple):
    """An assistant turn that came back other than it was said."""

    position: int
    """Of the message in the request."""
    changes: tuple[str, ...]
    """See `echoes`."""


class Prompt(NamedTuple):
    """What to tell the model."""

    ids: tuple[int, ...]
    parent: str | None
    shared: int
    """How many leading ids are the parent's prompt and sampled tokens."""
    cause: BranchCause | None
    differs_at: int | None
    """A token position; None where nothing was left."""
    how: str
    """`extended`, `replayed` (the same turns under other tools), or `rendered` from the client's messages."""
    echoes: tuple[Echo, ...]


class _Kept(NamedTuple):
    tokens: ModelCall
    messages: int
    """How many its request held."""
    rendered: bool
    """Whether its prompt left its parent's tokens for the client's messages."""


class Conversation:
    """Finished calls of one session, cut as they are stored: memory grows with the tokens that are new in each."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._calls: dict[str, ModelCall] = {}
        self._kept: dict[str, _Kept] = {}
        self._own_ids: dict[str, str] = {}
        """The model's own ids of tool calls, by those that the client knows."""

    def prompt(self, request: ModelRequest, placement: Placement) -> Prompt:
        """Where the request goes on, and the ids for it. Changes nothing."""
        parent = placement.parent
        if parent is None or parent.id not in self._calls:
            ids = self._rendered(request)
            why: BranchCause = placement.cause or ("unjoined" if self._calls else "root")
            return Prompt(ids, None, 0, why, self._left(ids) if self._calls else None, "rendered", ())
        told = context_of(self._calls, parent.id)
        whole = told + self._sampled(parent.id)
        echoes = _echoes(parent, request.messages)
        ids, how = self._next(request, placement, parent, told, echoes)
        shared = alike(ids, whole)
        cause = placement.cause
        if shared < len(whole) and cause is None:
            cause = "rewritten"
        return Prompt(ids, parent.id, shared, cause, None if cause is None else shared, how, echoes)

    def add(
        self,
        call_id: str,
        request: ModelRequest,
        prompt: Prompt,
        sampled: tuple[int, ...],
        sent: Sequence[int],
        own_ids: Mapping[str, str],
    ) -> Certificate:
        """Keeps a finished call; its certificate.

        Args:
            call_id: Of the call.
            request: What was asked.
            prompt: What was to be told to the model.
            sampled: What it said.
            sent: What it really was told.
            own_ids: Ids that the model itself gave its tool calls, by those that the client is told.
        """
        self._own_ids |= own_ids
        tail = prompt.ids[prompt.shared :]
        tokens = ModelCall(call_id, "", "", {}, None, prompt_token_ids=tail, completion_token_ids=sampled)
        tokens = _linked(tokens, prompt)
        self._calls[call_id] = tokens
        rendered = prompt.how == "rendered" and prompt.parent is not None
        self._kept[call_id] = _Kept(tokens, len(request.messages), rendered)
        return certify(self._calls, call_id, sent)

    def _next(
        self,
        request: ModelRequest,
        placement: Placement,
        parent: Node,
        told: tuple[int, ...],
        echoes: tuple[Echo, ...],
    ) -> tuple[tuple[int, ...], str]:
        if any("edited" in echo.changes for echo in echoes):
            return self._rendered(request), "rendered"
        if placement.tools == parent.tools:
            new, how = self._extended(request, told, parent.id), "extended"
        else:
            new, how = self._replayed(request, parent.id), "replayed"
        return (self._rendered(request), "rendered") if new is None else (tuple(new), how)

    def _extended(self, request: ModelRequest, told: Sequence[int], call_id: str) -> Sequence[int] | None:
        count = self._kept[call_id].messages + 1
        messages = self._as_told(request)
        return self._renderer.extend(told, self._sampled(call_id), messages[count:], names_in(messages[:count]))

    def _replayed(self, request: ModelRequest, call_id: str) -> Sequence[int] | None:
        """The same turns under other tools: each sampled answer as it was, everything else rendered again."""
        line: list[str] = []
        at: str | None = call_id
        while at is not None:
            if self._kept[at].rendered:
                return None
            line.append(at)
            at = self._calls[at].parent
        line.reverse()
        messages = self._as_told(request)
        ids: Sequence[int] | None = self._renderer.render(messages[: self._kept[line[0]].messages], request.tools)
        for position, step in enumerate(line):
            if ids is None:
                return None
            begin = self._kept[step].messages + 1
            end = self._kept[line[position + 1]].messages if position + 1 < len(line) else len(messages)
            ids = self._renderer.extend(ids, self._sampled(step), messages[begin:end], names_in(messages[:begin]))
        return ids

    def _rendered(self, request: ModelRequest) -> tuple[int, ...]:
        return tuple(self._renderer.render(self._as_told(request), request.tools))

    def _as_told(self, request: ModelRequest) -> list[dict[str, Any]]:
        """The messages with the model's own ids of tool calls, for templates that show them."""
        return [_renamed(message, self._own_ids) for message in request.messages] if self._own_ids else request.messages

    def _sampled(self, call_id: str) -> tuple[int, ...]:
        return self._calls[call_id].completion_token_ids or ()

    def _left(self, ids: tuple[int, ...]) -> int:
        """The first position at which `ids` differs from every conversation so far."""
        found: dict[str, int] = {}
        for call in self._calls.values():
            above = found.get(call.parent or "", 0)
            if above >= call.shared_tokens:
                own = (call.prompt_token_ids or ()) + (call.completion_token_ids or ())
                above = call.shared_tokens + alike(ids[call.shared_tokens :], own)
            found[call.id] = above
        return max(found.values())


def alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many leading tokens are the same."""
    count = min(len(one), len(other))
    if one[:count] == other[:count]:
        return count
    return next(i for i in range(count) if one[i] != other[i])


def _renamed(message: dict[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    if message.get("tool_call_id") in ids:
        return {**message, "tool_call_id": ids[message["tool_call_id"]]}
    calls = message.get("tool_calls")
    if not calls or not any(isinstance(call, dict) and call.get("id") in ids for call in calls):
        return message
    return {**message, "tool_calls": [{**call, "id": ids.get(call.get("id"), call.get("id"))} for call in calls]}


def _linked(tokens: ModelCall, prompt: Prompt) -> ModelCall:
    return msgspec.structs.replace(tokens, parent=prompt.parent, shared_tokens=prompt.shared)


def _echoes(parent: Node, messages: Sequence[dict[str, Any]]) -> tuple[Echo, ...]:
    """What the client changed in assistant turns since the parent was asked, its answer included."""
    before = [*parent.request.messages, parent.answer or {}]
    found = (
        Echo(position, changes_in(old, new))
        for position, (old, new) in enumerate(zip(before, messages, strict=False))
        if new.get("role") == "assistant" and old is not new and old != new
    )
    return tuple(echo for echo in found if echo.changes)
