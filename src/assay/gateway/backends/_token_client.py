"""Base of clients for servers that take token prompts, on top of `ModelClient`.

Replies are not streamed, because streamed token ids are unreliable on some servers; the gateway keeps its client alive
meanwhile. A log-probability that is null, not finite, or the sentinel -9999 is missing, and one missing value drops all
of the call's.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from assay.gateway.interface import ModelRequest, TokenReply
from assay.records import Usage

from ._client import ModelClient, ReplyStream
from ._reply import CONTEXT_LENGTH, Completion, invalid_reply, invalid_request
from ._retry import ClientOptions

_SENTINEL = -9999.0
_DEFAULT_TOKENS = 4096
Shape = TypeVar("Shape")


class TokenClient(ModelClient):
    """Client of a server that takes token prompts, for example at `http://127.0.0.1:8000`; a `/v1` at its end is
    ignored.

    `context` is the maximum of prompt and answer tokens together; None leaves the check to the server.
    """

    credential = "OPENAI_API_KEY"

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
        super().__init__(name, base_url, api_key, model=model, options=options)
        self._context = context

    @abstractmethod
    def _prompt_body(
        self, prompt: list[int], most: int, sampling: dict[str, Any], stop_ids: Sequence[int]
    ) -> dict[str, Any]:
        """Encodes the request body."""

    @abstractmethod
    def _token_reply(self, raw: dict[str, Any], prompt: list[int], stop_ids: Sequence[int]) -> TokenReply:
        """Validates a reply. Raises `ProviderError` naming the field."""

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: dict[str, Any],
        stop_ids: Sequence[int] = (),
        on_tokens: Callable[[Sequence[int]], Awaitable[None]] | None = None,
    ) -> TokenReply:
        ids = list(prompt)
        body = self._prompt_body(ids, self._max_tokens(ids, sampling), sampling, stop_ids)
        got = await self.complete(ModelRequest(messages=[], sampling=body))
        return msgspec.structs.replace(self._token_reply(got.raw, ids, stop_ids), tries=got.tries)

    def _max_tokens(self, prompt: list[int], sampling: dict[str, Any]) -> int:
        most = int(sampling.get("max_tokens") or _DEFAULT_TOKENS)
        if self._context is None:
            return most
        if len(prompt) >= self._context:
            raise invalid_request(
                f"{CONTEXT_LENGTH}: the prompt has {len(prompt)} tokens, and the context {self._context}"
            )
        return min(most, self._context - len(prompt))

    def _path_at(self, base: str) -> str:
        return base.removesuffix("/v1") + self.path

    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    def _body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        return request.sampling

    def _read(self, body: bytes) -> Completion:
        try:
            raw = json.loads(body)  # takes NaN, which some servers write
        except (ValueError, RecursionError) as exc:
            raise invalid_reply(f"{self._where} gave a reply that is not JSON: {exc}") from exc
        if not isinstance(raw, dict):
            raise invalid_reply(f"{self._where} gave a reply that is not a JSON object")
        return Completion({}, None, Usage(), raw, None, None, None, None)

    def _reply_stream(self) -> ReplyStream:
        raise NotImplementedError


def convert_answer(raw: dict[str, Any], shape: type[Shape], name: str) -> Shape:
    """Converts `raw` to `shape`. Raises `ProviderError` naming the field."""
    try:
        return msgspec.convert(raw, shape)
    except msgspec.ValidationError as exc:
        raise invalid_reply(f"{name} gave an answer that is not as documented: {exc}") from exc


def complete_logprobs(logprobs: Sequence[float | None], count: int) -> tuple[float, ...]:
    """Returns the log-probabilities if all `count` are known, else an empty tuple."""
    known = tuple(float(one) for one in logprobs if one is not None and math.isfinite(one) and one > _SENTINEL)
    return known if len(known) == count == len(logprobs) else ()
