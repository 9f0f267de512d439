"""Finds importable files below given paths and detects their formats.

A folder that is one record (a job folder) is taken whole; other folders are walked; archives that belong to no format
are unpacked to a temporary folder after a safety check. Links inside walked folders are not followed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from assay.errors import UserError
from assay.formats.interface import Format, ReadProblem
from assay.formats.registry import find_format, load_format, load_formats, matching_formats
from assay.formats.shared.archives import extract_archive
from assay.formats.shared.sniffing import sniff


class ImportSource(NamedTuple):
    """A file or folder to read."""

    path: Path
    name: str
    """Display name, relative to the given folder; `archive!member` for an archive member."""
    format: Format


def require_paths(paths: tuple[Path, ...], format_name: str | None) -> None:
    """Checks the given paths before anything is read.

    Raises:
        UserError: A path is missing, or is a file of an unknown or ambiguous format.
    """
    known = load_formats()
    for path in paths:
        if not path.exists():
            raise UserError(f"there is nothing at {path}: check the path")
        if not path.is_file() and not path.is_dir():
            raise UserError(f"{path} is neither a file nor a folder: name one that holds a record")
        archived = sniff(path).shape in ("zip", "tar") and not matching_formats(path, known)
        if format_name is None and path.is_file() and not archived:
            find_format(path, known)


class SourceWalk:
    """Walks paths in name order, reading each as `format_name` or as detected; passes what cannot be read to
    `unreadable`.
    """

    def __init__(self, format_name: str | None, unreadable: Callable[[ReadProblem], None]) -> None:
        self._forced = None if format_name is None else load_format(format_name)
        self._known = load_formats() if self._forced is None else (self._forced,)
        self._unreadable = unreadable
        self.unrecognised: list[str] = []
        """Files of no known format; at most a thousand names."""
        self.others = 0
        """Number of such files."""
        self.links = 0
        """Number of links not followed."""

    def find_sources(self, path: Path) -> Iterator[ImportSource]:
        """Yields the sources at a path that the user named."""
        if path.is_file() and self._forced is not None:
            yield ImportSource(path, path.name, self._forced)
            return
        yield from self._at(path, path.name or path.resolve().name, top=True)

    def _at(self, path: Path, name: str, *, top: bool) -> Iterator[ImportSource]:
        if not top and path.is_symlink():
            self.links += 1
            return
        takers = matching_formats(path, self._known)
        if len(takers) > 1:
            names = " and ".join(taker.name for taker in takers)
            self._unreadable(ReadProblem(name, "", f"it could be {names}: import it alone, with --format"))
        elif takers:
            yield ImportSource(path, name, takers[0])
        elif path.is_dir():
            yield from self._below(path, name, top=top)
        elif sniff(path).shape in ("zip", "tar"):
            yield from self._inside(path, name)
        else:
            self._count_unrecognised(name)

    def _below(self, folder: Path, name: str, *, top: bool) -> Iterator[ImportSource]:
        try:
            children = sorted(path.name for path in folder.iterdir())
        except OSError as exc:
            self._unreadable(ReadProblem(name, "", f"the folder cannot be read: {exc.strerror}"))
            return
        for child in children:
            yield from self._at(folder / child, child if top else f"{name}/{child}", top=False)

    def _inside(self, path: Path, name: str) -> Iterator[ImportSource]:
        with tempfile.TemporaryDirectory(prefix="assay-import-") as scratch:
            try:
                extract_archive(path, Path(scratch))
            except UserError as exc:
                self._unreadable(ReadProblem(name, "", str(exc)))
                return
            for found in self._at_root(Path(scratch)):
                yield found._replace(name=f"{name}!{found.name}")

    def _at_root(self, scratch: Path) -> Iterator[ImportSource]:
        takers = matching_formats(scratch, self._known)
        if len(takers) == 1:
            yield ImportSource(scratch, "", takers[0])
            return
        yield from self._below(scratch, "", top=True)

    def _count_unrecognised(self, name: str) -> None:
        self.others += 1
        if len(self.unrecognised) < 1000:
            self.unrecognised.append(name)
