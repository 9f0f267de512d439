"""Reads a request's address and body within bounds. What a stranger sends raises `BadRequest` or `Refused`."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
from aiohttp import web

from .connections import Budget
from .dialects import BadRequest, Problem, Target, is_too_deep
from .session import Refused

__all__ = ["Addressed", "Body", "address", "read_body"]

_SECRET_HEADERS = {"authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization"}
_DECODER = msgspec.json.Decoder()
_VALUE_BYTES = 100
"""What one value of decoded JSON takes, roughly."""
_SHALLOW = 300


class Addressed(NamedTuple):
    """What is addressed, in which session, with which key; the key stands nowhere else."""

    target: Target
    session: str | None
    key: str | None


class Body:
    """One request's body, and what of the budget it holds until `release`."""

    def __init__(self, budget: Budget, most_bytes: int, most_values: int) -> None:
        self._budget = budget
        self._held = 0
        self.most_bytes = most_bytes
        self.most_values = most_values

    def hold(self, size: int) -> None:
        """Takes more of the budget. Raises `Refused` where too little is left for all requests at once."""
        if not self._budget.take(size):
            message = "too much is being asked at once; come back"
            raise Refused(Problem("rate_limited", message, retry_after_s=1.0))
        self._held += size

    def release(self) -> None:
        """Gives everything back."""
        held, self._held = self._held, 0
        self._budget.give(held)


def address(request: web.BaseRequest) -> Addressed:
    """Raises `BadRequest` where the address is none."""
    try:
        parts = urlsplit(_clean(request.path_qs))
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=50))
    except ValueError as exc:
        message = f"the address is none: {exc}"
        raise BadRequest(message) from exc
    path = parts.path
    session: str | None = None
    if path.startswith("/s/"):
        session, _, rest = path[3:].partition("/")
        path = "/" + rest
    headers = {name.lower(): _clean(value) for name, value in request.headers.items()}
    authorization = headers.get("authorization", "")
    key = authorization[7:].strip() if authorization[:7].lower() == "bearer " else None
    asked = query.pop("key", None)
    key = key or headers.get("x-api-key") or headers.get("x-goog-api-key") or asked
    public = {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
    return Addressed(Target(request.method, path, query, public), session, key)


def _clean(text: str) -> str:
    """Text that can be encoded: bytes that are no UTF-8 come as lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


async def read_body(request: web.BaseRequest, body: Body, timeout_s: float) -> tuple[dict[str, Any], bytes]:
    """The decoded body and its bytes."""
    if request.method != "POST":
        raise Refused(Problem("not_found", f"{request.method[:20]} is nothing here; model calls are POST"))
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        message = "compressed bodies are not taken; send it plain"
        raise BadRequest(message, "Content-Encoding")
    if (request.content_length or 0) > body.most_bytes:
        raise Refused(Problem("too_large", f"a body of {request.content_length} bytes; at most {body.most_bytes}"))
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > body.most_bytes:
                    raise Refused(Problem("too_large", f"a body of more than {body.most_bytes} bytes"))
                body.hold(len(chunk))
                chunks.append(chunk)
    except TimeoutError as exc:
        message = f"the body did not arrive within {timeout_s:g} s"
        raise BadRequest(message) from exc
    except (web.PayloadAccessError, ConnectionError, ValueError) as exc:
        message = f"the body is broken: {type(exc).__name__}"
        raise BadRequest(message) from exc
    raw = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    return _decode(raw, body), raw


def _decode(raw: bytes, body: Body) -> dict[str, Any]:
    opened = raw.count(b"[") + raw.count(b"{")
    values = opened + raw.count(b",")
    if values > body.most_values:
        raise Refused(Problem("too_large", f"a body of up to {values} values; at most {body.most_values}"))
    body.hold(values * _VALUE_BYTES)
    try:
        decoded = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        message = f"the body is not JSON: {exc}"
        raise BadRequest(message) from exc
    except RecursionError as exc:
        message = "the body is nested too deeply"
        raise BadRequest(message) from exc
    if opened > _SHALLOW and is_too_deep(decoded):
        message = "the body is nested too deeply"
        raise BadRequest(message)
    if not isinstance(decoded, dict):
        message = f"the body must be a JSON object, not {type(decoded).__name__}"
        raise BadRequest(message)
    return decoded
