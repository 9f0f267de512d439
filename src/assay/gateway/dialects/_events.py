"""Encodes server-sent events."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["encode", "encode_event"]

_ENCODER = msgspec.json.Encoder()
encode = _ENCODER.encode


def encode_event(data: Any, event: str | None = None) -> bytes:
    """Encodes one event with JSON data."""
    named = b"" if event is None else b"event: " + event.encode() + b"\n"
    return named + b"data: " + _ENCODER.encode(data) + b"\n\n"
