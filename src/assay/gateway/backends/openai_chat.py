"""A plain client for any server that speaks OpenAI Chat Completions.

One connection pool, kept alive; one request, one bounded reply. It does not stream, does not tokenize, and keeps no
conversation. Retries of model calls live here and nowhere else.

Covered: credentials are sent in one header and appear in no record and no error text, also when the server echoes
them; replies are bounded before they are parsed and checked field by field; redirects are refused, so that a
credential cannot be led to another host; compressed replies are refused, so that none can unfold.
Not covered: a server that returns the credential re-coded, for example as base64; an echoed credential of fewer than
12 characters (such as the `EMPTY` that local servers want), which is no secret and may be an ordinary word.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import msgspec

from assay.errors import ProviderError, UserError
from assay.gateway.interface import ModelReply, ModelRequest, OnDeltas

from ._reply import CONTEXT_LENGTH, read_completion, read_error
from ._retry import ClientOptions, back_off, retry_after, worth_retrying
from .pricing import Prices

__all__ = ["ClientOptions", "OpenAIChatBackend"]

_REDACTED = "[credential]"
_SHORTEST_SECRET = 12
_ENCODER = msgspec.json.Encoder()


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class OpenAIChatBackend:
    """Asks `base_url + /chat/completions`.

    Args:
        name: What records call the model.
        base_url: For example `http://127.0.0.1:8000/v1`.
        api_key: Sent as a bearer token; None sends none.
        model: What the server calls the model; default `name`.
        options: Patience and bounds.
        prices: Where the cost of a call is looked up; an unknown price gives `cost_usd` None.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        api_key: str | None = None,
        *,
        model: str | None = None,
        options: ClientOptions | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.name = name
        self._model = model or name
        self._options = options or ClientOptions()
        parts = urlsplit(base_url)
        self._where = f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"
        path = parts.path.rstrip("/") + "/chat/completions"
        self._url = parts._replace(path=path, fragment="").geturl()
        self._query = parts.query
        self._key = api_key = _usable(api_key)
        self._secret = api_key if api_key and len(api_key) >= _SHORTEST_SECRET else None
        self._price = (prices or Prices()).find(self._model)
        self._jitter = random.Random(self._options.seed)
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        """Shows the model and the server, never the credential."""
        return f"OpenAIChatBackend({self.name!r}, {self._where!r})"

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Asks, with retries. See `ModelBackend.complete`."""
        body: dict[str, Any] = {**request.sampling, "model": self._model, "messages": request.messages}
        if body.get("stream"):
            message = "this client does not stream: take `stream` out of the sampling options"
            raise UserError(message)
        if request.tools:
            body["tools"] = request.tools
        data = _ENCODER.encode(body)
        started, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                answer = await self._send(data)
                return self._reply(answer, body, tries)
            except ProviderError as exc:
                wait_s = self._wait(exc, tries, time.monotonic() - started)
                if wait_s is None:
                    raise
            await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _wait(self, error: ProviderError, tries: int, spent_s: float) -> float | None:
        """How long to wait before the next try; None to give up."""
        options, asked = self._options, error.retry_after_s
        if not error.retryable or tries >= options.max_tries:
            return None
        if asked is not None and asked > options.retry_after_max_s:
            return None
        wait_s = back_off(options, tries, asked, self._jitter)
        return wait_s if spent_s + wait_s < options.total_s else None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "assay"}
            if self._key is not None:
                headers["Authorization"] = f"Bearer {self._key}"
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
                timeout=aiohttp.ClientTimeout(total=self._options.timeout_s, connect=self._options.connect_s),
                headers=headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    async def _send(self, data: bytes) -> _Answer:
        """One try. Whatever the connection does wrong becomes a `ProviderError` without the request's headers."""
        try:
            async with self._open().post(self._url, data=data, allow_redirects=False) as response:
                return _Answer(response.status, response.headers, await self._read(response))
        except TimeoutError as exc:
            message = (
                f"{self._where} did not answer in {self._options.timeout_s:g} s (connect {self._options.connect_s:g})"
            )
            raise ProviderError(message) from exc
        except (aiohttp.InvalidURL, aiohttp.ClientSSLError) as exc:
            message = f"{self._where} cannot be asked: {type(exc).__name__}: {self._hide(str(exc))}"
            raise ProviderError(message, retryable=False) from exc
        except (aiohttp.ClientError, OSError) as exc:
            message = (
                f"{self._where}: {type(exc).__name__}: {self._hide(str(exc))}; is the server up, and the URL right?"
            )
            raise ProviderError(message) from exc

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._options.max_reply_bytes
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            message = f"{self._where} gave a reply with Content-Encoding {encoding[:40]!r} though none was asked for"
            raise ProviderError(message, status=response.status, retryable=False)
        size, chunks = 0, []
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                response.close()
                message = f"{self._where} gave a reply longer than {limit} bytes"
                raise ProviderError(message, status=response.status, retryable=False)
            chunks.append(chunk)
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return self._hide_bytes(body)

    def _reply(self, answer: _Answer, body: dict[str, Any], tries: int) -> ModelReply:
        if answer.status != 200:
            raise self._refusal(answer)
        got = read_completion(answer.body, self._where)
        return ModelReply(
            message=got.message,
            finish_reason=got.finish_reason,
            usage=got.usage,
            raw=got.raw,
            request=body,
            model=got.model or self._model,
            tries=tries,
            cost_usd=None if self._price is None else self._price.cost(got.usage),
            prompt_token_ids=got.prompt_token_ids,
            completion_token_ids=got.completion_token_ids,
            logprobs=got.logprobs,
        )

    def _refusal(self, answer: _Answer) -> ProviderError:
        error, status = read_error(answer.status, answer.body), answer.status
        if error.context_length:
            return ProviderError(f"{CONTEXT_LENGTH}: {self._where}: {error.text}", status=400, retryable=False)
        hint = ""
        if 300 <= status < 400:
            hint = f"; it redirects to {self._hide(answer.headers.get('Location', '?'))[:200]}: name that URL instead"
        elif status in {401, 403}:
            hint = "; check OPENAI_API_KEY" if self._key else "; it wants a credential: see OPENAI_API_KEY"
        elif status == 404:
            hint = f"; does it serve {self._model!r}, and does the URL end in /v1?"
        message = f"{self._where} answered {status}{f' {error.code}' if error.code else ''}: {error.text}{hint}"
        return ProviderError(
            message,
            status=status,
            retry_after_s=retry_after(answer.headers),
            retryable=worth_retrying(status, error.code),
        )

    def _hide(self, text: str) -> str:
        """Takes the credential, and the query of the address, which may hold one, out of a text; bounds it."""
        for secret in (self._secret, self._query):
            text = text.replace(secret, _REDACTED) if secret else text
        return text[:300]

    def _hide_bytes(self, body: bytes) -> bytes:
        secret = self._secret.encode() if self._secret else b""
        return body.replace(secret, _REDACTED.encode()) if secret and secret in body else body


def _usable(api_key: str | None) -> str | None:
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        message = "OPENAI_API_KEY holds a line break or a character that no header may hold: set it again"
        raise UserError(message)
    return key or None
