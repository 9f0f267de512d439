"""Reads archives of source code into memory. Every archive is treated as hostile.

Covered: names that are absolute, contain `..`, a drive or a null (refused); links, devices and pipes (left out);
archives that unpack to more than a limit, in bytes or in files (refused during reading, not after).
Not covered: the content of the files. Nothing is written to disk or executed.
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

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024


def read_archive(path: Path) -> dict[str, bytes]:
    """Returns an archive's regular files by relative POSIX name. Raises `UserError` for an unsafe or too large one."""
    zipped = zipfile.is_zipfile(path)
    with path.open("rb") as file:
        return _read_members(_zip_members(file) if zipped else _tar_members(file), path.name)


def _read_members(members: Iterator[tuple[str, IO[bytes]]], where: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    try:
        for name, stream in members:
            data = stream.read(MAX_BYTES - total + 1)
            total += len(data)
            if total > MAX_BYTES or len(files) >= MAX_FILES:
                raise UserError(
                    f"{where} unpacks to more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB; use a smaller archive"
                )
            files[require_safe_name(name, where)] = data
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError) as exc:
        raise UserError(f"{where} cannot be read as an archive: {exc}") from exc
    except (NotImplementedError, RuntimeError) as exc:
        raise UserError(f"{where} uses encryption or an unsupported compression method: {exc}") from exc
    conflict = find_file_and_folder(files)
    if conflict:
        raise UserError(f"{where} contains {conflict!r} both as a file and as a folder")
    return files


def find_file_and_folder(names: Iterable[str]) -> str:
    """Returns a name that is both a file and the folder of another file; empty if all names are consistent."""
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


def require_safe_name(name: str, where: str) -> str:
    """Returns the name as a relative POSIX path. Raises `UserError` if it could lead outside its folder."""
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or "\0" in name or (parts[0][1:2] == ":"):
        raise UserError(f"{where} contains the name {name!r}, which leads outside its folder")
    return "/".join(part for part in parts if part not in ("", "."))
