"""Compares data files by content: parsed where the format is supported, else without trailing whitespace."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Callable, Hashable
from typing import Any

MOST_BYTES = 8 * 1024 * 1024


def same_data(path: str, one: bytes, other: bytes) -> bool:
    """Returns whether both have the same content: JSON and JSON Lines without order of keys and layout, CSV without
    quoting, TOML without layout, other text without trailing space and trailing empty lines."""
    if one == other:
        return True
    if max(len(one), len(other)) > MOST_BYTES:
        return False
    reader = _READERS.get(path.rpartition(".")[2].lower(), _text)
    try:
        return reader(one.decode()) == reader(other.decode())
    except (ValueError, RecursionError, csv.Error):
        return False


def _json(text: str) -> Hashable:
    return _frozen(json.loads(text, parse_constant=str, parse_float=_number, parse_int=_number))


def _number(text: str) -> tuple[str, str]:
    """Returns a number as it is written: the task decides whether `1.0` may replace `1`."""
    return ("number", text)


def _frozen(value: Any) -> Hashable:
    if isinstance(value, dict):
        return ("dict", frozenset((k, _frozen(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(_frozen(v) for v in value))
    return (type(value).__name__, value)


def _lines(text: str) -> Hashable:
    return tuple(_json(line) for line in text.splitlines() if line.strip())


def _rows(text: str, separator: str = ",") -> Hashable:
    rows = [tuple(row) for row in csv.reader(io.StringIO(text), delimiter=separator, strict=True)]
    while rows and not rows[-1]:
        rows.pop()
    return tuple(rows)


def _toml(text: str) -> Hashable:
    return _frozen(tomllib.loads(text))


def _text(text: str) -> Hashable:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


_READERS: dict[str, Callable[[str], Hashable]] = {
    "json": _json,
    "jsonl": _lines,
    "ndjson": _lines,
    "csv": _rows,
    "tsv": lambda text: _rows(text, "\t"),
    "toml": _toml,
}
