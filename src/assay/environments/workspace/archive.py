"""Conversion of states: from sealed layers to manifest and bytes, and back to a layer.

Blocking. A manifest is as untrusted as the agent that made the state: a layer is only ever written below its own
folder, never through a link, and every file's bytes are checked against the content address that the manifest names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from io import BytesIO
from typing import BinaryIO

from assay.environments.interface import Change
from assay.environments.workspace._entries import decode_name, open_below
from assay.environments.workspace.launcher import frames
from assay.environments.workspace.launcher.syscalls import set_file_user
from assay.environments.workspace.state import StackedImage
from assay.records import digest_bytes

BlobReader = Callable[[str], bytes]


class PackedLayers:
    """A state to be stored, as manifest and layers.

    `tops` are the open folders of the sealed layers, highest first; they are owned by the backend.
    """

    def __init__(self, manifest: tuple[Change, ...], tops: tuple[int, ...]) -> None:
        self.manifest = manifest
        self.tops = tops

    @cached_property
    def _by_digest(self) -> dict[str | None, Change]:
        return {change.digest: change for change in self.manifest}

    def files(self) -> Iterator[tuple[Change, BinaryIO]]:
        """Yields each file and link of the manifest with its bytes; a link's are its target. Blocking."""
        for change in self.manifest:
            if change.kind == "removed" or change.type not in ("file", "symlink"):
                continue
            with self._open(change) as handle:
                yield change, handle

    def read(self, digest: str) -> bytes:
        """Returns the bytes of one content address of the manifest."""
        with self._open(self._by_digest[digest]) as handle:
            return handle.read()

    def _open(self, change: Change) -> BinaryIO:
        path = decode_name(change.path).lstrip("/")
        folder, _, name = path.rpartition("/")
        for top in self.tops:
            try:
                parent = open_below(top, folder, os.O_PATH | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                if change.type == "symlink":
                    return BytesIO(os.fsencode(os.readlink(name, dir_fd=parent)))
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
                return os.fdopen(fd, "rb")
            except FileNotFoundError:
                continue
            finally:
                os.close(parent)
        raise ValueError(f"{change.path} is in the manifest and in no layer of the snapshot")


def pack_layers(tops: Sequence[int], changes: Iterable[Change]) -> PackedLayers:
    """Returns a snapshot's manifest with access to its bytes."""
    return PackedLayers(tuple(changes), tuple(tops))


def write_layer(top: int, changes: Iterable[Change], read_blob: BlobReader, image: StackedImage, owner: int) -> None:
    """Writes an overlay layer, into the open, empty folder `top`, that turns `image` into the state that `changes`
    describe.

    Wrong bytes of `read_blob` raise `ValueError`. `image` gives modes and owners of folders that the layer must repeat;
    the host user id `owner` owns the written files.
    """
    own = os.geteuid()
    as_owner = own == 0 and os.fstat(top).st_uid == owner  # the layer's file system may know no other id
    if as_owner:
        set_file_user(owner)
    try:
        _write_entries(top, changes, read_blob, image, own if as_owner else owner)
    finally:
        if as_owner:
            set_file_user(own)


def _write_entries(top: int, changes: Iterable[Change], read_blob: BlobReader, image: StackedImage, owner: int) -> None:
    modes: list[tuple[str, int]] = []
    for change in sorted(changes, key=lambda item: item.path):
        path = decode_name(change.path).lstrip("/")
        if not path or not change.path.startswith("/") or not frames.safe_path(path):
            raise ValueError(f"a manifest path that is not below the root: {change.path!r}")
        _repeat_parents(top, path, image, owner)
        parent = frames.open_parent(top, path)
        try:
            name = path.rpartition("/")[2]
            _write_entry(parent, name, change, read_blob)
            _set_owner(parent, name, change, owner)
        finally:
            os.close(parent)
        if change.type == "directory" and change.kind != "removed":
            modes.append((path, change.mode or 0))
    for path, mode in reversed(modes):
        parent = frames.open_parent(top, path)
        os.chmod(path.rpartition("/")[2], mode & 0o7777, dir_fd=parent)
        os.close(parent)


def _set_owner(parent: int, name: str, change: Change, owner: int) -> None:
    if change.kind != "removed" and owner != os.geteuid():
        os.chown(name, owner, owner, dir_fd=parent, follow_symlinks=False)
        if change.type == "file":
            os.chmod(name, (change.mode or 0) & 0o7777, dir_fd=parent)


def _write_entry(parent: int, name: str, change: Change, read_blob: BlobReader) -> None:
    if change.kind == "removed":
        os.mknod(name, stat.S_IFCHR, 0, dir_fd=parent)
    elif change.type == "other":
        os.mkfifo(name, (change.mode or 0) & 0o777, dir_fd=parent)  # a pipe or a socket without a process behind it
    elif change.type == "directory":
        os.mkdir(name, 0o700, dir_fd=parent)
    elif change.type in ("file", "symlink"):
        data = read_blob(change.digest or "")
        if digest_bytes(data) != change.digest:
            raise ValueError(f"{change.path}: the stored bytes are not those of {change.digest}")
        if change.type == "symlink":
            os.symlink(os.fsdecode(data), name, dir_fd=parent)
            return
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent)
        with os.fdopen(fd, "wb") as handle:
            handle.write(data)
            os.fchmod(handle.fileno(), (change.mode or 0) & 0o7777)


def _repeat_parents(top: int, path: str, image: StackedImage, owner: int) -> None:
    """Creates the folders above `path` with the modes and owners that they have in the image. One that the image lacks
    was made by the platform, for a working folder."""
    current, layers = "", image.all
    for part in path.split("/")[:-1]:
        folders = image.folders(current, layers)
        try:
            found = image.find(folders, part)
        finally:
            for _, folder in folders:
                os.close(folder)
        parent = frames.open_parent(top, f"{current}/{part}" if current else part)
        try:
            os.mkdir(part, 0o700, dir_fd=parent)
        except FileExistsError:
            pass
        else:
            if found is not None and not stat.S_ISDIR(found.status.st_mode):
                raise ValueError(f"the manifest has {path!r} but not its folder")
            user, group, mode = (owner, owner, 0o755) if found is None else _folder_attributes(found.status)
            if owner != os.geteuid():
                os.chown(part, user, group, dir_fd=parent, follow_symlinks=False)
            os.chmod(part, mode, dir_fd=parent)
        finally:
            os.close(parent)
        layers = found.layers if found is not None else ()
        current = f"{current}/{part}" if current else part


def _folder_attributes(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)
