"""Reads archives of source code into memory, as if each had been made by an enemy.

Covered: names that are absolute, climb, or hide a drive or a null (refused); links, devices and pipes (left out);
archives that unpack to more than a bound, in bytes or in files (refused while reading, not after).
Not covered: what the files say. Nothing is written to disk and nothing is run.
"""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from assay.errors import UserError

__all__ = ["MAX_BYTES", "MAX_FILES", "file_and_folder", "read_archive", "safe_name"]

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024


def read_archive(path: Path) -> dict[str, bytes]:
    """The regular files of a `.tar.*`, `.zip` or `.whl`, by relative POSIX name.

    Raises:
        UserError: It is no archive, holds a name that leads outside, or is too large.
    """
    zipped = zipfile.is_zipfile(path)
    with path.open("rb") as file:
        return _read(_zip_members(file) if zipped else _tar_members(file), path.name)


def _read(members: Iterator[tuple[str, IO[bytes]]], where: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    try:
        for name, stream in members:
            data = stream.read(MAX_BYTES - total + 1)
            total += len(data)
            if total > MAX_BYTES or len(files) >= MAX_FILES:
                raise UserError(
                    f"{where} unpacks to more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB: it is refused"
                )
            files[safe_name(name, where)] = data
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError) as exc:
        raise UserError(f"{where} cannot be read as an archive: {exc}") from exc
    except (NotImplementedError, RuntimeError) as exc:
        raise UserError(
            f"{where} is packed in a way that is not read here (encrypted, or an unusual method): {exc}"
        ) from exc
    twice = file_and_folder(files)
    if twice:
        raise UserError(f"{where} holds {twice!r} both as a file and as a folder: it is refused as a whole")
    return files


def file_and_folder(names: Iterable[str]) -> str:
    """A name that is a file and also a folder of another one; empty where there is none."""
    files = set(names)
    folders = {name[:at] for name in files for at in range(len(name)) if name[at] == "/"}
    return min(files & folders, default="")


def _zip_members(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            kind = (entry.external_attr >> 16) & 0o170000
            if not entry.is_dir() and kind in (0, 0o100000):
                with archive.open(entry) as stream:
                    yield entry.filename, stream


def _tar_members(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(fileobj=file, mode="r:*") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content


def safe_name(name: str, where: str) -> str:
    """The name, relative and POSIX. Raises `UserError` where it could lead outside its folder."""
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or "\0" in name or (parts[0][1:2] == ":"):
        raise UserError(f"{where} holds the name {name!r}, which leads outside its folder: it is refused as a whole")
    return "/".join(part for part in parts if part not in ("", "."))
