"""Opens untrusted archives and compressed files: nothing is unpacked before the whole list of members was checked.

Covered: names that lead outside (absolute, `..`, drives, backslashes, control characters), names given twice, symbolic
and hard links, devices, encryption, too many members, members or archives that unpack to too much or at an absurd
ratio, members that overlap or that hold more than they say.
Not covered: bugs in zlib, bz2, lzma or zstandard.

Invariant: a refusal is a `UserError` that names the archive and the member.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from assay.errors import UserError

_END, _END64 = b"PK\x05\x06", b"PK\x06\x06"
_ZSTANDARD = 93
DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    struct.error, UnicodeDecodeError,
)  # fmt: skip
"""Exceptions of reading a damaged archive or compressed file."""
_COMPRESSIONS = {b"\x1f\x8b\x08": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class ArchiveLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of an archive."""

    members: int = 400_000
    listing_mib: int = 128
    """Of a zip archive's own list of members."""
    total_gib: float = 64.0
    """Of all members together, unpacked."""
    ratio: float = 400.0
    """Unpacked to packed bytes, of a member and of the whole; logs that repeat themselves reach 100."""
    free_mib: float = 16.0
    """The ratio is not checked up to this unpacked size."""


class UnpackBudget:
    """Bounds what all archives of one import unpack to, nested ones included.

    An archive that the user names raises the limit by `limits.ratio` times its own size; an archive inside another
    raises nothing, so that nesting multiplies nothing.
    """

    def __init__(self, limits: ArchiveLimits | None = None, depth: int = 4) -> None:
        self._limits = limits or ArchiveLimits(free_mib=64.0)
        self._bytes = self._limits.free_mib * 2**20
        self._members = 10_000.0
        self.depth = depth
        """Largest number of archives inside each other."""

    def admit(self, size: int) -> None:
        """Raises the limit for an archive of `size` bytes that the user names."""
        self._bytes = min(self._bytes + self._limits.ratio * size, self._limits.total_gib * 2**30)
        self._members = min(self._members + size / 64, self._limits.members)

    def charge(self, name: str, size: int, members: int = 1) -> None:
        """Counts what an archive unpacks to. Raises `UserError` where the limit is reached."""
        if size > self._bytes or members > self._members:
            raise UserError(
                f"{name} is refused: with the archives around it, it unpacks to too much "
                f"({members:,} files of {size:,} bytes in all, {max(0, int(self._bytes)):,} bytes are left)"
            )
        self._bytes -= size
        self._members -= members


class Member(NamedTuple):
    """A file of an archive."""

    name: str
    size: int
    """Unpacked, as declared; `open` gives no more than this."""
    start: Callable[[], BinaryIO]

    def open(self, mode: Any = "rb") -> BinaryIO:
        """Opens its bytes as a stream. Reading raises `UserError` where they are damaged."""
        return self.start()


def archive_kind(start: bytes) -> str | None:
    """Returns `zip` or `tar` (packed or not) by the first bytes, else None."""
    if start.startswith((b"PK\x03\x04", _END)):
        return "zip"
    compressed = compression_of(start) in ("gzip", "bz2", "xz")
    return "tar" if compressed or start[257:262] == b"ustar" else None


def compression_of(start: bytes) -> str | None:
    """Returns `gzip`, `bz2`, `xz` or `zstd` by a file's first bytes, else None."""
    return next((name for magic, name in _COMPRESSIONS.items() if start.startswith(magic)), None)


def open_compressed(path: Path) -> BinaryIO:
    """Opens the content of a compressed file as a stream. Reading raises `OSError` and others where it is damaged."""
    with path.open("rb") as stream:
        kind = compression_of(stream.read(8))
    if kind == "zstd":
        import pyarrow

        return cast(BinaryIO, pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd"))
    openers: dict[str, Callable[..., Any]] = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}
    return cast(BinaryIO, openers.get(kind or "", Path.open)(path, "rb"))


def is_compressed_tar(path: Path) -> bool:
    """Returns whether a compressed file holds a tar archive (gzip, bz2 or xz, which `tarfile` reads)."""
    try:
        with path.open("rb") as raw:
            if compression_of(raw.read(8)) == "zstd":
                return False
        with open_compressed(path) as stream:
            tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
    except DAMAGED:
        return False
    return True


