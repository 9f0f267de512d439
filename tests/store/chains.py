"""Chains of decoded events: made, forged and recomputed."""

from __future__ import annotations

from collections.abc import Iterable

from assay.records import Body, Event, canonical_bytes
from assay.store import Link, verify_links
from assay.store.chain import BrokenLink, link_digest

__all__ = ["make_event", "verify_chain"]


def make_event(chain: str, index: int, previous: str, body: Body) -> Event:
    return Event(chain, index, previous, body, link_digest(chain, index, previous, canonical_bytes(body)))


def verify_chain(events: Iterable[Event], *, head: str | None = None) -> BrokenLink | None:
    """Recomputes a chain of decoded events up to a known head; returns None where all of it holds."""
    return verify_links((Link(e.chain, e.index, e.previous, canonical_bytes(e.body), e.digest) for e in events), head)
