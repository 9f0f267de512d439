"""Folders as a stream of frames over a pipe, for transfers into and out of a sandbox.

A frame is a 4-byte length, a JSON header, and for a file its bytes: `{"path", "kind": folder|file|link, "mode",
"size", "target"}`; the last header is `{"end": true}` or `{"error": ..., "errno": ...}`. Paths are relative and have no
`..`; a reader checks that again (`safe_path`), and opens nothing through a link. Used by both sides; standard library.
"""

from __future__ import annotations

import json
import os
import stat
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

CHUNK = 256 * 1024
HEADER_BYTES = 64 * 1024


def safe_path(path: str) -> bool:
    """Returns True if a frame's path stays below its destination; the empty path is the top itself."""
    return not path.startswith("/") and "\0" not in path and ".." not in path.split("/")


def write_frame(stream: BinaryIO, header: dict[str, Any]) -> None:
    """Writes one header."""
    data = json.dumps(header).encode()
    stream.write(struct.pack("!I", len(data)) + data)


def read_exactly(stream: BinaryIO, size: int) -> bytes:
    """Reads `size` bytes, or raises `EOFError`."""
    data = stream.read(size)
    if len(data) != size:
        raise EOFError("the stream ended inside a frame")
    return data


def read_frame(stream: BinaryIO) -> dict[str, Any]:
    """Reads one header; raises `ValueError` for one that is malformed, `OSError` for the sender's error."""
    (size,) = struct.unpack("!I", read_exactly(stream, 4))
    if size > HEADER_BYTES:
        raise ValueError(f"a frame header of {size} bytes")
    header = json.loads(read_exactly(stream, size))
    if not isinstance(header, dict):
        raise ValueError("a frame header that is not an object")
    if "error" in header:
        raise OSError(int(header.get("errno") or 5), str(header["error"]))
    if not header.get("end") and not safe_path(str(header.get("path", "/"))):
        raise ValueError(f"a frame path that leaves its folder: {header.get('path')!r}")
    return header


def body(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yields the bytes after a file's header, in chunks."""
    while size > 0:
        chunk = read_exactly(stream, min(CHUNK, size))
        size -= len(chunk)
        yield chunk


def send_file(stream: BinaryIO, fd: int, header: dict[str, Any]) -> None:
    """Sends an open file; one that shrinks meanwhile is padded with zeros, one that grows is cut."""
    left = os.fstat(fd).st_size
    write_frame(stream, {**header, "kind": "file", "size": left})
    while left > 0:
        chunk = os.read(fd, min(CHUNK, left)) or bytes(min(CHUNK, left))
        stream.write(chunk)
        left -= len(chunk)


def send_entry(stream: BinaryIO, parent: int, name: str, path: str) -> None:
    """Sends one entry of an open folder and what is below it; sockets, pipes and devices are left out."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    header = {"path": path, "mode": stat.S_IMODE(status.st_mode)}
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=parent)
        write_frame(stream, {**header, "kind": "link", "target": target})
    elif stat.S_ISREG(status.st_mode):
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                send_file(stream, fd, header)
        finally:
            os.close(fd)
    elif stat.S_ISDIR(status.st_mode):
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            write_frame(stream, {**header, "kind": "folder"})
            send_children(stream, fd, path)
        finally:
            os.close(fd)


def send_children(stream: BinaryIO, folder: int, path: str) -> None:
    """Sends everything in an open folder, in name order."""
    for name in sorted(os.listdir(folder)):
        try:
            send_entry(stream, folder, name, f"{path}/{name}" if path else name)
        except FileNotFoundError:
            continue  # it vanished meanwhile


def receive_tree(
    stream: BinaryIO, top: int, name: str, *, most_bytes: int | None = None, keep_link: Any = None
) -> None:
    """Writes the received tree as `name` in the open folder `top`, never through a link.

    An existing file or link is replaced, a folder is kept. `keep_link(path, target)` decides whether a link is
    written; default yes. More than `most_bytes` in total raises `ValueError`.
    """
    left = most_bytes if most_bytes is not None else 1 << 62
    modes: list[tuple[str, int]] = []
    while True:
        header = read_frame(stream)
        if header.get("end"):
            break
        inner, kind, mode = str(header["path"]), header["kind"], int(header.get("mode", 0o644)) & 0o777
        path = f"{name}/{inner}" if inner else name
        parent = open_parent(top, path)
        leaf = path.rpartition("/")[2]
        try:
            if kind == "folder":
                make_folder(parent, leaf)
                modes.append((path, mode))
            elif kind == "link":
                if keep_link is None or keep_link(inner, str(header["target"])):
                    remove(parent, leaf)
                    os.symlink(str(header["target"]), leaf, dir_fd=parent)
            else:
                left -= int(header["size"])
                if left < 0:
                    raise ValueError(f"more than {most_bytes} bytes")
                remove(parent, leaf)
                _write(stream, parent, leaf, int(header["size"]), mode)
        finally:
            os.close(parent)
    for path, mode in reversed(modes):
        parent = open_parent(top, path)
        os.chmod(path.rpartition("/")[2], mode, dir_fd=parent)
        os.close(parent)


def _write(stream: BinaryIO, parent: int, name: str, size: int, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=parent)
    try:
        for chunk in body(stream, size):
            view = memoryview(chunk)
            while view:
                view = view[os.write(fd, view) :]
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def open_parent(top: int, path: str) -> int:
    """Opens the folder that holds `path` below the open folder `top`, without following any link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    current = os.open(".", flags, dir_fd=top)
    for part in path.split("/")[:-1]:
        try:
            inner = os.open(part, flags, dir_fd=current)
        finally:
            os.close(current)
        current = inner
    return current


def make_folder(parent: int, name: str) -> None:
    """Creates a folder, writable for now; an existing entry that is not a folder is replaced."""
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        os.mkdir(name, 0o700, dir_fd=parent)
        return
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=parent)
        os.mkdir(name, 0o700, dir_fd=parent)


def remove(parent: int, name: str) -> None:
    """Removes an existing file or link; a folder raises `IsADirectoryError`."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return
