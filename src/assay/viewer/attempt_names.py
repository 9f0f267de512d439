"""Which views of its attempts an export of a run holds: the outlines first, then lines, calls and tokens, then what is
long, as far as it goes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from assay.errors import StoreError
from assay.store import RunStore

from .chains import Chain, chain_of
from .interface import named
from .outline import FLAGS, Outline, outline_of
from .steps import AT_ONCE, shown_lines
from .texts import PART

__all__ = ["blobs", "calls", "lines", "outlines", "pictures", "shown", "siblings", "texts", "tokens"]

PARTS: Final = 8
"""Pieces of a text, and parts of a call's tokens, that an export holds."""

NEIGHBOURS: Final = 2000
"""Attempts of an export that know of those beside them."""


def _chains(root: Path, run: str) -> list[str]:
    with RunStore.open(root, run) as store:
        return [row.chain for row in store.attempts()]


def _outlines(root: Path, run: str) -> Iterator[tuple[Chain, Outline]]:
    """Each attempt that can be read, open while it is looked at."""
    with RunStore.open(root, run) as store:
        for row in store.attempts():
            with contextlib.suppress(StoreError):  # its outline is counted among what is left out
                chain = chain_of(store, row.chain)
                yield chain, outline_of(chain)


def outlines(root: Path, run: str) -> Iterator[str]:
    """All outlines."""
    for chain in _chains(root, run):
        yield named("run", run, "attempt", chain, "outline")


def siblings(root: Path, run: str) -> Iterator[str]:
    """What else was tried at the tasks of the first attempts."""
    for chain in _chains(root, run)[:NEIGHBOURS]:
        yield named("run", run, "attempt", chain, "siblings")


def lines(root: Path, run: str) -> Iterator[str]:
    """All lines."""
    for chain, outline in _outlines(root, run):
        for start in _starts(outline):
            yield named("run", run, "attempt", chain.row.chain, "lines", str(start))


def _starts(outline: Outline) -> range:
    return range(0, max(len(outline.events), 1), AT_ONCE)


def calls(root: Path, run: str) -> Iterator[str]:
    """All model calls."""
    for chain, outline in _outlines(root, run):
        for event in outline.calls.values():
            yield named("run", run, "attempt", chain.row.chain, "call", str(event))


def tokens(root: Path, run: str) -> Iterator[str]:
    """The first tokens of each call that has some."""
    for chain, outline in _outlines(root, run):
        for line in outline.call_lines.values():
            if outline.flags[line] & FLAGS["tokens"]:
                event = outline.calls_of[line] if outline.calls_of[line] >= 0 else outline.events[line]
                yield named("run", run, "attempt", chain.row.chain, "tokens", str(event), "0")


class _Long(NamedTuple):
    """Something that a line shows in part, or not at all."""

    kind: Literal["text", "picture", "blob", "shown"]
    at: str
    length: int = 0


def _long(value: Any) -> Iterator[_Long]:
    """All of it in a line's JSON."""
    if isinstance(value, dict):
        at, length, digest = value.get("at"), value.get("length"), value.get("digest")
        if isinstance(at, str) and isinstance(length, int) and (value.get("image") or "tail" in value):
            yield _Long("picture" if value.get("image") else "text", at, length)
        elif isinstance(digest, str) and isinstance(length, int):
            yield _Long("blob", digest, length)
        listed = value.get("pictures")
        yield from (_Long("shown", each) for each in (listed if isinstance(listed, list) else ()))
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _long(each)


def _longs(kind: str, root: Path, run: str) -> Iterator[str]:
    for chain, outline in _outlines(root, run):
        for start in _starts(outline):
            for line in shown_lines(chain, outline, start)["lines"]:
                for each in _long(line):
                    if each.kind == kind:
                        yield from _names(each, run, chain.row.chain, line["event"])


def _names(each: _Long, run: str, chain: str, event: int) -> Iterable[str]:
    parts = range(min(-(-each.length // PART), PARTS))
    match each.kind:
        case "text":
            return (named("run", run, "attempt", chain, "text", str(event), each.at, str(part)) for part in parts)
        case "picture":
            return (named("run", run, "attempt", chain, "picture", str(event), each.at),)
        case "blob":
            return (named("run", run, "blob", each.at, str(part)) for part in parts)
        case "shown":
            return (named("run", run, "shown", each.at),)


texts = partial(_longs, "text")
pictures = partial(_longs, "picture")
blobs = partial(_longs, "blob")
shown = partial(_longs, "shown")
