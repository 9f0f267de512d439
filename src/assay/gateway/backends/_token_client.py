"""Base of clients for servers that take token prompts, on top of `ModelClient`.

Replies are not streamed, because streamed token ids are unreliable on some servers; the gateway keeps its client alive
meanwhile. A log-probability that is null, not finite, or the sentinel -9999 is missing, and one missing value drops all
of the call's.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import ModelRequest, TokenReply
from assay.records import Usage

from ._client import ModelClient, ReplyStream
from ._reply import CONTEXT_LENGTH, Completion
from ._retry import ClientOptions

__all__ = ["TokenClient", "complete_logprobs", "convert_answer"]

_SENTINEL = -9999.0
_DEFAULT_TOKENS = 4096
Shape = TypeVar("Shape")


class TokenClient(ABC):
    """Client of a server that takes token prompts. See `TokenBackend`.

    Args:
        name: What records call the model.
        base_url: For example `http://127.0.0.1:8000`; a `/v1` at its end is ignored.
        api_key: Sent as a bearer token; None sends none.
        model: What the server calls the model.
        context: Tokens of prompt and answer together; None leaves it to the server to refuse.
        options: Patience and bounds.
    """

    path: str

    def __init__(
        self,
        name: str,
        base_url: str,
        api_key: str | None = None,
        *,
        model: str | None = None,
        context: int | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        self.name = name
        self._model = model or name
        self._context = context
        self._wire = _Wire(self.path, name, base_url, api_key, self._model, options)

    @abstractmethod
    def _body(self, prompt: list[int], most: int, sampling: dict[str, Any], stop_ids: Sequence[int]) -> dict[str, Any]:
        """Encodes the request body."""

    @abstractmethod
    def _reply(self, raw: dict[str, Any], prompt: list[int], stop_ids: Sequence[int]) -> TokenReply:
        """Validates a reply. Raises `ProviderError` naming the field."""

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: dict[str, Any],
        stop_ids: Sequence[int] = (),
        on_tokens: Callable[[Sequence[int]], Awaitable[None]] | None = None,
    ) -> TokenReply:
        ids = list(prompt)
        body = self._body(ids, self._most(ids, sampling), sampling, stop_ids)
        got = await self._wire.complete(ModelRequest(messages=[], sampling=body))
        return msgspec.structs.replace(self._reply(got.raw, ids, stop_ids), tries=got.tries)

    async def close(self) -> None:
        await self._wire.close()

    def _most(self, prompt: list[int], sampling: dict[str, Any]) -> int:
        most = int(sampling.get("max_tokens") or _DEFAULT_TOKENS)
        if self._context is None:
            return most
        if len(prompt) >= self._context:
            raise ProviderError(
                f"{CONTEXT_LENGTH}: the prompt has {len(prompt)} tokens, and the context {self._context}",
                status=400,
                retryable=False,
            )
        return min(most, self._context - len(prompt))


class _Wire(ModelClient):
    """Posts a prepared body and returns the decoded reply."""

    credential = "OPENAI_API_KEY"

    def __init__(
        self, path: str, name: str, base_url: str, api_key: str | None, model: str, options: ClientOptions | None
    ) -> None:
        self._own_path = path
        super().__init__(name, base_url, api_key, model=model, options=options)

    def _path_at(self, base: str) -> str:
        return base.removesuffix("/v1") + self._own_path

    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    def _body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        return request.sampling

    def _read(self, body: bytes) -> Completion:
        try:
            raw = json.loads(body)  # takes NaN, which some servers write
        except (ValueError, RecursionError) as exc:
            raise ProviderError(
                f"{self._where} gave a reply that is not JSON: {exc}", status=200, retryable=False
            ) from exc
        if not isinstance(raw, dict):
            raise ProviderError(f"{self._where} gave a reply that is not a JSON object", status=200, retryable=False)
        return Completion({}, None, Usage(), raw, None, None, None, None)

    def _reply_stream(self) -> ReplyStream:
        raise NotImplementedError


def convert_answer(raw: dict[str, Any], shape: type[Shape], name: str) -> Shape:
    """Converts `raw` to `shape`. Raises `ProviderError` naming the field."""
    try:
        return msgspec.convert(raw, shape)
    except msgspec.ValidationError as exc:
        raise ProviderError(
            f"{name} gave an answer that is not as documented: {exc}", status=200, retryable=False
        ) from exc


def complete_logprobs(given: Sequence[float | None], count: int) -> tuple[float, ...]:
    """Returns the log-probabilities if all `count` are known, else an empty tuple."""
    known = tuple(float(one) for one in given if one is not None and math.isfinite(one) and one > _SENTINEL)
    return known if len(known) == count == len(given) else ()
