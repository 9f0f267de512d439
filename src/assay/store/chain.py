"""The hash chain: pure functions over links.

The digest of an event is the BLAKE3 of the canonical bytes of `[chain, index, previous, body]`. The chain starts at
`GENESIS` (an addendum's at the head that it continues). The head reveals any changed, removed, inserted or swapped
event before it. Chains have no key: one that was rewritten from some event on, truncated or extended is detected only
with a head that was kept elsewhere.

Invariant: checks are made over the stored bytes, never over decoded and encoded ones, so that not even a byte without
meaning can change, and records of older schemas verify for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX, GENESIS, Body, Event, canonical_bytes, digest_bytes

_BODY = msgspec.json.Decoder(Body)
_name_bytes = lru_cache(maxsize=64)(canonical_bytes)


class BrokenLink(NamedTuple):
    """The first event that does not follow from the one before it."""

    chain: str
    at: int
    """Index of the event."""
    problem: Literal["changed", "removed or inserted", "out of order", "of another chain"]
    detail: str


class StoreProblem(msgspec.Struct, frozen=True):
    """One mismatch in a stored run, and its place."""

    run: str
    chain: str | None
    index: int | None
    """Of the event; None where it concerns more than one."""
    what: str

    def __str__(self) -> str:
        place = self.run if self.chain is None else f"{self.run}, chain {self.chain}"
        return f"{place if self.index is None else f'{place}, event {self.index}'}: {self.what}"


class Link(msgspec.Struct, frozen=True):
    """A stored event, with the exact bytes of its body."""

    chain: str
    index: int
    previous: str
    body: bytes
    digest: str


LINK_BYTES = b'[%s,%d,"%s",%s]'
"""The bytes that an event's digest covers: its chain's name (canonical bytes), index, previous digest and body."""


def link_digest(chain: str, index: int, previous: str, body: bytes) -> str:
    return digest_bytes(LINK_BYTES % (_name_bytes(chain), index, previous.encode(), body))


def link_digests(chain: str, index: int, previous: str, bodies: Iterable[bytes]) -> Iterator[str]:
    """Yields the digests of events that follow each other in a chain, the first of which has this index."""
    name = _name_bytes(chain)
    for place, body in enumerate(bodies, index):
        previous = digest_bytes(LINK_BYTES % (name, place, previous.encode(), body))
        yield previous


def to_link(chain: str, index: object, previous: str, body: object, digest: str) -> Link:
    """Converts a stored row to a link. SQLite holds any type in any column, so a changed row may have other types.

    Raises:
        StoreError: A type is wrong, except that of a body that is stored as text.
    """
    if not (type(index) is int and type(chain) is str and type(previous) is str and type(digest) is str):
        raise StoreError(
            f"an event of {chain!r} has the index {index!r}, the predecessor {previous!r}, the digest {digest!r}"
        )
    return Link(chain, index, previous, body if type(body) is bytes else str(body).encode(), digest)


def decode_body(stored: Link) -> Body:
    """Decodes the body of a link. Raises `StoreError` where its bytes are invalid."""
    return decode_raw(stored.chain, stored.index, stored.body)


def decode_raw(chain: str, index: int, raw: bytes) -> Body:
    """Decodes the bytes of a body. Raises `StoreError`, with the event's place, where they are invalid."""
    try:
        body: Body = _BODY.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError, TypeError) as exc:
        raise StoreError(f"event {index} of {chain} is damaged: {exc}") from exc
    return body


def decode_event(stored: Link) -> Event:
    """Decodes a link's event. Raises `StoreError` where its bytes are invalid."""
    body = decode_raw(stored.chain, stored.index, stored.body)
    return Event(stored.chain, stored.index, stored.previous, body, stored.digest)


def heads_digest(heads: Iterable[tuple[str, str, int]]) -> str:
    """Returns one digest for a whole run: over `(chain, head, length)` of its chains, in order of their names."""
    return digest_bytes(canonical_bytes(sorted(heads)))


def verify_links(links: Iterable[Link], head: str | None = None, start: str = GENESIS) -> BrokenLink | None:
    """Recomputes a chain from the stored bytes, which begins after `start` and ends with the digest `head` if it is
    known; returns None where all of it holds.
    """
    previous, expected, chain = start, 0, None
    for stored in links:
        chain = stored.chain if chain is None else chain
        broken = _check_link(stored, chain, expected, previous)
        if broken is not None:
            return broken
        previous, expected = stored.digest, expected + 1
    if head is not None and previous != head:
        detail = f"the last event has {_short_digest(previous)}, the head says {_short_digest(head)}"
        return BrokenLink(chain or "", expected, "removed or inserted", detail)
    return None


def _check_link(stored: Link, chain: str, expected: int, previous: str) -> BrokenLink | None:
    if stored.chain != chain:
        return BrokenLink(chain, expected, "of another chain", f"it belongs to {stored.chain!r}")
    if stored.index != expected:
        problem: Literal["removed or inserted", "out of order"] = (
            "removed or inserted" if stored.index > expected else "out of order"
        )
        return BrokenLink(chain, expected, problem, f"expected event {expected}, found {stored.index}")
    if link_digest(stored.chain, stored.index, stored.previous, stored.body) != stored.digest:
        return BrokenLink(
            chain, expected, "changed", f"its bytes do not give its digest {_short_digest(stored.digest)}"
        )
    if stored.previous != previous:
        detail = f"it follows {_short_digest(stored.previous)}, the event before it is {_short_digest(previous)}"
        return BrokenLink(chain, expected, "removed or inserted", detail)
    return None


def _short_digest(digest: str) -> str:
    return digest.removeprefix(DIGEST_PREFIX)[:12]
