"""Finds the bounds of values in a stream of JSON without decoding them.

Invariant: memory does not depend on the size of a value that is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_CHUNK = 1 << 20
_LONGEST_KEY = 1 << 20
_STRING = rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"'
"""Groups are atomic and not possessive: possessive ones that hold a choice are matched wrongly before Python 3.11.5."""
_BRACKET = re.compile(rb'(?>(?:[^{}\[\]"]++|' + _STRING + rb')*)([{}\[\]"]|\Z)', re.DOTALL)  # matches everywhere
_NO_BRACKET = re.compile(rb'(?>(?:[^{}\[\]"]++|' + _STRING + rb")*)", re.DOTALL)
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_STRING_PART = re.compile(rb'[^"\\]*+(?>(?:\\.[^"\\]*+)*)', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]}\s]*+")
_SPACE = re.compile(rb"[ \t\r\n]*+")
_OPEN, _UNENDED = (b"{", b"["), (b'"', b"")


class BrokenDocument(Exception):
    """The document ends early or is invalid; nothing after this place can be read.

    Args:
        message: The problem.
        offset: Its place, in bytes from where the scanner began.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class LargeValue(NamedTuple):
    size: int


class JsonScanner:
    """Moves through a stream of JSON."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = stream.read(_CHUNK).removeprefix(b"\xef\xbb\xbf")
        self._at = 0
        self._before = 0
        self.lines = 0
        """Number of line ends in the white space that `peek` passed."""

    @property
    def offset(self) -> int:
        """Returns the current position, in bytes."""
        return self._before + self._at

    @property
    def _end(self) -> int:
        """Returns how many bytes were read of the stream: at its end, its size."""
        return self._before + len(self._data)

    def peek(self) -> bytes:
        """Returns the next byte that is not white space; empty at the end."""
        while True:
            found = _SPACE.match(self._data, self._at)
            if found:
                self.lines += found[0].count(b"\n")
                self._at = found.end()
            if self._at < len(self._data):
                return self._data[self._at : self._at + 1]
            if not self._more():
                return b""

    def preview(self, size: int) -> bytes:
        """Returns bytes that follow here, without moving: at least one, at most `size`."""
        self.peek()
        return self._data[self._at : self._at + size]

    def elements(self) -> Iterator[int]:
        """Yields the index of each element of the array here; the caller reads the value before the next."""
        self._at += 1
        index = 0
        if self.peek() == b"]":
            self._at += 1
            return
        while True:
            yield index
            index += 1
            if self._ends(b"]"):
                return

    def entries(self) -> Iterator[str]:
        """Yields the key of each entry of the object here; the caller reads the value before the next."""
        self._at += 1
        if self.peek() == b"}":
            self._at += 1
            return
        while True:
            yield self._key()
            if self._ends(b"}"):
                return

    def value(self, largest: int) -> bytes | LargeValue:
        """Reads the value here; returns its bytes, or only its size if larger than `largest`."""
        first = self.peek()
        if not first:
            raise BrokenDocument("the document ends early", self._end)
        begin = self.offset
        if first in _OPEN:
            return self._container(begin, largest)
        if first == b'"':
            return self._string(begin, largest)
        while (found := _SCALAR.match(self._data, self._at)) and found.end() == len(self._data):
            if len(self._data) - self._at > 1000 or not self._more():
                break
        if found is None or found.end() == self._at or found.end() - self._at > 1000:
            raise BrokenDocument("invalid JSON value", self.offset)
        self._at = found.end()
        return found[0] if len(found[0]) <= largest else LargeValue(len(found[0]))

    def _key(self) -> str:
        if self.peek() != b'"':
            raise BrokenDocument("expected a key", self.offset)
        raw = self.value(_LONGEST_KEY)
        if isinstance(raw, LargeValue):
            raise BrokenDocument(f"a key has {raw.size:,} bytes", self.offset)
        try:
            key = str(json.loads(raw)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        except ValueError as exc:
            raise BrokenDocument(f"a key is invalid JSON: {exc}", self.offset) from None
        if self.peek() != b":":
            raise BrokenDocument("expected a colon", self.offset)
        self._at += 1
        return key

    def _ends(self, closing: bytes) -> bool:
        found = self.peek()
        if found not in (b",", closing) or not found:
            said = f"expected a comma or {closing.decode()}" if found else "the document ends early"
            raise BrokenDocument(said, self.offset)
        self._at += 1
        return found == closing

    def _container(self, begin: int, largest: int) -> bytes | LargeValue:
        """Reads up to the closing bracket; discards a value that is too large."""
        depth, scan, dropped = 0, self._at, False
        while True:
            for found in _BRACKET.finditer(self._data, scan):
                if found[1] in _UNENDED:
                    break
                scan = found.end()
                depth += 1 if found[1] in _OPEN else -1
                if depth == 0:
                    return self._finish_value(begin, scan, dropped=dropped or self._before + scan - begin > largest)
            if dropped or self._before + len(self._data) - begin > largest:
                dropped = True
                self._discard(scan)
                scan = self._at
            scan -= self._at
            if not self._more():
                raise BrokenDocument("the document ends early", self._end)
            scan += self._at

    def _discard(self, scan: int) -> None:
        """Discards data that is not needed again, including the inside of an open string."""
        found = _NO_BRACKET.match(self._data, scan)
        self._at = found.end() if found else scan
        if self._data[self._at : self._at + 1] == b'"':
            part = _STRING_PART.match(self._data, self._at + 1)
            self._at = part.end() if part else self._at + 1
            self._before, self._data = self._before + self._at - 1, b'"' + self._data[self._at :]
            self._at = 0

    def _string(self, begin: int, largest: int) -> bytes | LargeValue:
        dropped = False
        while not (found := _WHOLE_STRING.match(self._data, self._at)):
            if self._before + len(self._data) - begin > largest:
                dropped = True
                self._discard(self._at)
            if not self._more():
                raise BrokenDocument("the document ends inside a string", self._end)
        return self._finish_value(begin, found.end(), dropped=dropped or self._before + found.end() - begin > largest)

    def _finish_value(self, begin: int, end: int, *, dropped: bool) -> bytes | LargeValue:
        start, self._at = self._at, end
        return LargeValue(self.offset - begin) if dropped else self._data[start:end]

    def _more(self) -> bool:
        """Reads at least as much again as is buffered, so that rescanning stays a bounded part of the whole."""
        rest = self._data[self._at :]
        piece = self._stream.read(max(_CHUNK, len(rest)))
        self._before, self._data, self._at = self._before + self._at, rest + piece, 0
        return bool(piece)
