"""Reads the output of a command in bounded memory, with an optional complete copy in a file."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import tempfile
import termios
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from assay.environments.interface import SpillTarget
from assay.errors import HostFailure

CHUNK = 64 * 1024


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Writes all of it. Blocking."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Output:
    """One stream of a command: keeps `show_bytes` (the first and the last half), spills the rest, and reports the
    volume.

    `on_bytes` is called with the number of new bytes; it may stop the command.
    """

    def __init__(self, show_bytes: int, *, spill: bool, on_bytes: Callable[[int], None]) -> None:
        read, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read, False)
        self._read = read
        self._half = max(1, show_bytes // 2)
        self._show = max(2, show_bytes)
        self._head = bytearray()
        self._tail = bytearray()
        self._spill = spill
        self._file: FileIO | None = None
        self._path = ""
        self._spill_error: OSError | None = None
        """Error that prevented the complete copy."""
        self._on_bytes = on_bytes
        self.total = 0
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(read, self._on_readable)

    def close_write_end(self) -> None:
        """Closes the write end after it was passed to the command."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def _on_readable(self) -> None:
        try:
            data = os.read(self._read, CHUNK)
        except BlockingIOError:
            return
        if data:
            self._append(data)
        else:
            self.stop()

    def _append(self, data: bytes) -> None:
        size = len(data)
        self.total += size
        if self._spill and self._spill_error is None and (self._file is not None or self.total > self._show):
            self._write_spill(data)
        missing = self._half - len(self._head)
        if missing > 0:
            self._head += data[:missing]
            data = data[missing:]
        self._tail += data
        if len(self._tail) > 2 * self._show + CHUNK or (self._file is not None and len(self._tail) > self._show):
            tail_size = self._half if self.total > self._show else self._show
            del self._tail[:-tail_size]
        self._on_bytes(size)

    def _write_spill(self, data: bytes) -> None:
        """Writes to the file; if the host's disk is full the command continues, and `store` raises."""
        try:
            if self._file is None:
                fd, self._path = tempfile.mkstemp(prefix="assay-output-")
                self._file = os.fdopen(fd, "wb", buffering=0)
                write_all(self._file.fileno(), self._head + self._tail)
            write_all(self._file.fileno(), data)
        except OSError as exc:
            self._spill_error = exc

    def pause(self) -> None:
        """Stops reading for now: the writer blocks, and memory stays bounded while it is being killed."""
        if self._open:
            self._loop.remove_reader(self._read)

    def drain(self) -> None:
        """Reads the current content of the pipe, at most its capacity, and stops."""
        while self._open:
            ready = fcntl.ioctl(self._read, termios.FIONREAD, b"\0\0\0\0")
            (available,) = struct.unpack("i", ready)
            if available <= 0:
                break
            data = os.read(self._read, min(available, 1 << 20))
            if not data:
                break
            self._append(data)
            break
        self.stop()

    def stop(self) -> None:
        """Stops reading. Idempotent."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._read)
            os.close(self._read)
        self.close_write_end()

    def text(self) -> str:
        """Returns the shown text: all of it, or both halves with a line between them."""
        if self.total <= self._show:
            return (self._head + self._tail).decode(errors="replace")
        tail = self._tail[-self._half :]
        omitted = self.total - len(self._head) - len(tail)
        head = self._head.decode(errors="replace")
        return f"{head}\n... {omitted} bytes cut ...\n{tail.decode(errors='replace')}"

    def store(self, target: SpillTarget | None) -> str | None:
        """Stores the complete output if it is longer than the shown text; returns its content address.

        Raises `HostFailure` if the complete copy could not be written; an incomplete copy is never stored.
        """
        path = Path(self._path)
        try:
            if self._file is not None:
                self._file.close()
            if target is not None and self._spill_error is not None:
                folder = Path(tempfile.gettempdir())
                raise HostFailure(
                    f"a command's output could not be kept whole in {folder}: {self._spill_error}; free space there"
                ) from self._spill_error
            return target.put_file(path) if target is not None and self._file is not None else None
        finally:
            if self._file is not None:
                with contextlib.suppress(OSError):
                    path.unlink()
            self._file = None

    def discard(self) -> None:
        """Stops and removes the file, for an exec that ended with an exception."""
        self.stop()
        self.store(None)
