"""A trainer's client of the rollout service: requests with its token, repeated while the service cannot be reached.

Every request of the service can be repeated, so one whose answer was lost is sent again. The token is sent to loopback
addresses and over TLS only, and never through a proxy.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import ssl
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from assay.errors import ProviderError, UserError
from assay.http.bearer import require_token
from assay.http.tls import client_tls, is_loopback

_log = logging.getLogger(__name__)
MAX_REPLY_BYTES = 1 << 30
EXCHANGE_S = 120.0
"""Maximum seconds of a request; the service waits for at most a minute."""
RETRY_S = (0.2, 5.0)
"""First and longest wait before a request is repeated."""
_BUSY = {429, 503}


class ServiceClient:
    """Asks one rollout service.

    Args:
        url: Its address.
        token_file: The file with its token.
        certificate: PEM file with the only certificate that is accepted; None accepts those of the system's
            authorities.
        patience_s: Seconds for which requests are repeated.

    Raises:
        UserError: The address would show the token, or a file cannot be read.
    """

    def __init__(self, url: str, token_file: Path, certificate: Path | None, patience_s: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UserError(f"rollout.service.url {url!r} is not an address such as http://127.0.0.1:8700")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise UserError(f"rollout.service.url {url!r} would show the token: use https beyond loopback")
        self._url, self._patience_s = url.rstrip("/"), patience_s
        try:
            token = token_file.read_text(encoding="utf-8").strip()
            context = (
                ssl.create_default_context()
                if certificate is None
                else client_tls(certificate.read_text(encoding="ascii"))
            )
        except (OSError, ValueError) as exc:  # an SSLError is an OSError
            raise UserError(f"the token or the certificate of the rollout service cannot be read: {exc}") from exc
        require_token(token, str(token_file))
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirects()
        )

    async def get(self, *path: str, **query: int) -> Any:
        """Returns the JSON answer to a GET. Raises as `post`."""
        return await self._ask(path, query, None)

    async def post(self, *path: str, body: Mapping[str, Any] | msgspec.Struct | None = None) -> Any:
        """Returns the JSON answer to a POST.

        Raises:
            UserError: The service refuses it; the message is the service's.
            ProviderError: The service was not reached for `patience_s`, or its answer is broken.
        """
        return await self._ask(path, {}, b"" if body is None else msgspec.json.encode(body))

    async def _ask(self, path: tuple[str, ...], query: Mapping[str, int], body: bytes | None) -> Any:
        target = "/".join([self._url, "v1", *(quote(part, safe="") for part in path)])
        request = urllib.request.Request(f"{target}?{urlencode(query)}" if query else target, body, self._headers)
        deadline, wait_s = time.monotonic() + self._patience_s, RETRY_S[0]
        while True:
            problem: object
            try:
                return await asyncio.to_thread(self._exchange, request)
            except HTTPError as exc:
                text = _message(exc)
                if exc.code not in _BUSY:
                    kind = ProviderError if exc.code >= 500 else UserError
                    raise kind(f"the rollout service answered {exc.code} to {request.full_url}: {text}") from exc
                problem = f"{exc.code}: {text}"
            except (OSError, http.client.HTTPException) as exc:
                problem = f"{type(exc).__name__}: {exc}"
            if time.monotonic() + wait_s > deadline:
                raise ProviderError(f"the rollout service at {self._url} cannot be reached ({problem})")
            _log.info("the rollout service at %s cannot be reached (%s); trying again", self._url, problem)
            await asyncio.sleep(wait_s)
            wait_s = min(RETRY_S[1], 2 * wait_s)

    def _exchange(self, request: urllib.request.Request) -> Any:
        with self._opener.open(request, timeout=EXCHANGE_S) as answer:
            data = answer.read(MAX_REPLY_BYTES + 1)
            if len(data) > MAX_REPLY_BYTES:
                raise ProviderError(f"the rollout service sent more than {MAX_REPLY_BYTES} bytes")
            length = answer.headers.get("Content-Length")
            if length is not None and int(length) != len(data):
                raise http.client.IncompleteRead(data)
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            raise ProviderError(f"the rollout service sent an invalid answer: {exc}") from exc


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which could lead the token elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _message(error: HTTPError) -> str:
    try:
        found = msgspec.json.decode(error.read(1 << 16))
        return str(found["error"]["message"])[:1000]
    except (msgspec.DecodeError, UnicodeDecodeError, OSError, KeyError, TypeError, http.client.HTTPException):
        return str(error.reason)
