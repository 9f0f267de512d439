"""Rewrites: changes on top of the files that the reference solution left. Pure.

All files of the solution are written first, then `files`. A `sensitivity` rewrite is a mutant, which a sound verifier
rejects if it behaves differently; a `strictness` rewrite is an equivalent variant, which a sound verifier accepts.
Files that are not UTF-8, too large or irregular have no rewrites.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Literal

import msgspec

RewriteGroup = Literal["sensitivity", "strictness"]
MOST_DIFF_CHARS = 20_000
"""Longer differences are cut, with a line that says so."""


class Rewrite(msgspec.Struct, frozen=True):
    """A change on top of the files that the reference solution left."""

    name: str
    """As in `mutant.007` and `variant.renamed-locals.1`; unique within a task and group."""
    group: RewriteGroup
    files: dict[str, bytes | None]
    """Absolute sandbox path to new content. None restores the pristine state: added files are removed, changed ones
    restored."""
    diff: str
    """Unified, from the solution's state to this one."""
    operator: str
    """Name of the operator, for example `comparison_swapped`, `hunk-dropped`, `renamed-locals`."""


def unified(before: Mapping[str, bytes | None], after: Mapping[str, bytes | None]) -> str:
    """Returns one unified diff over several files: absolute path to bytes, None for a missing file."""
    paths = sorted(before.keys() | after.keys())
    whole = "".join(text_diff(path, before.get(path), after.get(path)) for path in paths)
    if len(whole) <= MOST_DIFF_CHARS:
        return whole
    return f"{whole[:MOST_DIFF_CHARS]}\n... {len(whole) - MOST_DIFF_CHARS} more characters\n"


def text_diff(path: str, before: bytes | None, after: bytes | None) -> str:
    """Returns the unified diff of one file; of binary files only the sizes."""
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
