"""The model behind a session: sends a placed call and reports what is known of the reply's tokens.

A plain backend renders prompts itself, so its replies are certified only if they carry tokens. A token backend is used
through `assay.gateway.tokens`, which renders the prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol, TypeGuard

import msgspec

from assay.records import BranchCause, SpanProof

from .call_tree import Placement
from .interface import Delta, ModelBackend, ModelReply, ModelRequest, OnDeltas


async def discard_deltas(_: Sequence[Delta]) -> None:
    """Discards deltas, for clients that do not stream."""


class ModelAnswer(msgspec.Struct, frozen=True, gc=False):
    """A reply and its effect on the tokens of its branch."""

    reply: ModelReply
    cause: BranchCause | None
    """The placement's cause, or one found by comparing tokens."""
    differs_at: int | None = None
    shared_tokens: int = 0
    certificate: SpanProof | None = None


class Model(Protocol):
    """The model of one session; `name` is its name in records."""

    name: str

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> ModelAnswer:
        """Sends one call; `on_deltas` is `discard_deltas` if the client does not stream."""
        ...


class PlainModel:
    """A backend that takes messages."""

    def __init__(self, backend: ModelBackend) -> None:
        self.name = backend.name
        self.reads_pictures = reads_pictures(backend)
        self._backend = backend

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> ModelAnswer:
        reply = await self._backend.complete(request, None if on_deltas is discard_deltas else on_deltas)
        return ModelAnswer(_normalizer()(reply, call_id), placement.cause, placement.differs_at)


@cache
def _normalizer() -> Callable[[ModelReply, str], ModelReply]:
    from .dialects import normalize_tool_calls  # late: an agent in this process needs none of the dialects

    return normalize_tool_calls


def reads_pictures(model: Model | ModelBackend) -> bool:
    """Returns whether a model is sent the pictures of a request. One that is sent text alone sets `reads_pictures =
    False`; it gets words in their place."""
    return getattr(model, "reads_pictures", True) is not False


class SessionBackend(Protocol):
    """A backend with state for each session: its tokens, or a recorded conversation."""

    def session(self) -> Model:
        """Opens the model of one session."""
        ...


def open_session_model(backend: ModelBackend) -> Model:
    """Opens a session's model."""
    return backend.session() if _has_sessions(backend) else PlainModel(backend)


def _has_sessions(backend: ModelBackend) -> TypeGuard[SessionBackend]:
    return hasattr(backend, "session")
