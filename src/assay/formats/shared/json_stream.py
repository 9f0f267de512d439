"""Reads untrusted JSON: one item at a time, in memory that does not depend on the file's size.

Covered: documents and lines of any size (an item larger than `LARGEST` is skipped with a warning), nesting of any
depth, broken UTF-8, NaN and infinities. Unreadable parts are reported by place and the rest is read. Not covered:
archives (`archives`) and format detection (`sniffing`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import msgspec

from assay.errors import UserError
from assay.formats.interface import ImportContext, ReadProblem
from assay.records import DIGEST_PREFIX, Truncation

LARGEST = 64 << 20
"""Largest item (a line, an element of an array, a field) in bytes; larger ones are skipped with a warning."""
INLINE_BYTES = 64 << 10
"""Bytes of a text that stay in a record; a longer one is also stored whole as a blob."""
_CHUNK = 1 << 20
_LONGEST_KEY = 1 << 20
_DEEPEST = 200
"""Deepest nesting that the store and its readers support."""
_STRING = rb'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"'
"""Groups are atomic and not possessive: possessive ones that hold a choice are matched wrongly before Python 3.11.5."""
_BRACKET = re.compile(rb'(?>(?:[^{}\[\]"]++|' + _STRING + rb')*)([{}\[\]"]|\Z)', re.DOTALL)  # matches everywhere
_NO_BRACKET = re.compile(rb'(?>(?:[^{}\[\]"]++|' + _STRING + rb")*)", re.DOTALL)
_WHOLE_STRING = re.compile(_STRING, re.DOTALL)
_STRING_PART = re.compile(rb'[^"\\]*+(?>(?:\\.[^"\\]*+)*)', re.DOTALL)
_SCALAR = re.compile(rb"[^,\]}\s]*+")
_SPACE = re.compile(rb"[ \t\r\n]*+")
_OPEN, _UNENDED = (b"{", b"["), (b'"', b"")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAN = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]")

WarnFunction = Callable[[str, str], None]
"""Gets a place (`line 3`, `samples[2]`) and a description of its problem."""


class ByteSource(Protocol):
    """A readable source: a `Path`, or a member of an archive."""

    def open(self, mode: Any = "rb") -> Any:
        """Opens a new binary stream."""
        ...


class _Broken(Exception):
    """The document ends early or is invalid; nothing after this place can be read."""


class _Large(NamedTuple):
    size: int


def warn_in(reading: ImportContext, file: str) -> WarnFunction:
    """Returns a function that reports problems in `file`."""

    def bad(where: str, problem: str) -> None:
        reading.report_problem(ReadProblem(file, where, problem))

    return bad


def loads(data: bytes | str) -> Any:
    """Decodes JSON. `NaN` and infinities become those words, lone surrogates U+FFFD.

    Raises:
        ValueError: It is not JSON, or is nested too deeply to be stored.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        found = msgspec.json.decode(raw)
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except (msgspec.DecodeError, UnicodeError) as exc:
        if not _NAN.search(raw):
            raise ValueError(str(exc)) from None
        found = _decode_leniently(raw, str(exc))
    if raw.count(b"[") + raw.count(b"{") > _DEEPEST:
        _require_shallow(found)
    return found


def _decode_leniently(raw: bytes, problem: str) -> Any:
    try:
        return _whole_characters(json.loads(raw, parse_constant=str))
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except ValueError:
        raise ValueError(problem) from None


def _too_deep() -> str:
    return f"it is nested deeper than {_DEEPEST} levels"


def _require_shallow(value: Any) -> None:
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += [v for v in item.values() if isinstance(v, dict | list)]
            elif isinstance(item, list):
                below += [v for v in item if isinstance(v, dict | list)]
        if not below:
            return
        level = below
    raise ValueError(_too_deep())


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(k): _whole_characters(v) for k, v in value.items()}
    return value


def read_head(path: Path, size: int = 64 << 10) -> bytes:
    """Returns the first bytes of a file; empty where it cannot be read."""
    with suppress(OSError, ValueError):
        if path.is_file():
            with path.open("rb") as stream:
                return stream.read(size)
    return b""


def digest_file(path: Path) -> str:
    """Returns `blake3:` and the BLAKE3 of a file's bytes, read in pieces."""
    from blake3 import blake3  # late: as in `records`

    found = blake3()
    with path.open("rb") as stream:
        while piece := stream.read(_CHUNK):
            found.update(piece)
    return DIGEST_PREFIX + str(found.hexdigest())


