"""Observes the state of an unsandboxed folder.

All files below the folder count, except those of the store. A folder too large to scan before each call (a home folder,
a data set) is not observed, and the reason is kept.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from assay.environments.workspace.state import HashCache, compare_entries, scan_folder, state_digest

MOST_FILES = 50_000
MOST_BYTES = 2 * 1024**3


class FolderState:
    """An observed folder, without the store that its record is written to."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.problem: str | None = None
        """Reason why the folder is not observed; None if it is."""
        self._folder = folder.resolve()
        own = store.resolve()
        inside = own != self._folder and own.is_relative_to(self._folder)
        self._hidden = frozenset({"/" + own.relative_to(self._folder).as_posix()}) if inside else frozenset()
        self._cache = HashCache()
        self._one_at_a_time = asyncio.Lock()
        self._measured = False

    async def digest(self) -> str | None:
        """Returns the digest of all files; None if the folder is too large or unreadable."""
        async with self._one_at_a_time:
            return None if self.problem is not None else await asyncio.to_thread(self._digest)

    def _digest(self) -> str | None:
        try:
            if not self._measured:
                self.problem, self._measured = self._too_large(), True
            if self.problem is not None:
                return None
            top = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                now = scan_folder(top, self._cache, hidden=self._hidden)
            finally:
                os.close(top)
        except OSError as exc:
            if not self._measured:
                self.problem = f"it cannot be read: {exc.strerror or exc}"
            return None  # a file that went away while it was read is no reason not to look the next time
        return state_digest("folder", compare_entries({}, now))

    def _too_large(self) -> str | None:
        files = size = 0
        for parent, folders, names in os.walk(self._folder):
            here = parent.removeprefix(str(self._folder))
            folders[:] = [name for name in folders if f"{here}/{name}" not in self._hidden]
            files += len(names)
            size += sum(os.lstat(Path(parent) / name).st_size for name in names)
            if files > MOST_FILES or size > MOST_BYTES:
                return f"it has more than {MOST_FILES} files or {MOST_BYTES >> 30} GiB"
        return None
