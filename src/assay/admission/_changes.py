"""What a reference solution changed, taken apart: which files are worth rewriting, which lines of them, which hunks."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from assay.agents.cheats.interface import Knowledge, SolutionFile
from assay.code.textual import language_of

__all__ = [
    "ChangedFile",
    "FileRole",
    "Hunk",
    "changed_files",
    "changed_lines",
    "hunks_of",
    "lines_of",
    "role_of",
    "text_of",
]

FileRole = Literal["python", "program", "data"]
MOST_BYTES = 512 * 1024
"""Larger files are only put back as they were."""
MOST_COMPARED = 4_000_000
"""Lines times lines that are compared one by one; what differs more counts as changed throughout."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_LEFT_BY_RUNNING = re.compile(
    r"/(?:__pycache__|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.git|\.hypothesis|node_modules|\.cache)/|\.py[co]$|"
    r"^/(?:tmp|var/tmp|dev|proc|sys|run|logs|solution|tests)/|^/root/\.|/\.(?:bash|python)_history$"
)


class Hunk(NamedTuple):
    """Lines `first` to `last` (from 0, without the last) of the solution's text replaced `before`."""

    first: int
    last: int
    before: tuple[str, ...]


class ChangedFile(NamedTuple):
    """A file that solving added, changed or removed, and that is no by-product of running something."""

    solution_file: SolutionFile
    role: FileRole
    before: str | None
    """None where there was none, or it is no text."""
    after: str | None
    """None where it is gone, no text, or too large."""

    @property
    def path(self) -> str:
        """Absolute, in the sandbox."""
        return self.solution_file.path


def changed_files(knowledge: Knowledge) -> tuple[ChangedFile, ...]:
    """Returns what is worth rewriting, in order of the paths."""
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
    """Returns what kind of rewriting a file stands."""
    if path.endswith((".py", ".pyi")) or re.match(rb"#![^\n]*\bpython", data):
        return "python"
    return "program" if language_of(path, data) is not None else "data"


def text_of(data: bytes | None) -> str | None:
    """The text, where it is UTF-8 and not too large."""
    if data is None or len(data) > MOST_BYTES or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def lines_of(text: str) -> list[str]:
    """Lines with their ends, as Python's own parser counts them."""
    return _LINE.findall(text)


def hunks_of(before: str, after: str) -> Iterator[Hunk]:
    """Where the solution's text differs from the one before, in order."""
    old, new = lines_of(before), lines_of(after)
    if len(old) * len(new) > MOST_COMPARED:
        yield Hunk(0, len(new), tuple(old))
        return
    for kind, first, last, other, end in difflib.SequenceMatcher(None, new, old, autojunk=False).get_opcodes():
        if kind != "equal":
            yield Hunk(first, last, tuple(old[other:end]))


def changed_lines(file: ChangedFile) -> frozenset[int]:
    """Lines (from 1) of the solution's text that are new or different; all of an added file."""
    if file.after is None:
        return frozenset()
    if file.before is None:
        return frozenset(range(1, len(lines_of(file.after)) + 1))
    return frozenset(n + 1 for hunk in hunks_of(file.before, file.after) for n in range(hunk.first, hunk.last))
