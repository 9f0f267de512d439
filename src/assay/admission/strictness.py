"""Tests whether a verifier accepts equivalent variants of the reference solution.

`assay.code.preserving` rewrites Python in the functions that the solution changed. JSON gets another layout and key
order, a text file another end, CSV another row order. CSV does not leave the order free, so a verifier that insists on
an order that the instruction does not fix gets a note.

Invariant: numbers, strings and the order of lists stay the same; a file that does not parse strictly is skipped.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from assay.agents.cheats.interface import Knowledge
from assay.code.preserving import PRESERVING
from assay.code.textual import language_of
from assay.records import Task

from ._changes import ChangedFile, changed_files, changed_lines
from .findings import AdmissionFinding
from .rewrites import Rewrite, unified

_ORDERED = re.compile(
    r"\b(?:sort|sorted|order|ordered|ordering|ascending|descending|alphabetical\w*|chronological\w*|rank\w*|first|last|top|"
    r"oldest|newest|same order|sequence)\b",
    re.IGNORECASE,
)
_WORDED = re.compile(
    r"\b(?:exactly|verbatim|byte[- ]for[- ]byte|byte[- ]identical|newline|whitespace|indent\w*|format\w*|docstrings?|"
    r"comments?|style|lint\w*|black|ruff|minified|line break|layout|spaces|tabs|blank lines?|nothing else|"
    r"in (?:this|the following) form)\b",
    re.IGNORECASE,
)
_NUMBERS = re.compile(r"-?\d[\d.eE+-]*")


class VariantRow(msgspec.Struct, frozen=True):
    """A variant and its result."""

    rewrite: Rewrite
    outcome: str | None
    """The verifier's; None where the attempt itself broke."""
    attempt: str | None = None


class _Variant(NamedTuple):
    operator: str
    path: str
    content: bytes


def variants(knowledge: Knowledge, *, seed: int, most: int) -> tuple[Rewrite, ...]:
    """Samples at most `most` equivalent variants, round-robin over the kinds; each changes one file."""
    kinds: dict[str, list[_Variant]] = {}
    originals = {}
    for file in changed_files(knowledge):
        originals[file.path] = file.solution_file.after
        seen = {file.solution_file.after}
        for one in _variants_of(file):
            if one.content not in seen:
                seen.add(one.content)
                kinds.setdefault(one.operator, []).append(one)
    draw = random.Random(f"{seed} variants")
    chosen: list[_Variant] = []
    for name in sorted(kinds):
        draw.shuffle(kinds[name])
    while any(kinds.values()) and len(chosen) < most:
        for name in sorted(kinds):
            if kinds[name] and len(chosen) < most:
                chosen.append(kinds[name].pop())
    count: dict[str, int] = {}
    return tuple(_rewrite(one, originals[one.path], count) for one in chosen)


def _rewrite(one: _Variant, after: bytes | None, count: dict[str, int]) -> Rewrite:
    count[one.operator] = count.get(one.operator, 0) + 1
    diff = unified({one.path: after}, {one.path: one.content})
    name = f"variant.{one.operator}.{count[one.operator]}"
    return Rewrite(name, "strictness", {one.path: one.content}, diff, one.operator)


def _variants_of(file: ChangedFile) -> Iterator[_Variant]:
    if file.after is None or not file.after:
        return
    if file.role == "python":
        lines = changed_lines(file)
        made: Iterable[tuple[str, str | None]] = ((name, make(file.after, lines)) for name, make in PRESERVING.items())
    elif file.role == "program":
        made = (("commented", _commented(file)),)
    else:
        made = ((name, make(file.path, file.after)) for name, make in _DATA.items())
    for name, text in made:
        if text is not None:
            yield _Variant(name, file.path, text.encode())


def _commented(file: ChangedFile) -> str | None:
    assert file.after is not None
    family = language_of(file.path, file.after.encode())
    mark = {"c": "//", "shell": "#", "ruby": "#", "sql": "--"}.get(family or "")
    lines = file.after.rstrip().splitlines()
    open_end = not lines or lines[-1].endswith("\\") or "<<" in file.after
    return None if mark is None or open_end else f"{file.after.rstrip()}\n\n{mark} The end.\n"


def _json_indent(path: str, text: str) -> str | None:
    return _rejson(path, text, lambda value: json.dumps(value, indent=None if "\n" in text.strip() else 4, **_FAITHFUL))


def _json_key_order(path: str, text: str) -> str | None:
    indent = 2 if "\n" in text.strip() and not path.endswith("l") else None
    return _rejson(path, text, lambda value: json.dumps(_reversed(value), indent=indent, **_FAITHFUL))


