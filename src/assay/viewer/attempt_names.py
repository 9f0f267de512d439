"""The names of attempts' views in an export: outlines first, then lines, calls and tokens, then long values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from assay.errors import StoreError
from assay.store import RunStore
from assay.store.chain import decode_event

from .chains import Chain, find_chain
from .changes import changed_blobs, list_changes
from .exchanges import describe_exchange, require_call
from .interface import view_name
from .outline import FLAGS, Outline, outline_of
from .steps import AT_ONCE, render_lines
from .texts import PART

PARTS: Final = 8
"""Largest number of pieces of a text, or of parts of a call's tokens, in an export."""

NEIGHBOURS: Final = 2000
"""Number of attempts in an export with a list of siblings."""


def _chains(root: Path, run: str) -> list[str]:
    with RunStore.open(root, run) as store:
        return [row.chain for row in store.attempts()]


def _outlines(root: Path, run: str) -> Iterator[tuple[Chain, Outline]]:
    """Yields each readable attempt, open, with its outline."""
    with RunStore.open(root, run) as store:
        for row in store.attempts():
            with contextlib.suppress(StoreError):  # its outline is counted among what is left out
                chain = find_chain(store, row.chain)
                yield chain, outline_of(chain)


def outlines(root: Path, run: str) -> Iterator[str]:
    for chain in _chains(root, run):
        yield view_name("run", run, "attempt", chain, "outline")


def trees(root: Path, run: str) -> Iterator[str]:
    for chain, outline in _outlines(root, run):
        if outline.branched:
            yield view_name("run", run, "attempt", chain.row.chain, "tree")


def courses(root: Path, run: str) -> Iterator[str]:
    for chain in _chains(root, run):
        yield view_name("run", run, "attempt", chain, "course")


def siblings(root: Path, run: str) -> Iterator[str]:
    for chain in _chains(root, run)[:NEIGHBOURS]:
        yield view_name("run", run, "attempt", chain, "siblings")


def lines(root: Path, run: str) -> Iterator[str]:
    for chain, outline in _outlines(root, run):
        for start in _starts(outline):
            yield view_name("run", run, "attempt", chain.row.chain, "lines", str(start))


def changes(root: Path, run: str) -> Iterator[str]:
    for chain in _chains(root, run):
        yield view_name("run", run, "attempt", chain, "changes")


def _starts(outline: Outline) -> range:
    return range(0, max(len(outline.events), 1), AT_ONCE)


def calls(root: Path, run: str) -> Iterator[str]:
    for chain, outline in _outlines(root, run):
        for event in outline.calls.values():
            yield view_name("run", run, "attempt", chain.row.chain, "call", str(event))


def tokens(root: Path, run: str) -> Iterator[str]:
    """Yields the first tokens of each call that has some."""
    for chain, outline in _outlines(root, run):
        for line in outline.call_lines.values():
            if outline.flags[line] & FLAGS["tokens"]:
                event = outline.calls_of[line] if outline.calls_of[line] >= 0 else outline.events[line]
                yield view_name("run", run, "attempt", chain.row.chain, "tokens", str(event), "0")


class _LongValue(NamedTuple):
    """A value that a line shows in part, or not at all."""

    kind: Literal["text", "picture", "blob", "shown"]
    at: str
    length: int = 0


def _find_long_values(value: Any) -> Iterator[_LongValue]:
    """Yields the long values in a line's JSON."""
    if isinstance(value, dict):
        at, length, digest = value.get("at"), value.get("length"), value.get("digest")
        if isinstance(at, str) and isinstance(length, int) and (value.get("image") or "tail" in value):
            yield _LongValue("picture" if value.get("image") else "text", at, length)
        elif isinstance(digest, str) and isinstance(length, int):
            yield _LongValue("blob", digest, length)
        listed = value.get("pictures")
        yield from (_LongValue("shown", each) for each in (listed if isinstance(listed, list) else ()))
    if isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _find_long_values(each)


def _long_value_names(kind: str, root: Path, run: str) -> Iterator[str]:
    for chain, outline in _outlines(root, run):
        for start in _starts(outline):
            for line in render_lines(chain, outline, start)["lines"]:
                for each in _find_long_values(line):
                    if each.kind == kind:
                        yield from _value_names(each, run, chain.row.chain, line["event"])


def _value_names(each: _LongValue, run: str, chain: str, event: int) -> Iterable[str]:
    parts = range(min(-(-each.length // PART), PARTS))
    match each.kind:
        case "text":
            return (view_name("run", run, "attempt", chain, "text", str(event), each.at, str(part)) for part in parts)
        case "picture":
            return (view_name("run", run, "attempt", chain, "picture", str(event), each.at),)
        case "blob":
            return (view_name("run", run, "blob", each.at, str(part)) for part in parts)
        case "shown":
            return (view_name("run", run, "shown", each.at),)


def blobs(root: Path, run: str) -> Iterator[str]:
    """Yields the pieces of blobs that lines, and the changes of final states, lead to."""
    named = dict.fromkeys(_long_value_names("blob", root, run))
    for chain, outline in _outlines(root, run):
        for digest, size in changed_blobs(list_changes(chain, outline)):
            parts = range(min(-(-size // PART), PARTS) or 1)
            named |= dict.fromkeys(view_name("run", run, "blob", digest, str(part)) for part in parts)
    yield from named


texts = partial(_long_value_names, "text")


def pictures(root: Path, run: str) -> Iterator[str]:
    """Yields the pictures of lines, and those in the messages of model calls."""
    yield from _long_value_names("picture", root, run)
    for chain, outline in _outlines(root, run):
        for event in outline.calls.values():
            call = require_call(decode_event(chain.link(event)).body)
            for message in describe_exchange(call)["messages"]:
                for part in message["parts"]:
                    if "picture" in part:
                        yield view_name("run", run, "attempt", chain.row.chain, "picture", str(event), part["picture"])


blob_pictures = partial(_long_value_names, "shown")
