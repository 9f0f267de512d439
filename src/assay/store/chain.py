"""The hash chain: pure functions over events.

The digest of an event is the BLAKE3 of the canonical bytes of `[chain, index, previous, body]`. The chain starts at
`GENESIS`. Whoever holds the head can find any changed, removed, inserted or swapped event before it; a rewritten whole
or a cut tail shows only against a head that was kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from assay.records import DIGEST_PREFIX, GENESIS, Body, Event, canonical_bytes, digest_bytes

__all__ = ["BrokenLink", "link", "link_digest", "verify_chain"]


class BrokenLink(NamedTuple):
    """The first event that does not follow from the one before it."""

    chain: str
    at: int
    """Index of the event."""
    problem: Literal["changed", "removed or inserted", "out of order", "of another chain"]
    detail: str


def link_digest(chain: str, index: int, previous: str, body: bytes) -> str:
    """Digest of one event whose body has these canonical bytes."""
    return digest_bytes(b'[%s,%d,"%s",%s]' % (canonical_bytes(chain), index, previous.encode(), body))


def link(chain: str, index: int, previous: str, body: Body) -> Event:
    """The next event of a chain."""
    return Event(chain, index, previous, body, link_digest(chain, index, previous, canonical_bytes(body)))


def verify_chain(events: Iterable[Event], *, head: str | None = None) -> BrokenLink | None:
    """Recomputes a chain from its first event; None where all of it holds.

    Args:
        events: In the order in which they are stored.
        head: The digest that the last event must have, where it is known from elsewhere.
    """
    previous, expected, chain = GENESIS, 0, None
    for event in events:
        chain = event.chain if chain is None else chain
        broken = _check(event, chain, expected, previous)
        if broken is not None:
            return broken
        previous, expected = event.digest, expected + 1
    if head is not None and previous != head:
        detail = f"the last event has {_short(previous)}, the head says {_short(head)}"
        return BrokenLink(chain or "", expected, "removed or inserted", detail)
    return None


def _check(event: Event, chain: str, expected: int, previous: str) -> BrokenLink | None:
    if event.chain != chain:
        return BrokenLink(chain, expected, "of another chain", f"it belongs to {event.chain!r}")
    if event.index != expected:
        problem: Literal["removed or inserted", "out of order"] = (
            "removed or inserted" if event.index > expected else "out of order"
        )
        return BrokenLink(chain, expected, problem, f"expected event {expected}, found {event.index}")
    if link_digest(event.chain, event.index, event.previous, canonical_bytes(event.body)) != event.digest:
        return BrokenLink(chain, expected, "changed", f"its bytes do not give its digest {_short(event.digest)}")
    if event.previous != previous:
        detail = f"it follows {_short(event.previous)}, the event before it is {_short(previous)}"
        return BrokenLink(chain, expected, "removed or inserted", detail)
    return None


def _short(digest: str) -> str:
    return digest.removeprefix(DIGEST_PREFIX)[:12]
