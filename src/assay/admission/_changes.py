"""Splits the reference solution's changes into files, lines and hunks that can be rewritten."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from assay.agents.cheats.interface import Knowledge, SolutionFile
from assay.code.textual import language_of

FileRole = Literal["python", "program", "data"]
MOST_BYTES = 512 * 1024
"""Larger files are restored, never rewritten."""
MOST_COMPARED = 4_000_000
"""Limit of the product of both line counts; beyond it the whole file counts as changed."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_LEFT_BY_RUNNING = re.compile(
    r"/(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.git|\.hypothesis|node_modules|\.cache)/|\.py[co]$|"
    r"^/(?:tmp|var/tmp|dev|proc|sys|run|logs|solution|tests)/|^/root/\.|/\.(?:bash|python)_history$"
)


class SolutionHunk(NamedTuple):
    """Lines `first` to `last` (from 0, end exclusive) of the solution's text, which replaced `before`."""

    first: int
    last: int
    before: tuple[str, ...]


class ChangedFile(NamedTuple):
    """A file that the solution added, changed or removed; by-products are excluded."""

    solution_file: SolutionFile
    role: FileRole
    before: str | None
    """Content before; None for a new file or one that is not text."""
    after: str | None
    """Content after; None for a removed file or one that is not text or too large."""

    @property
    def path(self) -> str:
        return self.solution_file.path


def changed_files(knowledge: Knowledge) -> tuple[ChangedFile, ...]:
    """Returns the files that can be rewritten, in order of path."""
    found = []
    for solution_file in sorted(knowledge.judged, key=lambda file: file.path):
        if _LEFT_BY_RUNNING.search(solution_file.path) or solution_file.before == solution_file.after:
            continue
        role = role_of(
            solution_file.path, solution_file.after if solution_file.after is not None else solution_file.before or b""
        )
        found.append(ChangedFile(solution_file, role, text_of(solution_file.before), text_of(solution_file.after)))
    return tuple(found)


def role_of(path: str, data: bytes) -> FileRole:
    """Returns which kind of rewriting applies to a file."""
    if path.endswith((".py", ".pyi")) or re.match(rb"#![^\n]*\bpython", data):
        return "python"
    return "program" if language_of(path, data) is not None else "data"


def text_of(data: bytes | None) -> str | None:
    """Returns the text; None where the data is not UTF-8 or too large."""
    if data is None or len(data) > MOST_BYTES or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def lines_of(text: str) -> list[str]:
    """Returns lines with their line ends, as Python's parser counts them."""
    return _LINE.findall(text)


def hunks_of(before: str, after: str) -> Iterator[SolutionHunk]:
    """Yields the differences between two texts, in order."""
    old, new = lines_of(before), lines_of(after)
    if len(old) * len(new) > MOST_COMPARED:
        yield SolutionHunk(0, len(new), tuple(old))
        return
    for kind, first, last, other, end in difflib.SequenceMatcher(None, new, old, autojunk=False).get_opcodes():
        if kind != "equal":
            yield SolutionHunk(first, last, tuple(old[other:end]))


def changed_lines(file: ChangedFile) -> frozenset[int]:
    """Returns the line numbers (from 1) that are new or different in the solution's text."""
    if file.after is None:
        return frozenset()
    if file.before is None:
        return frozenset(range(1, len(lines_of(file.after)) + 1))
    return frozenset(n + 1 for hunk in hunks_of(file.before, file.after) for n in range(hunk.first, hunk.last))