def parse_time(value: Any) -> float | None:
    """Parses an ISO time (UTC by default), or a number of seconds or milliseconds, to Unix seconds; else None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if 0 <= value < 1e11 else (value / 1000 if 1e11 <= value < 1e14 else None)
    try:
        found = datetime.fromisoformat(str(value).strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def truncate_text(text: str, reading: ImportContext) -> tuple[str, Truncation | None]:
    """Truncates a text to `INLINE_BYTES` and stores the whole of a longer one."""
    if len(text) * 4 <= INLINE_BYTES:
        return text, None
    raw = text.encode("utf-8", "replace")
    if len(raw) <= INLINE_BYTES:
        return text, None
    cut = raw[:INLINE_BYTES].decode("utf-8", "ignore")
    return cut, Truncation(len(raw), reading.store_blob(raw))


def json_lines(source: ByteSource, bad: WarnFunction, *, largest: int = LARGEST) -> Iterator[tuple[int, Any]]:
    """Yields line number (from 1) and value of each line of JSON; skips empty lines, warns of invalid ones."""
    with source.open("rb") as stream:
        number = 0
        while line := stream.readline(largest + 1):
            number += 1
            if len(line) > largest:
                size = len(line) + _rest_of_line(stream, line)
                bad(f"line {number}", f"the line has {size:,} bytes, {largest:,} are read at most")
                continue
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not line.strip():
                continue
            try:
                yield number, loads(line)
            except ValueError as exc:
                bad(f"line {number}", f"invalid JSON: {exc}")


def json_objects(source: ByteSource, bad: WarnFunction) -> Iterator[dict[str, Any]]:
    """Yields the lines that are JSON objects; warns of others."""
    for number, line in json_lines(source, bad):
        if isinstance(line, dict):
            yield line
        else:
            bad(f"line {number}", f"expected an object, found {type(line).__name__}")


def _rest_of_line(stream: BinaryIO, line: bytes) -> int:
    size = 0
    while line and not line.endswith(b"\n"):
        line = stream.readline(_CHUNK)
        size += len(line)
    return size


def load_document(source: ByteSource, *, largest: int = LARGEST) -> Any:
    """Decodes a whole, small document.

    Raises:
        UserError: It is larger than `largest` bytes, not JSON, or nested too deeply.
    """
    with source.open("rb") as stream:
        raw = stream.read(largest + 1)
    if len(raw) > largest:
        raise UserError(f"it is larger than the {largest:,} bytes that are read at most")
    try:
        return loads(raw.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as exc:
        raise UserError(f"invalid JSON: {exc}") from None


def json_items(
    source: ByteSource, prefix: tuple[str, ...], bad: WarnFunction, *, largest: int = LARGEST
) -> Iterator[tuple[int | str, Any]]:
    """Yields the items of one array (by index) or object (by key) of a document; none if it lacks the keys in `prefix`.

    `bad` gets problems: skipped items of more than `largest` bytes or invalid ones, and a document that ends early.
    """
    with source.open("rb") as stream:
        scanner = _Scanner(stream)
        where = ".".join(prefix)
        try:
            if _find(scanner, prefix):
                yield from _items(scanner, where, bad, largest)
        except _Broken as exc:
            bad(where, f"{exc} (byte {scanner.offset:,})")


def json_fields(
    source: ByteSource, leave: tuple[str, ...], bad: WarnFunction, *, largest: int = LARGEST
) -> dict[str, Any]:
    """Returns the fields of a document that is an object, skipping those in `leave`.

    Warns of an invalid document or early end, and returns the fields before it.
    """
    fields: dict[str, Any] = {}
    with source.open("rb") as stream:
        scanner = _Scanner(stream)
        try:
            if scanner.peek() != b"{":
                bad("", "expected a JSON object")
                return fields
            for key in scanner.entries():
                raw = scanner.value(0 if key in leave else largest)
                if key not in leave:
                    _decode_field(raw, key, bad, fields)
        except _Broken as exc:
            bad("", f"{exc} (byte {scanner.offset:,})")
    return fields


def _decode_field(raw: bytes | _Large, key: str, bad: WarnFunction, fields: dict[str, Any]) -> None:
    if isinstance(raw, _Large):
        bad(key, f"the field has {raw.size:,} bytes, too many to read")
        return
    try:
        fields[key] = loads(raw)
    except ValueError as exc:
        bad(key, f"invalid JSON: {exc}")


def _find(scanner: _Scanner, prefix: tuple[str, ...]) -> bool:
    """Moves to the value of the keys; returns False if they are missing."""
    for wanted in prefix:
        if scanner.peek() != b"{":
            return False
        for key in scanner.entries():
            if key == wanted:
                break
            scanner.value(0)
        else:
            return False
    return scanner.peek() in (b"{", b"[")


def _items(scanner: _Scanner, parent: str, bad: WarnFunction, largest: int) -> Iterator[tuple[int | str, Any]]:
    array = scanner.peek() == b"["
    for position in scanner.elements() if array else scanner.entries():
        raw = scanner.value(largest)
        where = f"{parent}[{position}]" if array else f"{parent}.{position}".lstrip(".")
        if isinstance(raw, _Large):
            bad(where, f"it has {raw.size:,} bytes, {largest:,} are read at most")
            continue
        try:
            value = loads(raw)
        except ValueError as exc:
            bad(where, f"invalid JSON: {exc}")
            continue
        yield position, value


class _Scanner:
    """Finds the bounds of values in a stream of JSON without decoding them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = stream.read(_CHUNK).removeprefix(b"\xef\xbb\xbf")
        self._at = 0
        self._before = 0

    @property
    def offset(self) -> int:
        """Returns the current position, in bytes."""
        return self._before + self._at

    def peek(self) -> bytes:
        """Returns the next byte that is not white space; empty at the end."""
        while True:
            found = _SPACE.match(self._data, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._data):
                return self._data[self._at : self._at + 1]
            if not self._more():
                return b""

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

    def value(self, largest: int) -> bytes | _Large:
        """Reads the value here; returns its bytes, or only its size if larger than `largest`."""
        first = self.peek()
        if not first:
            raise _Broken("the document ends early")
        begin = self.offset
        if first in _OPEN:
            return self._container(begin, largest)
        if first == b'"':
            return self._string(begin, largest)
        while (found := _SCALAR.match(self._data, self._at)) and found.end() == len(self._data):
            if len(self._data) - self._at > 1000 or not self._more():
                break
        if found is None or found.end() == self._at or found.end() - self._at > 1000:
            raise _Broken(f"invalid JSON value at byte {self.offset:,}")
        self._at = found.end()
        return found[0] if len(found[0]) <= largest else _Large(len(found[0]))

    def _key(self) -> str:
        if self.peek() != b'"':
            raise _Broken(f"expected a key at byte {self.offset:,}")
        raw = self.value(_LONGEST_KEY)
        if isinstance(raw, _Large):
            raise _Broken(f"a key has {raw.size:,} bytes")
        try:
            key = str(loads(raw))
        except ValueError as exc:
            raise _Broken(f"a key is invalid JSON: {exc}") from None
        if self.peek() != b":":
            raise _Broken(f"expected a colon at byte {self.offset:,}")
        self._at += 1
        return key

    def _ends(self, closing: bytes) -> bool:
        found = self.peek()
        if found not in (b",", closing) or not found:
            raise _Broken(
                f"expected a comma or {closing.decode()} at byte {self.offset:,}" if found else "it ends early"
            )
        self._at += 1
        return found == closing

    def _container(self, begin: int, largest: int) -> bytes | _Large:
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
                raise _Broken("the document ends early")
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

    def _string(self, begin: int, largest: int) -> bytes | _Large:
        dropped = False
        while not (found := _WHOLE_STRING.match(self._data, self._at)):
            if self._before + len(self._data) - begin > largest:
                dropped = True
                self._discard(self._at)
            if not self._more():
                raise _Broken("the document ends inside a string")
        return self._finish_value(begin, found.end(), dropped=dropped or self._before + found.end() - begin > largest)

    def _finish_value(self, begin: int, end: int, *, dropped: bool) -> bytes | _Large:
        start, self._at = self._at, end
        return _Large(self.offset - begin) if dropped else self._data[start:end]

    def _more(self) -> bool:
        """Reads at least as much again as is buffered, so that rescanning stays a bounded part of the whole."""
        rest = self._data[self._at :]
        piece = self._stream.read(max(_CHUNK, len(rest)))
        self._before, self._data, self._at = self._before + self._at, rest + piece, 0
        return bool(piece)
