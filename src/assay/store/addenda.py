"""Addenda: events added after sealing, as chained segments beside the sealed run, one JSON file each.

The first event of the first segment names the sealed head as its predecessor, the first of each later one the last
event of the segment before it. Nothing sealed is rewritten; a removed or changed segment is found by `audit`, a
removed last one only against a head that was kept elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import StoreError, UserError
from assay.records import Body, Event, Noted, canonical_bytes

from .chain import Link, decode_event, link_digest
from .database import WriterLock, store_errors
from .encoding import encode_body
from .layout import Layout
from .sealed import SealedRun


class _SegmentEvent(msgspec.Struct, frozen=True):
    index: int
    previous: str
    body: msgspec.Raw
    digest: str


class _Segment(msgspec.Struct, frozen=True):
    run: str
    number: int
    chain: str
    head: str
    events: tuple[_SegmentEvent, ...]


class SegmentLinks(msgspec.Struct, frozen=True):
    """A segment with the stored bytes of its events."""

    number: int
    head: str
    links: tuple[Link, ...]


class Addendum(msgspec.Struct, frozen=True):
    """A segment with decoded events."""

    number: int
    chain: str
    about: str | None
    """The chain of the run that it concerns; None where it concerns the whole run, or several chains (see `parts`)."""
    head: str
    events: tuple[Event, ...]

    def parts(self) -> Iterator[Part]:
        """Yields each event with the chain that it concerns, which the preceding note `about` names."""
        about: str | None = None
        for event in self.events:
            if isinstance(event.body, Noted) and event.body.name == "about":
                named = event.body.data.get("chain")
                about = named if isinstance(named, str) else None
            else:
                yield Part(about, event)


class Part(NamedTuple):
    """One event of an addendum and the chain that it concerns; None is the whole run."""

    about: str | None
    event: Event


def append_addendum(root: Path, run: str, bodies: Sequence[Body], *, about: str | None = None) -> Addendum:
    """Adds a segment to a sealed run; `about`, the chain it concerns, is kept as `Noted("about", {"chain": ...})`
    before it.

    Raises:
        StoreError: The run is live (seal it first), is being added to, or the segment cannot be written.
        UserError: There is nothing to add, or the run has no such chain.
    """
    return append_addenda(root, run, [(about, bodies)])


def append_addenda(root: Path, run: str, batch: Sequence[tuple[str | None, Sequence[Body]]]) -> Addendum:
    """Adds one segment that concerns several chains, or the whole run (None), as `append_addendum` does."""
    layout = Layout(root, run)
    layout.require()
    if not layout.is_sealed:
        raise StoreError(f"run {run!r} is live: append to it, or seal it first with `assay seal {run}`")
    lock = WriterLock(layout.lock)
    try:
        with contextlib.closing(SealedRun(layout.sealed)) as sealed:
            named = {about for about, _ in batch if about is not None}
            unknown = sorted(named - sealed.chains()) if named else []
            if unknown:
                raise UserError(f"run {run!r} has no chain {unknown[0]!r}: `assay ls {run}` shows them")
            bodies = list(_bodies_with_subjects(batch))
            if not bodies:
                raise UserError(f"nothing to add to run {run!r}")
            return _append_segment(layout, sealed.seal.head, bodies)
    finally:
        lock.release()


def _bodies_with_subjects(batch: Sequence[tuple[str | None, Sequence[Body]]]) -> Iterator[Body]:
    """Yields the bodies, each group after a note that names its chain; those about the whole run come first."""
    for about, bodies in sorted(batch, key=lambda part: part[0] is not None):
        if bodies and about is not None:
            yield Noted("about", {"chain": about}, time.time())
        yield from bodies


def addenda(root: Path, run: str) -> tuple[Addendum, ...]:
    """Returns all segments in order, without verifying them (`audit` does); empty for a live run."""
    layout = Layout(root, run)
    layout.require()
    return tuple(_read_as_addendum(s) for s in addendum_links(layout))


def addendum_links(layout: Layout) -> tuple[SegmentLinks, ...]:
    """Returns all segments with the stored bytes of their events. Raises `StoreError` where one cannot be read."""
    return tuple(segment_links(layout, number) for number in addendum_numbers(layout))


def addendum_numbers(layout: Layout) -> list[int]:
    return sorted({int(p.stem) for p in layout.addenda.glob("*.json") if p.stem.isdecimal() and p.stem.isascii()})


def addendum_bytes(layout: Layout, number: int) -> tuple[bytes, bytes]:
    """Returns the bytes of a segment's file, and those that writing it again would give.

    Raises:
        StoreError: It cannot be read.
    """
    raw, found = _read_segment(layout, number)
    return raw, canonical_bytes(found)


def _append_segment(layout: Layout, head: str, bodies: Sequence[Body]) -> Addendum:
    numbers = addendum_numbers(layout)
    number, previous = (numbers[-1] + 1, segment_links(layout, numbers[-1]).head) if numbers else (0, head)
    chain, events = f"addendum.{number}", []
    for index, body in enumerate(bodies):
        raw = encode_body(body, chain)
        digest = link_digest(chain, index, previous, raw)
        events.append(_SegmentEvent(index, previous, msgspec.Raw(raw), digest))
        previous = digest
    segment = _Segment(layout.run, number, chain, previous, tuple(events))
    _write_segment(layout, number, canonical_bytes(segment))
    return _read_as_addendum(segment_links(layout, number))


def _write_segment(layout: Layout, number: int, data: bytes) -> None:
    """Writes atomically and never replaces an existing segment."""
    target = layout.addenda / f"{number}.json"
    temporary = layout.addenda / f"{number}.{os.getpid()}.tmp"
    with store_errors(target):
        layout.addenda.mkdir(exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _read_segment(layout: Layout, number: int) -> tuple[bytes, _Segment]:
    path = layout.addenda / f"{number}.json"
    try:
        raw = path.read_bytes()
        return raw, msgspec.json.decode(raw, type=_Segment)
    except (OSError, msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{path} cannot be read: {exc}") from exc


def segment_links(layout: Layout, number: int) -> SegmentLinks:
    """Returns one segment with the stored bytes of its events. Raises `StoreError` where it cannot be read."""
    path, (_, found) = layout.addenda / f"{number}.json", _read_segment(layout, number)
    if found.run != layout.run or found.number != number:
        raise StoreError(f"{path} belongs to run {found.run!r} as addendum {found.number}")
    links = tuple(Link(found.chain, e.index, e.previous, bytes(e.body), e.digest) for e in found.events)
    return SegmentLinks(number, found.head, links)


def _read_as_addendum(segment: SegmentLinks) -> Addendum:
    events = tuple(decode_event(stored) for stored in segment.links)
    whole = Addendum(segment.number, f"addendum.{segment.number}", None, segment.head, events)
    subjects = {part.about for part in whole.parts()}
    return msgspec.structs.replace(whole, about=subjects.pop()) if len(subjects) == 1 else whole
