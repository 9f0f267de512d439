"""The canonical model call, the backend interfaces, and the hooks of the gateway's owner.

A request has the shape of OpenAI Chat Completions whatever dialect the client uses: roles `system`, `user`, `assistant`
(with `reasoning_content` and `tool_calls`) and `tool` (with `tool_call_id`); content is text, or a list of parts
`{"type": "text", "text": ...}` and `{"type": "image_url", "image_url": {"url": ...}}`; tools are function tools.

Message keys beyond Chat Completions, kept for their dialect: `thinking_blocks` (signed reasoning), `encrypted_content`
(sealed reasoning), `is_error` (tool messages), `extra_content` (tool calls: a thought's signature). Parts of unknown
`type` are kept as sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from assay.records import BranchCause, SpanProof, Usage, WeightSpan

_Total = TypeVar("_Total")


class MessageLog(list[dict[str, Any]]):
    """A conversation that only grows: messages are appended, and a message in it is never changed or removed.

    A request may hold the log itself, without a copy; nothing is appended while that request is under way. What is
    derived from all messages then costs what is new (`fold`), and so does placing and recording the request. With a
    plain list, each request is compared with the one before it, message by message.
    """

    def __init__(self, messages: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(messages)
        self._totals: dict[Callable[..., Any], tuple[int, Any]] = {}

    def fold(self, add: Callable[[_Total, dict[str, Any]], _Total], initial: _Total) -> _Total:
        """Returns `add` folded over all messages. The total of each `add` is kept; later calls add what is new."""
        count: int
        total: _Total
        count, total = self._totals.get(add, (0, initial))
        if count != len(self):
            for message in self[count:] if count else self:
                total = add(total, message)
            self._totals[add] = (len(self), total)
        return total


class ModelRequest(msgspec.Struct, frozen=True, gc=False):
    """A request in the shape of OpenAI Chat Completions."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    sampling: dict[str, Any] = {}
    """temperature, top_p, max_tokens, seed, stop, tool_choice, response_format, ...: passed on as they are."""
    dialect: str = "openai-chat"
    """The client's dialect."""
    passthrough: dict[str, Any] = {}
    """Fields of the client's dialect that have no canonical form; given to a server of the same dialect, and kept."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """A delta of a streamed reply. Deltas of a tool call have `index`; the first also has `id` and `name`.

    Deltas of one kind arrive in order; a delta of another kind, or of another call, ends the one before.
    """

    text: str = ""
    reasoning: str = ""
    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    prompt_tokens: int | None = None
    """Prompt tokens, in the first delta if known by then."""
    sealed: dict[str, Any] | None = None
    """Data that only one dialect understands (a `signature` of the reasoning before it, or a whole block with its
    `type`); other dialects drop it."""


OnDeltas = Callable[[Sequence[Delta]], Awaitable[None]]


class ModelReply(msgspec.Struct, frozen=True, gc=False):
    """A reply. `message` is the assistant message as the server sent it, `raw` the whole body."""

    message: dict[str, Any]
    finish_reason: str | None
    """`stop`, `length`, `tool_calls`, `content_filter`, or the server's own value; None if it gave none."""
    usage: Usage
    raw: dict[str, Any]
    request: dict[str, Any]
    """The exact request body, without credentials."""
    model: str
    tries: int = 1
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    weight_version: str | None = None
    weight_spans: tuple[WeightSpan, ...] = ()
    """As in `ModelCall`."""


