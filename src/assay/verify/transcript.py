"""Records everything that a test script could read of its judged programs, in order, as digests.

The host copies each output stream between the two sandboxes and digests it there, so nothing in either sandbox can
change the record. Two transcripts are equal if the script could read the same bytes and exit codes in both runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import threading
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["OutputCopy", "Reading", "StreamDigest", "Transcript"]

PIECE = 1 << 16
MOST_READINGS = 20_000
MOST_DRAINED = 4 << 20
"""Limit of the bytes that are still read of a reference program after the script stopped reading."""
END_S = 10.0
"""Time limit in seconds for a copy to end after all processes that write to it were killed."""


class StreamDigest(NamedTuple):
    """Size and digest of one stream or file.

    Attributes:
        size: Number of bytes.
        digest: BLAKE2b digest of these bytes.
        is_cut: The script stopped reading before the end.
    """

    size: int
    digest: bytes
    is_cut: bool = False


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
        """Adds a reading."""
        if len(self.readings) <= MOST_READINGS:
            self.readings.append(Reading(name, exit_code, tuple(streams)))

    def add_file(self, path: str, data: bytes | None) -> None:
        """Adds a file of the judged programs; None if it is missing."""
        self.add(path, None, [] if data is None else [StreamDigest(len(data), hashlib.blake2b(data).digest())])

    def find_difference(self, reference: Transcript) -> str:
        """Returns the first difference from the reference's transcript in words; empty if there is none."""
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
        drains: Whether to count bytes that the script no longer reads, up to `MOST_DRAINED`.
    """

    def __init__(self, target: int, *, limit: int | None, drains: bool) -> None:
        self._source, self.far_end = os.pipe()
        self._target = os.dup(target)
        self._left, self._drains = limit, drains
        self._digest, self._size, self._drained, self._is_cut = hashlib.blake2b(), 0, 0, False
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    async def finish(self) -> StreamDigest:
        """Returns the digest, after every process that writes to the stream has ended."""
        os.close(self.far_end)
        await asyncio.to_thread(self._thread.join, END_S)
        return StreamDigest(self._size, self._digest.digest(), self._is_cut or self._thread.is_alive())

    def _copy(self) -> None:
        with contextlib.closing(_Descriptor(self._source)), contextlib.closing(_Descriptor(self._target)):
            while piece := os.read(self._source, PIECE):
                self._add(piece)
                if self._is_cut:
                    self._drained += len(piece)
                else:
                    self._write(piece)
                if self._is_cut and not (self._drains and self._drained < MOST_DRAINED):
                    return

    def _add(self, piece: bytes) -> None:
        counted = piece if self._left is None else piece[: self._left]
        self._left = None if self._left is None else self._left - len(counted)
        self._digest.update(counted)
        self._size += len(counted)

    def _write(self, piece: bytes) -> None:
        try:
            while piece:
                piece = piece[os.write(self._target, piece) :]
        except OSError:
            self._is_cut = True


class _Descriptor:
    def __init__(self, number: int) -> None:
        self._number = number

    def close(self) -> None:
        os.close(self._number)
