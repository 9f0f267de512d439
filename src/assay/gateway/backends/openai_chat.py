"""A plain client for any server that speaks OpenAI Chat Completions, streamed and not."""

from __future__ import annotations

from typing import Any

from assay.gateway.interface import ModelRequest

from ._chat_body import chat_body
from ._chat_stream import ChatStream
from ._client import ModelClient, ReplyStream
from ._reply import Completion, read_completion


class OpenAIChatBackend(ModelClient):
    """Asks `base_url + /chat/completions`; the credential is a bearer token. See `ModelClient`."""

    path = "/chat/completions"
    credential = "OPENAI_API_KEY"

    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    def _body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        body = chat_body(request, self._model)
        return body | {"stream": True, "stream_options": {"include_usage": True}} if stream else body

    def _read(self, body: bytes) -> Completion:
        return read_completion(body, self._where)

    def _reply_stream(self) -> ReplyStream:
        return ChatStream(self._where)

    def _address_hint(self) -> str:
        return ", and does the URL end in /v1"
