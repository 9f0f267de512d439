"""Asks the model behind a session: places the call among those before it, asks, and says what is known of the answer.

A plain backend renders prompts itself, so nothing is certified unless its reply carries tokens. A backend that takes
tokens is asked through `assay.gateway.tokens`, which owns the rendering.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from assay.records import BranchCause, Certificate

from .dialects import answerable
from .forest import Placement
from .interface import Delta, ModelBackend, ModelReply, ModelRequest, OnDeltas

__all__ = ["Answered", "HasSessions", "Model", "PlainModel", "model_of", "unheard"]


async def unheard(_: Sequence[Delta]) -> None:
    """Takes pieces for a client that wants its answer whole: nobody need stream for it."""


class Answered(msgspec.Struct, frozen=True, gc=False):
    """An answer and what it means for the tokens of its branch."""

    reply: ModelReply
    cause: BranchCause | None
    """The placement's, or a cause that only the tokens show."""
    differs_at: int | None = None
    shared_tokens: int = 0
    certificate: Certificate | None = None


class Model(Protocol):
    """What a session asks. One object serves one session; `name` is what a record calls the model."""

    name: str

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> Answered:
        """Asks once; `on_deltas` is `unheard` where the client wants its answer whole.

        Raises:
            ProviderError: As `ModelBackend.complete`.
        """
        ...


class PlainModel:
    """A backend that is told messages."""

    def __init__(self, backend: ModelBackend) -> None:
        self.name = backend.name
        self._backend = backend

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> Answered:
        reply = await self._backend.complete(request, None if on_deltas is unheard else on_deltas)
        return Answered(answerable(reply, call_id), placement.cause, placement.differs_at)


@runtime_checkable
class HasSessions(Protocol):
    """A backend that knows each conversation: one that keeps its tokens, or serves a recorded one."""

    def session(self) -> Model:
        """The model of one session."""
        ...


def model_of(backend: ModelBackend) -> Model:
    """What one session asks."""
    return backend.session() if isinstance(backend, HasSessions) else PlainModel(backend)
