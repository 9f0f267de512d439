"""Records everything that a test script could read of its judged programs, in order, as digests.

The host copies each output stream between the two sandboxes and digests it there, so nothing in either sandbox can
change the record. Two transcripts are equal if the script could read the same bytes and exit codes in both runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import select
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

PIECE = 1 << 16
MOST_READINGS = 20_000
MOST_DRAINED, DRAIN_S = 4 << 20, 2.0
"""Limits, in bytes and seconds, of reading from a program after the script stopped reading: a program that ends within
them ends in the same way whenever the script stopped."""


class StreamDigest(NamedTuple):
    """Size and digest of one stream or file.

    Attributes:
        size: Number of bytes.
        digest: BLAKE2b digest of these bytes.
        is_cut: The script stopped reading before the end, and later bytes do not count. Of the reference: its end was
            not observed.
    """

    size: int
    digest: bytes
    is_cut: bool = False
    text: bytes = b""
    """`text_digest` of these bytes."""


def text_digest(data: bytes) -> bytes:
    """Returns the digest of bytes without white space at their end; empty if nothing is left."""
    text = data.rstrip()
    return hashlib.blake2b(text).digest() if text else b""


class Reading(NamedTuple):
    """A result that the script could read: of a command, or a file of the judged programs.

    Attributes:
        name: The command or the path, for a report.
        exit_code: Exit code of the command; None for a file, and for a command that the script ended.
        streams: Standard output and standard error, or the file's content; empty for a missing file.
    """

    name: str
    exit_code: int | None
    streams: tuple[StreamDigest, ...]


def digest_of(data: bytes) -> StreamDigest:
    return StreamDigest(len(data), hashlib.blake2b(data).digest(), text=text_digest(data))


class Transcript:
    """Readings of one run of a script.

    Args:
        expected: Transcript for comparison: if one of its streams was cut, only the bytes before the cut count.
    """

    def __init__(self, expected: Transcript | None = None) -> None:
        self.readings: list[Reading] = []
        self._expected = expected

    def open_copies(self, targets: Sequence[int]) -> list[OutputCopy]:
        """Returns copies to the script's descriptors for the streams of its next command."""
        known = self._expected.readings[len(self.readings) :][:1] if self._expected is not None else []
        streams = known[0].streams if known else ()
        limits = [one.size if one.is_cut else None for one in streams] + [None] * len(targets)
        return [
            OutputCopy(target, limit=limit, drains=self._expected is not None)
            for target, limit in zip(targets, limits, strict=False)
        ]

    def add(self, name: str, exit_code: int | None, streams: Sequence[StreamDigest]) -> None:
        if len(self.readings) <= MOST_READINGS:
            self.readings.append(Reading(name, exit_code, tuple(streams)))

    def add_file(self, path: str, data: bytes | None) -> None:
        """Adds a file of the judged programs; None if it is missing."""
        self.add(path, None, [] if data is None else [digest_of(data)])

    def find_difference(self, reference: Transcript) -> str:
        """Returns the first difference from the reference's transcript in words; empty if both are equal."""
        if len(self.readings) > MOST_READINGS:
            return f"the script runs more than {MOST_READINGS} commands of judged programs"
        for number, (own, other) in enumerate(zip(self.readings, reference.readings, strict=False), start=1):
            if difference := _difference(own, other):
                return f"{difference} than with the reference solution, at reading {number} ({own.name[:200]})"
        if len(self.readings) != len(reference.readings):
            return (
                f"the script reads {len(self.readings)} results of judged programs, and {len(reference.readings)} with "
                "the reference solution"
            )
        return ""


def _difference(own: Reading, other: Reading) -> str:
    """Returns the beginning of a sentence; empty if the readings are equal."""
    if own.exit_code != other.exit_code:
        return "a judged program ends with another exit code"
    if len(own.streams) != len(other.streams):
        return "a file is or is not there, otherwise"
    for stream, reference in zip(own.streams, other.streams, strict=True):
        same = (stream.size, stream.digest) == (reference.size, reference.digest)
        if not same or (reference.is_cut and not stream.is_cut):
            return "a judged program prints another text"
    return ""


class OutputCopy:
    """Copies an output stream of a judged program to the script, and digests it.

    Args:
        target: The script's descriptor, which is duplicated.
        limit: Number of counted bytes; None for all.
        drains: Whether to count bytes that the script no longer reads.
    """

    def __init__(self, target: int, *, limit: int | None, drains: bool) -> None:
        self._source, self.far_end = os.pipe()
        os.fchmod(self.far_end, 0o222)  # as `/dev/stdout` it is opened again by the sandbox's own user
        os.set_blocking(self._source, False)
        self._target = os.dup(target)
        self._killed, self._kill = os.pipe()
        self._left, self._drains = limit, drains
        self._digest, self._size, self._is_cut, self._is_counted = hashlib.blake2b(), 0, False, True
        self._text, self._space = hashlib.blake2b(), b""
        self._stop_at, self._drained = 0.0, 0
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    async def finish(self) -> StreamDigest:
        """Returns the digest, after all writers of the stream were killed and the script has read or closed it."""
        os.close(self.far_end)
        os.close(self._kill)
        await self._ended.wait()
        os.close(self._killed)
        text = self._text.digest() if self._size > len(self._space) else b""
        return StreamDigest(self._size, self._digest.digest(), not self._is_counted, text)

    def _copy(self) -> None:
        with contextlib.closing(_Descriptor(self._source)), contextlib.closing(_Descriptor(self._target)):
            for piece in self._pieces():
                self._add(piece)
                if self._is_cut:
                    self._drained += len(piece)
                else:
                    self._write(piece)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ended.set)

    def _pieces(self) -> Iterator[bytes]:
        """Reads until the end of the stream, or until nothing is left in it after all who print were killed."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._killed, select.POLLIN)
        while True:
            late = max(0.0, self._stop_at - time.monotonic()) if self._is_cut else None
            ready = [fd for fd, _ in poll.poll(None if late is None else late * 1000)]
            if late == 0 or self._drained >= MOST_DRAINED:
                self._is_counted = False
                return
            try:
                piece = os.read(self._source, PIECE)
            except BlockingIOError:
                if self._killed in ready:
                    return
                continue
            if not piece:
                return
            yield piece

    def _add(self, piece: bytes) -> None:
        if self._is_cut and not self._drains:
            self._is_counted = False
            return
        counted = piece if self._left is None else piece[: self._left]
        self._left = None if self._left is None else self._left - len(counted)
        self._digest.update(counted)
        self._size += len(counted)
        body = counted.rstrip()
        if body or len(self._space) > PIECE:
            self._text.update(self._space + body)
            self._space = b""
        self._space += counted[len(body) :]

    def _write(self, piece: bytes) -> None:
        try:
            while piece:
                piece = piece[os.write(self._target, piece) :]
        except OSError:
            self._is_cut, self._stop_at = True, time.monotonic() + DRAIN_S


class _Descriptor:
    def __init__(self, number: int) -> None:
        self._number = number

    def close(self) -> None:
        os.close(self._number)
