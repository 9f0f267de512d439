"""Takes a change apart: what of it is broken independently of the rest, and which test fails because of which part.

A commit may mend several things. Each part (what changed in one function, or one run of lines outside of functions) is
taken back alone, and the failing tests are run: a part that makes a test fail is one of its causes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from assay.code.batches import JobResult
from assay.code.source import SourceError, functions, parse

from ._reference import outcomes

__all__ = ["MOST_PARTS", "Hunk", "causes_of", "hunks", "separate", "single_hunks", "with_constant"]

MOST_PARTS = 40
MOST_COMPARED = 1_000_000
"""Lines times lines that are compared one by one; what differs more counts as changed throughout."""


class Hunk(NamedTuple):
    """Lines `first` to `last` of the right text stand for `other_first` to `other_last` of the broken one: from 0, and
    without the last."""

    first: int
    last: int
    other_first: int
    other_last: int


def hunks(right: str, broken: str) -> Iterator[Hunk]:
    """Where two texts differ, in order."""
    old, new = right.splitlines(), broken.splitlines()
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - start
    end = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    middle, other = old[start : len(old) - end], new[start : len(new) - end]
    if len(middle) * len(other) > MOST_COMPARED:
        yield Hunk(start, start + len(middle), start, start + len(other))
        return
    matcher = difflib.SequenceMatcher(None, middle, other, autojunk=False)
    for kind, first, last, other_first, other_last in matcher.get_opcodes():
        if kind != "equal":
            yield Hunk(start + first, start + last, start + other_first, start + other_last)


def separate(right: Mapping[str, str], broken: Mapping[str, str]) -> list[dict[str, str]]:
    """For each part the one file that it is in, with that part alone broken."""
    found: list[dict[str, str]] = []
    for path in sorted(broken):
        old, new = right[path].splitlines(keepends=True), broken[path].splitlines(keepends=True)
        groups: dict[str, list[Hunk]] = {}
        places = _functions(right[path])
        for hunk in hunks(right[path], broken[path]):
            inside = [name for name, first, last in places if first <= hunk.first + 1 <= last]
            groups.setdefault(inside[-1] if inside else f"line {hunk.first}", []).append(hunk)
        for group in groups.values():
            lines = list(old)
            for hunk in reversed(group):
                lines[hunk.first : hunk.last] = new[hunk.other_first : hunk.other_last]
            found.append({path: "".join(lines)})
    return found


def single_hunks(right: Mapping[str, str], broken: Mapping[str, str]) -> list[dict[str, str]]:
    """For each run of differing lines the one file that it is in, with that run alone broken."""
    found: list[dict[str, str]] = []
    for path in sorted(broken):
        old, new = right[path].splitlines(keepends=True), broken[path].splitlines(keepends=True)
        for hunk in hunks(right[path], broken[path]):
            lines = [*old[: hunk.first], *new[hunk.other_first : hunk.other_last], *old[hunk.last :]]
            found.append({path: "".join(lines)})
    return found


def with_constant(text: str, name: str, constant: str) -> str:
    """The text with a function's body giving a constant; as it was where there is no such function, or on one line."""
    try:
        program = parse(text)
    except SourceError:
        return text
    for function in functions(program):
        if function.name == name and function.body_line > function.def_line:
            span = program.whole_lines(function.body_line, function.end_line)
            first = program.lines[function.body_line - 1]
            indent = first[: len(first) - len(first.lstrip())]
            new = f"{text[: span.start]}{indent}return {constant}\n{text[span.end :]}"
            return new if _is_program(new) else text
    return text


def _is_program(text: str) -> bool:
    try:
        parse(text)
    except SourceError:
        return False
    return True


def _functions(text: str) -> list[tuple[str, int, int]]:
    try:
        return [(f.name, f.line, f.end_line) for f in functions(parse(text))]
    except SourceError:
        return []


def causes_of(tests: Sequence[str], results: Sequence[JobResult]) -> dict[str, tuple[str, ...]]:
    """Test to its causes, from a run for each part; a run that hit its time limit says nothing.

    What only several parts together make fail is a cause of its own.
    """
    found: dict[str, list[str]] = {test: [] for test in tests}
    for number, result in enumerate(results):
        now = outcomes(result.tests) if result.ended == "done" else {}
        for test, causes in found.items():
            passed = test in now and now[test].outcome not in ("failed", "error")
            if result.ended != "time" and not passed:
                causes.append(f"part {number}")
    return {test: tuple(causes) or (test,) for test, causes in found.items()}
