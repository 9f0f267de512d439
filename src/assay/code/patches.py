"""Reads unified diffs and applies them to texts. Pure; a patch applies completely or not at all.

Covered: added, changed, removed and renamed files; git and plain headers; moved hunks with one match nearby. Not
covered: binary patches, which are an error, and modes except the execute bit of a new file. Patches are untrusted:
paths outside the folder are errors.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MOST_BYTES = 64 << 20
MOST_MOVED, MOST_MOVED_LINES = 2_000, 1_000
"""Search distance for a moved hunk, and its maximum length; the cost is their product."""
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_GIT = re.compile(r"diff --git (?:a/(.+?) b/(.+)|\"a/(.+?)\" \"b/(.+)\")")
_NO_NEWLINE = "\\ No newline at end of file"


class PatchError(ValueError):
    """The text is not an applicable unified diff; the message says where and why."""


class PatchHunk(NamedTuple):
    """Lines at the 1-based line `at`, with line ends, and their replacement."""

    at: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class FilePatch(NamedTuple):
    """Changes of one file. None for `old` of an added file and `new` of a removed one."""

    old: str | None
    new: str | None
    hunks: tuple[PatchHunk, ...]
    executable: bool = False


def read_patch(text: str) -> tuple[FilePatch, ...]:
    """Returns the files of a patch, in order. Raises `PatchError`."""
    if len(text) > MOST_BYTES:
        raise PatchError(f"the patch is larger than {MOST_BYTES >> 20} MiB")
    lines = text.splitlines(keepends=True) if "\f" not in text else re.findall(r"[^\n]*\n|[^\n]+", text)
    return tuple(_Reader(lines).files())


def apply_patch(patch: FilePatch, before: str | None) -> str | None:
    """Returns the new text of a file; None for a removed one. `before` is None for a missing file.

    Raises `PatchError` if the file is not as the patch says.
    """
    name = patch.new or patch.old
    if patch.old is None and before is not None and before != "":
        raise PatchError(f"{name} is to be added and is there already")
    if patch.old is not None and before is None:
        raise PatchError(f"{name} is to be changed and is not there")
    lines = re.findall(r"[^\n]*\n|[^\n]+", before or "")
    made: list[str] = []
    done = 0
    for number, hunk in enumerate(patch.hunks, 1):
        at = _find_hunk(lines, hunk, done)
        if at is None:
            raise PatchError(f"{name}: hunk {number} does not fit: the lines around line {hunk.at} are others")
        made += [*lines[done:at], *hunk.after]
        done = at + len(hunk.before)
    text = "".join([*made, *lines[done:]])
    return None if patch.new is None else text


def _find_hunk(lines: Sequence[str], hunk: PatchHunk, done: int) -> int | None:
    """Returns the index of a hunk's lines: at the stated line, else at the only match nearby."""
    before = list(hunk.before)
    stated = hunk.at - 1 if before else hunk.at
    if stated >= done and lines[stated : stated + len(before)] == before:
        return stated
    if not before:
        return stated if done <= stated <= len(lines) else None
    if len(before) > MOST_MOVED_LINES:
        return None
    near = range(max(done, stated - MOST_MOVED), min(stated + MOST_MOVED, len(lines) - len(before)) + 1)
    found = [at for at in near if lines[at] == before[0] and lines[at : at + len(before)] == before]
    return found[0] if len(found) == 1 else None


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git ") or line.startswith("--- "):
                yield self._file()
            else:
                self._at += 1  # what stands around a patch: a mail, a commit message

    def _file(self) -> FilePatch:
        old, new, executable, renamed = None, None, False, False
        start = self._line()
        if start.startswith("diff --git "):
            found = _GIT.fullmatch(start)
            if found:
                old, new = found[1] or found[3], found[2] or found[4]
            self._at += 1
            while self._at < len(self._lines) and not self._line().startswith(("--- ", "diff --git ", "@@")):
                line = self._line()
                executable = executable or line.startswith(("new file mode 100755", "new mode 100755"))
                renamed = renamed or line.startswith("rename ")
                old = line.removeprefix("rename from ") if line.startswith("rename from ") else old
                new = line.removeprefix("rename to ") if line.startswith("rename to ") else new
                old = None if line.startswith("new file mode") else old
                new = None if line.startswith("deleted file mode") else new
                if line.startswith(("GIT binary patch", "Binary files ")):
                    raise PatchError(f"{new or old} is binary: the patch does not hold its bytes as text")
                self._at += 1
        if self._at < len(self._lines) and self._line().startswith("--- "):
            old = _name(self._line()[4:])
            self._at += 1
            if self._at >= len(self._lines) or not self._line().startswith("+++ "):
                raise PatchError(f"line {self._at + 1}: after '---' comes '+++'")
            new = _name(self._line()[4:])
            self._at += 1
        return FilePatch(_checked(old), _checked(new), tuple(self._hunks()), executable)

    def _line(self) -> str:
        return self._lines[self._at].rstrip("\r\n")

    def _hunks(self) -> Iterator[PatchHunk]:
        while self._at < len(self._lines) and self._line().startswith("@@"):
            found = _HUNK.match(self._line())
            if found is None:
                raise PatchError(f"line {self._at + 1}: {self._line()[:80]!r} begins no hunk")
            self._at += 1
            counts = [int(found[2] or 1) if found[2] != "0" else 0, int(found[4] or 1) if found[4] != "0" else 0]
            yield self._hunk(int(found[1]), counts)

    def _hunk(self, at: int, left: list[int]) -> PatchHunk:
        before: list[str] = []
        after: list[str] = []
        last: tuple[list[str], ...] = ()
        while left[0] > 0 or left[1] > 0 or self._next_is(_NO_NEWLINE):
            if self._at >= len(self._lines):
                raise PatchError("the patch ends within a hunk")
            line = self._lines[self._at]
            sign, rest = (line[0], line[1:]) if line not in ("\n", "\r\n") else (" ", line)
            if sign == "\\":
                for side in last:
                    side[-1] = side[-1].removesuffix("\n")
            elif sign in " -+":
                last = (before, after) if sign == " " else (before,) if sign == "-" else (after,)
                for side in last:
                    side.append(rest)
                left[0] -= sign != "+"
                left[1] -= sign != "-"
            else:
                raise PatchError(f"line {self._at + 1}: {line[:80]!r} is not a hunk line")
            self._at += 1
        return PatchHunk(at, tuple(before), tuple(after))

    def _next_is(self, text: str) -> bool:
        return self._at < len(self._lines) and self._line().startswith(text[:1])


def _name(text: str) -> str | None:
    """Returns a file's name without prefix, time and quotes; None for `/dev/null`."""
    name = text.partition("\t")[0].strip()
    if name == "/dev/null":
        return None
    if name.startswith('"') and name.endswith('"') and len(name) > 1:
        name = name[1:-1]
    return name[2:] if name.startswith(("a/", "b/")) else name


def _checked(path: str | None) -> str | None:
    if path is None:
        return None
    whole = posixpath.normpath(path)
    if not path or whole.startswith(("/", "..")) or "\0" in path or "\\" in path:
        raise PatchError(f"{path[:200]!r} is not a plain path below the folder")
    return whole
