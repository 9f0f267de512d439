"""Delta encoding of model calls: what calls share is stored once, and restored on reading.

A conversation is sent whole with every call. A record therefore holds what is new: a request's messages and tokens
after those of its parent, and a raw body as the part that differs from the body of a call before it. Reading goes the
other way, from the call up to the first one that shares nothing.

Invariants: every restored body is checked against its digest and its parent's length (else `StoreError`); records are
untrusted, so no walk visits a call twice and no body grows beyond `MOST_BYTES`.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from assay.errors import StoreError
from assay.records import ModelCall, RawBody, digest_bytes

from .blobs import BlobStore

INLINE_BYTES = 64 * 1024
"""New bytes are stored in the record up to this size, beyond it in a blob."""
MOST_BYTES = 256 * 1024 * 1024
LEAST_SHARED = 64
"""Bytes that must be shared for a body to build on another."""
_CLOSING = 64
"""A body that goes on mostly differs from the one before in its last bytes alone: brackets, and what follows them."""
CACHED_BODIES, CACHED_BYTES = 16, 8 * 1024 * 1024

Side = Literal["request", "response"]


class RedactedBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes that may be stored, and the names of the secrets that were removed from them."""

    data: bytes
    names: tuple[str, ...]


class BodyRedactor(Protocol):
    """Removes secrets from bytes."""

    def clean(self, data: bytes) -> RedactedBytes: ...

    def touches(self, data: bytes, start: int, end: int) -> bool:
        """Returns whether a secret in `data` overlaps `data[start:end]`."""
        ...


class _CachedBody(msgspec.Struct, frozen=True, gc=False):
    data: bytes
    clean: bool
    """Nothing was removed: the bytes sent are the bytes stored."""


class BodyDeltaEncoder:
    """Encodes the raw bodies of one chain's calls, in order, as differences from earlier bodies.

    Remembers the newest bodies alone (16, and 8 MiB, at most); one that builds on an older one is stored whole. Without
    a redactor all bytes are stored unchanged.
    """

    def __init__(self, blobs: BlobStore, redactor: BodyRedactor | None = None) -> None:
        self._blobs = blobs
        self._redactor = redactor or _NoRedaction()
        self._cached: OrderedDict[str, _CachedBody] = OrderedDict()
        self._size = 0

    def request(self, call: str, data: bytes, near: str | None = None) -> RawBody:
        """Encodes a request's body. `near` is the call whose body probably begins it; else the newest is tried."""
        base = near if near in self._cached else next(reversed(self._cached), None)
        known = self._cached[base] if base is not None else _CachedBody(b"", clean=False)
        prefix, suffix = _shared_ends(known.data, data)
        # What is in neither body but in this one touches what is new.
        clean = known.clean and not self._redactor.touches(data, prefix, len(data) - suffix)
        cleaned = RedactedBytes(data, ()) if clean else self._redactor.clean(data)
        if cleaned.names or not known.clean:
            prefix, suffix = _shared_ends(known.data, cleaned.data)
        self._remember(call, _CachedBody(cleaned.data, not cleaned.names))
        if prefix + suffix < LEAST_SHARED:
            return self._encode_delta(cleaned, None, 0, 0)
        return self._encode_delta(cleaned, base, prefix, suffix)

    def response(self, data: bytes, names: tuple[str, ...] = (), *, clean: bool = False) -> RawBody:
        """Encodes a response's body, whole. `names` are secrets that were already removed; `clean` says that it holds
        none.
        """
        cleaned = RedactedBytes(data, ()) if clean else self._redactor.clean(data)
        both = tuple(sorted({*names, *cleaned.names}))
        return self._encode_delta(RedactedBytes(cleaned.data, both), None, 0, 0)

    def _remember(self, call: str, body: _CachedBody) -> None:
        replaced = self._cached.pop(call, None)
        self._size -= len(replaced.data) if replaced is not None else 0
        self._cached[call] = body
        self._size += len(body.data)
        while len(self._cached) > CACHED_BODIES or (self._size > CACHED_BYTES and len(self._cached) > 1):
            _, evicted = self._cached.popitem(last=False)
            self._size -= len(evicted.data)

    def _encode_delta(self, cleaned: RedactedBytes, base: str | None, prefix: int, suffix: int) -> RawBody:
        data = cleaned.data
        middle = data[prefix : len(data) - suffix]
        text, blob = None, None
        if len(middle) <= INLINE_BYTES:
            text = _decode_text(middle)
        if text is None:
            blob = self._blobs.put(zlib.compress(middle, 1))
        return RawBody(digest_bytes(data), len(data), base, prefix, suffix, text, blob, cleaned.names)


