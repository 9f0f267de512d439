"""Files that one run of a test script lends to its judged programs, and what identifies them in another run.

A fixed name identifies a file by itself. A name with a random part, as `mktemp` and Python's `tempfile` draw it, does
where the run has no other such name: then it stands for one file, as a fixed name does. Where several exist, a program
could print a pattern that selects among them. There a file is identified by its content and its place in the command,
and each lending in the other run stands for one in this run.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.environments.interface import Workspace
from assay.errors import AssayError
from assay.records import digest_bytes

__all__ = ["LentFiles"]

MOST_BYTES = 64 << 20
MOST_LISTED, LIST_S = 1 << 20, 30.0
"""Of a list of names: bytes, and seconds until it is there."""
_TEMPORARY = re.compile(r"/tmp(?:\.[A-Za-z0-9]{6,10}|[a-z0-9_]{8})(?=/|$)")
_FOLDER = "/tmp"
_LISTED = (0, 1, 2)
"""Exit codes of `ls`; the others than 0 say that a folder is absent."""
_UNKNOWN = ""
"""In place of the digest of a file that cannot be read."""


class _Lending(NamedTuple):
    """One file in one command."""

    words: tuple[str, ...]
    """Of the command, before the file."""
    name: str
    """Without its random part."""
    digest: str


class LentFiles:
    """The files of one run.

    Args:
        script: The sandbox of the script.
    """

    def __init__(self, script: Workspace) -> None:
        self._script = script
        self._of_task: set[str] = set()
        self._lendings: dict[str, set[_Lending]] = {}
        """By path; empty where the name has no random part."""
        self._counts = Counter[_Lending]()
        self._names: set[str] = set()
        """Names without their random part."""
        self._temporary: set[str] = set()
        """Names with a random part that this run had."""

    def paths(self) -> set[str]:
        """Returns the paths of all files but those that the task is known to have named."""
        return set(self._lendings)

    def has_temporary(self) -> bool:
        """Returns whether the name of any file has a random part."""
        return bool(self._names)

    async def add(self, paths: Collection[str], argv: Sequence[str], *, of_task: bool = False) -> None:
        """Adds the files that a command names, as they are now.

        Args:
            paths: Of the files.
            argv: The command.
            of_task: The script chose the names before it could read a byte that the agent or its programs wrote.
        """
        if of_task:
            self._of_task.update(paths)
        for path in set(paths) - self._of_task:
            self._lendings.setdefault(path, set())
        temporary = sorted(path for path in paths if _TEMPORARY.search(path))
        for path in temporary:
            name = _without_random_part(path)
            lending = _Lending(_words_before(path, argv), name, await self._read_digest(path))
            self._counts[lending] += 1
            self._names.add(name)
            if path in self._lendings:
                self._lendings[path].add(lending)
        if temporary:
            self._temporary |= _random_names(temporary)
            await self.note_neighbours(temporary)

    async def note_neighbours(self, paths: Iterable[str]) -> None:
        """Notes the names with a random part that lie beside those of paths, and in the usual folder."""
        folders = {posixpath.dirname(path[: match.end()]) for path in paths for match in _TEMPORARY.finditer(path)}
        command = ["/bin/ls", "-1A", "--", *sorted({_FOLDER, *folders})]
        result = await self._script.exec(command, cwd="/", timeout_s=LIST_S, show_bytes=MOST_LISTED)
        self._temporary |= _random_names(f"/{line}" for line in result.stdout.splitlines())
        if result.exit_code not in _LISTED or result.stdout_bytes > MOST_LISTED:
            self._temporary |= {"several", "names"}

    def confirmed_by(self, control: LentFiles, *, ended: bool) -> set[str]:
        """Returns the paths of these files that a control run names too.

        Args:
            control: The files of the control run.
            ended: It names no more files, so that a name with a random part may be the only one of each run.
        """
        is_single = ended and max(len(self._temporary), len(control._temporary)) <= 1
        confirmed = self._lendings.keys() & control._lendings.keys()
        for path, lendings in self._lendings.items():
            if lendings and (
                (is_single and _without_random_part(path) in control._names)
                or all(one.digest != _UNKNOWN and self._counts[one] <= control._counts[one] for one in lendings)
            ):
                confirmed.add(path)
        return confirmed

    async def _read_digest(self, path: str) -> str:
        try:
            return digest_bytes(await self._script.read(path, limit=MOST_BYTES))
        except IsADirectoryError:
            return await self._digest_folder(path)
        except (AssayError, OSError, ValueError):
            return _UNKNOWN

    async def _digest_folder(self, path: str) -> str:
        with tempfile.TemporaryDirectory(prefix="assay-lent-") as place:
            top = Path(place, "tree")
            try:
                await self._script.download(path, top, limit=MOST_BYTES)
                return await asyncio.to_thread(_digest_tree, top)
            except (AssayError, OSError, ValueError):
                return _UNKNOWN


def _digest_tree(top: Path) -> str:
    files = sorted(path for path in top.rglob("*") if path.is_file() and not path.is_symlink())
    lines = [f"{digest_bytes(path.read_bytes())} {path.relative_to(top)}" for path in files]
    return digest_bytes("\0".join(lines).encode(errors="surrogateescape"))


def _random_names(paths: Iterable[str]) -> set[str]:
    return {posixpath.basename(path[: match.end()]) for path in paths for match in _TEMPORARY.finditer(path)}


def _words_before(path: str, argv: Sequence[str]) -> tuple[str, ...]:
    """Returns the words of a command before the first that holds a file's name, without random parts."""
    words = tuple(map(_without_random_part, argv))
    name = posixpath.basename(path)
    texts = argv if _TEMPORARY.fullmatch(f"/{name}") else words
    return words[: next((number for number, text in enumerate(texts) if name in text), len(words))]


def _without_random_part(path: str) -> str:
    return _TEMPORARY.sub("/tmp\0", path)  # no path has this character
