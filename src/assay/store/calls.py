"""Calls taken apart so that what they share is kept once, and put together again.

A conversation is sent whole with every call. A record therefore holds what is new: a request's messages and tokens
after those of its parent, and a raw body as the part that differs from the body of a call before it. Reading goes the
other way, from the call up to the first one that shares nothing.

Invariants: what is put together is checked (a body against its digest, a share against what the parent has), and what
does not fit is a `StoreError`; records are a stranger's, so no walk visits a call twice and no body grows beyond
`MOST_BYTES`.
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

__all__ = [
    "BodyKeeper",
    "Cleaned",
    "answer_of",
    "messages_of",
    "prompt_ids_of",
    "rebuild",
    "request_of",
    "shared_prefix",
    "shared_suffix",
]

INLINE_BYTES = 64 * 1024
"""What is new in a body is held in the record up to this size, beyond it in a blob."""
MOST_BYTES = 256 * 1024 * 1024
LEAST_SHARED = 64
"""Bytes that must be shared for a body to build on another."""
_CLOSING = 64
"""A body that goes on mostly differs from the one before in its last bytes alone: brackets, and what follows them."""
KEPT_BODIES, KEPT_BYTES = 16, 8 * 1024 * 1024

Side = Literal["request", "response"]


class Cleaned(msgspec.Struct, frozen=True, gc=False):
    """Bytes that may be stored, and the names of what was taken out of them."""

    data: bytes
    names: tuple[str, ...]


class Cleaner(Protocol):
    """Takes out what must not be stored."""

    def clean(self, data: bytes) -> Cleaned:
        """Bytes that may be stored."""
        ...

    def touches(self, data: bytes, start: int, end: int) -> bool:
        """Whether something in `data` must not be stored that lies in `data[start:end]` at least in part."""
        ...


class _Kept(msgspec.Struct, frozen=True, gc=False):
    data: bytes
    clean: bool
    """Nothing was taken out of it: what was sent is what is stored."""


class BodyKeeper:
    """Turns the raw bodies of one chain's calls, in order, into records that share what they have in common.

    Remembers the newest bodies alone (16, and 8 MiB, at most); one that builds on an older one is stored whole.

    Args:
        blobs: Where long parts go.
        cleaner: Takes out what must not be stored; None stores all as it is.
    """

    def __init__(self, blobs: BlobStore, cleaner: Cleaner | None = None) -> None:
        self._blobs = blobs
        self._cleaner = cleaner or _Nothing()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0

    def request(self, call: str, data: bytes, near: str | None = None) -> RawBody:
        """The record of a request's body.

        Args:
            call: The call's id.
            data: What the client sent.
            near: The call whose body is likely to be the beginning of this one; else the newest is tried.
        """
        base = near if near in self._kept else next(reversed(self._kept), None)
        known = self._kept[base] if base is not None else _Kept(b"", clean=False)
        prefix, suffix = _shares(known.data, data)
        # What is in neither body but in this one touches what is new.
        clean = known.clean and not self._cleaner.touches(data, prefix, len(data) - suffix)
        cleaned = Cleaned(data, ()) if clean else self._cleaner.clean(data)
        if cleaned.names or not known.clean:
            prefix, suffix = _shares(known.data, cleaned.data)
        self._remember(call, _Kept(cleaned.data, not cleaned.names))
        if prefix + suffix < LEAST_SHARED:
            return self._body(cleaned, None, 0, 0)
        return self._body(cleaned, base, prefix, suffix)

    def response(self, data: bytes, names: tuple[str, ...] = (), *, clean: bool = False) -> RawBody:
        """The record of an answer's body, which shares nothing worth mentioning.

        Args:
            data: What the client was sent.
            names: What was taken out of it before.
            clean: It is known that nothing has to be taken out.
        """
        cleaned = Cleaned(data, ()) if clean else self._cleaner.clean(data)
        both = tuple(sorted({*names, *cleaned.names}))
        return self._body(Cleaned(cleaned.data, both), None, 0, 0)

    def _remember(self, call: str, kept: _Kept) -> None:
        again = self._kept.pop(call, None)
        self._size -= len(again.data) if again is not None else 0
        self._kept[call] = kept
        self._size += len(kept.data)
        while len(self._kept) > KEPT_BODIES or (self._size > KEPT_BYTES and len(self._kept) > 1):
            _, gone = self._kept.popitem(last=False)
            self._size -= len(gone.data)

    def _body(self, cleaned: Cleaned, base: str | None, prefix: int, suffix: int) -> RawBody:
        data = cleaned.data
        middle = data[prefix : len(data) - suffix]
        text, blob = None, None
        if len(middle) <= INLINE_BYTES:
            text = _text(middle)
        if text is None:
            blob = self._blobs.put(zlib.compress(middle, 1))
        return RawBody(digest_bytes(data), len(data), base, prefix, suffix, text, blob, cleaned.names)


class _Nothing:
    """Takes out nothing."""

    def clean(self, data: bytes) -> Cleaned:
        return Cleaned(data, ())

    def touches(self, data: bytes, start: int, end: int) -> bool:
        return False


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _shares(one: bytes, other: bytes) -> tuple[int, int]:
    """How many bytes begin and end both, cutting no character of `other` in two."""
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
    """How many leading bytes are the same. Slices are compared by halves: the speed of `memcmp`."""
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
    return same + _alike(one[same:most], other[same:most], "little")


def shared_suffix(one: bytes, other: bytes, limit: int) -> int:
    """How many trailing bytes are the same, `limit` at most."""
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
    return same + _alike(one[ends[0] - most : ends[0] - same], other[ends[1] - most : ends[1] - same], "big")


def _alike(one: bytes, other: bytes, order: Literal["little", "big"]) -> int:
    """How many bytes two that differ, as long as each other, have in common at their beginning (`little`) or end."""
    differ = int.from_bytes(one, order) ^ int.from_bytes(other, order)
    return ((differ & -differ).bit_length() - 1) // 8


def rebuild(calls: Mapping[str, ModelCall], call: ModelCall, side: Side, blobs: BlobStore) -> bytes | None:
    """The exact bytes of one side of a call, after redaction; None where it did not come through the gateway.

    Args:
        calls: The calls of its chain, by id.
        call: The call.
        side: What the client sent, or what it got.
        blobs: The store's.

    Raises:
        StoreError: The record does not fit together, or is not what its digest says.
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
            return _checked(_joined(line, side, blobs), line[0], side)
        found = calls.get(body.base)
    if not line:
        return None
    raise StoreError(
        f"the {side} of call {call.id} builds on call {line[-1][1].base!r}, which has none or builds on it"
    )


