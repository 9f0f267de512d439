"""The token history of one session: contexts and sampled tokens of finished calls, and the next prompt.

Invariant: a prompt that continues a call begins with that call's prompt and sampled tokens, unchanged. Otherwise the
prompt is rendered anew and the call begins a branch, with its cause and the first token position that differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.gateway.call_tree import CallNode, Placement
from assay.gateway.interface import ModelRequest
from assay.records import BranchCause, ModelCall, SpanProof

from .echoes import find_changes
from .interface import Renderer
from .messages import tool_call_names
from .rows import certify, context_of


class Echo(NamedTuple):
    """An assistant turn that the client changed."""

    position: int
    """Index of the message in the request."""
    changes: tuple[str, ...]
    """Kinds of changes, as listed in `echoes`."""


class Prompt(NamedTuple):
    """A prompt for the model."""

    ids: tuple[int, ...]
    parent: str | None
    shared: int
    """Number of leading ids shared with the parent's prompt and sampled tokens."""
    cause: BranchCause | None
    differs_at: int | None
    """First differing token position; None if no branch was left."""
    method: str
    """`extended`, `replayed` (the same turns under other tools), or `rendered` from the client's messages."""
    echoes: tuple[Echo, ...]


class _StoredCall(NamedTuple):
    tokens: ModelCall
    messages: int
    """Number of messages in its request."""
    rendered: bool
    """The prompt was rendered from the client's messages instead of extending the parent's tokens."""


class TokenHistory:
    """Finished calls of one session, each with its new tokens only."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._calls: dict[str, ModelCall] = {}
        self._stored: dict[str, _StoredCall] = {}
        self._own_ids: dict[str, str] = {}
        """Client-visible tool-call ids to the model's own."""

    def build_prompt(self, request: ModelRequest, placement: Placement) -> Prompt:
        """Builds the prompt of a request without changing the history."""
        parent = placement.parent
        if parent is None or parent.id not in self._calls:
            ids = self._rendered(request)
            why: BranchCause = placement.cause or ("unjoined" if self._calls else "root")
            return Prompt(ids, None, 0, why, self._divergence_position(ids) if self._calls else None, "rendered", ())
        context = context_of(self._calls, parent.id)
        whole = context + self._sampled(parent.id)
        echoes = _find_echoes(parent, request.messages)
        ids, method = self._continue_prompt(request, placement, parent, context, echoes)
        shared = common_prefix_length(ids, whole)
        cause = placement.cause
        if shared < len(whole) and cause is None:
            cause = "rewritten"
        return Prompt(ids, parent.id, shared, cause, None if cause is None else shared, method, echoes)

    def add(
        self,
        call_id: str,
        request: ModelRequest,
        prompt: Prompt,
        sampled: tuple[int, ...],
        sent: Sequence[int],
        own_ids: Mapping[str, str],
    ) -> SpanProof:
        """Stores a finished call and returns its certificate."""
        self._own_ids |= own_ids
        tail = prompt.ids[prompt.shared :]
        tokens = ModelCall(call_id, "", "", {}, None, prompt_token_ids=tail, completion_token_ids=sampled)
        tokens = _link(tokens, prompt)
        self._calls[call_id] = tokens
        rendered = prompt.method == "rendered" and prompt.parent is not None
        self._stored[call_id] = _StoredCall(tokens, len(request.messages), rendered)
        return certify(self._calls, call_id, sent)

    def _continue_prompt(
        self,
        request: ModelRequest,
        placement: Placement,
        parent: CallNode,
        context: tuple[int, ...],
        echoes: tuple[Echo, ...],
    ) -> tuple[tuple[int, ...], str]:
        if any("edited" in echo.changes for echo in echoes):
            return self._rendered(request), "rendered"
        if placement.tools == parent.tools:
            new, method = self._extended(request, context, parent.id), "extended"
        else:
            new, method = self._replayed(request, parent.id), "replayed"
        return (self._rendered(request), "rendered") if new is None else (tuple(new), method)

    def _extended(self, request: ModelRequest, context: Sequence[int], call_id: str) -> Sequence[int] | None:
        count = self._stored[call_id].messages + 1
        messages = self._with_model_ids(request)
        return self._renderer.extend(
            context, self._sampled(call_id), messages[count:], tool_call_names(messages[:count])
        )

    def _replayed(self, request: ModelRequest, call_id: str) -> Sequence[int] | None:
        """Re-renders the turns under other tools; sampled replies stay unchanged."""
        line: list[str] = []
        at: str | None = call_id
        while at is not None:
            if self._stored[at].rendered:
                return None
            line.append(at)
            at = self._calls[at].parent
        line.reverse()
        messages = self._with_model_ids(request)
        ids: Sequence[int] | None = self._renderer.render(messages[: self._stored[line[0]].messages], request.tools)
        for position, step in enumerate(line):
            if ids is None:
                return None
            begin = self._stored[step].messages + 1
            end = self._stored[line[position + 1]].messages if position + 1 < len(line) else len(messages)
            ids = self._renderer.extend(
                ids, self._sampled(step), messages[begin:end], tool_call_names(messages[:begin])
            )
        return ids

    def _rendered(self, request: ModelRequest) -> tuple[int, ...]:
        return tuple(self._renderer.render(self._with_model_ids(request), request.tools))

    def _with_model_ids(self, request: ModelRequest) -> list[dict[str, Any]]:
        return (
            [_with_own_ids(message, self._own_ids) for message in request.messages]
            if self._own_ids
            else request.messages
        )

    def _sampled(self, call_id: str) -> tuple[int, ...]:
        return self._calls[call_id].completion_token_ids or ()

    def _divergence_position(self, ids: tuple[int, ...]) -> int:
        """Returns the first position at which `ids` differs from all conversations so far."""
        found: dict[str, int] = {}
        for call in self._calls.values():
            above = found.get(call.parent or "", 0)
            if above >= call.shared_tokens:
                own = (call.prompt_token_ids or ()) + (call.completion_token_ids or ())
                above = call.shared_tokens + common_prefix_length(ids[call.shared_tokens :], own)
            found[call.id] = above
        return max(found.values())


def common_prefix_length(one: Sequence[int], other: Sequence[int]) -> int:
    """Returns the number of equal leading tokens."""
    count = min(len(one), len(other))
    if one[:count] == other[:count]:
        return count
    return next(i for i in range(count) if one[i] != other[i])


def _with_own_ids(message: dict[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    if message.get("tool_call_id") in ids:
        return {**message, "tool_call_id": ids[message["tool_call_id"]]}
    calls = message.get("tool_calls")
    if not calls or not any(isinstance(call, dict) and call.get("id") in ids for call in calls):
        return message
    return {**message, "tool_calls": [{**call, "id": ids.get(call.get("id"), call.get("id"))} for call in calls]}


def _link(tokens: ModelCall, prompt: Prompt) -> ModelCall:
    return msgspec.structs.replace(tokens, parent=prompt.parent, shared_tokens=prompt.shared)


def _find_echoes(parent: CallNode, messages: Sequence[dict[str, Any]]) -> tuple[Echo, ...]:
    """Returns the client's changes to assistant turns since the parent call, its reply included."""
    before = [*parent.messages, parent.answer or {}]
    found = (
        Echo(position, find_changes(old, new))
        for position, (old, new) in enumerate(zip(before, messages, strict=False))
        if new.get("role") == "assistant" and old is not new and old != new
    )
    return tuple(echo for echo in found if echo.changes)
