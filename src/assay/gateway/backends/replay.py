"""Serves the replies of a recorded attempt, so that the same harness repeats its run in a fresh sandbox.

Requests are matched by position: a request that continues the reply to a recorded call gets the reply of the call that
continued there, also with concurrent sub-agents; a repeated request gets the next reply recorded there, or the same
one. Calls without an answer and undelivered answers are skipped.

Roles and the ids of made and answered tool calls must match. Texts may differ (times, paths, process ids); the first
difference is reported in the reply's `replay.differs_at`. A mismatch raises an error that names the call and the
message, and the attempt ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from assay.errors import ProviderError
from assay.gateway.call_tree import CallTree, Placement, content_text
from assay.gateway.interface import ModelReply, ModelRequest, OnDeltas
from assay.gateway.model import Model, ModelAnswer
from assay.gateway.pictures import name_pictures
from assay.records import ModelCall, digest_bytes


class RecordedCall(NamedTuple):
    """An answered call of a record."""

    call: ModelCall
    messages: Sequence[dict[str, Any]]
    """The full conversation of its request."""
    answer: dict[str, Any]


class ReplayBackend:
    """A recorded attempt as a model. Every session replays all of it from the start."""

    def __init__(self, calls: Sequence[RecordedCall], name: str) -> None:
        self.name = name
        self._calls = tuple(calls)
        self._default_session: _ReplayedSession | None = None
        self._call_tree = CallTree()

    def session(self) -> Model:
        return _ReplayedSession(self._calls, self.name)

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Replays one conversation after another; see `ModelBackend.complete`."""
        self._default_session = self._default_session or _ReplayedSession(self._calls, self.name)
        call_id, placement = f"c{len(self._call_tree) + 1}", self._call_tree.locate(request)
        reply = self._default_session.answer(call_id, request, placement)
        self._call_tree.add(call_id, placement, request, reply.message)
        return reply

    async def close(self) -> None:
        """Holds nothing."""


class _ReplayedSession:
    def __init__(self, calls: Sequence[RecordedCall], name: str) -> None:
        self.name = name
        recorded = {one.call.id for one in calls}
        self._next: dict[str | None, list[RecordedCall]] = {}
        for one in calls:
            parent = one.call.parent if one.call.parent in recorded else None
            self._next.setdefault(parent, []).append(one)
        self._matched: dict[str, RecordedCall] = {}
        """Call id of this session, to the recorded call it was answered from."""
        self._used: set[str] = set()
        self._calls_seen = 0

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> ModelAnswer:
        reply = self.answer(call_id, request, placement)
        return ModelAnswer(reply, placement.cause, placement.differs_at)

    def answer(self, call_id: str, request: ModelRequest, placement: Placement) -> ModelReply:
        """Returns the recorded reply. Raises `ProviderError`, not retryable, if the client diverged."""
        self._calls_seen += 1
        request = msgspec.structs.replace(request, messages=[*name_pictures(request.messages, digest_bytes)])
        found = self._find(request, placement)
        self._matched[call_id] = found
        self._used.add(found.call.id)
        response = found.call.response or {}
        differs_at = _first_difference(request.messages, found.messages)
        replay = {"call": found.call.id, "differs_at": differs_at}
        return ModelReply(
            message=found.answer,
            finish_reason=_finish_reason(response),
            usage=found.call.usage,
            raw={"choices": response["choices"], "replay": replay},
            request={},
            model=self.name,
            cost_usd=0.0,
        )

    def _find(self, request: ModelRequest, placement: Placement) -> RecordedCall:
        before = self._matched.get(placement.parent.id) if placement.parent is not None else None
        recorded_next = self._next.get(before.call.id if before is not None else None, [])
        fresh = [one for one in recorded_next if one.call.id not in self._used]
        fits = [one for one in fresh if _shape_mismatch(request.messages, one.messages) is None]
        # One that was given already is given again: the client lost it, or asks what it asked before.
        fits = fits or [
            one for one in reversed(recorded_next) if _shape_mismatch(request.messages, one.messages) is None
        ]
        if fits:
            return max(fits, key=lambda one: _equal_text_count(request, one))
        where = "begins" if before is None else f"goes on from recorded call {before.call.id}"
        if not fresh:
            reason = "and the record holds no reply there"
        else:
            at, reason = _shape_mismatch(request.messages, fresh[0].messages) or (0, "")
            reason = f"and differs from recorded call {fresh[0].call.id} at message {at}: {reason}"
        raise ProviderError(
            f"the client diverged from the record at its call {self._calls_seen}, which {where}, {reason}",
            retryable=False,
        )


def _finish_reason(response: dict[str, Any]) -> str | None:
    reason = response["choices"][0].get("finish_reason")
    return reason if isinstance(reason, str) else None


def _shape(message: dict[str, Any]) -> tuple[str, ...]:
    """Returns a message's role and the ids of the tool calls it makes or answers."""
    calls = message.get("tool_calls") or ()
    ids = sorted(str(call.get("id")) for call in calls if isinstance(call, dict))
    return (str(message.get("role")), *ids, *([str(message["tool_call_id"])] if "tool_call_id" in message else []))


def _shape_mismatch(requested: Sequence[dict[str, Any]], recorded: Sequence[dict[str, Any]]) -> tuple[int, str] | None:
    for position, (one, other) in enumerate(zip(requested, recorded, strict=False)):
        if _shape(one) != _shape(other):
            return position, f"it is {' '.join(_shape(one))}, and {' '.join(_shape(other))} was recorded"
    if len(requested) == len(recorded):
        return None
    return min(len(requested), len(recorded)), f"there are {len(requested)} messages, and {len(recorded)} were recorded"


def _first_difference(requested: Sequence[dict[str, Any]], recorded: Sequence[dict[str, Any]]) -> int | None:
    pairs = enumerate(zip(requested, recorded, strict=False))
    return next((n for n, (a, b) in pairs if content_text(a.get("content")) != content_text(b.get("content"))), None)


def _equal_text_count(request: ModelRequest, recorded: RecordedCall) -> int:
    """Counts messages with equal text, to choose among several recorded conversations."""
    pairs = zip(request.messages, recorded.messages, strict=False)
    return sum(
        content_text(requested.get("content")) == content_text(recorded.get("content")) for requested, recorded in pairs
    )
