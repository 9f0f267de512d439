"""What a dialect is. Pure: bytes and decoded JSON in, bytes out; it opens no socket, reads no clock, keeps no state
between calls. Everything that it parses is a stranger's: it raises `BadRequest` and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from assay.gateway.http.messages import Written
from assay.gateway.interface import Delta, ModelReply, ModelRequest

__all__ = ["BadRequest", "Dialect", "Parsed", "Problem", "ProblemKind", "StreamWriter", "Target", "Written"]

ProblemKind = Literal[
    "bad_request", "unauthorized", "not_found", "too_large", "context_length", "rate_limited", "spent", "upstream"
]


class BadRequest(Exception):
    """The request does not fit the dialect.

    Args:
        message: What was expected and what was found.
        field: Where, for example `messages[2].content`.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message if field is None else f"{field}: {message}")
        self.field = field


class Problem(NamedTuple):
    """Why a client gets an error instead of an answer."""

    kind: ProblemKind
    message: str
    field: str | None = None
    retry_after_s: float | None = None


class Target(msgspec.Struct, frozen=True, gc=False):
    """What a client addressed, below the session's own prefix: `/v1/messages`, query string and headers.

    `query` and `headers` (lower-case names) hold nothing secret: credentials are taken out before.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


class Parsed(msgspec.Struct, frozen=True, gc=False):
    """What a client asked, understood."""

    request: ModelRequest
    model: str
    """What the client calls the model; the answer says the same."""
    stream: bool = False
    context: dict[str, Any] = {}
    """What the same dialect's writer needs to know of the request; nobody else reads it."""
    content_type: str = "text/event-stream"
    """Of the answer, where it is streamed."""


class StreamWriter(Protocol):
    """Writes one answer as events. Order: `start` once, `delta` any number of times, then `end` or `error` once;
    `keep_alive` at any time between `start` and the end. What it returns is sent in the order of the calls."""

    def start(self) -> bytes:
        """What comes before the first piece; empty where the dialect has no such event."""
        ...

    def delta(self, delta: Delta) -> bytes:
        """A piece of the answer."""
        ...

    def keep_alive(self) -> bytes:
        """A real event of the protocol that changes nothing: clients ignore comments, or time out on them."""
        ...

    def end(self, reply: ModelReply) -> bytes:
        """Closes what is open and ends the stream. All of `reply.message` was written by `delta` before."""
        ...

    def error(self, problem: Problem) -> bytes:
        """Ends the stream with an error."""
        ...


class Dialect(Protocol):
    """One API. An instance serves every session."""

    name: str
    """`openai-chat`, `openai-responses`, `anthropic-messages`, `gemini`."""

    def owns(self, target: Target) -> bool:
        """Whether requests to this path are in this dialect (also those that it will refuse)."""
        ...

    def answer(self, target: Target, model: str) -> Written | None:
        """The answer to what is no model call (a list of models, a probe); None where it is a model call."""
        ...

    def parse(self, target: Target, body: dict[str, Any]) -> Parsed:
        """Reads a model call. Raises `BadRequest` naming the field."""
        ...

    def reply(self, parsed: Parsed, reply: ModelReply, call_id: str, created: float) -> bytes:
        """The whole answer at once. `created` is in seconds since the Unix epoch."""
        ...

    def stream(self, parsed: Parsed, call_id: str, created: float) -> StreamWriter:
        """A writer for one streamed answer."""
        ...

    def error(self, problem: Problem) -> Written:
        """The dialect's proper error."""
        ...

    def lineage(self, target: Target, body: dict[str, Any]) -> dict[str, str]:
        """What the client says of itself, under common names: `session`, `thread`, `agent`, `parent`, `kind`.
        Values are cut at 200 characters; nothing is trusted beyond telling branches apart."""
        ...
