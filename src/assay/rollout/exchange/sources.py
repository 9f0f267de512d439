"""Finds importable files below given paths and detects their formats.

A folder that is one record (a job folder) is taken whole; other folders are walked; archives that belong to no format,
compressed files and Parquet files are unpacked to a temporary folder after a safety check. Links inside walked folders
are not followed.

Invariant: all archives of one import together unpack to no more than an `UnpackBudget`, however they are nested.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from assay.errors import UserError
from assay.formats.interface import Format, ReadProblem
from assay.formats.mapped.format import MappedFormat
from assay.formats.mapped.mapping import load_mapping
from assay.formats.registry import (
    advise_mapping,
    describe_unknown,
    find_format,
    load_format,
    load_formats,
    matching_formats,
)
from assay.formats.shared.archives import UnpackBudget, decompress_file, extract_archive, open_archive
from assay.formats.shared.parquet_rows import write_lines_as_array, write_rows_as_lines
from assay.formats.shared.sniffing import Shape, sniff

_DRAFTED = 20
"""Files of no known format for which a mapping is sought."""
_CONTAINERS = frozenset({"zip", "tar", "compressed", "parquet"})


class ImportSource(NamedTuple):
    """A file or folder to read."""

    path: Path
    name: str
    """Display name, relative to the given folder; `archive!member` for an archive member."""
    format: Format


class _Detection(NamedTuple):
    """Kind of a file or folder."""

    takers: tuple[Format, ...]
    """The formats that recognise it."""
    shape: Shape

    @property
    def is_container(self) -> bool:
        """Returns whether it is to be unpacked."""
        return not self.takers and self.shape in _CONTAINERS


def _detect(path: Path, known: tuple[Format, ...]) -> _Detection:
    return _Detection(matching_formats(path, known), sniff(path).shape)


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
        if path.is_dir() and _is_empty(path):
            raise UserError(f"{path} is empty: no file is in it; name the folder that holds the records")
        if forced is None and path.is_file():
            detected = _detect(path, known)
            if not detected.is_container and len(detected.takers) != 1:
                find_format(path, known)  # raises


def _is_empty(folder: Path) -> bool:
    """Returns whether no file and no link is in a folder and below; False where it cannot be listed."""
    problems = list[OSError]()
    for at, folders, files in os.walk(folder, onerror=problems.append):
        if files or any((Path(at) / name).is_symlink() for name in folders):
            return False
    return not problems


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
        self.advice: str | None = None
        """How to import by a mapping the first of these files for which one can be drafted."""
        self._named = Path()
        """The path that the user named."""
        self.links = 0
        """Number of links not followed."""

    def find_sources(self, path: Path) -> Iterator[ImportSource]:
        """Yields the sources at a path that the user named."""
        self._named, detected = path, None
        if self._forced is not None and path.is_file():
            detected = _detect(path, self._known)
            if not detected.is_container:
                yield ImportSource(path, path.name, self._forced)
                return
        yield from self._at(path, path.name or path.resolve().name, detected, top=True)

    def _at(self, path: Path, name: str, detected: _Detection | None = None, *, top: bool) -> Iterator[ImportSource]:
        """Yields the sources at a path; `detected` is what is known of it."""
        if not top and path.is_symlink():
            self.links += 1
            return
        if path.is_file() and (problem := reading_problem(path)) is not None:
            self._unreadable(ReadProblem(name, "", problem))
            return
        detected = detected or _detect(path, self._known)
        if len(detected.takers) > 1:
            names = " and ".join(taker.name for taker in detected.takers)
            self._unreadable(ReadProblem(name, "", f"it could be {names}: import it alone, with --format"))
        elif detected.takers:
            yield from self._admit_source(path, name, detected)
        elif path.is_dir():
            yield from self._below(path, name, top=top)
        elif detected.is_container:
            yield from self._inside(path, name, detected.shape, named=top)
        else:
            self._count_unrecognised(path, name)

    def _admit_source(self, path: Path, name: str, detected: _Detection) -> Iterator[ImportSource]:
        """Yields a source; one that is an archive inside another counts as unpacked."""
        try:
            if self._depth and detected.shape == "zip":
                with open_archive(path) as members:
                    self._budget.charge(name, sum(member.size for member in members), len(members))
        except UserError as exc:
            self._unreadable(ReadProblem(name, "", str(exc)))
            return
        yield ImportSource(path, name, detected.takers[0])

    def _below(self, folder: Path, name: str, *, top: bool) -> Iterator[ImportSource]:
        try:
            children = sorted(path.name for path in folder.iterdir())
        except OSError as exc:
            self._unreadable(ReadProblem(name, "", f"the folder cannot be read: {exc.strerror}"))
            return
        for child in children:
            yield from self._at(folder / child, child if top else f"{name}/{child}", top=False)

    def _inside(self, path: Path, name: str, shape: Shape, *, named: bool) -> Iterator[ImportSource]:
        """Yields the sources of an archive, of a compressed file, or of the rows of a Parquet file."""
        if self._depth >= self._budget.depth:
            self._unreadable(ReadProblem(name, "", f"more than {self._budget.depth} archives are inside each other"))
            return
        if not self._depth:
            self._budget.admit(path.stat().st_size)
        with tempfile.TemporaryDirectory(prefix="assay-import-") as scratch:
            self._depth += 1
            try:
                if shape in ("zip", "tar"):
                    yield from self._extracted(path, name, Path(scratch))
                else:
                    yield from self._unpacked(path, name, Path(scratch), shape, named=named)
            except UserError as exc:
                self._unreadable(ReadProblem(name, "", str(exc)))
            finally:
                self._depth -= 1

    def _extracted(self, path: Path, name: str, scratch: Path) -> Iterator[ImportSource]:
        extract_archive(path, scratch, budget=self._budget)
        for found in self._at_root(scratch):
            yield found._replace(name=f"{name}!{found.name}")

    def _unpacked(self, path: Path, name: str, scratch: Path, shape: Shape, *, named: bool) -> Iterator[ImportSource]:
        """Yields the sources of a compressed file or of a Parquet file, unpacked to one file."""
        inner = scratch / (f"{path.stem}.jsonl" if shape == "parquet" else path.stem or "content")
        if shape == "parquet":
            write_rows_as_lines(path, inner, self._budget)
        else:
            decompress_file(path, inner, self._budget)
        detected = _detect(inner, self._known)
        if shape == "parquet" and not detected.takers and self._forced is None:
            array = inner.with_suffix(".json")
            write_lines_as_array(inner, array)
            as_array = _detect(array, self._known)
            inner, detected = (array, as_array) if as_array.takers else (inner, detected)
        if self._forced is not None and not detected.is_container:
            yield ImportSource(inner, name, self._forced)
        elif named and not detected.is_container and not detected.takers:
            raise UserError(describe_unknown(inner, str(path), self._known))
        else:
            yield from self._at(inner, name, detected, top=False)

    def _at_root(self, scratch: Path) -> Iterator[ImportSource]:
        takers = matching_formats(scratch, self._known)
        if len(takers) == 1:
            yield ImportSource(scratch, "", takers[0])
            return
        yield from self._below(scratch, "", top=True)

    def _count_unrecognised(self, path: Path, name: str) -> None:
        self.others += 1
        if self.advice is None and self._forced is None and self.others <= _DRAFTED:
            advice = advise_mapping(path, str(self._named))
            self.advice = advice and f"{name}: {advice}"
        if len(self.unrecognised) < 1000:
            self.unrecognised.append(name)
