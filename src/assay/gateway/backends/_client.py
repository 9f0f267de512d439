"""Base of all model clients: connections, retries, bounds, streams, and redaction of the credential.

One keep-alive connection pool; one bounded reply for each request. Tokenization and conversation state are not handled
here. Model calls are retried here and nowhere else. A subclass encodes the request and decodes the reply.

Covered: credentials are sent in one header and appear in no record and no error text, even when the server echoes them,
also with JSON's escapes;
replies are bounded before they are parsed and validated field by field, streamed ones both as they arrive and as a
whole; redirects and compressed replies are refused.

Not covered: a server that returns the credential re-encoded (for example as base64) or streams it to the client in
pieces (the record is redacted); an echoed credential of fewer than 12 characters, such as the `EMPTY` of local servers,
which may be an ordinary word.
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import msgspec

from assay.errors import ProviderError, UserError
from assay.gateway.backends._reply import CONTEXT_LENGTH, Completion, invalid_reply, invalid_request, read_error
from assay.gateway.backends._retry import ClientOptions, backoff_delay, is_overload, is_retryable, retry_after
from assay.gateway.backends.pricing import Prices
from assay.gateway.interface import Delta, LoadListener, ModelReply, ModelRequest, OnDeltas
from assay.http.client import ClientLimits, ClientResponse, HttpClient, ResponseTooLargeError

_REDACTED = "[credential]"
_SHORTEST_SECRET = 12
_NEEDLESS_ESCAPE = re.compile(rb"\\u00[2-7]|\\/")
"""JSON's escape of a character that a credential may hold and that needs none."""
_ENCODER = msgspec.json.Encoder()


class ReplyStream(Protocol):
    """A streamed reply, assembled as it arrives."""

    def feed(self, events: Sequence[bytes]) -> Sequence[Delta]:
        """Parses the data of events that arrived together; returns their deltas, merged.

        Raises:
            ProviderError: An event is malformed.
        """
        ...

    def assemble(self) -> dict[str, Any]:
        """Returns the reply in the server's non-streaming form. Raises `ProviderError` if the stream ended early."""
        ...


class _DeltaSink:
    """Receiver of deltas; `started` forbids a retry."""

    def __init__(self, on_deltas: OnDeltas) -> None:
        self.started = False
        self.on_deltas = on_deltas


