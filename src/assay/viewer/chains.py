"""Reads one chain of a run in parts: its row, some of its events, and those added after sealing.

Events are numbered as in the chain; those of addenda follow its last event, in order. Nothing here reads a whole chain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from assay.errors import UserError
from assay.records import Noted
from assay.store import AttemptRow, Layout, RunStore
from assay.store.addenda import SegmentLinks, addendum_numbers, segment_links
from assay.store.chain import Link, decode_event
from assay.store.database import store_errors

_NEAR = 16
"""Up to this many events between two requested ones are read too, which is faster than another query."""


class Chain(NamedTuple):
    """An open chain."""

    store: RunStore
    row: AttemptRow
    later: tuple[Link, ...]
    """Its events in addenda."""

    @property
    def length(self) -> int:
        """Returns the number of events, including those of addenda."""
        return self.row.length + len(self.later)

    def links(self, start: int, stop: int) -> Iterator[Link]:
        """Yields the events with `start <= number < stop`; the index of each is its number."""
        yield from self.store.part(self.row.chain, start, min(stop, self.row.length))
        for number in range(max(start, self.row.length), min(stop, self.length)):
            found = self.later[number - self.row.length]
            yield Link(found.chain, number, found.previous, found.body, found.digest)

    def select_links(self, numbers: Iterable[int]) -> Iterator[Link]:
        """Yields events by number, in order, with few queries; numbers without an event are skipped."""
        wanted = sorted(set(numbers))
        chosen = frozenset(wanted)
        for first, last in _group_nearby(wanted):
            yield from (link for link in self.links(first, last + 1) if link.index in chosen)

    def links_by_number(self, numbers: Iterable[int]) -> dict[int, Link]:
        """Returns events by number."""
        return {link.index: link for link in self.select_links(numbers)}

    def link(self, number: int) -> Link:
        """Returns one event. Raises `UserError` without one."""
        found = next(self.links(number, number + 1), None)
        if found is None:
            raise UserError(f"attempt {self.row.chain!r} has no event {number}: it has {self.length}")
        return found


@contextlib.contextmanager
def open_chain(root: Path, run: str, chain: str) -> Iterator[Chain]:
    """Opens a chain, as it is at this moment.

    Raises:
        UserError: The chain does not exist.
        StoreError: The run is missing or damaged.
    """
    with RunStore.open(root, run) as store, store.snapshot():
        yield find_chain(store, chain)


def find_chain(store: RunStore, chain: str) -> Chain:
    """Returns a chain of an open run. Raises as `open_chain`."""
    row = store.row(chain)
    if row is None:
        raise UserError(f"run {store.run!r} has no attempt {chain[:200]!r}")
    later = tuple(_addendum_links(store, chain)) if store.is_sealed else ()
    return Chain(store, row, later)


def _addendum_links(store: RunStore, chain: str) -> Iterator[Link]:
    """Yields the events of one chain in addenda. Only segments that name it are read."""
    layout = store.layout
    with store_errors(layout.addenda):
        stamp = tuple((n, (layout.addenda / f"{n}.json").stat().st_mtime_ns) for n in addendum_numbers(layout))
    for number in _segments_about(layout.root, layout.run, stamp).get(chain, ()):
        yield from (link for about, link in links_by_subject(segment_links(layout, number)) if about == chain)


@lru_cache(maxsize=2)
def _segments_about(root: Path, run: str, stamp: tuple[tuple[int, int], ...]) -> dict[object, tuple[int, ...]]:
    """Returns the segments with events of each chain."""
    found: dict[object, dict[int, None]] = {}
    for number, _ in stamp:
        for about, _link in links_by_subject(segment_links(Layout(root, run), number)):
            found.setdefault(about, {})[number] = None
    return {about: tuple(numbers) for about, numbers in found.items()}


def links_by_subject(segment: SegmentLinks) -> Iterator[tuple[object, Link]]:
    """Yields each event with the chain that it concerns. Only notes that name a chain are decoded."""
    about: object = None
    for link in segment.links:
        if b'"name":"about"' in link.body:
            body = decode_event(link).body
            if isinstance(body, Noted) and body.name == "about":
                named = body.data.get("chain")
                about = named if isinstance(named, str) else None
                continue
        yield about, link


def _group_nearby(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields first and last of each group of numbers near each other."""
    at = 0
    for position in range(1, len(numbers) + 1):
        if position == len(numbers) or numbers[position] - numbers[position - 1] > _NEAR:
            yield numbers[at], numbers[position - 1]
            at = position
