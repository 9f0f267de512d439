"""Parses a request's address and body within bounds. Invalid input raises `BadRequest` or `CallRefused`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from assay.http.messages import BodyBuffer, RequestHead

from .dialects import ApiProblem, BadRequest, RequestTarget
from .nesting import MAX_DEPTH, VALUE_BYTES, count_structure, is_too_deep
from .session import CallRefused

_SECRET_HEADERS = {"authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization"}
_DECODER = msgspec.json.Decoder()
_PLAIN_TARGET = re.compile(r"/(?!/)[\w./~-]*", re.ASCII)
"""A path alone, of which `urlsplit` makes nothing else."""


class SessionAddress(msgspec.Struct, frozen=True, gc=False):
    """Target, session id and key of a request; the key appears nowhere else."""

    target: RequestTarget
    session: str | None
    key: str | None


class MemoryBudget:
    """Memory budget of all concurrent requests, in bytes."""

    def __init__(self, most: int) -> None:
        self._most = self._available = most

    @property
    def reserved(self) -> int:
        """Returns the reserved bytes."""
        return self._most - self._available

    def reserve(self, size: int) -> bool:
        """Reserves bytes; returns False if too few are available."""
        if size > self._available:
            return False
        self._available -= size
        return True

    def release(self, size: int) -> None:
        """Releases reserved bytes."""
        self._available += size


class RequestBody:
    """One request's body and its share of the memory budget."""

    def __init__(self, budget: MemoryBudget, most_bytes: int, most_values: int) -> None:
        self._budget = budget
        self._reserved = 0
        self._data = BodyBuffer()
        self._most_bytes = most_bytes
        self._most_values = most_values

    def reserve(self, size: int) -> None:
        """Reserves more of the budget. Raises `CallRefused` if too little is available."""
        if not self._budget.reserve(size):
            message = "too many bytes are being processed; retry later"
            raise CallRefused(ApiProblem("rate_limited", message, retry_after_s=1.0))
        self._reserved += size

    def feed(self, data: bytes) -> None:
        """Adds part of the body. Raises `CallRefused` if it becomes too long."""
        if len(self._data) + len(data) > self._most_bytes:
            raise CallRefused(ApiProblem("too_large", f"a body of more than {self._most_bytes} bytes"))
        self.reserve(len(data))
        self._data.add(data)

    def release(self) -> None:
        """Releases the budget."""
        reserved, self._reserved = self._reserved, 0
        self._data = BodyBuffer()
        self._budget.release(reserved)

    def decode(self) -> tuple[dict[str, Any], bytes]:
        """Returns the decoded body and its bytes."""
        raw = self._data.drain()
        commas, brackets = count_structure(raw)
        values = commas + brackets
        if values > self._most_values:
            raise CallRefused(ApiProblem("too_large", f"a body of up to {values} values; at most {self._most_values}"))
        self.reserve(values * VALUE_BYTES)
        return _decode(raw, deep=brackets > MAX_DEPTH), raw


def parse_address(head: RequestHead) -> SessionAddress:
    """Parses the address, session id and key. Raises `BadRequest`."""
    path, query = _split_target(head.target)
    session: str | None = None
    if path.startswith("/s/"):
        session, _, rest = path[3:].partition("/")
        path = "/" + rest
    headers = head.headers
    authorization = headers.get("authorization", "")
    key = authorization[7:].strip() if authorization[:7].lower() == "bearer " else None
    query_key = query.pop("key", None)
    key = key or headers.get("x-api-key") or headers.get("x-goog-api-key") or query_key
    public = {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
    return SessionAddress(RequestTarget(head.method, path, query, public), session, key)


def _split_target(target: str) -> tuple[str, dict[str, str]]:
    """Returns the path and the query."""
    if _PLAIN_TARGET.fullmatch(target):
        return target, {}
    try:
        parts = urlsplit(target)
        return parts.path, dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=50))
    except ValueError as exc:
        raise BadRequest(f"invalid request URL: {exc}") from exc


def check_head(head: RequestHead, most_bytes: int) -> None:
    """Raises `CallRefused` or `BadRequest` if the body of a model call must not be read."""
    if head.method != "POST":
        raise CallRefused(ApiProblem("not_found", f"{head.method[:20]} is not supported; model calls are POST"))
    if head.headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequest("compressed bodies are not supported", "Content-Encoding")
    length = head.headers.get("content-length", "0")
    if len(length) > 18 or int(length) > most_bytes:
        raise CallRefused(ApiProblem("too_large", f"a body of {length[:30]} bytes; at most {most_bytes}"))


def _decode(raw: bytes, *, deep: bool) -> dict[str, Any]:
    try:
        decoded = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BadRequest(f"the body is not JSON: {exc}") from exc
    except RecursionError as exc:
        raise BadRequest("the body is nested too deeply") from exc
    if deep and is_too_deep(decoded):
        raise BadRequest("the body is nested too deeply")
    if not isinstance(decoded, dict):
        raise BadRequest(f"the body must be a JSON object, not {type(decoded).__name__}")
    return decoded