class _NoRedaction:
    def clean(self, data: bytes) -> RedactedBytes:
        return RedactedBytes(data, ())

    def touches(self, data: bytes, start: int, end: int) -> bool:
        return False


def _decode_text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _shared_ends(one: bytes, other: bytes) -> tuple[int, int]:
    """Returns the lengths of the common prefix and suffix, cutting no character of `other` in two."""
    prefix = shared_prefix(one, other)
    suffix = shared_suffix(one, other, min(len(one), len(other)) - prefix)
    end = len(other) - suffix
    for _ in range(3):
        if 0 < prefix < len(other) and other[prefix] & 0xC0 == 0x80:
            prefix -= 1
        if suffix and other[end] & 0xC0 == 0x80:
            end, suffix = end + 1, suffix - 1
    return prefix, suffix


def shared_prefix(one: bytes, other: bytes) -> int:
    """Returns the number of equal leading bytes. Comparing slices by halves has the speed of `memcmp`."""
    same, most = 0, min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    middle = most - _CLOSING
    while most - same > _CLOSING:
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle
        middle = (same + most) // 2
    return same + _common_bytes(one[same:most], other[same:most], "little")


def shared_suffix(one: bytes, other: bytes, limit: int) -> int:
    """Returns the number of equal trailing bytes, at most `limit`."""
    if limit <= 0:
        return 0
    same, most = 0, limit
    ends = (len(one), len(other))
    if one[ends[0] - most :] == other[ends[1] - most :]:
        return most
    while most - same > _CLOSING:
        middle = (same + most) // 2
        if one[ends[0] - middle : ends[0] - same] == other[ends[1] - middle : ends[1] - same]:
            same = middle
        else:
            most = middle
    return same + _common_bytes(one[ends[0] - most : ends[0] - same], other[ends[1] - most : ends[1] - same], "big")


def _common_bytes(one: bytes, other: bytes, order: Literal["little", "big"]) -> int:
    """Returns how many bytes two different strings of equal length share at their start (`little`) or end (`big`)."""
    differ = int.from_bytes(one, order) ^ int.from_bytes(other, order)
    return ((differ & -differ).bit_length() - 1) // 8


def restore_body(calls: Mapping[str, ModelCall], call: ModelCall, side: Side, blobs: BlobStore) -> bytes | None:
    """Restores the exact bytes of one side of a call, after redaction; None where they were not recorded.

    Raises:
        StoreError: The record is inconsistent, or does not have its digest.
    """
    line: list[tuple[str, RawBody]] = []
    seen: set[str] = set()
    found: ModelCall | None = call
    while found is not None and found.id not in seen:
        seen.add(found.id)
        body = found.raw_request if side == "request" else found.raw_response
        if body is None:
            break
        line.append((found.id, body))
        if body.base is None:
            return _require_digest(_apply_deltas(line, side, blobs), line[0], side)
        found = calls.get(body.base)
    if not line:
        return None
    raise StoreError(
        f"the {side} of call {call.id} builds on call {line[-1][1].base!r}, which is missing or builds on it"
    )


def _apply_deltas(line: list[tuple[str, RawBody]], side: Side, blobs: BlobStore) -> bytes:
    data = b""
    for name, body in reversed(line):
        fits = min(body.prefix, body.suffix) >= 0 and body.prefix + body.suffix <= len(data)
        new = body.length - body.prefix - body.suffix
        if not fits or new < 0 or body.length > MOST_BYTES:
            raise StoreError(f"the {side} of call {name} shares more bytes than the other body has")
        middle = (
            body.text.encode("utf-8", "surrogatepass")
            if body.text is not None
            else _decompress_middle(body, new, blobs)
        )
        if len(middle) != new:
            raise StoreError(f"the {side} of call {name} has {len(middle)} new bytes instead of {new}")
        data = data[: body.prefix] + middle + data[len(data) - body.suffix :]
    return data


