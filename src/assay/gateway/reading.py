"""Reads a request's address and body within bounds. What a stranger sends raises `BadRequest` or `Refused`."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from .dialects import BadRequest, Problem, Target, is_too_deep
from .http.messages import Gathered, Head
from .session import Refused

__all__ = ["Addressed", "Body", "Budget", "address", "check_head"]

_SECRET_HEADERS = {"authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization"}
_DECODER = msgspec.json.Decoder()
_VALUE_BYTES = 100
"""What one value of decoded JSON takes, roughly."""
_SHALLOW = 300
_NO_MARKS = bytes(byte for byte in range(256) if byte not in b"[{,")


class Addressed(msgspec.Struct, frozen=True, gc=False):
    """What is addressed, in which session, with which key; the key stands nowhere else."""

    target: Target
    session: str | None
    key: str | None


class Budget:
    """Bytes that all requests at once may take."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, size: int) -> bool:
        """Whether so much was left; then it is taken."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give(self, size: int) -> None:
        """Gives back what was taken."""
        self._left += size


class Body:
    """One request's body, and what of the budget it holds until `release`."""

    def __init__(self, budget: Budget, most_bytes: int, most_values: int) -> None:
        self._budget = budget
        self._held = 0
        self._data = Gathered()
        self._most_bytes = most_bytes
        self._most_values = most_values

    def hold(self, size: int) -> None:
        """Takes more of the budget. Raises `Refused` where too little is left for all requests at once."""
        if not self._budget.take(size):
            message = "too much is being asked at once; come back"
            raise Refused(Problem("rate_limited", message, retry_after_s=1.0))
        self._held += size

    def take(self, data: bytes) -> None:
        """Takes another piece. Raises `Refused` where the whole is too long."""
        if len(self._data) + len(data) > self._most_bytes:
            raise Refused(Problem("too_large", f"a body of more than {self._most_bytes} bytes"))
        self.hold(len(data))
        self._data.add(data)

    def release(self) -> None:
        """Gives everything back."""
        held, self._held = self._held, 0
        self._data = Gathered()
        self._budget.give(held)

    def decoded(self) -> tuple[dict[str, Any], bytes]:
        """The decoded body and its bytes."""
        raw = self._data.taken()
        marks = raw.translate(None, _NO_MARKS)
        values = len(marks)
        if values > self._most_values:
            raise Refused(Problem("too_large", f"a body of up to {values} values; at most {self._most_values}"))
        self.hold(values * _VALUE_BYTES)
        return _decode(raw, deep=values - marks.count(b",") > _SHALLOW), raw


def address(head: Head) -> Addressed:
    """Raises `BadRequest` where the address is none."""
    try:
        parts = urlsplit(head.target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=50)) if parts.query else {}
    except ValueError as exc:
        raise BadRequest(f"the address is none: {exc}") from exc
    path = parts.path
    session: str | None = None
    if path.startswith("/s/"):
        session, _, rest = path[3:].partition("/")
        path = "/" + rest
    headers = head.headers
    authorization = headers.get("authorization", "")
    key = authorization[7:].strip() if authorization[:7].lower() == "bearer " else None
    asked = query.pop("key", None)
    key = key or headers.get("x-api-key") or headers.get("x-goog-api-key") or asked
    public = {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
    return Addressed(Target(head.method, path, query, public), session, key)


def check_head(head: Head, most_bytes: int) -> None:
    """Raises `Refused` or `BadRequest` where the body of a model call is not even to be read."""
    if head.method != "POST":
        raise Refused(Problem("not_found", f"{head.method[:20]} is nothing here; model calls are POST"))
    if head.headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequest("compressed bodies are not taken; send it plain", "Content-Encoding")
    length = head.headers.get("content-length", "0")
    if len(length) > 18 or int(length) > most_bytes:
        raise Refused(Problem("too_large", f"a body of {length[:30]} bytes; at most {most_bytes}"))


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
