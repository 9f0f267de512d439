"""Finds importable files below given paths and detects their formats.

A folder that is one record (a job folder) is taken whole; other folders are walked; archives that belong to no format,
compressed files and Parquet files are unpacked to a temporary folder after a safety check. Links inside walked folders
are not followed.

Invariant: all archives of one import together unpack to no more than an `UnpackBudget`, however they are nested.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from assay.errors import UserError
from assay.formats.interface import Format, ReadProblem
from assay.formats.mapped.format import MappedFormat
from assay.formats.mapped.mapping import load_mapping
from assay.formats.registry import describe_unknown, find_format, load_format, load_formats, matching_formats
from assay.formats.shared.archives import UnpackBudget, decompress_file, extract_archive, open_archive
from assay.formats.shared.parquet_rows import write_lines_as_array, write_rows_as_lines
from assay.formats.shared.sniffing import sniff

_CONTAINERS = frozenset({"zip", "tar", "compressed", "parquet"})


class ImportSource(NamedTuple):
    """A file or folder to read."""

    path: Path
    name: str
    """Display name, relative to the given folder; `archive!member` for an archive member."""
    format: Format


def choose_format(name: str | None, mapping: str | None) -> Format | None:
    """Returns the format that everything is read as: the named one, or one that a mapping file defines; else None.

    Raises:
        UserError: Both are given, or the mapping is invalid.
    """
    if name is not None and mapping is not None:
        raise UserError("--format and --map exclude each other: a mapping reads files of no known format")
    if mapping is not None:
        return MappedFormat(load_mapping(Path(mapping)))
    return None if name is None else load_format(name)


def require_paths(paths: tuple[Path, ...], forced: Format | None) -> None:
    """Checks the given paths before anything is read.

    Raises:
        UserError: A path is missing or unreadable, or is a file of an unknown or ambiguous format.
    """
    known = load_formats()
    for path in paths:
        if not path.exists():
            raise UserError(f"there is nothing at {path}: check the path")
        if not path.is_file() and not path.is_dir():
            raise UserError(f"{path} is neither a file nor a folder: name one that holds a record")
        if path.is_file() and (problem := reading_problem(path)) is not None:
            raise UserError(f"{path}: {problem}")
        packed = sniff(path).shape in _CONTAINERS and not matching_formats(path, known)
        if forced is None and path.is_file() and not packed:
            find_format(path, known)


def reading_problem(path: Path) -> str | None:
    """Returns why a file cannot be read as UTF-8 or bytes, by the name of the error; None where it can."""
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
    except OSError as exc:
        return f"it cannot be read: {exc.strerror or exc}"
    utf16 = start[:2] in (b"\xff\xfe", b"\xfe\xff") or (start[:1] in b"{[" and start[1::2] == b"\0\0")
    return "it is UTF-16 text, UTF-8 is read: convert it with `iconv -f UTF-16 -t UTF-8`" if utf16 else None


class SourceWalk:
    """Walks paths in name order, reading each as `forced` or as detected; reports unreadable files to `unreadable`."""

    def __init__(self, forced: Format | None, unreadable: Callable[[ReadProblem], None]) -> None:
        self._forced = forced
        self._known = load_formats() if self._forced is None else (self._forced,)
        self._unreadable = unreadable
        self._budget = UnpackBudget()
        self._depth = 0
        """Number of archives that the current file is inside."""
        self.unrecognised: list[str] = []
        """Files of no known format; at most a thousand names."""
        self.others = 0
        """Number of such files."""
        self.links = 0
        """Number of links not followed."""

    def find_sources(self, path: Path) -> Iterator[ImportSource]:
        """Yields the sources at a path that the user named."""
        if path.is_file() and self._forced is not None and not self._is_container(path):
            yield ImportSource(path, path.name, self._forced)
            return
        yield from self._at(path, path.name or path.resolve().name, top=True)

    def _is_container(self, path: Path) -> bool:
        return sniff(path).shape in _CONTAINERS and not matching_formats(path, self._known)

    def _at(self, path: Path, name: str, *, top: bool) -> Iterator[ImportSource]:
        if not top and path.is_symlink():
            self.links += 1
            return
        if path.is_file() and (problem := reading_problem(path)) is not None:
            self._unreadable(ReadProblem(name, "", problem))
            return
        takers = matching_formats(path, self._known)
        if len(takers) > 1:
            names = " and ".join(taker.name for taker in takers)
            self._unreadable(ReadProblem(name, "", f"it could be {names}: import it alone, with --format"))
        elif takers:
            yield from self._admit_source(path, name, takers[0])
        elif path.is_dir():
            yield from self._below(path, name, top=top)
        elif sniff(path).shape in _CONTAINERS:
            yield from self._inside(path, name, named=top)
        else:
            self._count_unrecognised(name)

    def _admit_source(self, path: Path, name: str, format: Format) -> Iterator[ImportSource]:
        """Yields a source; one that is an archive inside another counts as unpacked."""
        try:
            if self._depth and sniff(path).shape == "zip":
                with open_archive(path) as members:
                    self._budget.charge(name, sum(member.size for member in members), len(members))
        except UserError as exc:
            self._unreadable(ReadProblem(name, "", str(exc)))
            return
        yield ImportSource(path, name, format)

    def _below(self, folder: Path, name: str, *, top: bool) -> Iterator[ImportSource]:
        try:
            children = sorted(path.name for path in folder.iterdir())
        except OSError as exc:
            self._unreadable(ReadProblem(name, "", f"the folder cannot be read: {exc.strerror}"))
            return
        for child in children:
            yield from self._at(folder / child, child if top else f"{name}/{child}", top=False)

    def _inside(self, path: Path, name: str, *, named: bool) -> Iterator[ImportSource]:
        """Yields the sources of an archive, of a compressed file, or of the rows of a Parquet file."""
        if self._depth >= self._budget.depth:
            self._unreadable(ReadProblem(name, "", f"more than {self._budget.depth} archives are inside each other"))
            return
        if not self._depth:
            self._budget.admit(path.stat().st_size)
        with tempfile.TemporaryDirectory(prefix="assay-import-") as scratch:
            self._depth += 1
            try:
                yield from self._unpacked(path, name, Path(scratch), named=named)
            except UserError as exc:
                self._unreadable(ReadProblem(name, "", str(exc)))
            finally:
                self._depth -= 1

    def _unpacked(self, path: Path, name: str, scratch: Path, *, named: bool) -> Iterator[ImportSource]:
        shape = sniff(path).shape
        if shape in ("zip", "tar"):
            extract_archive(path, scratch, budget=self._budget)
            for found in self._at_root(scratch):
                yield found._replace(name=f"{name}!{found.name}")
            return
        inner = scratch / (f"{path.stem}.jsonl" if shape == "parquet" else path.stem or "content")
        if shape == "parquet":
            write_rows_as_lines(path, inner, self._budget)
            if not matching_formats(inner, self._known) and self._forced is None:
                inner = self._as_array(inner)
        else:
            decompress_file(path, inner, self._budget)
        if self._forced is not None and not self._is_container(inner):
            yield ImportSource(inner, name, self._forced)
        elif named and not self._is_container(inner) and not matching_formats(inner, self._known):
            raise UserError(describe_unknown(inner, str(path), self._known))
        else:
            yield from self._at(inner, name, top=False)

    def _as_array(self, lines: Path) -> Path:
        """Returns the rows as one array where a format recognises that, else the lines."""
        array = lines.with_suffix(".json")
        write_lines_as_array(lines, array)
        return array if matching_formats(array, self._known) else lines

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
