"""Server-sent events, as every dialect here writes them."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["encode", "sse"]

_ENCODER = msgspec.json.Encoder()
encode = _ENCODER.encode


def sse(data: Any, event: str | None = None) -> bytes:
    """One event with JSON data."""
    named = b"" if event is None else b"event: " + event.encode() + b"\n"
    return named + b"data: " + _ENCODER.encode(data) + b"\n\n"