@runtime_checkable
class ModelBackend(Protocol):
    """A model server, or a stand-in for one. Retries live here and nowhere else."""

    name: str
    """Name in records, for example `openai:gpt-x` or `scripted:cases.yaml`."""

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Sends the request, with retries.

        Args:
            request: What to ask.
            on_deltas: Awaited with the pieces that arrived at once, by a backend that can stream; never after the
                return. Once it was called, nothing is retried. A backend that cannot stream ignores it.

        Raises:
            ProviderError: The server failed for good; `retryable` says whether another try later may help.
                `status` 400 with `context_length_exceeded` in the message means that the prompt is too long.
        """
        ...

    async def close(self) -> None:
        """Releases connections. Idempotent."""
        ...


class LoadListener(Protocol):
    """Is told how a model server copes. Must not block."""

    def on_overload(self) -> None:
        """The server refused a request because it has too many, or did not answer it in time."""
        ...

    def on_reply(self, seconds: float, tokens: int | None) -> None:
        """The server answered a request after so many seconds, without waits before repetitions; `tokens` are those of
        the output, None where it does not count them."""
        ...


@runtime_checkable
class ReportsLoad(Protocol):
    """A backend that asks a server, and can tell how the server copes."""

    def report_load(self, listener: LoadListener) -> None:
        """Tells a listener of each answer and each overload from now on."""
        ...


def retains_requests(backend: ModelBackend) -> bool:
    """Returns whether a backend may keep or change the requests it is given, so that it needs a list of its own.

    A backend that does neither sets `retains_requests = False` and may be given a `MessageLog` that grows later.
    """
    return getattr(backend, "retains_requests", True) is not False


class TokenReply(msgspec.Struct, frozen=True):
    """Sampled tokens. `logprobs[i]` is the log-probability of `token_ids[i]` under the sampling distribution; empty if
    unknown, never NaN."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    """`stop` (a stop token, which is the last of `token_ids`, or a stop text) or `length`."""
    weight_version: str | None = None
    weight_spans: tuple[WeightSpan, ...] = ()
    """`weight_version` and `weight_spans` are as in `ModelCall`."""
    tries: int = 1
    cached_tokens: int | None = None
    """Prompt tokens found in the backend's cache; None if unknown."""


@runtime_checkable
class TokenBackend(Protocol):
    """A model that takes token prompts and returns the sampled tokens."""

    name: str

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: dict[str, Any],
        stop_ids: Sequence[int] = (),
        on_tokens: Callable[[Sequence[int]], Awaitable[None]] | None = None,
    ) -> TokenReply:
        """Samples a continuation of `prompt`.

        Args:
            prompt: Token ids.
            sampling: `max_tokens`, `temperature`, `top_p`, `top_k`, `seed`, `stop`; others are ignored.
            stop_ids: Tokens that end the answer, each kept as its last token.
            on_tokens: Awaited with new ids as they are sampled, by a backend that can stream.

        Raises:
            ProviderError: As `ModelBackend.complete`.
        """
        ...

    async def close(self) -> None:
        """Releases what it holds. Idempotent."""
        ...


class Exchange(msgspec.Struct, frozen=True, gc=False):
    """A finished exchange with a client, handed to the recorder unredacted."""

    id: str
    request: ModelRequest
    reply: ModelReply | None
    """None if there was no reply."""
    error: str | None
    model: str
    raw_request: bytes
    """The request body, byte for byte."""
    raw_response: bytes
    """The response: a JSON body, or the whole event stream."""
    started: float
    ended: float
    delivered: bool
    parent: str | None
    branch: str
    cause: BranchCause | None
    differs_at: int | None
    shared_messages: int
    shared_tokens: int
    certificate: SpanProof | None
    lineage: dict[str, str]


class CallHooks(Protocol):
    """Hooks called in this order for each call; exceptions reject the call.

    `LimitReached` is answered with the dialect's error for a spent budget; `StoreError` ends the session.
    """

    async def before(self, request: ModelRequest, parent: str | None) -> str:
        """Called before a call; returns its id. Earlier events are committed before the client is answered.

        Raises:
            LimitReached: Nothing is left of what the session may use.
        """
        ...

    async def after(self, exchange: Exchange) -> None:
        """Called after a call, successful or not; the record is committed on return, before the client gets the end of
        its response."""
        ...
