"""Caller of a system call and the file that it names, read from /proc by the first process of the same sandbox."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

MOST_PATH, MOST_WORDS = 4096, 65536
_OF_ITSELF = re.compile(rb"^/proc/(?:self|thread-self)(?=/)")
_STREAMS = {b"/dev/stdin": b"/0", b"/dev/stdout": b"/1", b"/dev/stderr": b"/2"}
_FOLDER_OF_CALLER = -100
PAGE = 4096


class Process(NamedTuple):
    """A process at the time of a call; its start time makes its id unique."""

    pid: int
    parent: int
    start: bytes


class CallerMemory:
    """Reads arguments from the memory of the caller; that of the last caller stays open."""

    def __init__(self) -> None:
        self._tid = self._fd = -1

    def read_text(self, tid: int, address: int) -> bytes:
        """Returns the text at an address. Raises `OSError` where it cannot be read."""
        if tid != self._tid:
            self.forget()
            self._fd = os.open(b"/proc/%d/mem" % tid, os.O_RDONLY | os.O_CLOEXEC)
            self._tid = tid
        text = b""
        while len(text) <= MOST_PATH:
            piece = os.pread(self._fd, min(256, PAGE - address % PAGE), address)
            end = piece.find(b"\0")
            if end >= 0:
                return text + piece[:end]
            if not piece:
                raise OSError(14, "no text at this address")
            text += piece
            address += len(piece)
        return text

    def forget(self) -> None:
        """Closes the last caller's memory, which is replaced when a program is executed."""
        if self._fd >= 0:
            os.close(self._fd)
        self._tid = self._fd = -1


def read_process(tid: int) -> Process:
    """Returns the process of a thread. Raises `OSError` where it is gone."""
    pid = tid
    with open(f"/proc/{tid}/status", "rb") as handle:
        for line in handle:
            if line.startswith(b"Tgid:"):
                pid = int(line[5:])
                break
    with open(f"/proc/{pid}/stat", "rb") as handle:
        fields = handle.read().rpartition(b")")[2].split()
    return Process(pid, int(fields[1]), fields[19])


def read_words(pid: int) -> list[bytes]:
    """Returns the command line."""
    with open(f"/proc/{pid}/cmdline", "rb") as handle:
        return handle.read(MOST_WORDS).split(b"\0")[:-1]


def read_program(pid: int) -> tuple[bytes, tuple[int, int]]:
    """Returns the name and the identity of the program that a process executes."""
    status = os.stat(f"/proc/{pid}/exe")
    return os.fsencode(os.readlink(f"/proc/{pid}/exe")), (status.st_dev, status.st_ino)


def name_from_here(tid: int, folder: int | None, path: bytes) -> bytes:
    """Returns a name with which this process can open the file that a thread calls `path`."""
    if path.startswith(b"/") and not path.startswith((b"/dev/", b"/proc/")):
        return path
    own = b"/proc/%d" % tid
    if path.startswith(b"/dev/fd/") or path in _STREAMS:
        return own + b"/fd" + (_STREAMS.get(path) or path[7:])
    if path.startswith(b"/"):
        return _OF_ITSELF.sub(own, path)
    top = b"/cwd" if folder in (None, _FOLDER_OF_CALLER) else b"/fd/%d" % folder
    return own + top + b"/" + path if path else own + top


def absolute_path(tid: int, folder: int | None, path: bytes) -> bytes:
    """Returns the absolute path without resolving links."""
    if not path.startswith(b"/"):
        top = "cwd" if folder in (None, _FOLDER_OF_CALLER) else f"fd/{folder}"
        path = os.fsencode(os.readlink(f"/proc/{tid}/{top}")) + b"/" + path
    return os.path.normpath(path)
