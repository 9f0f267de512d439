"""A layer of the cache as one file (tar, compressed with zstd), for the way between machines.

The same layer gives the same tar: members are sorted, parents first, without owners and times.

Covered, of a hostile archive: names and links that lead outside, parents that are not folders of the archive, repeated
names, devices other than the mark of a removed file, set-user-id bits, headers and contents that are larger than they
may be. Not covered: whether the content is the wanted one; callers compare the digest of the unpacked folder.
"""

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path
from typing import Any, cast

from assay.environments.workspace import _layers

MOST_READ = 1 << 20
"""Bytes that are read at once: a header that says more is refused."""
PAGE = 1 << 16


def pack_layer(layer: Path, archive: Path, *, leave_out: str | None = None) -> None:
    """Writes a layer to a new file.

    Args:
        layer: A finished layer.
        archive: The file.
        leave_out: Name of folders that are not packed.

    Raises:
        ValueError: The layer holds what an archive cannot: a device, or a folder that hides what lies below it.
        OSError: A file cannot be read, or the disk is full.
    """
    import pyarrow as pa

    entries = sorted(one for one in _layers.walk_sealed(layer) if leave_out not in one.path.split("/"))
    with (
        pa.CompressedOutputStream(pa.OSFile(str(archive), "wb"), "zstd") as stream,
        tarfile.open(fileobj=cast(Any, stream), mode="w|", format=tarfile.PAX_FORMAT) as file,
    ):
        for path, host in entries:
            member = _describe(path, host)
            if member.isreg():
                with host.open("rb") as data:
                    file.addfile(member, data)
            else:
                file.addfile(member)


def _describe(path: str, host: Path) -> tarfile.TarInfo:
    status = host.lstat()
    member = tarfile.TarInfo(path)
    member.mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        member.size = status.st_size
    elif stat.S_ISDIR(status.st_mode):
        if _layers.is_opaque(host):
            raise ValueError(f"the folder {path} hides what lies below it")
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, str(host.readlink())
    elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        member.type = tarfile.CHRTYPE
    else:
        raise ValueError(f"{path} is a device, pipe or socket")
    return member


def unpack_layer(archive: Path, target: Path) -> None:
    """Unpacks an archive into the empty folder `target`.

    Raises:
        ValueError: It is damaged or hostile, or larger than a layer may be.
        OSError: The disk is full.
    """
    import pyarrow as pa

    count = size = 0
    modes = {target: 0o755}
    try:
        with (
            pa.OSFile(str(archive)) as raw,
            pa.CompressedInputStream(raw, "zstd") as stream,
            tarfile.open(fileobj=cast(Any, _BoundedReader(stream)), mode="r:") as file,
        ):
            while (member := file.next()) is not None:
                count, size = count + 1, size + member.size
                if count > _layers.MAX_FILES or size > _layers.MAX_BYTES:
                    raise ValueError(f"more than {_layers.MAX_FILES} files or {_layers.MAX_BYTES >> 30} GiB")
                _unpack(file, member, target, modes)
                cast(Any, file).members = []  # else each member stays in memory
    except (tarfile.TarError, EOFError, UnicodeError, RecursionError, pa.ArrowException) as exc:
        raise ValueError(f"it cannot be unpacked: {exc}") from exc
    for folder, mode in reversed(modes.items()):
        folder.chmod(mode)


def _unpack(file: tarfile.TarFile, member: tarfile.TarInfo, target: Path, modes: dict[Path, int]) -> None:
    """Unpacks one member. `modes` has the folders that were made, with the modes that they get in the end."""
    name, mode = member.name, member.mode
    if "\0" in name or {"", ".", ".."} & set(name.split("/")) or mode & ~0o1777:
        raise ValueError(f"its member {name[:200]!r} has an invalid name or mode")
    path = target / name
    if path.parent not in modes or os.path.lexists(path):
        raise ValueError(f"its member {name[:200]!r} lies below no folder of the archive, or is there twice")
    if member.type == tarfile.DIRTYPE:
        path.mkdir(mode=0o700)
        modes[path] = mode
    elif member.type == tarfile.SYMTYPE:
        path.symlink_to(member.linkname)
    elif member.type == tarfile.CHRTYPE and not (member.devmajor or member.devminor):
        os.mknod(path, stat.S_IFCHR, 0)
    elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse():
        _write(file, member, path)
        path.chmod(mode)
    else:
        raise ValueError(f"its member {name[:200]!r} is neither file, folder nor link")


def _write(file: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    data, left = file.extractfile(member), member.size
    assert data is not None
    with path.open("xb") as out:
        while left:
            page = data.read(min(PAGE, left))
            if not page:
                raise ValueError(f"its member {member.name[:200]!r} is cut off")
            out.write(page)
            left -= len(page)


class _BoundedReader:
    """The tar inside of an archive: it is read forwards, and no header makes a reader hold more than `MOST_READ`."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._position = stream, 0

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> int:
        if not 0 <= position - self._position <= _layers.MAX_BYTES:
            raise ValueError("a member has an invalid size")
        while self._position < position and self.read(min(PAGE, position - self._position)):
            pass
        return self._position

    def read(self, size: int) -> bytes:
        if not 0 <= size <= MOST_READ:
            raise ValueError(f"a header of {size:,} bytes")
        try:
            data = bytes(self._stream.read(size))
        except OSError as exc:  # not of the disk that is written to
            raise ValueError(f"it cannot be decompressed: {exc}") from exc
        self._position += len(data)
        return data
