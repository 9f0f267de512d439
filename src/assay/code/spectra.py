"""Spectrum-based fault localization: suspiciousness of lines from coverage and test outcomes. Pure.

Counts per line: `ef` failing tests that ran it, `nf` failing tests that did not, `ep` passing tests that ran it. The
formula is Ochiai's, `ef / sqrt((ef + nf) * (ef + ep))` (Abreu, Zoeteweij and van Gemund, PRDC 2006).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Line(NamedTuple):
    path: str
    line: int


class CoverageRun(NamedTuple):
    """Outcome and covered lines of one test."""

    name: str
    failed: bool
    lines: frozenset[Line]


class Suspect(NamedTuple):
    """A line and its suspiciousness in [0, 1]."""

    line: Line
    score: float


def ochiai(ef: int, nf: int, ep: int) -> float:
    """Returns a value in [0, 1]; 1 where every failing test ran the line and no passing one did."""
    below = math.sqrt((ef + nf) * (ef + ep))
    return ef / below if below else 0.0


def rank(runs: Iterable[CoverageRun]) -> tuple[Suspect, ...]:
    """Returns every line that a failing test ran, most suspicious first; ties by path and line."""
    failing: dict[Line, int] = {}
    passing: dict[Line, int] = {}
    failed = 0
    for run in runs:
        counts = failing if run.failed else passing
        failed += run.failed
        for line in run.lines:
            counts[line] = counts.get(line, 0) + 1
    scored = [Suspect(line, ochiai(ef, failed - ef, passing.get(line, 0))) for line, ef in failing.items()]
    return tuple(sorted(scored, key=lambda s: (-s.score, s.line)))


def rank_of(suspects: Iterable[Suspect], lines: Iterable[Line]) -> float | None:
    """Returns the best rank (from 1) among `lines`; ties share their mean rank. None where none is listed."""
    listed = list(suspects)
    wanted = set(lines)
    best = max((s.score for s in listed if s.line in wanted), default=None)
    if best is None:
        return None
    above = sum(s.score > best for s in listed)
    tied = sum(s.score == best for s in listed)
    return above + (tied + 1) / 2


def covering_tests(
    runs: Iterable[CoverageRun], spans: Mapping[str, tuple[str, int, int]]
) -> dict[str, tuple[str, ...]]:
    """Returns, for each named span (path, first and last line), the tests that ran a line of it, in the order of
    `runs`.

    Use the span of a function's body, for `def` lines run on import.
    """
    by_path: dict[str, list[tuple[str, int, int]]] = {}
    for name, (path, first, last) in spans.items():
        by_path.setdefault(path, []).append((name, first, last))
    found: dict[str, dict[str, None]] = {name: {} for name in spans}
    for run in runs:
        for path, line in run.lines:
            for name, first, last in by_path.get(path, ()):
                if first <= line <= last:
                    found[name][run.name] = None
    return {name: tuple(tests) for name, tests in found.items()}
