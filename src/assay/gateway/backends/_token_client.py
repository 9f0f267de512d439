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
from assay.records import Usage, WeightSpan

from ._client import ModelClient, ReplyStream
from ._reply import CONTEXT_LENGTH, Completion, invalid_reply, invalid_request
from ._retry import ClientOptions

_SENTINEL = -9999.0
_DEFAULT_TOKENS = 4096
MAX_VERSION_CHARS = 200
"""Maximum length of the name of weights: it stands in the record of every call."""
MAX_IDLE_VERSIONS = 16
"""Versions beyond the number of tokens that a reply may name: weights may be replaced before a token is sampled."""
Shape = TypeVar("Shape")


class ReportedSpan(msgspec.Struct, frozen=True, gc=False):
    """Sampled tokens `start` to `end` of one version of the weights, as servers report them."""

    version: str | int
    start: int | None = None
    end: int | None = None


ReportedVersions = str | int | list[str | int | ReportedSpan] | None
"""Weights as servers report them: one version, the versions in the order in which they sampled, or their spans."""


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


def weight_spans(name: str, reported: ReportedVersions, count: int) -> tuple[str | None, tuple[WeightSpan, ...]]:
    """Returns the version of the weights at the first of `count` sampled tokens, and the spans if there are several.

    Raises:
        ProviderError: The spans do not cover the tokens, there are far more versions than tokens, or a name is too
            long.
    """
    told = [one if isinstance(one, ReportedSpan) else ReportedSpan(one) for one in _listed(reported)]
    if len(told) > count + MAX_IDLE_VERSIONS or any(len(str(one.version)) > MAX_VERSION_CHARS for one in told):
        raise invalid_reply(
            f"{name}: {len(told)} weight versions of {count} sampled tokens, or one whose name has more than "
            f"{MAX_VERSION_CHARS} characters"
        )
    has_positions = any(one.start is not None or one.end is not None for one in told)
    if has_positions:
        edges = [one.end for one in told]
        if (
            [one.start for one in told] != [0, *edges[:-1]]
            or edges[-1] != count
            or any(one.start >= one.end for one in told if one.start is not None and one.end is not None)
        ):
            raise invalid_reply(
                f"{name}: the spans of weight versions do not cover the {count} sampled tokens in order"
            )
    spans: list[WeightSpan] = []
    for one in told:
        if spans and spans[-1].version == str(one.version):
            spans.pop()
        spans.append(WeightSpan(str(one.version), one.end if has_positions else None))
    return (spans[0].version if spans else None), tuple(spans) if len(spans) > 1 else ()


def _listed(reported: ReportedVersions) -> list[str | int | ReportedSpan]:
    return reported if isinstance(reported, list) else [] if reported is None else [reported]


def complete_logprobs(logprobs: Sequence[float | None], count: int) -> tuple[float, ...]:
    """Returns the log-probabilities if all `count` are known, else an empty tuple."""
    known = tuple(float(one) for one in logprobs if one is not None and math.isfinite(one) and one > _SENTINEL)
    return known if len(known) == count == len(logprobs) else ()
