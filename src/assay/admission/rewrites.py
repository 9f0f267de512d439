"""What the battery writes in place of the reference solution: a change to the state that the solution left.

A rewrite is applied on top of the solution's files: all that solving changed is written, then `files`. Of the group
`sensitivity` it is a mutant, which a good verifier rejects where it behaves differently; of `strictness` it is a
variant that means the same, which every good verifier accepts.

Invariant: pure. Files that no rewrite can be made of (not UTF-8, too large, no regular file) give none.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Literal

import msgspec

__all__ = ["MOST_DIFF_CHARS", "Rewrite", "RewriteGroup", "text_diff", "unified"]

RewriteGroup = Literal["sensitivity", "strictness"]
MOST_DIFF_CHARS = 20_000
"""Longer differences are cut, with a line that says so."""


class Rewrite(msgspec.Struct, frozen=True):
    """A change on top of the files that the reference solution left."""

    name: str
    """As in `mutant.007` and `variant.renamed-locals.1`; unique within a task and group."""
    group: RewriteGroup
    files: dict[str, bytes | None]
    """Absolute path in the sandbox to its whole new content. None: the pristine state of it (what solving added is
    removed, what it changed is as before)."""
    diff: str
    """Unified, from the solution's state to this one."""
    operator: str
    """What kind of change: the name of an operator, as in `comparison_swapped`, `hunk-dropped`, `renamed-locals`."""


def unified(before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]) -> str:
    """One difference over several files: absolute path to bytes, None where there is no such file."""
    paths = sorted(before.keys() | after.keys())
    whole = "".join(text_diff(path, before.get(path), after.get(path)) for path in paths)
    if len(whole) <= MOST_DIFF_CHARS:
        return whole
    return f"{whole[:MOST_DIFF_CHARS]}\n... {len(whole) - MOST_DIFF_CHARS} more characters\n"


def text_diff(path: str, before: bytes | None, after: bytes | None) -> str:
    """The difference of one file, as `diff -u` shows it; bytes that are no UTF-8 are only counted."""
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    if old is None or new is None:
        sizes = [("nothing" if side is None else f"{len(side)} bytes") for side in (before, after)]
        return f"--- {path}\n+++ {path}\nbinary content differs: {sizes[0]} -> {sizes[1]}\n"
    names = (path if before is not None else "/dev/null", path if after is not None else "/dev/null")
    out = []
    for line in difflib.unified_diff(old, new, *names):
        out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(out)


def _lines(data: bytes | None) -> list[str] | None:
    try:
        return [] if data is None else data.decode().splitlines(keepends=True)
    except UnicodeDecodeError:
        return None
