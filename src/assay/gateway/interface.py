"""What a model backend is: one question in the Chat Completions shape, one answer with what is known of its tokens."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import msgspec

from assay.records import Usage

__all__ = ["ModelBackend", "ModelReply", "ModelRequest"]


class ModelRequest(msgspec.Struct, frozen=True):
    """A request in the shape of OpenAI Chat Completions."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    sampling: dict[str, Any] = {}
    """temperature, top_p, max_tokens, seed, stop, ...: passed on as they are."""


class ModelReply(msgspec.Struct, frozen=True):
    """An answer. `message` is the assistant message as the server gave it, `raw` its whole body."""

    message: dict[str, Any]
    finish_reason: str | None
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


@runtime_checkable
class ModelBackend(Protocol):
    """A model server, or a stand-in for one. Retries live here and nowhere else."""

    name: str
    """What a record calls the model, for example `openai:gpt-x` or `scripted:cases.yaml`."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Asks once (retrying what is worth retrying).

        Raises:
            ProviderError: The server failed for good; `retryable` says whether another try later may help.
                `status` 400 with `context_length_exceeded` in the message means that the prompt is too long.
        """
        ...

    async def close(self) -> None:
        """Releases connections. Idempotent."""
        ...