class ModelClient(ABC):
    """Sends requests to `base_url`, for example `http://127.0.0.1:8000/v1`, + the subclass's path.

    `name` is the model's in records, `model` the server's if it differs. An unknown price gives `cost_usd` None.
    """

    path: ClassVar[str]
    credential: ClassVar[str]
    """Environment variable that holds the credential, for error messages."""

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
        self._url = parts._replace(path=self._path_at(parts.path.rstrip("/")), fragment="").geturl()
        self._query = parts.query
        self._key = api_key = self._check_key(api_key)
        self._secret = api_key if api_key and len(api_key) >= _SHORTEST_SECRET else None
        self._price = (prices or Prices()).find(self._model)
        self._jitter = random.Random(self._options.seed)
        self._http: HttpClient | None = None
        self._listener: LoadListener | None = None

    def report_load(self, listener: LoadListener) -> None:
        """Tells a listener how the server copes. See `ReportsLoad`."""
        self._listener = listener

    def __repr__(self) -> str:
        """Shows the model and the server, never the credential."""
        return f"{type(self).__name__}({self.name!r}, {self._where!r})"

    @abstractmethod
    def _headers(self) -> dict[str, str]:
        """Headers of every request, the credential among them."""

    @abstractmethod
    def _body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        """Encodes the request body."""

    @abstractmethod
    def _read(self, body: bytes) -> Completion:
        """Validates a complete reply with status 200. Raises `ProviderError`."""

    @abstractmethod
    def _reply_stream(self) -> ReplyStream:
        """Reads one streamed reply."""

    def _extra_headers(self, request: ModelRequest) -> Mapping[str, str]:
        """Headers of this request alone."""
        return {}

    def _path_at(self, base: str) -> str:
        return base + self.path

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Sends the request, with retries. See `ModelBackend.complete`."""
        if request.sampling.get("stream"):
            raise UserError("`stream` is not a sampling option: remove it")
        body = self._body(request, stream=on_deltas is not None)
        data, headers = _ENCODER.encode(body), self._extra_headers(request)
        sink = _DeltaSink(on_deltas) if on_deltas is not None else None
        started, tries = time.monotonic(), 0
        while True:
            tries += 1
            sent = time.monotonic()
            try:
                completion = await self._send_once(data, headers, sink)
                if self._listener is not None:
                    self._listener.on_reply(time.monotonic() - sent, completion.usage.completion_tokens)
                return self._model_reply(completion, body, tries)
            except ProviderError as exc:
                if self._listener is not None and is_overload(exc):
                    self._listener.on_overload()
                wait_s = self._retry_delay(exc, tries, time.monotonic() - started)
                if wait_s is None or (sink is not None and sink.started):
                    raise
            await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    def _retry_delay(self, error: ProviderError, tries: int, elapsed_s: float) -> float | None:
        options, requested_s = self._options, error.retry_after_s
        if not error.retryable or tries >= options.max_tries:
            return None
        if requested_s is not None and requested_s > options.retry_after_max_s:
            return None
        wait_s = backoff_delay(options, tries, requested_s, self._jitter)
        return wait_s if elapsed_s + wait_s < options.total_s else None

    def _open_http(self) -> HttpClient:
        if self._http is None:
            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "assay"}
            options = self._options
            patience = ClientLimits(options.connect_s, options.timeout_s, options.max_reply_bytes)
            self._http = HttpClient(self._url, headers | self._headers(), patience)
        return self._http

    async def _send_once(self, data: bytes, headers: Mapping[str, str], sink: _DeltaSink | None) -> Completion:
        """Sends the request once. Every connection error becomes a `ProviderError` without the request's headers."""
        try:
            async with self._open_http().post(data, headers) as response:
                self._refuse_compressed(response)
                if response.status != 200:
                    raise self._status_error(response, self._redact_bytes(await response.read()))
                if sink is not None and _is_stream(response):
                    return await self._read_stream(response, sink)
                return self._read(self._redact_bytes(await response.read()))
        except ResponseTooLargeError as exc:
            raise invalid_reply(
                f"{self._where} gave a reply longer than {self._options.max_reply_bytes} bytes"
            ) from exc
        except TimeoutError as exc:
            raise ProviderError(
                f"{self._where} did not answer in {self._options.timeout_s:g} s (connect {self._options.connect_s:g})"
            ) from exc
        except (ValueError, ssl.SSLError) as exc:
            raise ProviderError(
                f"{self._where} cannot be asked: {type(exc).__name__}: {self._redact(str(exc))}", retryable=False
            ) from exc
        except OSError as exc:
            raise ProviderError(
                f"{self._where}: {type(exc).__name__}: {self._redact(str(exc))}; is the server up, and the URL right?"
            ) from exc

    def _refuse_compressed(self, response: ClientResponse) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            named = self._redact(encoding)[:40]
            raise ProviderError(
                f"{self._where} gave a reply with Content-Encoding {named!r} though none was asked for",
                status=response.status,
                retryable=False,
            )

    async def _read_stream(self, response: ClientResponse, sink: _DeltaSink) -> Completion:
        """Parses events as they arrive, forwards their deltas, and validates the assembled reply."""
        events, stream = EventStreamParser(), self._reply_stream()
        while chunk := await response.read_chunk():
            deltas = stream.feed(self._redact_events(events.feed(chunk), chunk))
            if deltas:
                sink.started = True
                await sink.on_deltas(deltas)
        return self._read(self._redact_bytes(_ENCODER.encode(stream.assemble())))

    def _redact_events(self, events: list[bytes], chunk: bytes) -> list[bytes]:
        """Redacts the credential from events. Only the first event of a chunk can span two chunks."""
        secret = self._secret.encode() if self._secret else b""
        if not secret or not events:
            return events
        plain = secret not in chunk and secret not in events[0]
        if plain and not _NEEDLESS_ESCAPE.search(chunk) and not _NEEDLESS_ESCAPE.search(events[0]):
            return events
        return [self._redact_bytes(data) for data in events]

    def _model_reply(self, got: Completion, body: dict[str, Any], tries: int) -> ModelReply:
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

    def _status_error(self, response: ClientResponse, body: bytes) -> ProviderError:
        error, status = read_error(response.status, body), response.status
        if error.context_length:
            return invalid_request(f"{CONTEXT_LENGTH}: {self._where}: {error.text}")
        hint = ""
        if 300 <= status < 400:
            hint = (
                f"; it redirects to {self._redact(response.headers.get('location', '?'))[:200]}: name that URL instead"
            )
        elif status in {401, 403}:
            hint = f"; check {self.credential}" if self._key else f"; it wants a credential: see {self.credential}"
        elif status == 404:
            hint = f"; does it serve {self._model!r}{self._address_hint()}?"
        message = f"{self._where} answered {status}{f' {error.code}' if error.code else ''}: {error.text}{hint}"
        return ProviderError(
            message,
            status=status,
            retry_after_s=retry_after(response.headers),
            retryable=is_retryable(status, error.code),
        )

    def _address_hint(self) -> str:
        return ""

    def _redact(self, text: str) -> str:
        """Redacts the credential and the URL's query, which may hold one, and truncates the text."""
        for secret in (self._secret, self._query):
            text = text.replace(secret, _REDACTED) if secret else text
        return text[:300]

    def _redact_bytes(self, body: bytes) -> bytes:
        secret = self._secret.encode() if self._secret else b""
        if secret and _NEEDLESS_ESCAPE.search(body) and secret in (plain := _without_escapes(body)):
            body = plain
        return body.replace(secret, _REDACTED.encode()) if secret and secret in body else body

    def _check_key(self, api_key: str | None) -> str | None:
        key = (api_key or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise UserError(
                f"{self.credential} holds a line break or a character that no header may hold: set it again"
            )
        return key or None


def _without_escapes(body: bytes) -> bytes:
    """Returns JSON with the escapes alone that it needs; other bytes as they are."""
    try:
        return _ENCODER.encode(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body


def _is_stream(response: ClientResponse) -> bool:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"


class EventStreamParser:
    """Splits a byte stream into the data of server-sent events; event names and comments are dropped.

    Buffers one unfinished event; the caller bounds the total.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Returns the data of the events completed by `chunk`."""
        if not self._rest and not self._data and chunk.startswith(b"data:") and chunk.endswith(b"\n\n"):
            whole = chunk[5:-2].split(b"\n\ndata:")  # mostly whole events of one line each arrive
            if b"\r" not in chunk and not any([b"\n" in data for data in whole]):
                return whole
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        if self._rest:
            chunk = b"".join([*self._rest, chunk])
        *lines, rest = chunk.split(b"\n")
        self._rest = [rest] if rest else []
        found: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:])
            elif self._data and line in {b"", b"\r"}:
                found.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
        return found
