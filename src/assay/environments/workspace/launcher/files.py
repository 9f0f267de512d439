"""Files of a sandbox, opened from inside it: links and permissions are those of the sandbox's user.

`open_file` returns a descriptor of a regular file to the host; files of /proc are refused, so that no path names init's
own memory or descriptors. Trees go as frames, in a child process.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Any, NoReturn

from . import frames
from .syscalls import AT_FDCWD, RESOLVE_NO_MAGICLINKS, openat2

MOST_BYTES = 1 << 62


def _refuse(number: int, path: str) -> NoReturn:
    raise OSError(number, os.strerror(number), path)


def _proc_device() -> int:
    try:
        return os.stat("/proc").st_dev
    except OSError:
        return -1


def _check_regular(fd: int, path: str) -> None:
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        _refuse(errno.EISDIR, path)
    if not stat.S_ISREG(status.st_mode) or status.st_dev == _proc_device():
        _refuse(errno.EINVAL, path)


def open_file(message: dict[str, Any]) -> int:
    """Opens `path` for reading, or with `write` truncates or creates it (parents too) with `mode`."""
    path = str(message["path"])
    if not message.get("write"):
        fd = openat2(AT_FDCWD, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, RESOLVE_NO_MAGICLINKS)
    else:
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                _refuse(errno.EISDIR if os.path.isdir(path) else errno.EINVAL, path)
        except FileNotFoundError:
            pass
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    try:
        _check_regular(fd, path)
        if message.get("write"):
            os.ftruncate(fd, 0)
            os.fchmod(fd, int(message["mode"]) & 0o777)
    except OSError:
        os.close(fd)
        raise
    return fd


def stream_and_exit(message: dict[str, Any], fd: int) -> NoReturn:
    """Runs in a child: sends the tree at `path` into the pipe `fd`, or with `write` receives one from it."""
    path = str(message["path"])
    code = 0
    try:
        if message.get("write"):
            _receive(path, fd)
        else:
            _send(path, fd)
    except (OSError, ValueError, EOFError) as exc:
        code = (getattr(exc, "errno", None) or errno.EIO) & 0x7F
    finally:
        os._exit(code)


def _send(path: str, fd: int) -> None:
    with open(fd, "wb", buffering=frames.CHUNK, closefd=False) as stream:
        try:
            real = os.path.realpath(path, strict=True)
            if os.stat(real).st_dev == _proc_device():
                _refuse(errno.EINVAL, path)
            parent = os.open(os.path.dirname(real), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            frames.send_entry(stream, parent, os.path.basename(real) or ".", "")
            frames.write_frame(stream, {"end": True})
        except OSError as exc:
            frames.write_frame(stream, {"error": exc.strerror or str(exc), "errno": exc.errno})


def _receive(path: str, fd: int) -> None:
    """Receives a tree, whose top comes first with the empty path, and writes it to `path`."""
    parent, name = os.path.split(os.path.realpath(path))
    os.makedirs(parent, exist_ok=True)
    top = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not name:
        raise OSError(errno.EBUSY, "the root folder cannot be replaced")
    with open(fd, "rb", buffering=frames.CHUNK, closefd=False) as stream:
        frames.receive_tree(stream, top, name)