_FAITHFUL: dict[str, Any] = {"ensure_ascii": False}


def _rejson(path: str, text: str, write: Callable[[Any], str]) -> str | None:
    """Rewrites JSON; None where a number would change its spelling or a key is duplicated."""
    ending = path.rpartition(".")[2].lower()
    end = "\n" if text.endswith("\n") else ""
    try:
        if ending in ("jsonl", "ndjson"):
            lines = [json.dumps(_reversed(_strict(line)), **_FAITHFUL) for line in text.splitlines() if line.strip()]
            new = "\n".join(lines) + end
        elif ending == "json":
            new = write(_strict(text)) + end
        else:
            return None
    except (ValueError, RecursionError):
        return None
    return new if sorted(_NUMBERS.findall(new)) == sorted(_NUMBERS.findall(text)) else None


def _strict(text: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) != len(items):
            raise ValueError("a key is there twice")
        return dict(items)

    return json.loads(text, object_pairs_hook=pairs)


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def _csv_row_order(path: str, text: str) -> str | None:
    if path.rpartition(".")[2].lower() not in ("csv", "tsv"):
        return None
    lines = text.splitlines(keepends=True)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter="\t" if path.endswith("tsv") else ",", strict=True))
    except csv.Error:
        return None
    # One row a line, all of one width, and a header that is kept at its place.
    if len(rows) != len(lines) or len(rows) < 3 or len({len(row) for row in rows}) != 1 or len(rows[0]) < 2:
        return None
    body = [line if line.endswith(("\n", "\r")) else line + "\n" for line in lines[:0:-1]]
    new = lines[0] + "".join(body)
    return new if text.endswith(("\n", "\r")) else new.rstrip("\r\n")


def _trailing_newline(path: str, text: str) -> str | None:
    del path
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else f"{text}\n"


_DATA: dict[str, Callable[[str, str], str | None]] = {
    "json-indent": _json_indent,
    "json-key-order": _json_key_order,
    "csv-row-order": _csv_row_order,
    "trailing-newline": _trailing_newline,
}


def fixes_order(instruction: str) -> bool:
    """Returns whether the instruction seems to prescribe an order. Heuristic."""
    return _ORDERED.search(instruction) is not None


def fixes_wording(instruction: str) -> bool:
    """Returns whether the instruction seems to prescribe layout, comments or exact bytes. Heuristic."""
    return _WORDED.search(instruction) is not None


def strictness_findings(task: Task, rows: Iterable[VariantRow]) -> tuple[AdmissionFinding, ...]:
    """Returns one finding for each rejected variant. What the instruction may have asked for is a note: layout and
    wording where it speaks of them, an order of rows always, unless the instruction speaks of an order."""
    instruction = task.instruction
    text = instruction if isinstance(instruction, str) else "\n".join(str(message.content) for message in instruction)
    findings = []
    for row in rows:
        name, operator = row.rewrite.name, row.rewrite.operator
        if row.outcome in (None, "pass") or (operator == "csv-row-order" and fixes_order(text)):
            continue
        may_be_requested = operator == "csv-row-order" or (operator in _LAYOUT and fixes_wording(text))
        doubt = " The instruction may ask for that." if may_be_requested else ""
        way = _WORDS.get(operator, f"in another way ({operator})")
        findings.append(
            AdmissionFinding(
                kind="variant-failed",
                task=task.id,
                probe=name,
                severity="note" if may_be_requested else "weak",
                text=f"the right solution, {way}, gets {row.outcome}: it means the same.{doubt}",
                closed_by=("compare what was asked for, not how it is written",),
                heuristic=may_be_requested,
                evidence=tuple(part for part in (row.attempt, row.rewrite.diff) if part),
            )
        )
    return tuple(findings)


_LAYOUT = frozenset({"reformatted", "spaced", "without-docstrings", "trailing-newline", "json-indent", "json-key-order",
                     "commented"})  # fmt: skip
_WORDS = {
    "renamed-locals": "its local variables renamed",
    "reordered": "two statements that do not depend on each other exchanged",
    "reformatted": "formatted otherwise",
    "spaced": "with blank lines and comments",
    "without-docstrings": "without docstrings",
    "equal-expressions": "with equal expressions in place of some",
    "commented": "with a comment at its end",
    "json-indent": "its JSON indented otherwise",
    "json-key-order": "its JSON's keys in another order",
    "csv-row-order": "its rows in another order",
    "trailing-newline": "with or without the last line's end",
}
"""Kind of variant to a description of the change."""
