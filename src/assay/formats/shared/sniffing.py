"""Detects a file's shape and keys, to identify its format, and yields the rows of a file of any shape.

`sniff` never raises. Of a large document the first bytes are examined, and the beginning of each field that starts
after them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay.formats.shared.archives import archive_kind, compression_of, is_compressed_tar
from assay.formats.shared.json_stream import (
    LARGEST,
    WarnFunction,
    json_items,
    json_lines,
    json_values,
    loads,
    preview_fields,
    read_head,
)

Shape = Literal["object", "array", "lines", "zip", "tar", "compressed", "parquet", "folder", "other"]
_HEAD = 256 << 10
_LARGEST_SNIFFED = 1 << 30
"""Of a larger file the head alone is examined, since finding the later fields means to scan it whole."""
_PREVIEW = 32 << 10
"""Bytes examined of each field after the head."""
_TOKEN = re.compile(
    rb'\s*+(?:("(?>(?:[^"\\]|\\.)*)")|([{}\[\],:])|(-?[0-9][0-9.eE+-]*+|true|false|null|NaN|-?Infinity))', re.DOTALL
)
_DEPTH = 6
_LONG = 200


class SniffResult(NamedTuple):
    """The result of sniffing."""

    shape: Shape
    """`lines`: the first line is a whole JSON object, or a whole array that others follow; `compressed`: one file, no
    archive."""
    paths: frozenset[str]
    """Paths of values: `schema_version`, `agent.name`, `steps[].step_id`; `[].id` in an array of objects."""
    values: dict[str, Any]
    """The first short scalar at each path."""
    first: Any = None
    """Value of the first readable line, for `lines`; else None."""

    def has(self, *paths: str) -> bool:
        return self.paths.issuperset(paths)


_NOTHING = SniffResult("other", frozenset(), {})


def sniff(path: Path) -> SniffResult:
    """Sniffs a file or folder."""
    try:
        found = path.stat()
        return _sniff_cached(path, found.st_mtime_ns, found.st_size)
    except (OSError, ValueError):
        return _NOTHING


def read_rows(path: Path, bad: WarnFunction) -> Iterator[tuple[str, Any]]:
    """Yields the place and the value of each row: a line, an item of one array, or a document over several lines."""
    shape = sniff(path).shape
    if shape == "array":
        yield from ((f"[{position}]", row) for position, row in json_items(path, (), bad))
    else:
        rows = json_values(path, bad) if shape == "object" else json_lines(path, bad)
        yield from ((f"line {number}", row) for number, row in rows)


@lru_cache(maxsize=16)
def _sniff_cached(path: Path, _changed: int, size: int) -> SniffResult:
    """Caches by time and size, because many formats ask about the same file."""
    if path.is_dir():
        return SniffResult("folder", frozenset(), {})
    start = read_head(path, _HEAD)
    if compression_of(start) is not None and not is_compressed_tar(path):
        return SniffResult("compressed", frozenset(), {})
    seen = sniff_bytes(start)
    return _sniff_further(path, start, seen) if size > len(start) else seen


def sniff_bytes(start: bytes) -> SniffResult:
    """Sniffs the first bytes of a file."""
    kind = archive_kind(start)
    if kind is not None:
        return SniffResult("zip" if kind == "zip" else "tar", frozenset(), {})
    if start.startswith(b"PAR1"):
        return SniffResult("parquet", frozenset(), {})
    data = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    line = _first_object_line(data)
    if line is not None:
        return _of_line(line)
    if not data.startswith((b"{", b"[")):
        return _NOTHING
    paths, values = _outline(data)
    return SniffResult("object" if data[:1] == b"{" else "array", frozenset(paths), values)


def first_lines(path: Path, most: int, limit: int) -> list[bytes]:
    """Returns the first lines of a file that are not empty, with their ends: at most `most`, of `limit` bytes."""
    with path.open("rb") as stream:
        data = stream.read(limit + 1)
    whole = data if len(data) <= limit else data[: data.rfind(b"\n") + 1]
    return [line for line in whole.splitlines(keepends=True) if line.strip()][:most]


def _of_line(line: bytes) -> SniffResult:
    paths, values = _outline(line)
    return SniffResult("lines", frozenset(paths), values, _parse_line(line))


def _first_object_line(data: bytes) -> bytes | None:
    """Returns the first line that is whole JSON, where a file consists of such lines; else None.

    Lines before it may be damaged or be no JSON, where whole objects follow at the margin: a document over several
    lines indents them, or separates them by commas.
    """
    line, newline, after = data.partition(b"\n")
    first = _parse_line(line) if newline else None
    if isinstance(first, dict):
        return line
    if not newline or data.startswith(b"["):
        return line if isinstance(first, list) and after.lstrip().startswith(b"[") else None
    later = [one for one in after.split(b"\n", 20)[:20] if one.strip()]
    whole = [one for one in later[:4] if one.startswith(b"{") and isinstance(_parse_line(one), dict)]
    joined = any(one.rstrip().endswith(b",") or one[:1] in b" \t}]" for one in later[:4])
    return whole[0] if whole and not joined else None


def _parse_line(line: bytes) -> Any:
    try:
        return loads(line)
    except ValueError:
        return None


def _sniff_further(path: Path, start: bytes, seen: SniffResult) -> SniffResult:
    """Sniffs a file of which `start` is not the whole: a long first line, or the fields that begin later."""
    if seen.shape not in ("object", "array") or (seen.shape == "array" and _holds_item(start)):
        return seen
    try:
        if path.stat().st_size > _LARGEST_SNIFFED:
            return seen
        if b"\n" not in start and (line := _long_first_line(path)) is not None:
            return _of_line(line)
        paths, values = set(seen.paths), dict(seen.values)
        for key, preview in preview_fields(path, _PREVIEW):
            opening = (b"[{" if seen.shape == "array" else b"{") + msgspec.json.encode(key) + b":"
            more, scalars = _outline(opening + preview)
            paths |= more | {f"[].{key}" if seen.shape == "array" else key}  # a text may be longer than its preview
            values = {**scalars, **values}
    except (OSError, ValueError):
        return seen
    return seen._replace(paths=frozenset(paths), values=values)


def _long_first_line(path: Path) -> bytes | None:
    with path.open("rb") as stream:
        line = stream.readline(LARGEST + 1)
        following = stream.read(64).lstrip()
    whole = line.endswith(b"\n") and following[:1] in (b"", b"{")
    return line if whole and isinstance(_parse_line(line.removeprefix(b"\xef\xbb\xbf")), dict) else None


def _holds_item(start: bytes) -> bool:
    """Returns whether the bytes hold a whole first item of an array."""
    depth, at = 0, 0
    while (found := _TOKEN.match(start, at)) is not None:
        at = found.end()
        depth += 1 if found[2] in (b"{", b"[") else -1 if found[2] in (b"}", b"]") else 0
        if depth == 1 and found[2] in (b"}", b"]"):
            return True
    return False


def _outline(data: bytes) -> tuple[set[str], dict[str, Any]]:
    """Returns paths and short scalars of JSON that may be truncated anywhere."""
    paths: set[str] = set()
    values: dict[str, Any] = {}
    stack: list[tuple[str, bool]] = []  # the path of each open container, and whether it is an array
    key: str | None = None
    at = 0
    while (found := _TOKEN.match(data, at)) is not None:
        at = found.end()
        string, mark, scalar = found.groups()
        if mark in (b"}", b"]"):
            if not stack:
                break
            stack.pop()
            key = None
        elif mark in (b"{", b"["):
            where = _join_path(stack, key)
            paths.add(where)
            stack.append((where, mark == b"["))
            key = None
        elif mark == b",":
            key = None
        elif mark is None and stack:
            if string is not None and not stack[-1][1] and key is None:
                key = _scalar(string)
            else:
                _record_value(_join_path(stack, key), string or scalar, paths, values)
    paths.discard("")
    return paths, values


def _join_path(stack: list[tuple[str, bool]], key: str | None) -> str:
    if not stack or len(stack) > _DEPTH:
        return ""
    parent, array = stack[-1]
    return f"{parent}[]" if array else (f"{parent}.{key}" if parent else str(key))


def _record_value(where: str, raw: bytes, paths: set[str], values: dict[str, Any]) -> None:
    if where:
        paths.add(where)
        if len(raw) <= _LONG and where not in values:
            values[where] = _scalar(raw)


def _scalar(raw: bytes) -> Any:
    try:
        return loads(raw) if len(raw) <= _LONG else raw.decode("utf-8", "replace")
    except ValueError:
        return raw.decode("utf-8", "replace")
