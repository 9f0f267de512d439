"""Reads untrusted JSON: one item at a time, in memory that does not depend on the file's size.

Covered: documents and lines of any size (an item larger than `LARGEST` is skipped with a warning), nesting of any
depth, broken UTF-8, NaN and infinities. Unreadable parts are reported by place and the rest is read. Not covered:
archives (`archives`) and format detection (`sniffing`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
from msgspec import UNSET

from assay.errors import UserError
from assay.formats.interface import ImportContext, ReadProblem
from assay.formats.shared.json_scanner import BrokenDocument, JsonScanner, LargeValue
from assay.records import DIGEST_PREFIX, Truncation

LARGEST = 64 << 20
"""Largest item (a line, an element of an array, a field) in bytes; larger ones are skipped with a warning."""
INLINE_BYTES = 64 << 10
"""Bytes of a text that stay in a record; a longer one is also stored whole as a blob."""
_CHUNK = 1 << 20
_DEEPEST = 200
"""Deepest nesting that the store and its readers support."""
_SPACED_KEY = re.compile(rb'"[ \t\r\n]++:')
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAN = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]")

WarnFunction = Callable[[str, str], None]
"""Gets a place (`line 3`, `samples[2]`) and a description of its problem."""
_MOST_RESTARTS = 100
Rows = Iterator[tuple[str, Any]]
"""Places and values of lines."""


class ByteSource(Protocol):
    """A readable source: a `Path`, or a member of an archive."""

    def open(self, mode: Any = "rb") -> Any:
        """Opens a new binary stream."""
        ...


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
            raise ValueError(_encoding_problem(raw) or str(exc)) from None
        found = _decode_leniently(raw, str(exc))
    if raw.count(b"[") + raw.count(b"{") > _DEEPEST:
        _require_shallow(found)
    return found


def _encoding_problem(raw: bytes) -> str | None:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        return f"byte 0x{raw[exc.start]:02x} at position {exc.start:,} is not UTF-8: convert the file with iconv"
    return None


def repeated_keys(raw: bytes, value: Any) -> tuple[str, ...]:
    """Returns the keys that occur twice in one object of `raw`, which `value` is decoded from with the last of each.

    Counts keys first, which is cheap: a text without repeated keys has as many as its value.
    """
    if raw.count(b'":') + len(_SPACED_KEY.findall(raw)) <= msgspec.json.encode(value).count(b'":'):
        return ()
    found: dict[str, None] = {}

    def note(pairs: list[tuple[str, Any]]) -> None:
        if len(pairs) != len(dict(pairs)):
            found.update((key, None) for key, count in Counter(key for key, _ in pairs).items() if count > 1)

    with suppress(ValueError, RecursionError):
        json.loads(raw, object_pairs_hook=note)
    return tuple(found)


def warn_of_repeated_keys(raw: bytes, value: Any, bad: WarnFunction, where: str) -> None:
    """Reports keys that occur twice in one object: their last value is read, the others are left out."""
    for key in repeated_keys(raw, value)[:5]:
        bad(where, f"the key {key[:100]!r} occurs more than once in an object: the last value is read")


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
            is_large = len(line) > largest
            size = len(line) + (_rest_of_line(stream, line) if is_large else 0)
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not is_large and not line.strip():
                continue
            raw = LargeValue(size) if is_large else line
            if (value := decode_item(raw, f"line {number}", bad, largest)) is not UNSET:
                yield number, value


def json_objects(
    source: ByteSource, bad: WarnFunction, select: Callable[[Rows], Rows] = iter
) -> Iterator[dict[str, Any]]:
    """Yields the lines that are JSON objects; warns of others. `select` may leave out lines."""
    for where, line in select((f"line {number}", line) for number, line in json_lines(source, bad)):
        if isinstance(line, dict):
            yield line
        else:
            bad(where, f"expected an object, found {type(line).__name__}")


def _rest_of_line(stream: BinaryIO, line: bytes) -> int:
    size = 0
    while line and not line.endswith(b"\n"):
        line = stream.readline(_CHUNK)
        size += len(line)
    return size


def load_document(
    source: ByteSource, bad: WarnFunction | None = None, where: str = "", *, largest: int = LARGEST
) -> Any:
    """Decodes a whole, small document; tells `bad` of keys that occur twice, at the place `where`.

    Raises:
        UserError: It is larger than `largest` bytes, not JSON, or nested too deeply.
    """
    with source.open("rb") as stream:
        raw = stream.read(largest + 1)
    if len(raw) > largest:
        raise UserError(f"it is larger than the {largest:,} bytes that are read at most")
    try:
        value = loads(raw.removeprefix(b"\xef\xbb\xbf"))
    except ValueError as exc:
        raise UserError(f"invalid JSON: {exc}") from None
    if bad is not None:
        warn_of_repeated_keys(raw, value, bad, where)
    return value


def json_items(
    source: ByteSource, prefix: tuple[str, ...], bad: WarnFunction, *, largest: int = LARGEST
) -> Iterator[tuple[int | str, Any]]:
    """Yields the items of one array (by index) or object (by key) of a document; none if it lacks the keys in `prefix`.

    `bad` gets problems: skipped items of more than `largest` bytes or invalid ones, and a document that ends early.
    """
    with source.open("rb") as stream:
        scanner = JsonScanner(stream)
        where = ".".join(prefix)
        try:
            if _find(scanner, prefix):
                yield from _items(scanner, where, bad, largest)
        except BrokenDocument as exc:
            bad(where, f"{exc} (byte {exc.offset:,})")


def json_fields(
    source: ByteSource, leave: tuple[str, ...], bad: WarnFunction, *, largest: int = LARGEST
) -> dict[str, Any]:
    """Returns the fields of a document that is an object, skipping those in `leave`.

    Warns of an invalid document or early end, and returns the fields before it.
    """
    fields: dict[str, Any] = {}
    with source.open("rb") as stream:
        scanner = JsonScanner(stream)
        try:
            if scanner.peek() != b"{":
                bad("", "expected a JSON object")
                return fields
            for key in scanner.entries():
                raw = scanner.value(0 if key in leave else largest)
                if key in fields:
                    bad(key, "the key occurs more than once: the last value is read")
                if key not in leave and (value := decode_item(raw, key, bad, largest)) is not UNSET:
                    fields[key] = value
        except BrokenDocument as exc:
            bad("", f"{exc} (byte {exc.offset:,})")
    return fields


def decode_item(raw: bytes | LargeValue, where: str, bad: WarnFunction, largest: int = LARGEST) -> Any:
    """Decodes one item of a file; returns `msgspec.UNSET`, with a warning, for one that is too large or invalid."""
    if isinstance(raw, LargeValue):
        bad(where, f"it has {raw.size:,} bytes, {largest:,} are read at most")
        return UNSET
    try:
        value = loads(raw)
    except ValueError as exc:
        bad(where, f"invalid JSON: {exc}")
        return UNSET
    warn_of_repeated_keys(raw, value, bad, where)
    return value


def _find(scanner: JsonScanner, prefix: tuple[str, ...]) -> bool:
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


def _items(scanner: JsonScanner, parent: str, bad: WarnFunction, largest: int) -> Iterator[tuple[int | str, Any]]:
    array = scanner.peek() == b"["
    for position in scanner.elements() if array else scanner.entries():
        raw = scanner.value(largest)
        where = f"{parent}[{position}]" if array else f"{parent}.{position}".lstrip(".")
        if (value := decode_item(raw, where, bad, largest)) is not UNSET:
            yield position, value


def json_values(source: ByteSource, bad: WarnFunction, *, largest: int = LARGEST) -> Iterator[tuple[int, Any]]:
    """Yields documents that follow each other, each on any number of lines, with the number of its first line.

    After a document that does not end, the next one that begins at the margin is read, up to `_MOST_RESTARTS` times.
    """
    with source.open("rb") as stream:
        start, line = 3 if stream.read(3) == b"\xef\xbb\xbf" else 0, 1
        stream.seek(start)
        for _ in range(_MOST_RESTARTS):
            scanner, inside, begin, number = JsonScanner(stream), 0, 0, line
            try:
                while scanner.peek():
                    begin, number = scanner.offset, line + scanner.lines + inside
                    raw = scanner.value(largest)
                    inside += 0 if isinstance(raw, LargeValue) else raw.count(b"\n")
                    if (value := decode_item(raw, f"line {number}", bad, largest)) is not UNSET:
                        yield number, value
            except BrokenDocument as exc:
                broken = number + _count_lines(stream, start + begin, start + exc.offset)
                bad(f"line {number}", f"{exc} (byte {start + exc.offset:,}, line {broken:,})")
            else:
                return
            found = _next_document(stream, start + begin, number)
            if found is None:
                return
            start, line = found


def _count_lines(stream: BinaryIO, begin: int, end: int) -> int:
    """Returns the number of line ends between two offsets."""
    stream.seek(begin)
    lines = 0
    while begin < end and (piece := stream.read(min(_CHUNK, end - begin))):
        lines += piece.count(b"\n")
        begin += len(piece)
    return lines


def _next_document(stream: BinaryIO, begin: int, line: int) -> tuple[int, int] | None:
    """Moves to the next line after the one of `begin` that opens an object; returns its offset and number."""
    stream.seek(begin)
    while following := stream.readline(LARGEST):
        line += following.endswith(b"\n")
        at = stream.tell()
        if following.endswith(b"\n") and stream.read(1) == b"{":
            stream.seek(at)
            return at, line
        stream.seek(at)
    return None


def preview_fields(source: ByteSource, size: int) -> Iterator[tuple[str, bytes]]:
    """Yields each key of an object, or of an array's first object, with up to `size` first bytes of its value."""
    with source.open("rb") as stream, suppress(BrokenDocument):
        scanner = JsonScanner(stream)
        if scanner.peek() == b"[":
            next(scanner.elements(), None)
        for key in scanner.entries() if scanner.peek() == b"{" else ():
            yield key, scanner.preview(size)
            scanner.value(0)
