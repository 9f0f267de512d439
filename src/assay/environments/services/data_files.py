"""Reads data files of other people's benchmarks, which stay where their user put them.

Covered: a file is decompressed up to a size, and parsed as data, never executed. Not covered: where a path leads. The
user names the folder.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from assay.limited_file import loads_toml

MOST_BYTES: Final = 256 << 20
"""Largest file that is read, after decompression."""


class DataFile(msgspec.Struct, frozen=True):
    """The content of a data file."""

    path: Path
    data: bytes
    """Decompressed."""

    @property
    def sha256(self) -> str:
        """Digest of the decompressed content, without a line feed at its end."""
        return hashlib.sha256(self.data.rstrip(b"\n")).hexdigest()

    def parse(self) -> Any:
        """Returns the data of a JSON or TOML file. Raises `ValueError`."""
        try:
            if ".toml" in self.path.suffixes:
                return loads_toml(self.data.decode())
            return msgspec.json.decode(self.data)
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            raise ValueError(f"{self.path} cannot be parsed: {exc}") from exc


def read_data_file(folders: Sequence[Path], names: Sequence[str]) -> DataFile:
    """Reads the first file that exists, plain or compressed by gzip.

    Args:
        folders: Folders in which it may be.
        names: Names that it may have, without `.gz`.

    Raises:
        ValueError: It is missing, too large or damaged.
    """
    for folder in folders:
        for name in names:
            for path in (folder / name, folder / f"{name}.gz"):
                if path.is_file():
                    return DataFile(path, _read(path))
    looked = ", ".join(str(folder) for folder in folders)
    raise ValueError(f"Found no {' or '.join(names)} (or with .gz) in {looked}")


def _read(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, EOFError) as exc:
        raise ValueError(f"{path} cannot be read: {exc}") from exc
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES >> 20} MiB")
    return data
