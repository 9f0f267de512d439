"""Canonical bytes and content addresses.

Canonical bytes are JSON with sorted keys, no insignificant white space, UTF-8, and floats in their shortest round-trip
form. NaN and infinities have no canonical form and would become null; check foreign data with `require_finite`. A
content address is `blake3:` and 64 hexadecimal digits.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
DIGEST_PREFIX = "blake3:"
_ENCODER = msgspec.json.Encoder(order="sorted")


def canonical_bytes(record: object) -> bytes:
    """Returns the bytes that a digest covers. The inverse is `decode`."""
    return _ENCODER.encode(record)


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decodes a record; raises `msgspec.ValidationError` with the path of what does not fit."""
    return msgspec.json.decode(data, type=kind)


def digest_bytes(data: bytes | bytearray | memoryview) -> str:
    """Returns `blake3:` and the BLAKE3 digest of the bytes."""
    digest: str = _blake3()(data).digest().hex()  # at half the time of `hexdigest`
    return DIGEST_PREFIX + digest


@cache
def _blake3() -> Any:
    from blake3 import blake3  # late: a reader of records needs msgspec alone

    return blake3


def digest_record(record: object) -> str:
    """Returns the content address of a record: the digest of its canonical bytes."""
    return digest_bytes(canonical_bytes(record))


def require_finite(value: Any, where: str) -> None:
    """Raises `ValueError` if any number inside plain JSON data is NaN or infinite (JSON has no such numbers)."""
    if not _is_finite(value):  # the place is put into words for the error alone
        _raise_not_finite(value, where)


def _is_finite(value: Any) -> bool:
    kind = type(value)
    if kind is str or kind is int or value is None:
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    return all(map(_is_finite, value)) if isinstance(value, list | tuple) else True


def _raise_not_finite(value: Any, where: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} is {value}: only finite numbers can be recorded")
    if isinstance(value, dict):
        for key, item in value.items():
            _raise_not_finite(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _raise_not_finite(item, f"{where}[{index}]")