def _joined(line: list[tuple[str, RawBody]], side: Side, blobs: BlobStore) -> bytes:
    data = b""
    for name, body in reversed(line):
        fits = min(body.prefix, body.suffix) >= 0 and body.prefix + body.suffix <= len(data)
        new = body.length - body.prefix - body.suffix
        if not fits or new < 0 or body.length > MOST_BYTES:
            raise StoreError(f"the {side} of call {name} claims more of another body than that has")
        middle = body.text.encode("utf-8", "surrogatepass") if body.text is not None else _unpacked(body, new, blobs)
        if len(middle) != new:
            raise StoreError(f"the {side} of call {name} has {len(middle)} bytes of its own and should have {new}")
        data = data[: body.prefix] + middle + data[len(data) - body.suffix :]
    return data


def _unpacked(body: RawBody, length: int, blobs: BlobStore) -> bytes:
    """The part that is kept as a zlib stream; never more than it should be."""
    if body.blob is None:
        return b""
    packed = zlib.decompressobj()
    try:
        return packed.decompress(blobs.get(body.blob), length + 1)
    except zlib.error as exc:
        raise StoreError(f"blob {body.blob} is no compressed body: {exc}") from exc


def _checked(data: bytes, which: tuple[str, RawBody], side: Side) -> bytes:
    name, body = which
    if digest_bytes(data) != body.digest:
        raise StoreError(f"the {side} of call {name} is not what its digest says")
    return data


def answer_of(call: ModelCall) -> dict[str, Any] | None:
    """The assistant's message of a call; None where it has none."""
    choices = call.response.get("choices") if call.response is not None else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else None


def messages_of(calls: Mapping[str, ModelCall], call: ModelCall) -> list[dict[str, Any]]:
    """All messages that a call sent, those that it shares with the calls before it included.

    Args:
        calls: The calls of its chain, by id.
        call: The call.

    Raises:
        StoreError: It claims to share more than the calls before it have.
    """
    known: list[dict[str, Any]] = []
    before: ModelCall | None = None
    for one in _line(calls, call, lambda c: c.shared_messages):
        answer = answer_of(before) if before is not None else None
        if answer is not None:
            known.append(answer)
        _require(one, one.shared_messages, len(known), "messages")
        own = one.request.get("messages", [])
        if not isinstance(own, list):
            raise StoreError(f"the messages of call {one.id} are no list")
        known[one.shared_messages :] = own
        before = one
    return known


def prompt_ids_of(calls: Mapping[str, ModelCall], call: ModelCall) -> tuple[int, ...] | None:
    """All tokens of a call's prompt; None where they are not known.

    Raises:
        StoreError: It claims to share more than the calls before it have.
    """
    if call.prompt_token_ids is None:
        return None
    known: list[int] = []
    for one in _line(calls, call, lambda c: c.shared_tokens):
        _require(one, one.shared_tokens, len(known), "tokens")
        known[one.shared_tokens :] = one.prompt_token_ids or ()
        if one is not call:
            known += one.completion_token_ids or ()
    return tuple(known)


def request_of(calls: Mapping[str, ModelCall], call: ModelCall) -> dict[str, Any]:
    """The whole canonical request of a call: with all of its messages, and the fields that are its parent's."""
    whole = {**call.request, "messages": messages_of(calls, call)}
    return whole | {field: _inherited(calls, call, field) for field in call.shared_fields}


def _inherited(calls: Mapping[str, ModelCall], call: ModelCall, field: str) -> Any:
    first = _line(calls, call, lambda c: field in c.shared_fields)[0]
    if field not in first.request:
        raise StoreError(f"call {call.id} shares {field!r} with call {first.id}, which has none")
    return first.request[field]


def _line(calls: Mapping[str, ModelCall], call: ModelCall, shares: Callable[[ModelCall], int]) -> list[ModelCall]:
    """The calls that a call rests on, the first of all first, and itself last."""
    line, seen = [call], {call.id}
    while shares(line[-1]):
        parent = calls.get(line[-1].parent or "")
        if parent is None or parent.id in seen:
            raise StoreError(
                f"call {line[-1].id} shares with call {line[-1].parent!r}, which is not here or rests on it"
            )
        seen.add(parent.id)
        line.append(parent)
    line.reverse()
    return line


def _require(call: ModelCall, shared: int, known: int, what: str) -> None:
    if not 0 <= shared <= known:
        raise StoreError(f"call {call.id} shares {shared} {what} with its parent, which has {known}")
