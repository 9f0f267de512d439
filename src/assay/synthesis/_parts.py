"""Divides a change into independent parts and finds which test fails because of which part.

A commit may fix several bugs. Each part (the changes in one function, or one run of lines outside functions) is
reverted alone, and the failing tests are run: a part that makes a test fail is one of its causes.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from assay.code.batches import JobResult
from assay.code.source import SourceError, functions_of, parse, split_lines

from ._reference import merge_cases

MOST_PARTS = 40
MOST_HUNKS = 12
MOST_COMPARED = 1_000_000
"""Maximum product of line counts that is compared line by line; larger regions count as changed throughout."""


class Hunk(NamedTuple):
    """Lines `first` to `last` of the right text correspond to `other_first` to `other_last` of the broken one;
    zero-based, end exclusive."""

    first: int
    last: int
    other_first: int
    other_last: int


def diff_hunks(right: str, broken: str) -> Iterator[Hunk]:
    """Yields the differing regions of two texts, in order."""
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


def separate_parts(right: Mapping[str, str], broken: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns for each part its file, with only that part broken."""
    versions: list[dict[str, str]] = []
    for path in sorted(broken):
        old, new = right[path].splitlines(keepends=True), broken[path].splitlines(keepends=True)
        groups: dict[str, list[Hunk]] = {}
        places = _functions(right[path])
        for hunk in diff_hunks(right[path], broken[path]):
            inside = [name for name, first, last in places if first <= hunk.first + 1 <= last]
            groups.setdefault(inside[-1] if inside else f"line {hunk.first}", []).append(hunk)
        for group in groups.values():
            lines = list(old)
            for hunk in reversed(group):
                lines[hunk.first : hunk.last] = new[hunk.other_first : hunk.other_last]
            versions.append({path: "".join(lines)})
    return versions


def split_hunks(right: Mapping[str, str], broken: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns for each run of differing lines its file, with only that run broken; a run in which several functions are
    missing is divided into these."""
    versions: list[dict[str, str]] = []
    for path in sorted(broken):
        old, new = right[path].splitlines(keepends=True), broken[path].splitlines(keepends=True)
        starts = [first - 1 for _, first, _ in _functions(right[path])]
        hunks = [part for hunk in diff_hunks(right[path], broken[path]) for part in _divided(hunk, starts)]
        for hunk in hunks:
            lines = [*old[: hunk.first], *new[hunk.other_first : hunk.other_last], *old[hunk.last :]]
            versions.append({path: "".join(lines)})
    return versions


def _divided(hunk: Hunk, starts: Sequence[int]) -> Iterator[Hunk]:
    """Divides lines that are missing in the broken text where functions begin."""
    inside = [start for start in starts if hunk.first < start < hunk.last]
    if hunk.other_first < hunk.other_last or not inside:
        yield hunk
        return
    places = [hunk.first, *sorted(set(inside)), hunk.last]
    for first, last in itertools.pairwise(places):
        yield Hunk(first, last, hunk.other_first, hunk.other_last)


def partial_repairs(right: Mapping[str, str], broken: Mapping[str, str]) -> tuple[dict[str, str], ...]:
    """Returns the versions in which one part of a change is left: each run of differing lines or, where there are many,
    all in one function; empty for a change of one part."""
    parts = split_hunks(right, broken)
    grouped = separate_parts(right, broken) if len(parts) > MOST_HUNKS else []
    if len(grouped) > 1:
        parts = grouped
    return tuple(parts[:MOST_PARTS]) if len(parts) > 1 else ()


def return_constant(text: str, name: str, constant: str) -> str:
    """Returns the text with a function's body replaced by a constant; unchanged if it is missing or one line."""
    try:
        found = functions_of(text)
    except SourceError:
        return text
    for function in found:
        if function.name == name and function.body_line > function.def_line:
            lines = split_lines(text)
            first = lines[function.body_line - 1]
            indent = first[: len(first) - len(first.lstrip())]
            head = [*lines[function.line - 1 : function.body_line - 1], f"{indent}return {constant}\n"]
            made = "".join([*lines[: function.line - 1], *head, *lines[function.end_line :]])
            # The function alone is parsed faster; where its first line does not begin it, the whole text decides.
            alone = "".join(["if True:\n" if head[0][:1].isspace() else "", *head])
            return made if _is_program(alone) or _is_program(made) else text
    return text


def _is_program(text: str) -> bool:
    try:
        parse(text)
    except SourceError:
        return False
    return True


def _functions(text: str) -> list[tuple[str, int, int]]:
    try:
        return [(f.name, f.line, f.end_line) for f in functions_of(text)]
    except SourceError:
        return []


def find_causes(tests: Sequence[str], results: Sequence[JobResult]) -> dict[str, tuple[str, ...]]:
    """Returns the causes of each test's failure, from one run for each part; runs that hit their time limit are
    ignored. A test that only several parts together make fail has itself as its cause."""
    versions: dict[str, list[str]] = {test: [] for test in tests}
    for number, result in enumerate(results):
        now = merge_cases(result.tests) if result.ended == "done" else {}
        for test, causes in versions.items():
            passed = test in now and now[test].outcome not in ("failed", "error")
            if result.ended != "time" and not passed:
                causes.append(f"part {number}")
    return {test: tuple(causes) or (test,) for test, causes in versions.items()}
