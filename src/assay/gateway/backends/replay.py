"""Serves the replies of a recorded attempt again, so that the same harness does the same in a fresh sandbox.

A request is matched by where it stands: what goes on from the reply to a recorded call gets the reply to the call that
went on from it there, also where sub-agents ask at once; what asks again gets the next reply that was given there, or
the same one. Calls without an answer, and answers that never reached their client, are left out.

What is compared is who speaks, and which tool calls are made and answered. Texts may differ (times, paths, process ids
do); the first that does is named in the reply's `replay.differs_at`. Where a client says something else altogether it
has diverged: an error says at which call and where, and the attempt ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.errors import ProviderError
from assay.gateway.forest import Forest, Placement, text_of
from assay.gateway.interface import ModelReply, ModelRequest, OnDeltas
from assay.gateway.model import Answered, Model
from assay.records import ModelCall

__all__ = ["RecordedCall", "ReplayBackend"]


class RecordedCall(NamedTuple):
    """An answered call of a record."""

    call: ModelCall
    messages: Sequence[dict[str, Any]]
    """All that it sent."""
    answer: dict[str, Any]


class ReplayBackend:
    """A recorded attempt as a model. Every session is served all of it, from the start.

    Args:
        calls: The attempt's answered calls, in the order in which they were made.
        name: What records call the model.
    """

    def __init__(self, calls: Sequence[RecordedCall], name: str) -> None:
        self.name = name
        self._calls = tuple(calls)
        self._own: _Replayed | None = None
        self._forest = Forest()

    def session(self) -> Model:
        return _Replayed(self._calls, self.name)

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Answers one conversation after the other; see `ModelBackend.complete`."""
        self._own = self._own or _Replayed(self._calls, self.name)
        call_id, placement = f"c{len(self._forest) + 1}", self._forest.place(request)
        reply = self._own.answer(call_id, request, placement)
        self._forest.add(call_id, placement, request, reply.message)
        return reply

    async def close(self) -> None:
        """Holds nothing."""


class _Replayed:
    """One session. See `Model`."""

    def __init__(self, calls: Sequence[RecordedCall], name: str) -> None:
        self.name = name
        known = {one.call.id for one in calls}
        self._next: dict[str | None, list[RecordedCall]] = {}
        for one in calls:
            parent = one.call.parent if one.call.parent in known else None
            self._next.setdefault(parent, []).append(one)
        self._given: dict[str, RecordedCall] = {}
        """Call of this session to the recorded one whose reply it got."""
        self._used: set[str] = set()
        self._asked = 0

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> Answered:
        reply = self.answer(call_id, request, placement)
        return Answered(reply, placement.cause, placement.differs_at)

    def answer(self, call_id: str, request: ModelRequest, placement: Placement) -> ModelReply:
        """The recorded reply. Raises `ProviderError`, not worth a retry, where the client has diverged."""
        self._asked += 1
        found = self._find(request, placement)
        self._given[call_id] = found
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
        before = self._given.get(placement.parent.id) if placement.parent is not None else None
        there = self._next.get(before.call.id if before is not None else None, [])
        fresh = [one for one in there if one.call.id not in self._used]
        fits = [one for one in fresh if _misfit(request.messages, one.messages) is None]
        # One that was given already is given again: the client lost it, or asks what it asked before.
        fits = fits or [one for one in reversed(there) if _misfit(request.messages, one.messages) is None]
        if fits:
            return max(fits, key=lambda one: _likeness(request, one))
        where = "begins" if before is None else f"goes on from recorded call {before.call.id}"
        if not fresh:
            reason = "and the record holds no reply there"
        else:
            at, reason = _misfit(request.messages, fresh[0].messages) or (0, "")
            reason = f"and differs from recorded call {fresh[0].call.id} at message {at}: {reason}"
        raise ProviderError(
            f"the client diverged from the record at its call {self._asked}, which {where}, {reason}", retryable=False
        )


def _finish_reason(response: dict[str, Any]) -> str | None:
    reason = response["choices"][0].get("finish_reason")
    return reason if isinstance(reason, str) else None


def _shape(message: dict[str, Any]) -> tuple[str, ...]:
    """Who speaks, and which calls are made or answered."""
    calls = message.get("tool_calls") or ()
    ids = sorted(str(call.get("id")) for call in calls if isinstance(call, dict))
    return (str(message.get("role")), *ids, *([str(message["tool_call_id"])] if "tool_call_id" in message else []))


def _misfit(asked: Sequence[dict[str, Any]], recorded: Sequence[dict[str, Any]]) -> tuple[int, str] | None:
    """The first message that is of another kind, and how; None where the conversations have one shape."""
    for position, (one, other) in enumerate(zip(asked, recorded, strict=False)):
        if _shape(one) != _shape(other):
            return position, f"it is {' '.join(_shape(one))}, and {' '.join(_shape(other))} was recorded"
    if len(asked) == len(recorded):
        return None
    return min(len(asked), len(recorded)), f"there are {len(asked)} messages, and {len(recorded)} were recorded"


def _first_difference(asked: Sequence[dict[str, Any]], recorded: Sequence[dict[str, Any]]) -> int | None:
    pairs = enumerate(zip(asked, recorded, strict=False))
    return next((n for n, (a, b) in pairs if text_of(a.get("content")) != text_of(b.get("content"))), None)


def _likeness(request: ModelRequest, recorded: RecordedCall) -> int:
    """Which of several recorded conversations is meant: the one with the most equal texts."""
    pairs = zip(request.messages, recorded.messages, strict=False)
    return sum(text_of(asked.get("content")) == text_of(known.get("content")) for asked, known in pairs)