def decompress_file(path: Path, target: Path, budget: UnpackBudget, bounds: ArchiveLimits | None = None) -> None:
    """Writes the content of a compressed file to `target`. Raises `UserError` where it is damaged or too large."""
    bounds, size, packed = bounds or ArchiveLimits(), 0, max(1, path.stat().st_size)
    try:
        with open_compressed(path) as stream, target.open("xb") as out:
            while piece := stream.read(1 << 20):
                size += len(piece)
                if size > bounds.free_mib * 2**20 and size > bounds.ratio * packed:
                    raise UserError(f"{path.name} is refused: it unpacks to more than {size:,} bytes from {packed:,}")
                budget.charge(path.name, len(piece), 0)
                out.write(piece)
    except DAMAGED as exc:
        raise UserError(f"{path.name} is damaged: {exc}") from exc


@contextmanager
def open_archive(path: Path, bounds: ArchiveLimits | None = None) -> Iterator[Sequence[Member]]:
    """Opens a zip or tar archive; gives its files in order.

    Raises:
        UserError: It is not an archive, is damaged, or has a member that is refused.
    """
    bounds = bounds or ArchiveLimits()
    with path.open("rb") as stream:
        kind = archive_kind(stream.read(512))
    if kind is None:
        raise UserError(f"{path.name} is neither a zip nor a tar archive")
    opened = _zip if kind == "zip" else _tar
    try:
        with opened(path, bounds) as members:
            yield members
    except DAMAGED as exc:
        raise UserError(f"{path.name} is damaged: {exc}") from exc


def extract_archive(
    path: Path, folder: Path, bounds: ArchiveLimits | None = None, budget: UnpackBudget | None = None
) -> None:
    """Writes the files of an archive below `folder`, which is empty. Raises `UserError` as `open_archive` does, and
    where the budget is too small.
    """
    with open_archive(path, bounds) as members:
        if budget is not None:
            budget.charge(path.name, sum(member.size for member in members), len(members))
        for member in members:
            target = folder.joinpath(*PurePosixPath(member.name).parts)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as out, member.open() as stream:
                    shutil.copyfileobj(stream, out, 1 << 20)
            except (FileExistsError, NotADirectoryError, IsADirectoryError) as exc:
                raise _refusal(path, member.name, "has the path of another member") from exc


def _refusal(path: Path, member: str, why: str) -> UserError:
    return UserError(f"{path.name} is refused: member {member!r} {why}")


class _MemberChecks:
    """Checks the names and the total size of an archive's members."""

    def __init__(self, path: Path, bounds: ArchiveLimits) -> None:
        self.path, self.bounds = path, bounds
        self.total = 0
        self.names: set[str] = set()
        self._packed_whole = path.stat().st_size

    def name(self, name: str) -> str:
        if name in self.names:
            raise _refusal(self.path, name, "occurs twice")
        parts = name.split("/")
        if not name or name.startswith("/") or "\\" in name or (len(name) > 1 and name[1] == ":"):
            raise _refusal(self.path, name, "has an absolute or foreign name")
        if ".." in parts or len(name) > 1024 or len(parts) > 64:
            raise _refusal(self.path, name, "leads outside" if ".." in parts else "has too long a name")
        if any(unicodedata.category(c) in {"Cc", "Cs"} for c in name):
            raise _refusal(self.path, name, "has control characters in its name")
        self.names.add(name)
        if len(self.names) > self.bounds.members:
            raise _refusal(self.path, name, f"is one of more than {self.bounds.members:,}")
        return name

    def size(self, name: str, unpacked: int, packed: int | None) -> None:
        self.total += unpacked
        if self.total > self.bounds.total_gib * 2**30:
            raise _refusal(self.path, name, f"brings it to more than {self.bounds.total_gib:g} GiB unpacked")
        free = self.bounds.free_mib * 2**20
        for whole, of in ((unpacked, packed), (self.total, self._packed_whole)):
            if of is not None and whole > free and whole > self.bounds.ratio * max(1, of):
                raise _refusal(self.path, name, f"unpacks to {whole:,} bytes from {of:,}: the ratio is too high")


@contextmanager
def _zip(path: Path, bounds: ArchiveLimits) -> Iterator[Sequence[Member]]:
    _require_short_listing(path, bounds)
    ledger = _MemberChecks(path, bounds)
    with zipfile.ZipFile(path) as opened:
        _require_apart(path, opened.infolist())
        members = []
        for info in opened.infolist():
            name = ledger.name(info.filename.removesuffix("/"))
            _require_plain(path, info)
            ledger.size(name, info.file_size, info.compress_size)
            if not info.is_dir():
                members.append(Member(name, info.file_size, _zip_opener(path, opened, info)))
        yield members


