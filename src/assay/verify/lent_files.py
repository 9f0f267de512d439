"""Files that one run of a test script lends to its judged programs, and what identifies them in another run.

A fixed name identifies a file by itself. A name with a random part, as `mktemp` and Python's `tempfile` draw it, does
where the run has no other such name: then it stands for one file, as a fixed name does. Where several exist, a program
could print a pattern that selects among them, so there the content identifies the file.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from assay.environments.interface import Workspace
from assay.errors import AssayError
from assay.records import digest_bytes

__all__ = ["LentFiles"]

MOST_BYTES = 64 << 20
MOST_LISTED, LIST_S = 1 << 20, 30.0
"""Of a list of names: bytes, and seconds until it is there."""
_TEMPORARY = re.compile(r"/tmp(?:\.[A-Za-z0-9]{6,10}|[a-z0-9_]{8})(?=/|$)")
_FOLDER = "/tmp"
_UNKNOWN = ""
"""In place of the digest of a file that cannot be read."""


class LentFiles:
    """The files of one run.

    Args:
        script: The sandbox of the script.
    """

    def __init__(self, script: Workspace) -> None:
        self._script = script
        self._digests: dict[str, set[str]] = {}
        """Path to the digests of what it held; empty where the name has no random part."""
        self._by_name: dict[str, set[str]] = {}
        """The same for names without their random part."""
        self._temporary: set[str] = set()
        """Names with a random part that this run had."""

    def paths(self) -> set[str]:
        """Returns the paths of all files."""
        return set(self._digests)

    def has_temporary(self) -> bool:
        """Returns whether the name of any file has a random part."""
        return any(map(_TEMPORARY.search, self._digests))

    def note_names(self, paths: Iterable[str]) -> None:
        """Notes names with a random part of files that are not added."""
        for path in paths:
            self._temporary |= {posixpath.basename(path[: match.end()]) for match in _TEMPORARY.finditer(path)}

    async def add(self, paths: Collection[str]) -> None:
        """Adds files as they are now."""
        self._digests.update((path, set()) for path in paths if path not in self._digests)
        temporary = sorted(path for path in paths if _TEMPORARY.search(path))
        for path in temporary:
            self._digests[path].add(await self._read_digest(path))
            self._by_name.setdefault(_without_random_part(path), set()).update(self._digests[path])
        if temporary:
            self.note_names(temporary)
            await self.note_neighbours(temporary)

    async def note_neighbours(self, paths: Iterable[str]) -> None:
        """Notes the names with a random part that lie beside those of paths, and in the usual folder."""
        folders = {posixpath.dirname(path[: match.end()]) for path in paths for match in _TEMPORARY.finditer(path)}
        command = ["/bin/ls", "-1A", "--", *sorted({_FOLDER, *folders})]
        result = await self._script.exec(command, cwd="/", timeout_s=LIST_S, show_bytes=MOST_LISTED)
        self.note_names(f"/{line}" for line in result.stdout.splitlines())
        if result.timed_out or result.stdout_bytes > MOST_LISTED:
            self._temporary |= {"several", "names"}

    def confirmed_by(self, control: LentFiles, *, ended: bool) -> set[str]:
        """Returns the paths of these files that a control run names too.

        Args:
            control: The files of the control run.
            ended: It names no more files, so that a name with a random part may be the only one of each run.
        """
        is_single = ended and max(len(self._temporary), len(control._temporary)) <= 1
        confirmed = self._digests.keys() & control._digests.keys()
        for path, digests in self._digests.items():
            if not digests:
                continue
            others = control._by_name.get(_without_random_part(path))
            if others is not None and (is_single or (digests <= others and _UNKNOWN not in digests)):
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


def _without_random_part(path: str) -> str:
    return _TEMPORARY.sub("/tmp\0", path)  # no path has this character
