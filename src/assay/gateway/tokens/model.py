"""Session model over a token backend: renders new messages, keeps sampled tokens, and certifies each call.

`RenderedBackend` is what `open_backend` returns for such a model, once per run. Each session gets its own `TokenModel`
(`assay.gateway.model.open_session_model`), which holds the session's tokens. Used as a plain backend it renders each
request whole.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from assay.errors import ProviderError, boundary
from assay.gateway.call_tree import CallTree, Placement
from assay.gateway.interface import (
    LoadListener,
    ModelReply,
    ModelRequest,
    OnDeltas,
    ReportsLoad,
    TokenBackend,
    TokenReply,
)
from assay.gateway.model import ModelAnswer, discard_deltas
from assay.records import Usage

from .conversation import Prompt, TokenHistory
from .interface import ParsedReply, Renderer
from .streaming import IncrementalParser, token_end_offsets

_FORWARDED = ("temperature", "top_p", "top_k", "min_p", "seed", "stop")
_NEUTRAL_VALUES: dict[str, tuple[Any, ...]] = {
    "tool_choice": (None, "auto"),
    "response_format": (None, {"type": "text"}),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "reasoning_effort": (None,),
    "parallel_tool_calls": (None, True),
}
"""Options that token backends do not support, with their neutral values."""
Steer = Callable[[ModelRequest], Awaitable[Sequence[int] | None]]
_ROOT = CallTree().locate(ModelRequest([]))


class TokenModel:
    """The model of one session. Implements `Model`.

    `forced` sampling options replace the client's, for example a temperature for training. `steer`, for tests, gives
    the answer to a request token by token, or None.
    """

    def __init__(
        self,
        backend: TokenBackend,
        renderer: Renderer,
        forced: Mapping[str, Any] | None = None,
        steer: Steer | None = None,
    ) -> None:
        self.name = backend.name
        self.reads_pictures = False
        """False: the prompt is rendered here, as text (see `assay.gateway.model.reads_pictures`)."""
        self._backend = backend
        self._renderer = renderer
        self._forced = dict(forced or {})
        self._steer = steer
        self._conversation = TokenHistory(renderer)

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> ModelAnswer:
        prompt = self._prompt(request, placement)
        pieces = IncrementalParser(self._renderer, prompt.ids, request.tools)
        streamed = False

        async def on_tokens(tokens: Sequence[int]) -> None:
            nonlocal streamed
            deltas = pieces.feed(tokens)
            if deltas:
                streamed = True
                await on_deltas(deltas)

        sent = prompt.ids
        sampling = self._sampling(request.sampling)
        steered = await self._steer(request) if self._steer is not None else None
        if steered is not None:
            sampling["steered"] = list(steered)
        on_sampled = None if on_deltas is discard_deltas else on_tokens
        sampled = await self._backend.generate(sent, sampling, self._renderer.stop_ids, on_sampled)
        parsed = self._renderer.parse(sampled.token_ids, sent, request.tools)
        message = _message(call_id, parsed)
        reply = self._reply(message, request, prompt, sampling, sampled)
        if streamed:
            await on_deltas(pieces.finish(reply.message))
        own_ids = {_tool_call_id(call_id, n): call.id for n, call in enumerate(parsed.calls) if call.id is not None}
        certificate = self._conversation.add(call_id, request, prompt, sampled.token_ids, sent, own_ids)
        return ModelAnswer(reply, prompt.cause, prompt.differs_at, prompt.shared, certificate)

    def _prompt(self, request: ModelRequest, placement: Placement) -> Prompt:
        try:
            with boundary(ProviderError, f"this conversation cannot be put into the {self._renderer.name} template"):
                return self._conversation.build_prompt(request, placement)
        except ProviderError as exc:
            raise ProviderError(str(exc), status=400, retryable=False) from exc

    def _sampling(self, requested: Mapping[str, Any]) -> dict[str, Any]:
        chosen = {key: requested[key] for key in _FORWARDED if requested.get(key) is not None}
        most = requested.get("max_completion_tokens") or requested.get("max_tokens")
        if most is not None:
            chosen["max_tokens"] = most
        return chosen | self._forced

    def _reply(
        self,
        message: dict[str, Any],
        request: ModelRequest,
        prompt: Prompt,
        sampling: dict[str, Any],
        sampled: TokenReply,
    ) -> ModelReply:
        finish = "tool_calls" if "tool_calls" in message and sampled.finish_reason == "stop" else sampled.finish_reason
        counts = {"prompt_tokens": len(prompt.ids), "completion_tokens": len(sampled.token_ids)}
        text = self._renderer.text(sampled.token_ids)
        details: dict[str, Any] = {
            "prompt": prompt.method,
            "text": text,
            "ends": token_end_offsets(sampled.token_ids, text, self._renderer.text),
            "echoes": [{"message": echo.position, "changes": echo.changes} for echo in prompt.echoes],
            "ignored": _ignored_options(request.sampling, request.tools),
            "sampling": {name: value for name, value in sampling.items() if name != "steered"},
        }
        return ModelReply(
            message=message,
            finish_reason=finish,
            usage=Usage(**counts, cached_tokens=sampled.cached_tokens),
            raw={
                "object": "chat.completion",
                "model": self.name,
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": counts | {"total_tokens": sum(counts.values())},
                "assay": {key: value for key, value in details.items() if value},
            },
            request={**sampling, "model": self.name, "messages": request.messages, "tools": request.tools},
            model=self.name,
            tries=sampled.tries,
            prompt_token_ids=prompt.ids,
            completion_token_ids=sampled.token_ids,
            logprobs=_usable_logprobs(sampled),
            weight_version=sampled.weight_version,
            weight_spans=sampled.weight_spans,
        )


class RenderedBackend:
    """A token backend and its renderer, as one `ModelBackend`."""

    def __init__(
        self,
        tokens: TokenBackend,
        renderer: Renderer,
        forced: Mapping[str, Any] | None = None,
        steer: Steer | None = None,
    ) -> None:
        self.name = tokens.name
        self.tokens = tokens
        self.renderer = renderer
        self._forced = forced
        self._steer = steer

    def session(self) -> TokenModel:
        """Opens a model for one session."""
        return TokenModel(self.tokens, self.renderer, self._forced, self._steer)

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Sends one request without history. See `ModelBackend.complete`."""
        answered = await self.session().ask(secrets.token_hex(8), request, _ROOT, on_deltas or discard_deltas)
        return answered.reply

    def report_load(self, listener: LoadListener) -> None:
        """Tells a listener how the server of the token backend copes. See `ReportsLoad`."""
        if isinstance(self.tokens, ReportsLoad):
            self.tokens.report_load(listener)

    async def close(self) -> None:
        """Closes the token backend. Idempotent."""
        await self.tokens.close()


def _message(call_id: str, parsed: ParsedReply) -> dict[str, Any]:
    """Returns the canonical assistant message; tool-call ids are derived from the call id and the position."""
    message: dict[str, Any] = {"role": "assistant", "content": parsed.text or None}
    if parsed.reasoning:
        message["reasoning_content"] = parsed.reasoning
    if parsed.calls:
        message["tool_calls"] = [
            {
                "id": _tool_call_id(call_id, position),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for position, call in enumerate(parsed.calls)
        ]
    return message


def _tool_call_id(call_id: str, position: int) -> str:
    return f"call_{hashlib.blake2b(f'{call_id}/{position}'.encode(), digest_size=12).hexdigest()}"


def _ignored_options(requested: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> list[str]:
    found = [key for key, harmless in _NEUTRAL_VALUES.items() if requested.get(key) not in harmless]
    return found + [f"tools: {tool.get('type')}" for tool in tools if not isinstance(tool.get("function"), dict)]


def _usable_logprobs(sampled: TokenReply) -> tuple[float, ...] | None:
    logprobs = sampled.logprobs
    fits = len(logprobs) == len(sampled.token_ids) and all(map(math.isfinite, logprobs))
    return logprobs if fits and logprobs else None
