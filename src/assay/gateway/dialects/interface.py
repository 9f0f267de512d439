"""The dialect interface. Pure: bytes and decoded JSON in, bytes out; no I/O, no clock, no state between calls. Input is
untrusted: parsing raises only `BadRequest`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from assay.gateway.interface import Delta, ModelReply, ModelRequest
from assay.http.messages import Response

ProblemKind = Literal[
    "bad_request", "unauthorized", "not_found", "too_large", "context_length", "rate_limited", "spent", "upstream"
]


class BadRequest(Exception):
    """The request does not fit the dialect."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message if field is None else f"{field}: {message}")
        self.field = field


class ApiProblem(NamedTuple):
    """An error to be returned to a client."""

    kind: ProblemKind
    message: str
    field: str | None = None
    retry_after_s: float | None = None


class RequestTarget(msgspec.Struct, frozen=True, gc=False):
    """Request target below the session's prefix: `/v1/messages`, query string and headers.

    `query` and `headers` (lower-case names) hold nothing secret: credentials are taken out before.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


class ParsedRequest(msgspec.Struct, frozen=True, gc=False):
    """A parsed model call."""

    request: ModelRequest
    model: str
    """Model name as the client wrote it, repeated in the reply."""
    stream: bool = False
    context: dict[str, Any] = {}
    """Request details for the same dialect's writer."""
    content_type: str = "text/event-stream"
    """Content type of a streamed reply."""


class StreamWriter(Protocol):
    """Writes one answer as events. Order: `start` once, `delta` any number of times, then `end` or `error` once;
    `keep_alive` at any time between `start` and the end. What it returns is sent in the order of the calls."""

    def start(self) -> bytes:
        """Returns the opening event; empty if the dialect has none."""
        ...

    def delta(self, delta: Delta) -> bytes:
        """Encodes a delta."""
        ...

    def keep_alive(self) -> bytes:
        """Returns a no-op event of the protocol: clients ignore comments or time out on them."""
        ...

    def end(self, reply: ModelReply) -> bytes:
        """Closes open blocks and ends the stream; all of `reply.message` was written as deltas before."""
        ...

    def error(self, problem: ApiProblem) -> bytes:
        """Ends the stream with an error."""
        ...


class Dialect(Protocol):
    """One API; an instance serves all sessions."""

    name: str
    """`openai-chat`, `openai-responses`, `anthropic-messages`, `gemini`."""

    def owns(self, target: RequestTarget) -> bool:
        """Returns whether a path belongs to this dialect, including paths it rejects."""
        ...

    def answer(self, target: RequestTarget, model: str) -> Response | None:
        """Answers requests that are not model calls (model list, probe); None for model calls."""
        ...

    def parse(self, target: RequestTarget, body: dict[str, Any]) -> ParsedRequest:
        """Parses a model call. Raises `BadRequest` naming the field."""
        ...

    def reply(self, parsed: ParsedRequest, reply: ModelReply, call_id: str, created: float) -> bytes:
        """Encodes the whole reply. `created` is in seconds since the Unix epoch."""
        ...

    def stream(self, parsed: ParsedRequest, call_id: str, created: float) -> StreamWriter:
        """Returns a writer for one streamed reply."""
        ...

    def error(self, problem: ApiProblem) -> Response:
        """Encodes an error."""
        ...

    def lineage(self, target: RequestTarget, body: dict[str, Any]) -> dict[str, str]:
        """Returns the client's own identifiers under common names: `session`, `thread`, `agent`, `parent`, `kind`.
        Values are truncated to 200 characters and used only to tell branches apart."""
        ...