def _decompress_middle(body: RawBody, length: int, blobs: BlobStore) -> bytes:
    """Decompresses the new bytes; never more than the record claims."""
    if body.blob is None:
        return b""
    packed = zlib.decompressobj()
    try:
        return packed.decompress(blobs.get(body.blob), length + 1)
    except zlib.error as exc:
        raise StoreError(f"blob {body.blob} is not a compressed body: {exc}") from exc


def _require_digest(data: bytes, which: tuple[str, RawBody], side: Side) -> bytes:
    name, body = which
    if digest_bytes(data) != body.digest:
        raise StoreError(f"the {side} of call {name} does not match its digest")
    return data


def assistant_message(call: ModelCall) -> dict[str, Any] | None:
    """Returns the assistant's message of a call, or None."""
    choices = call.response.get("choices") if call.response is not None else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else None


def restore_messages(calls: Mapping[str, ModelCall], call: ModelCall) -> list[dict[str, Any]]:
    """Restores all messages that a call sent, including those that it shares with its parents.

    Raises:
        StoreError: It claims to share more than the calls before it have.
    """
    known: list[dict[str, Any]] = []
    before: ModelCall | None = None
    for one in _call_lineage(calls, call, lambda c: c.shared_messages):
        answer = assistant_message(before) if before is not None else None
        if answer is not None:
            known.append(answer)
        _require_shared(one, one.shared_messages, len(known), "messages")
        own = one.request.get("messages", [])
        if not isinstance(own, list):
            raise StoreError(f"the messages of call {one.id} are not a list")
        known[one.shared_messages :] = own
        before = one
    return known


def restore_prompt_ids(calls: Mapping[str, ModelCall], call: ModelCall) -> tuple[int, ...] | None:
    """Restores all tokens of a call's prompt; None where they are unknown.

    Raises:
        StoreError: It claims to share more than the calls before it have.
    """
    if call.prompt_token_ids is None:
        return None
    known: list[int] = []
    for one in _call_lineage(calls, call, lambda c: c.shared_tokens):
        _require_shared(one, one.shared_tokens, len(known), "tokens")
        known[one.shared_tokens :] = one.prompt_token_ids or ()
        if one is not call:
            known += one.completion_token_ids or ()
    return tuple(known)


def restore_request(calls: Mapping[str, ModelCall], call: ModelCall) -> dict[str, Any]:
    """Restores the whole canonical request of a call: all messages, and the fields inherited from its parent."""
    whole = {**call.request, "messages": restore_messages(calls, call)}
    return whole | {field: _inherited_field(calls, call, field) for field in call.shared_fields}


def _inherited_field(calls: Mapping[str, ModelCall], call: ModelCall, field: str) -> Any:
    first = _call_lineage(calls, call, lambda c: field in c.shared_fields)[0]
    if field not in first.request:
        raise StoreError(f"call {call.id} shares {field!r} with call {first.id}, which has none")
    return first.request[field]


def _call_lineage(
    calls: Mapping[str, ModelCall], call: ModelCall, shares: Callable[[ModelCall], int]
) -> list[ModelCall]:
    """Returns the calls that a call builds on, the oldest first, and itself last."""
    line, seen = [call], {call.id}
    while shares(line[-1]):
        parent = calls.get(line[-1].parent or "")
        if parent is None or parent.id in seen:
            raise StoreError(
                f"call {line[-1].id} shares with call {line[-1].parent!r}, which is missing or builds on it"
            )
        seen.add(parent.id)
        line.append(parent)
    line.reverse()
    return line


def _require_shared(call: ModelCall, shared: int, available: int, what: str) -> None:
    if not 0 <= shared <= available:
        raise StoreError(f"call {call.id} shares {shared} {what} with its parent, which has {available}")
