"""What both sides of HTTP speak of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Head", "Written"]


class Head(NamedTuple):
    """The head of a request. Names of headers are in lower case; of a repeated one the last is kept."""

    method: str
    target: str
    """Path and query, as they were sent."""
    headers: Mapping[str, str]
    """Bytes that are no UTF-8 are replaced."""


class Written(NamedTuple):
    """A whole answer: status, body, and headers beside those that every answer has."""

    status: int
    body: bytes
    headers: Mapping[str, str]
