"""Parses a task's TOML with bounds, and locates syntax errors and fields by line.

`tomllib` needs quadratic memory for dotted keys and recurses on brackets, so a linear pass limits both first. A text
scan locates the fields; it returns None where it is unsure.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from .findings import TaskFinding

PARTS_LIMIT, DEPTH_LIMIT = 32, 100
# Each loop has one way to match a character, so backtracking stays linear; possessive quantifiers, which would say so,
# match wrongly in early patch releases of Python 3.11.
_TOKEN = re.compile(
    r""""{3}(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}"""  # a string of many lines
    r"""|'{3}(?:[^']|'{1,2}(?!'))*'{3,5}"""
    r"""|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*"""  # a string, a comment
    r"""|[^"'\#\n=\[\]{},.]+|[\n=\[\]{},.]""",
    re.DOTALL,
)
_AT = re.compile(r"^(?P<what>.*?) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", re.DOTALL)
_HEADER = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_.-]+)\s*\]\]?\s*(?:#.*)?$")
_LAST = re.compile(r"(?:\[\d+\]|\.?[^.\[\]]+)$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.-]+)\s*=")


def parse_toml(text: str, path: str) -> dict[str, Any] | TaskFinding:
    """Returns the data, or a finding for invalid text."""
    excess = _excess(text)
    if excess:
        return TaskFinding("invalid-toml", "error", path, excess, "write fewer brackets in brackets, or shorter keys")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        return _syntax(str(exc), text, path)
    except RecursionError:
        return TaskFinding(
            "invalid-toml",
            "error",
            path,
            "is nested too deeply",
            "write fewer brackets inside brackets or dots in keys",
        )
    except ValueError as exc:  # invalid dates, numbers too long to convert
        return TaskFinding("invalid-toml", "error", path, f"holds an invalid value: {exc}", "correct that value")


def _excess(text: str) -> str:
    """Describes an excess over the parse limits; empty within them.

    Stops where a string does not end: the parser will, too.
    """
    position = depth = dots = 0
    while found := _TOKEN.match(text, position):
        position = found.end()
        token = found[0]
        if token == ".":
            dots += 1
        elif token in "\n=[]{},":
            depth += (token in "[{") - (token in "]}")
            dots = 0
        if dots >= PARTS_LIMIT:
            return f"has a key of more than {PARTS_LIMIT} parts"
        if depth > DEPTH_LIMIT:
            return f"is nested more than {DEPTH_LIMIT} deep"
    return ""


def _syntax(message: str, text: str, path: str) -> TaskFinding:
    found = _AT.match(message)
    lines = text.splitlines()
    what = found["what"] if found else message
    line = int(found["line"]) if found and found["line"] else max(1, len(lines))
    column = int(found["column"]) if found and found["column"] else None
    if "unclosed" in what.lower() and (opened := _unclosed_line(text)):
        line, column = opened, None  # the parser names the line where it gave up
    there = lines[line - 1].strip()[:60] if line <= len(lines) else ""
    where = f" in {there!r}" if there else ""
    return TaskFinding(
        "invalid-toml",
        "error",
        path,
        f"is not TOML: {what[:1].lower()}{what[1:]}{where}",
        "correct this line; strings need quotes, tables are [name], lists are [a, b]",
        line=line,
        column=column,
    )


def _unclosed_line(text: str) -> int | None:
    """Returns the line of the first bracket that is not closed."""
    position, opened = 0, []
    while found := _TOKEN.match(text, position):
        if found[0] in ("[", "{"):
            opened.append(position)
        elif found[0] in ("]", "}") and opened:
            opened.pop()
        position = found.end()
    return text.count("\n", 0, opened[0]) + 1 if opened else None


class Lines:
    """Line numbers of the fields in a text."""

    def __init__(self, text: str) -> None:
        self._line_numbers = _lines(text)

    def of(self, field: str) -> int | None:
        """Returns the line of a field such as `steps[0].agent.timeout_sec`, or of its nearest table."""
        while field:
            if field in self._line_numbers:
                return self._line_numbers[field]
            shorter = _LAST.sub("", field)
            field = shorter if shorter != field else ""
        return None


def line_of(text: str, field: str) -> int | None:
    """Returns the line of one field of a text, as `Lines.of`."""
    return Lines(text).of(field)


def _lines(text: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    table, inside = "", ""
    for number, line in enumerate(text.splitlines(), start=1):
        if inside:
            inside = "" if inside in line else inside
            continue
        header = _HEADER.match(line)
        if header:
            table = _table(header[2], counts, is_array=header[1] == "[[")
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(f"{table}.{key[1]}" if table else key[1], number)
        inside = _opened(line)
    return lines


def _table(name: str, counts: dict[str, int], *, is_array: bool) -> str:
    """Returns the path of a header, with the indices of its lists of tables."""
    path = ""
    parts = name.split(".")
    for index, part in enumerate(parts):
        path = f"{path}.{part}" if path else part
        if is_array and index == len(parts) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = f"{path}[{counts[path]}]"
    return path


def _opened(line: str) -> str:
    """Returns the quotes of a multi-line string that this line opens."""
    for quotes in ('"""', "'''"):
        if line.count(quotes) % 2:
            return quotes
    return ""
