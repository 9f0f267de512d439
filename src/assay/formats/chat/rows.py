"""Finds conversations in a file: rows that hold one each (lines, an array, documents), and bare lists of messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.errors import UserError
from assay.formats.shared.json_stream import WarnFunction, json_items, json_lines, loads
from assay.formats.shared.round_trip_builder import WHOLE
from assay.formats.shared.sniffing import SniffResult, read_rows, sniff


def has_turns(sniffed: SniffResult, name: str, *fields: str) -> bool:
    """Returns whether a file's objects have an array of objects with these fields, or an empty array."""
    start = {"array": f"[].{name}", "lines": name, "object": name}.get(sniffed.shape)
    if start is None or start not in sniffed.paths:
        return False
    if start in sniffed.values:  # a column may hold the array as text
        return str(sniffed.values[start]).lstrip().startswith("[{")
    inside = any(path.startswith((f"{start}[", f"{start}.")) for path in sniffed.paths)
    return sniffed.has(*(f"{start}[].{field}" for field in fields)) or not inside


def has_field(sniffed: SniffResult, name: str) -> bool:
    """Returns whether a file's objects have a field."""
    return {"array": f"[].{name}"}.get(sniffed.shape, name) in sniffed.paths


def is_message_list(sniffed: SniffResult) -> bool:
    """Returns whether a file consists of messages alone: an array of them, arrays of them, or one a line."""
    start = _message_start(sniffed)
    return start is not None and "messages" not in sniffed.paths


def _message_start(sniffed: SniffResult) -> str | None:
    starts = {"array": ("[]", "[][]"), "lines": ("[]", ""), "object": ()}.get(sniffed.shape, ())
    said = ("content", "tool_calls", "parts")
    for start in starts:
        prefix = f"{start}." if start else ""
        if sniffed.has(f"{prefix}role") and any(f"{prefix}{name}" in sniffed.paths for name in said):
            return start
    return None


def iter_conversations(path: Path, name: str, bad: WarnFunction) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """Yields the place of each row, the row, and its array of that name; warns of rows without one.

    A bare list of messages has no row: it is yielded with an empty one.
    """
    sniffed = sniff(path)
    if is_message_list(sniffed) and not has_turns(sniffed, name):
        yield from ((where, {}, messages) for where, messages in _bare_lists(path, sniffed, bad))
        return
    for where, value in read_rows(path, bad):
        row = _with_request(value, name)
        turns = _decoded(row.get(name)) if isinstance(row, dict) else None
        if isinstance(turns, list):
            yield where, row, turns
        else:
            bad(where, f"expected an object with an array of {name}")


def _with_request(row: Any, name: str) -> Any:
    """Returns a row that logs a request and its response with the request's fields as its own."""
    request = row.get("request") if isinstance(row, dict) and name not in row else None
    if not isinstance(request, dict) or name not in request:
        return row
    return {**request, **{key: value for key, value in row.items() if key != "request"}}


def _decoded(turns: Any) -> Any:
    """Decodes an array that a column holds as text."""
    if isinstance(turns, str) and turns.lstrip().startswith("["):
        try:
            return loads(turns)
        except ValueError:
            return turns
    return turns


def _bare_lists(path: Path, sniffed: SniffResult, bad: WarnFunction) -> Iterator[tuple[str, list[Any]]]:
    start = _message_start(sniffed)
    if sniffed.shape == "array" and start == "[]":
        yield "", [message for _, message in json_items(_limited(path), (), bad)]
    elif start == "":
        yield "", [message for _, message in json_lines(_limited(path), bad)]
    else:
        for where, messages in read_rows(path, bad):
            if isinstance(messages, list):
                yield where, messages
            else:
                bad(where, f"expected an array of messages, found {type(messages).__name__}")


def _limited(path: Path) -> Path:
    """Raises `UserError` where a file that is one conversation is too large to be read whole."""
    if path.stat().st_size > WHOLE:
        raise UserError(f"it is one conversation of more than the {WHOLE:,} bytes that are read at most")
    return path
