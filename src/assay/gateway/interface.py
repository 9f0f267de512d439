"""The one canonical model call, what answers it, and what the gateway asks of whoever runs it.

A request is in the shape of OpenAI Chat Completions whatever dialect a client spoke: roles `system`, `user`,
`assistant` (with `reasoning_content` and `tool_calls`) and `tool` (with `tool_call_id`); content is text, or a list of
parts `{"type": "text", "text": ...}` and `{"type": "image_url", "image_url": {"url": ...}}`; tools are function tools.

Keys of messages that Chat Completions does not have, kept because their dialect needs them again: `thinking_blocks`
(signed reasoning), `encrypted_content` (sealed reasoning), `is_error` (of a tool's message), `extra_content` (of a tool
call: a thought's signature). Parts of unknown `type` stand in a content as their client sent them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from assay.records import BranchCause, Certificate, Usage

__all__ = [
    "CallHooks",
    "Delta",
    "Exchange",
    "ModelBackend",
    "ModelReply",
    "ModelRequest",
    "OnDeltas",
    "TokenBackend",
    "TokenReply",
]


class ModelRequest(msgspec.Struct, frozen=True, gc=False):
    """A request in the shape of OpenAI Chat Completions."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    sampling: dict[str, Any] = {}
    """temperature, top_p, max_tokens, seed, stop, tool_choice, response_format, ...: passed on as they are."""
    dialect: str = "openai-chat"
    """What the client spoke."""
    passthrough: dict[str, Any] = {}
    """Fields of the client's dialect that have no canonical form; given to a server of the same dialect, and kept."""


class Delta(msgspec.Struct, frozen=True, gc=False):
    """A piece of an answer while it is generated. One of a tool call has `index`; its first has `id` and `name`.

    Pieces of one kind come in order; a piece of another kind, or of another call, ends the one before.
    """

    text: str = ""
    reasoning: str = ""
    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    prompt_tokens: int | None = None
    """Of a first piece, where it is known already: how many tokens the prompt has."""
    sealed: dict[str, Any] | None = None
    """Something that only servers and clients of one dialect understand (a `signature` of the reasoning before it, or
    a whole block with its `type`); writers of other dialects leave it out."""


OnDeltas = Callable[[Sequence[Delta]], Awaitable[None]]


class ModelReply(msgspec.Struct, frozen=True, gc=False):
    """An answer. `message` is the assistant message as the server gave it, `raw` its whole body."""

    message: dict[str, Any]
    finish_reason: str | None
    """`stop`, `length`, `tool_calls`, `content_filter`, or what the server said; None where it said nothing."""
    usage: Usage
    raw: dict[str, Any]
    request: dict[str, Any]
    """The exact body that was sent, without credentials."""
    model: str
    tries: int = 1
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    weight_version: str | None = None


@runtime_checkable
class ModelBackend(Protocol):
    """A model server, or a stand-in for one. Retries live here and nowhere else."""

    name: str
    """What a record calls the model, for example `openai:gpt-x` or `scripted:cases.yaml`."""

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Asks once (retrying what is worth retrying).

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


class TokenReply(msgspec.Struct, frozen=True):
    """What was sampled. `logprobs[i]` is the log-probability of `token_ids[i]` under the sampling distribution; NaN
    nowhere: a backend that has none gives an empty tuple."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    """`stop` (a stop token, which is the last of `token_ids`, or a stop text) or `length`."""
    weight_version: str | None = None
    tries: int = 1
    cached_tokens: int | None = None
    """How many leading tokens of the prompt the backend had read before; None where it does not say."""


@runtime_checkable
class TokenBackend(Protocol):
    """A model that takes token prompts and says exactly what it sampled."""

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
    """One finished exchange with a client, as it is handed to whoever records. Nothing in it is redacted yet."""

    id: str
    request: ModelRequest
    reply: ModelReply | None
    """None where no answer came."""
    error: str | None
    model: str
    raw_request: bytes
    """What the client sent, byte for byte."""
    raw_response: bytes
    """What the client was sent: a JSON body, or the whole event stream."""
    started: float
    ended: float
    delivered: bool
    parent: str | None
    branch: str
    cause: BranchCause | None
    differs_at: int | None
    shared_messages: int
    shared_tokens: int
    certificate: Certificate | None
    lineage: dict[str, str]


class CallHooks(Protocol):
    """What the gateway tells whoever runs it, in this order for each call. Exceptions refuse the call.

    `LimitReached` is answered with the dialect's error for a spent budget; `StoreError` ends the session.
    """

    async def before(self, request: ModelRequest, parent: str | None) -> str:
        """A call is about to be made; its id. What came before it is committed before the client is answered.

        Raises:
            LimitReached: Nothing is left of what the session may use.
        """
        ...

    async def after(self, exchange: Exchange) -> None:
        """A call has ended, well or not; it is committed when this returns, and the client gets its end only then."""
        ...