def _require_plain(path: Path, info: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refusal(path, info.filename, "is a link" if kind == stat.S_IFLNK else "is a device or a pipe")
    if info.flag_bits & 0x1:
        raise _refusal(path, info.filename, "is encrypted")


def _require_apart(path: Path, infos: Sequence[zipfile.ZipInfo]) -> None:
    """Refuses overlapping members, by which a small archive unpacks to almost any size."""
    end, before = -1, ""
    for info in sorted(infos, key=lambda i: i.header_offset):
        if info.header_offset < end:
            raise _refusal(path, info.filename, f"overlaps {before!r}")
        end, before = info.header_offset + 30 + len(info.filename) + info.compress_size, info.filename


def _require_short_listing(path: Path, bounds: ArchiveLimits) -> None:
    """Checks the size of a zip archive's list, which `zipfile` reads whole."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - (1 << 16) - 128))
        tail = stream.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < 22:
        raise UserError(f"{path.name} is damaged: it has no list of members; it may be truncated")
    count, listing = struct.unpack_from("<HI", tail, at + 10)
    at64 = tail.rfind(_END64, 0, at)
    if at64 >= 0 and len(tail) - at64 >= 48 and (count == 0xFFFF or listing == 0xFFFFFFFF):
        count, listing = struct.unpack_from("<QQ", tail, at64 + 32)
    if count > bounds.members or listing > bounds.listing_mib << 20:
        raise UserError(f"{path.name} is refused: it lists {count:,} members in {listing:,} bytes, which is too much")


def _zip_opener(path: Path, opened: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], BinaryIO]:
    def start() -> BinaryIO:
        try:
            if info.compress_type == _ZSTANDARD:
                stream: Any = _zstandard(path, info)
            else:
                stream = opened.open(info)
        except (*DAMAGED, RuntimeError) as exc:
            raise _refusal(path, info.filename, f"cannot be opened: {exc}") from exc
        return io.BufferedReader(_BoundedStream(stream, path, info.filename, info.file_size), 1 << 16)

    return start


def _zstandard(path: Path, info: zipfile.ZipInfo) -> Any:
    """Opens a zstandard stream with PyArrow; the standard library lacks it before 3.14."""
    import pyarrow

    with path.open("rb") as stream:
        stream.seek(info.header_offset)
        local = stream.read(30)
    names, extra = struct.unpack_from("<HH", local, 26)
    window = _Window(path, info.header_offset + 30 + names + extra, info.compress_size)
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(window, mode="r"), "zstd")


class _Window(io.RawIOBase):
    """A range of a file as a stream."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        self._stream = path.open("rb")
        self._stream.seek(start)
        self._left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(piece)
        return piece

    def close(self) -> None:
        self._stream.close()
        super().close()


class _BoundedStream(io.RawIOBase):
    """A member's bytes, limited to its declared size; errors name the member."""

    def __init__(self, stream: Any, path: Path, name: str, size: int) -> None:
        self._stream, self._path, self._name, self._left = stream, path, name, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece = self._stream.read(min(len(buffer), self._left + 1))
        except (*DAMAGED, ValueError) as exc:
            raise _refusal(self._path, self._name, f"is damaged: {exc}") from exc
        if len(piece) > self._left:
            raise _refusal(self._path, self._name, "is larger than declared")
        if not piece and self._left and len(buffer):
            raise _refusal(self._path, self._name, "is smaller than declared")
        self._left -= len(piece)
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._stream.close()
        super().close()


@contextmanager
def _tar(path: Path, bounds: ArchiveLimits) -> Iterator[Sequence[Member]]:
    ledger = _MemberChecks(path, bounds)
    with tarfile.open(path, "r:*") as opened:
        members = []
        for info in opened:  # reads headers alone, in order, so a bomb is met before it is unpacked
            if info.isdir() and info.name in (".", "./"):
                continue
            name = ledger.name(info.name.removeprefix("./"))
            if not (info.isreg() or info.isdir()):
                raise _refusal(path, name, "is a link" if info.issym() or info.islnk() else "is a device or a pipe")
            ledger.size(name, info.size, None)
            if info.isreg():
                members.append(Member(name, info.size, _tar_opener(path, opened, info)))
        yield members


def _tar_opener(path: Path, opened: tarfile.TarFile, info: tarfile.TarInfo) -> Callable[[], BinaryIO]:
    def start() -> BinaryIO:
        stream = opened.extractfile(info)
        return io.BufferedReader(_BoundedStream(stream, path, info.name, info.size), 1 << 16)

    return start
