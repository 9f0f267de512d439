"""Spectrum-based fault localization: suspiciousness of lines from coverage and test outcomes. Pure.

Counts per line: `ef` failing tests that ran it, `nf` failing tests that did not, `ep` passing tests that ran it, `np`
passing tests that did not.

Ochiai is `ef / sqrt((ef + nf) * (ef + ep))` (Abreu, Zoeteweij and van Gemund, PRDC 2006). Tarantula is `(ef/F) / (ef/F
+ ep/P)` with F and P the numbers of failing and passing tests (Jones and Harrold, ASE 2005). DStar is `ef**2 / (ep +
nf)` (Wong, Debroy, Gao and Li, IEEE Transactions on Reliability 2014, with its star at 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
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
    """A line and its suspiciousness: at least 0; the maximum depends on the formula (infinite for DStar)."""

    line: Line
    score: float


def ochiai(ef: int, nf: int, ep: int, np: int) -> float:  # noqa: ARG001 - one signature for all formulas
    """Returns a value in [0, 1]; 1 where every failing test ran the line and no passing one did."""
    below = math.sqrt((ef + nf) * (ef + ep))
    return ef / below if below else 0.0


def tarantula(ef: int, nf: int, ep: int, np: int) -> float:
    """Returns a value in [0, 1]; 1 where no passing test ran the line."""
    failed = ef / (ef + nf) if ef + nf else 0.0
    passed = ep / (ep + np) if ep + np else 0.0
    return failed / (failed + passed) if failed + passed else 0.0


def dstar(ef: int, nf: int, ep: int, np: int) -> float:  # noqa: ARG001 - one signature for all formulas
    """At least 0; infinite where every failing test ran the line and no passing one did."""
    if not ef:
        return 0.0
    return ef**2 / (ep + nf) if ep + nf else math.inf


Formula = Callable[[int, int, int, int], float]
FORMULAS: dict[str, Formula] = {"ochiai": ochiai, "tarantula": tarantula, "dstar": dstar}


def rank(runs: Iterable[CoverageRun], formula: Formula = ochiai) -> tuple[Suspect, ...]:
    """Returns every line that a failing test ran, most suspicious first; ties by path and line."""
    failing: dict[Line, int] = {}
    passing: dict[Line, int] = {}
    failed = passed = 0
    for run in runs:
        counts = failing if run.failed else passing
        failed, passed = failed + run.failed, passed + (not run.failed)
        for line in run.lines:
            counts[line] = counts.get(line, 0) + 1
    scored = [
        Suspect(line, formula(ef, failed - ef, passing.get(line, 0), passed - passing.get(line, 0)))
        for line, ef in failing.items()
    ]
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
