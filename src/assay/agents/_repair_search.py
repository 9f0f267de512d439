"""Search order of `repair`: most suspicious lines first, likely edits first, ties broken by the seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from assay.code.batches import JobResult
from assay.code.operators import Site, repair_candidates
from assay.code.source import SourceError
from assay.code.spectra import CoverageRun, Line, Suspect, rank

SUSPECTS = 80
"""Number of suspicious lines considered."""
RAISED, NAMED = 2.0, 1.5
"""Factor of suspicion of a line on an exception's traceback, or in the file named like the test file."""
# How likely a change of each kind takes one back: kinds with many alternatives at one place are less likely each.
LIKELIHOOD = {
    "comparison_swapped": 1.0, "comparison_boundary": 1.0, "boolean_swapped": 1.0, "arithmetic_swapped": 0.9,
    "negation_removed": 1.0, "condition_negated": 0.6, "constant_shifted": 0.6, "arguments_swapped": 0.8,
    "pair_swapped": 0.7, "flag_flipped": 0.9, "default_changed": 0.6, "end_index_swapped": 0.9, "bound_added": 0.6,
    "call_swapped": 0.8, "ternary_swapped": 0.9, "loop_exit_swapped": 0.9, "augmentation_changed": 0.9,
    "augmentation_added": 0.4, "exception_changed": 0.8, "variable_replaced": 0.45, "sign_added": 0.4,
}  # fmt: skip


class State(NamedTuple):
    """Results of the visible tests at one point of the search."""

    failed: frozenset[str]
    passed: frozenset[str]
    result: JobResult


class Edit(NamedTuple):
    path: str
    site: Site

    def describe(self) -> str:
        return f"{self.path} line {self.site.line}: {self.site.before[:60]!r} becomes {self.site.text[:60]!r}"


def state_of_run(result: JobResult) -> State:
    failed = frozenset(t for t, r in result.tests.items() if r.outcome in ("failed", "error"))
    return State(failed, frozenset(t for t, r in result.tests.items() if r.outcome == "passed"), result)


def has_failures(state: State) -> bool:
    """Returns whether tests show anything to repair."""
    return bool(state.failed or state.result.problems or state.result.ended != "done")


def rank_suspects(state: State, rng: random.Random) -> tuple[Suspect, ...]:
    """Ranks the program's lines (not its tests') by Ochiai suspiciousness. A spectrum of few tests ties over whole call
    trees: lines on an exception's traceback and in the file named like the failing test file come first, other ties are
    drawn."""
    runs = []
    for test, files in state.result.covered.items():
        if test in state.failed or test in state.passed:
            lines = (Line(path, n) for path, numbers in files.items() if not _is_test(path) for n in numbers)
            runs.append(CoverageRun(test, test in state.failed, frozenset(lines)))
    raised = {Line(*frame) for test in state.failed for frame in state.result.tests[test].frames}
    named = {_name(test.partition("::")[0]).removeprefix("test_") for test in state.failed}
    ranked = list(rank(runs))
    rng.shuffle(ranked)
    sharp = [
        Suspect(line, score * (RAISED if line in raised else 1.0) * (NAMED if _name(line.path) in named else 1.0))
        for line, score in ranked
    ]
    return tuple(sorted(sharp, key=lambda suspect: -suspect.score)[:SUSPECTS])


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py" or "/tests/" in path


def likelihoods_of(rules: Mapping[str, float]) -> dict[str, float]:
    """Returns `LIKELIHOOD` with the factors of a skill's rules, whose patterns are operators with spaces for `_`."""
    given = {name: rules[name.replace("_", " ")] for name in LIKELIHOOD if name.replace("_", " ") in rules}
    return LIKELIHOOD | given


def rank_edits(
    ranked: Sequence[Suspect],
    texts: Mapping[str, str],
    tried: set[tuple[str, str]],
    rng: random.Random,
    likelihoods: Mapping[str, float] = LIKELIHOOD,
) -> list[Edit]:
    """Ranks every edit of the suspicious lines that is not in `tried` (path and edit), most promising first."""
    scores = {suspect.line: suspect.score for suspect in ranked}
    found: list[tuple[float, Edit]] = []
    for path in sorted(texts):
        lines = {line.line for line in scores if line.path == path}
        try:
            sites = repair_candidates(texts[path], lines)
        except SourceError:
            continue
        for site in sites:
            score = scores[Line(path, site.line)] * likelihoods.get(site.operator, 0.5) * rng.uniform(0.6, 1.4)
            if (path, _site_key(site)) not in tried:
                found.append((score, Edit(path, site)))
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    return [edit for _, edit in found]


def _site_key(site: Site) -> str:
    return f"{site.start}:{site.end}:{site.text}"


def edit_key(edit: Edit) -> tuple[str, str]:
    """Returns the key of an edit in `tried`; clear `tried` after a file has changed."""
    return edit.path, _site_key(edit.site)
