"""A client for any server that speaks Anthropic Messages, streamed and not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.gateway.interface import ModelRequest

from ._anthropic_body import anthropic_body
from ._anthropic_reply import MessageStream, read_message
from ._client import ModelClient, ReplyStream
from ._reply import Completion

_VERSION = "2023-06-01"


class AnthropicBackend(ModelClient):
    """Asks `base_url + /v1/messages`; the credential goes into `x-api-key`. See `ModelClient`."""

    path = "/v1/messages"
    credential = "ANTHROPIC_API_KEY"

    def _path_at(self, base: str) -> str:
        return base.removesuffix("/v1") + self.path

    def _headers(self) -> dict[str, str]:
        return {"anthropic-version": _VERSION} | ({} if self._key is None else {"x-api-key": self._key})

    def _extra_headers(self, request: ModelRequest) -> Mapping[str, str]:
        betas = request.passthrough.get("anthropic_beta") if request.dialect == "anthropic-messages" else None
        return {"anthropic-beta": betas} if isinstance(betas, str) and betas.isprintable() else {}

    def _body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        body = anthropic_body(request, self._model)
        return body | {"stream": True} if stream else body

    def _read(self, body: bytes) -> Completion:
        return read_message(body, self._where)

    def _reply_stream(self) -> ReplyStream:
        return MessageStream(self._where)
