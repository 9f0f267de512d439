"""Detects a file's shape and keys from its first bytes, to identify its format. Never raises.

Of a large document only the keys in its first bytes are seen, so a format checks for keys that come early.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from assay.formats.shared.archives import archive_kind
from assay.formats.shared.json_stream import loads, read_head

Shape = Literal["object", "array", "lines", "zip", "tar", "folder", "other"]
_HEAD = 256 << 10
_TOKEN = re.compile(
    rb'\s*+(?:("(?>(?:[^"\\]|\\.)*)")|([{}\[\],:])|(-?[0-9][0-9.eE+-]*+|true|false|null|NaN|-?Infinity))', re.DOTALL
)
_DEPTH = 6
_LONG = 200


class SniffResult(NamedTuple):
    """The result of sniffing."""

    shape: Shape
    """`lines`: the first line is a whole JSON object and another line follows it."""
    paths: frozenset[str]
    """Paths of values: `schema_version`, `agent.name`, `steps[].step_id`; `[].id` in an array of objects."""
    values: dict[str, Any]
    """The first short scalar at each path."""
    first: Any = None
    """Value of the first line, for `lines`; else None."""

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


@lru_cache(maxsize=16)
def _sniff_cached(path: Path, _changed: int, _size: int) -> SniffResult:
    """Caches by time and size, because many formats ask about the same file."""
    return SniffResult("folder", frozenset(), {}) if path.is_dir() else sniff_bytes(read_head(path, _HEAD))


def sniff_bytes(start: bytes) -> SniffResult:
    """Sniffs the first bytes of a file."""
    kind = archive_kind(start)
    if kind is not None:
        return SniffResult("zip" if kind == "zip" else "tar", frozenset(), {})
    data = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not data.startswith((b"{", b"[")):
        return _NOTHING
    line, newline, after = data.partition(b"\n")
    first = _parse_first_line(line) if newline and data[:1] == b"{" else None
    lines = first is not None and (not after.strip() or after.lstrip().startswith(b"{"))
    paths, values = _outline(line if lines else data)
    shape: Shape = "lines" if lines else ("object" if data[:1] == b"{" else "array")
    return SniffResult(shape, frozenset(paths), values, first if lines else None)


def _parse_first_line(line: bytes) -> Any:
    try:
        found = loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


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
