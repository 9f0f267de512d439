"""Answer files of the reference solution's shape with one confusing value in place of every value.

Only names are kept: keys of objects, labels before a colon, the heading and first column of a table.
"""

from __future__ import annotations

import csv
import io
import json
import posixpath
import re
from typing import Any

import msgspec

from ._modules import needs_program, programs, python_files
from .interface import Knowledge, SolutionFile

_MARK = "\0here\0"
_LABEL = re.compile(r"([\w .()/-]+?\s*[:=]\s*)(.*)")
_FIELD = re.compile(r"[^\s,;|]+")


class Confusion(msgspec.Struct, frozen=True):
    """One confusing value in several notations."""

    text: str
    json: str
    whole_lists: bool = False
    """True if it replaces a list of plain values as a whole."""


def answer_files(knowledge: Knowledge) -> tuple[SolutionFile, ...]:
    """Returns the non-program files that solving leaves."""
    other = {f.path for f in (*python_files(knowledge), *programs(knowledge))}
    return tuple(f for f in knowledge.judged if f.after is not None and f.path not in other and _is_text(f.after))


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except ValueError:
        return False


def needs_answer(knowledge: Knowledge) -> str | None:
    """Returns why no answer can be confused, or None."""
    if answer_files(knowledge) or needs_program(knowledge) is None:
        return None
    return "solving this task leaves no readable answer"


def needs_printed(knowledge: Knowledge) -> str | None:
    """Returns why no shell, which compares files and printed output but not return values, sees an answer; None if one
    does."""
    scripts = (
        f
        for f in python_files(knowledge)
        if b"__main__" in (f.after or b"") or b"\ndef " not in b"\n" + (f.after or b"")
    )
    if answer_files(knowledge) or programs(knowledge) or any(True for _ in scripts):
        return None
    return "solving this task leaves no answer file and no program whose output a shell could compare"


def with_confusing_value(file: SolutionFile, value: Confusion) -> bytes:
    """Returns the file with the value in place of every value."""
    text = (file.after or b"").decode()
    ending = posixpath.splitext(file.path)[1].lower()
    if ending == ".jsonl":
        return "".join(_as_json(line, value, indent=None) + "\n" for line in text.splitlines() if line.strip()).encode()
    if ending in (".csv", ".tsv"):
        return _as_table(text, value, "\t" if ending == ".tsv" else ",").encode()
    if ending == ".json" or text.lstrip()[:1] in ("{", "["):
        return (_as_json(text, value) + "\n").encode()
    return "".join(_as_line(line, value) + "\n" for line in text.splitlines()).encode()


def _as_json(text: str, value: Confusion, indent: int | None = 2) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return value.json
    return json.dumps(_leaves(found, value), indent=indent).replace(json.dumps(_MARK), value.json)


def _leaves(found: Any, value: Confusion) -> Any:
    if isinstance(found, dict):
        return {key: _leaves(inner, value) for key, inner in found.items()}
    if isinstance(found, list) and not (value.whole_lists and not any(isinstance(i, dict | list) for i in found)):
        return [_leaves(inner, value) for inner in found]
    return _MARK


def _as_table(text: str, value: Confusion, delimiter: str) -> str:
    rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    made = io.StringIO()
    writer = csv.writer(made, delimiter=delimiter, lineterminator="\n")
    for index, row in enumerate(rows):
        kept = row[:1] if len(row) > 1 else []
        writer.writerow(row if index == 0 and len(rows) > 1 else [*kept, *[value.text] * (len(row) - len(kept))])
    return made.getvalue()


def _as_line(line: str, value: Confusion) -> str:
    label = _LABEL.fullmatch(line)
    kept, rest = (label[1], label[2]) if label else ("", line)
    return kept + _FIELD.sub(lambda _: value.text, rest)


def shell_printer(text: str) -> str:
    """Returns a shell program that prints one line."""
    return f"#!/bin/sh\nprintf '%s\\n' '{text}'\n"


def python_printer(line: bytes) -> str:
    """Returns code that prints one line and exits with 0 if run as a program; imports continue."""
    return f"""if __name__ == "__main__":
    import sys

    sys.stdout.buffer.write({line!r})
    sys.stdout.flush()
    raise SystemExit(0)"""
