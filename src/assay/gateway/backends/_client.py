"""What every client of a model server does: connections, tries, bounds, streams, and keeping the credential to itself.

One connection pool, kept alive; one request, one bounded reply. It does not tokenize and keeps no conversation. Retries
of model calls live here and nowhere else. A subclass says how a request is written and a reply read.

Covered: credentials are sent in one header and appear in no record and no error text, also when the server echoes
them; replies are bounded before they are parsed and checked field by field, streamed ones as they grow and once more as
a whole; redirects are refused, so that a credential cannot be led to another host; compressed replies are refused, so
that none can unfold.
Not covered: a server that returns the credential re-coded, for example as base64, or streams it in pieces to the client
(the record has it taken out); an echoed credential of fewer than 12 characters (such as the `EMPTY` that local servers
want), which is no secret and may be an ordinary word.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit

import msgspec

from assay.errors import ProviderError, UserError
from assay.gateway.backends._reply import CONTEXT_LENGTH, Completion, read_error
from assay.gateway.backends._retry import ClientOptions, back_off, retry_after, worth_retrying
from assay.gateway.backends.pricing import Prices
from assay.gateway.http.client import HttpClient, Patience, Response, TooLong
from assay.gateway.interface import Delta, ModelReply, ModelRequest, OnDeltas

__all__ = ["Events", "ModelClient", "ReplyStream"]

_REDACTED = "[credential]"
_SHORTEST_SECRET = 12
_ENCODER = msgspec.json.Encoder()


class ReplyStream(Protocol):
    """A streamed reply as it grows."""

    def feed(self, events: Sequence[bytes]) -> Sequence[Delta]:
        """Takes the data of events that arrived together; the pieces that they bring, joined.

        Raises:
            ProviderError: One of them is none.
        """
        ...

    def whole(self) -> dict[str, Any]:
        """The reply in the form in which the server gives it whole. Raises `ProviderError` where its end is missing."""
        ...


class _Given:
    """Who takes pieces, and whether there were any: then nothing may be asked again."""

    def __init__(self, on_deltas: OnDeltas) -> None:
        self.begun = False
        self.on_deltas = on_deltas


class ModelClient(ABC):
    """Asks `base_url` + the subclass's path.

    Args:
        name: What records call the model.
        base_url: For example `http://127.0.0.1:8000/v1`.
        api_key: The credential; None sends none.
        model: What the server calls the model; default `name`.
        options: Patience and bounds.
        prices: Where the cost of a call is looked up; an unknown price gives `cost_usd` None.
    """

    path: ClassVar[str]
    credential: ClassVar[str]
    """The environment variable that holds it, for messages."""

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
        self._key = api_key = self._usable(api_key)
        self._secret = api_key if api_key and len(api_key) >= _SHORTEST_SECRET else None
        self._price = (prices or Prices()).find(self._model)
        self._jitter = random.Random(self._options.seed)
        self._http: HttpClient | None = None

    def __repr__(self) -> str:
        """Shows the model and the server, never the credential."""
        return f"{type(self).__name__}({self.name!r}, {self._where!r})"

    @abstractmethod
    def _headers(self) -> dict[str, str]:
        """Headers of every request, the credential among them."""

    @abstractmethod
    def _body(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        """The request as the server wants it."""

    @abstractmethod
    def _read(self, body: bytes) -> Completion:
        """Checks a whole reply with status 200. Raises `ProviderError`."""

    @abstractmethod
    def _reply_stream(self) -> ReplyStream:
        """Reads one streamed reply."""

    def _extra_headers(self, request: ModelRequest) -> Mapping[str, str]:
        """Headers of this request alone."""
        return {}

    def _path_at(self, base: str) -> str:
        return base + self.path

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        """Asks, with retries. See `ModelBackend.complete`."""
        if request.sampling.get("stream"):
            raise UserError("whether an answer is streamed is no sampling option: take `stream` out of them")
        body = self._body(request, stream=on_deltas is not None)
        data, headers = _ENCODER.encode(body), self._extra_headers(request)
        give = _Given(on_deltas) if on_deltas is not None else None
        started, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                return self._reply(await self._try(data, headers, give), body, tries)
            except ProviderError as exc:
                wait_s = self._wait(exc, tries, time.monotonic() - started)
                if wait_s is None or (give is not None and give.begun):
                    raise
            await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """Closes the connections. Idempotent."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    def _wait(self, error: ProviderError, tries: int, spent_s: float) -> float | None:
        """How long to wait before the next try; None to give up."""
        options, asked = self._options, error.retry_after_s
        if not error.retryable or tries >= options.max_tries:
            return None
        if asked is not None and asked > options.retry_after_max_s:
            return None
        wait_s = back_off(options, tries, asked, self._jitter)
        return wait_s if spent_s + wait_s < options.total_s else None

    def _open(self) -> HttpClient:
        if self._http is None:
            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "assay"}
            options = self._options
            patience = Patience(options.connect_s, options.timeout_s, options.max_reply_bytes)
            self._http = HttpClient(self._url, headers | self._headers(), patience)
        return self._http

    async def _try(self, data: bytes, headers: Mapping[str, str], give: _Given | None) -> Completion:
        """One try. Whatever the connection does wrong becomes a `ProviderError` without the request's headers."""
        try:
            async with self._open().post(data, headers) as response:
                self._refuse_packed(response)
                if response.status != 200:
                    raise self._refusal(response, self._hide_bytes(await response.whole()))
                if give is not None and _is_stream(response):
                    return await self._streamed(response, give)
                return self._read(self._hide_bytes(await response.whole()))
        except TooLong as exc:
            raise ProviderError(
                f"{self._where} gave a reply longer than {self._options.max_reply_bytes} bytes",
                status=200,
                retryable=False,
            ) from exc
        except TimeoutError as exc:
            raise ProviderError(
                f"{self._where} did not answer in {self._options.timeout_s:g} s (connect {self._options.connect_s:g})"
            ) from exc
        except (ValueError, ssl.SSLError) as exc:
            raise ProviderError(
                f"{self._where} cannot be asked: {type(exc).__name__}: {self._hide(str(exc))}", retryable=False
            ) from exc
        except OSError as exc:
            raise ProviderError(
                f"{self._where}: {type(exc).__name__}: {self._hide(str(exc))}; is the server up, and the URL right?"
            ) from exc

    def _refuse_packed(self, response: Response) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise ProviderError(
                f"{self._where} gave a reply with Content-Encoding {encoding[:40]!r} though none was asked for",
                status=response.status,
                retryable=False,
            )

    async def _streamed(self, response: Response, give: _Given) -> Completion:
        """Reads events as they come, gives their pieces on, and checks what they make together."""
        events, growing = Events(), self._reply_stream()
        while piece := await response.piece():
            deltas = growing.feed(self._hidden(events.feed(piece), piece))
            if deltas:
                give.begun = True
                await give.on_deltas(deltas)
        return self._read(self._hide_bytes(_ENCODER.encode(growing.whole())))

    def _hidden(self, events: list[bytes], piece: bytes) -> list[bytes]:
        """The events without the credential; of those that a piece brought only the first may have begun before it."""
        secret = self._secret.encode() if self._secret else b""
        if not secret or not events or (secret not in piece and secret not in events[0]):
            return events
        return [self._hide_bytes(data) for data in events]

    def _reply(self, got: Completion, body: dict[str, Any], tries: int) -> ModelReply:
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

    def _refusal(self, response: Response, body: bytes) -> ProviderError:
        error, status = read_error(response.status, body), response.status
        if error.context_length:
            return ProviderError(f"{CONTEXT_LENGTH}: {self._where}: {error.text}", status=400, retryable=False)
        hint = ""
        if 300 <= status < 400:
            hint = f"; it redirects to {self._hide(response.headers.get('location', '?'))[:200]}: name that URL instead"
        elif status in {401, 403}:
            hint = f"; check {self.credential}" if self._key else f"; it wants a credential: see {self.credential}"
        elif status == 404:
            hint = f"; does it serve {self._model!r}{self._address_hint()}?"
        message = f"{self._where} answered {status}{f' {error.code}' if error.code else ''}: {error.text}{hint}"
        return ProviderError(
            message,
            status=status,
            retry_after_s=retry_after(response.headers),
            retryable=worth_retrying(status, error.code),
        )

    def _address_hint(self) -> str:
        return ""

    def _hide(self, text: str) -> str:
        """Takes the credential, and the query of the address, which may hold one, out of a text; bounds it."""
        for secret in (self._secret, self._query):
            text = text.replace(secret, _REDACTED) if secret else text
        return text[:300]

    def _hide_bytes(self, body: bytes) -> bytes:
        secret = self._secret.encode() if self._secret else b""
        return body.replace(secret, _REDACTED.encode()) if secret and secret in body else body

    def _usable(self, api_key: str | None) -> str | None:
        key = (api_key or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise UserError(
                f"{self.credential} holds a line break or a character that no header may hold: set it again"
            )
        return key or None


def _is_stream(response: Response) -> bool:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"


class Events:
    """Cuts a byte stream into the data of its events. Event names and comments are dropped: the data say all.

    Holds one unfinished event; whoever feeds it bounds the whole.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that are complete now."""
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
