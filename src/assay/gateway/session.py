"""One client's session: its key, its limits, and its calls.

Invariant: a call is recorded before the client gets the end of its response, and each started call is recorded as
ended, whatever happens to the client and to its answer.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from assay.errors import AssayError, LimitReached, ProviderError

from .call_tree import CallNode, CallTree, Placement
from .dialects import ApiProblem, ParsedRequest
from .interface import CallHooks, Exchange, OnDeltas
from .model import Model, ModelAnswer
from .nesting import estimate_memory

ID_BYTES, KEY_BYTES = 9, 24
_CALL_BYTES = 1024
"""Approximate bytes of memory of one call without its content."""
MAX_CONCURRENT_CALLS = 64
"""Maximum concurrent calls of a session; further ones get 429."""


class CallRefused(AssayError):
    """The call was rejected or failed; `problem` is returned to the client."""

    def __init__(self, problem: ApiProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class PendingCall(msgspec.Struct, gc=False):
    """A running call."""

    id: str
    parsed: ParsedRequest
    raw: bytes
    placement: Placement
    started: float
    has_ended: bool = False
    """It is recorded, or will be at once."""


class GatewaySession:
    """A client's session."""

    def __init__(self, model: Model, hooks: CallHooks, max_bytes: int) -> None:
        self.id = secrets.token_urlsafe(ID_BYTES)
        self.key = secrets.token_urlsafe(KEY_BYTES)
        self._key_bytes = self.key.encode()
        self.model = model
        self.call_tree = CallTree(estimate_memory)
        self.open = True
        self.busy = 0
        self._hooks = hooks
        self._max_bytes = max_bytes
        self._held_bytes = 0
        """Memory of what calls brought beside messages and tools."""

    def accepts_key(self, key: str | None) -> bool:
        """Returns whether this is the session's key, in constant time."""
        return key is not None and self.open and hmac.compare_digest(key.encode(), self._key_bytes)

    async def begin(self, parsed: ParsedRequest, raw: bytes, lineage: Mapping[str, str]) -> PendingCall:
        """Starts a call. Raises `CallRefused`."""
        if self.busy >= MAX_CONCURRENT_CALLS:
            message = f"{MAX_CONCURRENT_CALLS} calls of this session are under way; wait for one to end"
            raise CallRefused(ApiProblem("rate_limited", message, retry_after_s=1.0))
        if self._held_bytes + self.call_tree.size > self._max_bytes:
            raise CallRefused(ApiProblem("spent", f"the calls of this session hold more than {self._max_bytes} bytes"))
        self.busy += 1
        try:
            placement = self.call_tree.locate(parsed.request, lineage)
            parent = placement.parent.id if placement.parent is not None else None
            call_id = await self._hooks.before(parsed.request, parent)
        except LimitReached as exc:
            self.busy -= 1
            raise CallRefused(ApiProblem("spent", f"nothing is left of this attempt's budget: {exc}")) from exc
        except BaseException:
            self.busy -= 1
            raise
        return PendingCall(call_id, parsed, raw, placement, time.time())

    async def ask(self, call: PendingCall, on_deltas: OnDeltas) -> ModelAnswer:
        """Sends the call to the model. Raises `CallRefused` after recording a failure."""
        try:
            return await self.model.ask(call.id, call.parsed.request, call.placement, on_deltas)
        except ProviderError as exc:
            problem = _problem_of(exc)
            await self.fail(call, str(exc))
            raise CallRefused(problem) from exc
        except BaseException as exc:
            await self.fail(call, f"{type(exc).__name__}: {exc}")
            raise

    async def finish(self, call: PendingCall, answered: ModelAnswer, raw_response: bytes, *, delivered: bool) -> None:
        """Records a successful call."""
        self._release(call)
        placement = self.call_tree.settle(call.placement, call.parsed.request)
        if placement is not call.placement:
            answered = replace(answered, cause=placement.cause, differs_at=answered.differs_at or placement.differs_at)
        elif answered.cause is not None and placement.cause is None:
            # Only the tokens showed that the call does not go on with its parent's branch.
            placement = replace(placement, branch=None, cause=answered.cause)
        if placement is not call.placement:
            call = replace(call, placement=placement)
        node = self.call_tree.add(call.id, placement, call.parsed.request, answered.reply.message)
        await self._hooks.after(self._exchange(call, node, answered, None, raw_response, delivered=delivered))

    async def fail(self, call: PendingCall, error: str) -> None:
        """Records a failed call."""
        self._release(call)
        call = replace(call, placement=self.call_tree.settle(call.placement, call.parsed.request))
        node = self.call_tree.add(call.id, call.placement, call.parsed.request, None)
        await self._hooks.after(self._exchange(call, node, None, error, b"", delivered=False))

    async def fail_unended(self, call: PendingCall, exc: BaseException) -> None:
        """Records a call as failed whose answer could not be written; does nothing for one that has ended."""
        if not call.has_ended:
            await self.fail(call, f"the answer could not be written: {type(exc).__name__}: {exc}")

    def _release(self, call: PendingCall) -> None:
        """Ends a call, and counts what is held of it beside the call tree."""
        self.busy -= 1
        call.has_ended = True
        self._held_bytes += _CALL_BYTES
        beside = call.parsed.request.passthrough, call.placement.lineage
        if any(beside):
            self._held_bytes += estimate_memory(beside)

    def _exchange(
        self,
        call: PendingCall,
        node: CallNode,
        answered: ModelAnswer | None,
        error: str | None,
        raw_response: bytes,
        *,
        delivered: bool,
    ) -> Exchange:
        placement, request = call.placement, call.parsed.request
        if request.tools:
            request = replace(request, tools=node.tool_list)  # one object for calls with the same tools
        return Exchange(
            id=call.id,
            request=request,
            reply=answered.reply if answered else None,
            error=error,
            model=self.model.name,
            raw_request=call.raw,
            raw_response=raw_response,
            started=call.started,
            ended=time.time(),
            delivered=delivered,
            parent=placement.parent.id if placement.parent is not None else None,
            branch=placement.branch or call.id,
            cause=answered.cause if answered else placement.cause,
            differs_at=answered.differs_at if answered else placement.differs_at,
            shared_messages=placement.shared_messages,
            shared_tokens=answered.shared_tokens if answered else 0,
            certificate=answered.certificate if answered else None,
            lineage=dict(placement.lineage),
        )


def _problem_of(exc: ProviderError) -> ApiProblem:
    if exc.status == 400 and "context_length_exceeded" in str(exc):
        return ApiProblem("context_length", str(exc))
    if exc.status == 429:
        return ApiProblem("rate_limited", str(exc), retry_after_s=exc.retry_after_s or 1.0)
    if exc.status is not None and 400 <= exc.status < 500:
        return ApiProblem("bad_request", str(exc))
    return ApiProblem("upstream", str(exc), retry_after_s=exc.retry_after_s)
