"""One client's conversation with the gateway: who it is, what it may use, and its calls one by one.

Invariant: a call is recorded before the client gets the end of its answer, and whatever happens to the client a call
that was begun is recorded as ended.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from assay.errors import AssayError, LimitReached, ProviderError

from .dialects import Parsed, Problem
from .forest import Forest, Placement
from .interface import CallHooks, Exchange, OnDeltas
from .model import Answered, Model

__all__ = ["Begun", "Refused", "Session"]

ID_BYTES, KEY_BYTES = 9, 24
MOST_AT_ONCE = 64
"""Calls of one session under way at once; further ones are told to come back."""


class Refused(AssayError):
    """The call is not made, or failed; `problem` is what the client is told."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Begun(msgspec.Struct, frozen=True, gc=False):
    """A call under way."""

    id: str
    parsed: Parsed
    raw: bytes
    placement: Placement
    started: float


class Session:
    """A client that may call.

    Args:
        model: What answers.
        hooks: Who records and limits.
        gate: Set while traffic flows; calls wait for it.
    """

    def __init__(self, model: Model, hooks: CallHooks, gate: asyncio.Event) -> None:
        self.id = secrets.token_urlsafe(ID_BYTES)
        self.key = secrets.token_urlsafe(KEY_BYTES)
        self._key_bytes = self.key.encode()
        self.model = model
        self.forest = Forest()
        self.open = True
        self.busy = 0
        self._hooks = hooks
        self._gate = gate

    def admits(self, key: str | None) -> bool:
        """Whether this is the session's key, compared in constant time."""
        return key is not None and self.open and hmac.compare_digest(key.encode(), self._key_bytes)

    async def begin(self, parsed: Parsed, raw: bytes, lineage: Mapping[str, str]) -> Begun:
        """Takes a place for a call. Raises `Refused`."""
        if self.busy >= MOST_AT_ONCE:
            message = f"{MOST_AT_ONCE} calls of this session are under way; wait for one to end"
            raise Refused(Problem("rate_limited", message, retry_after_s=1.0))
        self.busy += 1
        try:
            if not self._gate.is_set():
                await self._gate.wait()
            placement = self.forest.place(parsed.request, lineage)
            parent = placement.parent.id if placement.parent is not None else None
            call_id = await self._hooks.before(parsed.request, parent)
        except LimitReached as exc:
            self.busy -= 1
            raise Refused(Problem("spent", f"nothing is left of this attempt's budget: {exc}")) from exc
        except BaseException:
            self.busy -= 1
            raise
        return Begun(call_id, parsed, raw, placement, time.time())

    async def ask(self, begun: Begun, on_deltas: OnDeltas) -> Answered:
        """Asks the model. Raises `Refused` after the failure was recorded."""
        try:
            return await self.model.ask(begun.id, begun.parsed.request, begun.placement, on_deltas)
        except ProviderError as exc:
            problem = _problem(exc)
            await self.fail(begun, str(exc))
            raise Refused(problem) from exc
        except BaseException as exc:
            await self.fail(begun, f"{type(exc).__name__}: {exc}")
            raise

    async def finish(self, begun: Begun, answered: Answered, raw_response: bytes, *, delivered: bool) -> None:
        """Records a call that was answered."""
        self.busy -= 1
        placement = self.forest.settle(begun.placement, begun.parsed.request)
        if placement is not begun.placement:
            answered = replace(answered, cause=placement.cause, differs_at=answered.differs_at or placement.differs_at)
        elif answered.cause is not None and placement.cause is None:
            # Only the tokens showed that the call does not go on with its parent's branch.
            placement = replace(placement, branch=None, cause=answered.cause)
        begun = replace(begun, placement=placement)
        self.forest.add(begun.id, begun.placement, begun.parsed.request, answered.reply.message)
        await self._hooks.after(self._exchange(begun, answered, None, raw_response, delivered=delivered))

    async def fail(self, begun: Begun, error: str) -> None:
        """Records a call that got no answer."""
        self.busy -= 1
        begun = replace(begun, placement=self.forest.settle(begun.placement, begun.parsed.request))
        self.forest.add(begun.id, begun.placement, begun.parsed.request, None)
        await self._hooks.after(self._exchange(begun, None, error, b"", delivered=False))

    def _exchange(
        self, begun: Begun, answered: Answered | None, error: str | None, raw_response: bytes, *, delivered: bool
    ) -> Exchange:
        placement = begun.placement
        return Exchange(
            id=begun.id,
            request=begun.parsed.request,
            reply=answered.reply if answered else None,
            error=error,
            model=self.model.name,
            raw_request=begun.raw,
            raw_response=raw_response,
            started=begun.started,
            ended=time.time(),
            delivered=delivered,
            parent=placement.parent.id if placement.parent is not None else None,
            branch=placement.branch or begun.id,
            cause=answered.cause if answered else placement.cause,
            differs_at=answered.differs_at if answered else placement.differs_at,
            shared_messages=placement.shared_messages,
            shared_tokens=answered.shared_tokens if answered else 0,
            certificate=answered.certificate if answered else None,
            lineage=dict(placement.lineage),
        )


def _problem(exc: ProviderError) -> Problem:
    if exc.status == 400 and "context_length_exceeded" in str(exc):
        return Problem("context_length", str(exc))
    if exc.status == 429:
        return Problem("rate_limited", str(exc), retry_after_s=exc.retry_after_s or 1.0)
    if exc.status is not None and 400 <= exc.status < 500:
        return Problem("bad_request", str(exc))
    return Problem("upstream", str(exc), retry_after_s=exc.retry_after_s)
