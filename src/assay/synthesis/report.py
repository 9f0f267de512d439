"""Report of making tasks: the number of candidates that ended at each gate, and the accepted tasks."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from assay.code.source import SourceError, functions, parse
from assay.code.spectra import CoverageRun, Line, rank, rank_of
from assay.verify.calls import ReleaseUse, call_plans

from ._candidates import TaskCandidate
from ._gates import GATES, GateOutcome, normalise_message
from ._reference import Reference
from ._split import Split
from ._tree import SourceTree

_NUMBER = re.compile(r"[0-9]{1,18}")


class GateRow(msgspec.Struct, frozen=True):
    """One gate of the table."""

    gate: str
    demand: str
    ended: dict[str, int]
    """Kind of candidate to how many ended here."""

    @property
    def total(self) -> int:
        """Returns the number over all kinds."""
        return sum(self.ended.values())


class ManifestEntry(msgspec.Struct, frozen=True):
    """One kept task, as in `manifest.json`."""

    id: str
    digest: str
    """The task folder's content address."""
    candidate: str
    kind: str
    operators: tuple[str, ...]
    functions: tuple[str, ...]
    lines: tuple[tuple[str, int], ...]
    """Changed lines of the unbroken text."""
    visible: tuple[str, ...]
    hidden: tuple[str, ...]
    also: tuple[str, ...]
    """Tests that have to go on passing."""
    split: str
    """`tests`, or `cut` for a reproduction."""
    difficulty: dict[str, float]
    separation: dict[str, int] = {}
    """Method of judging to the number of cases: `splice` and `calls` of those that decide, `guard` of those that are
    spliced and only have to pass, `in-process` of the others; empty where that was not looked at."""
    releases: dict[str, ReleaseUse] | None = None
    """Other releases that were given, and what each gave, as in `CallPlan.releases_given`; None where no test is
    judged by calls."""


class DroppedCandidate(msgspec.Struct, frozen=True):
    """One candidate that did not become a task, as in `manifest.json`."""

    candidate: str
    """Digest of the change; of a commit that was not tried, the commit's name."""
    kind: str
    operators: tuple[str, ...]
    """Operators of the change, or `commit` with the beginning of the commit's name."""
    functions: tuple[str, ...]
    lines: tuple[tuple[str, int], ...]
    """Changed lines of the unbroken text."""
    gate: str
    """Gate at which it ended."""
    reason: str


class ReasonCount(NamedTuple):
    """How many candidates ended at a gate for one reason, with the first of them."""

    gate: str
    reason: str
    candidates: int
    first: DroppedCandidate


class SynthesisReport(msgspec.Struct, frozen=True):
    """The whole, as in `manifest.json`."""

    source: str
    source_digest: str
    kind: str
    seed: int
    requirements: tuple[str, ...]
    test_files: int
    tests: int
    functions: int
    """Functions that tests run, the too central ones left out."""
    candidates: int
    table: tuple[GateRow, ...]
    left_out: dict[str, str]
    """Test files and tests that were not used, with the reason."""
    tasks: tuple[ManifestEntry, ...]
    kept: int = 0
    not_separate: int = 0
    """Candidates that passed the gates before and were dropped for want of a separate test."""
    dropped: tuple[DroppedCandidate, ...] = ()
    """Candidates that did not become tasks, in the order in which they were tried; rejected commits first."""

    @property
    def separation(self) -> dict[str, int]:
        """Returns, over all kept tasks, how many cases each method of judging carries."""
        counts: Counter[str] = Counter()
        for task in self.tasks:
            counts.update(task.separation)
        return dict(sorted(counts.items()))

    @property
    def release_counts(self) -> dict[str, dict[str, int]]:
        """Returns, for each other release, how many tasks that are judged by calls use it in which way."""
        counts: dict[str, Counter[str]] = {}
        for task in self.tasks:
            for name, use in (task.releases or {}).items():
                counts.setdefault(name, Counter())[use] += 1
        return {name: dict(sorted(uses.items())) for name, uses in sorted(counts.items())}

    def release_sentences(self) -> tuple[str, ...]:
        """Returns sentences about the use of other releases; empty if no task is judged by calls."""
        called = sum(task.releases is not None for task in self.tasks)
        if not called:
            return ()
        if not self.release_counts:
            return (f"{called} tasks are judged by calls, compared with no other release: none was given",)
        return tuple(
            f"{name} and the {called} tasks judged by calls: " + ", ".join(f"{n} {use}" for use, n in uses.items())
            for name, uses in self.release_counts.items()
        )

    def markdown(self) -> str:
        """Returns the gate table as Markdown."""
        kinds = sorted({kind for row in self.table for kind in row.ended})
        head = f"| gate | demand | {' | '.join(kinds)} | all |\n|---|---|{'---:|' * (len(kinds) + 1)}\n"
        lines = [
            f"| {r.gate} | {r.demand} | {' | '.join(str(r.ended.get(k, 0)) for k in kinds)} | {r.total} |\n"
            for r in self.table
        ]
        return head + "".join(lines)


def list_dropped(ended: Iterable[tuple[TaskCandidate, GateOutcome]]) -> tuple[DroppedCandidate, ...]:
    """Returns the candidates that were not kept, in order."""
    return tuple(
        DroppedCandidate(
            candidate=one.digest,
            kind=one.kind,
            operators=one.operators,
            functions=one.functions,
            lines=one.lines,
            gate=outcome.gate,
            reason=" ".join(normalise_message(outcome.reason).split()),
        )
        for one, outcome in ended
        if outcome.gate != "kept"
    )


def count_reasons(dropped: Iterable[DroppedCandidate]) -> list[ReasonCount]:
    """Counts candidates by gate and reason: in the order of the gates, the most frequent reason of each first.

    Reasons that differ in numbers alone are one; it has the range of each number.
    """
    alike: dict[tuple[str, tuple[str, ...]], list[DroppedCandidate]] = {}
    for one in dropped:
        alike.setdefault((one.gate, tuple(_NUMBER.split(one.reason))), []).append(one)
    order = list(GATES)
    counts = [
        ReasonCount(gate, _common_reason(words, [one.reason for one in found]), len(found), found[0])
        for (gate, words), found in alike.items()
    ]
    return sorted(counts, key=lambda one: (order.index(one.gate), -one.candidates))


def _common_reason(words: Sequence[str], reasons: Sequence[str]) -> str:
    """Returns reasons that have these words between their numbers as one."""
    numbers = zip(*(map(int, _NUMBER.findall(reason)) for reason in reasons), strict=True)
    spans = [(min(column), max(column)) for column in numbers]
    ranges = [f"{low}" if low == high else f"{low} to {high}" for low, high in spans]
    return "".join(itertools.chain.from_iterable(itertools.zip_longest(words, ranges, fillvalue="")))


def count_methods(outcome: GateOutcome) -> dict[str, int]:
    """Returns how many cases each method of judging carries, as in `ManifestEntry.separation`."""
    tests = outcome.plan.tests if outcome.plan is not None else ()
    names = ("guard" if test.method == "splice" and not test.decides else test.method for test in tests)
    return dict(sorted(Counter(names).items()))


def release_uses(outcome: GateOutcome) -> dict[str, ReleaseUse] | None:
    """Returns the other releases of a task's call plans, as in `ManifestEntry.releases`."""
    plans = call_plans(outcome.plan)
    return {name: use for plan in plans for name, use in (plan.releases_given or {}).items()} if plans else None


def gate_table(ended: Iterable[tuple[TaskCandidate, GateOutcome]]) -> tuple[GateRow, ...]:
    """Counts candidates of each kind by the gate where they ended; the last row counts the accepted ones."""
    counts: dict[str, Counter[str]] = {}
    for one, outcome in ended:
        counts.setdefault(outcome.gate, Counter())[one.kind] += 1
    rows = [GateRow(gate, demand, dict(sorted(counts.get(gate, {}).items()))) for gate, demand in GATES.items()]
    return (*rows, GateRow("kept", "passed all gates", dict(sorted(counts.get("kept", {}).items()))))


def difficulty(
    tree: SourceTree, reference: Reference, one: TaskCandidate, outcome: GateOutcome, parts: Split
) -> dict[str, float]:
    """Returns static difficulty measures: sizes, and the rank of the changed lines by spectrum-based fault
    localisation. A commit has no spectrum: the reference's lines are those of another text."""
    runs = [
        CoverageRun(
            test,
            test in outcome.flipped,
            frozenset(Line(p, n) for p, lines in reference.covered.get(test, {}).items() for n in lines),
        )
        for test in (*outcome.flipped, *outcome.passing)
    ]
    found: dict[str, float] = {
        "edits": len(one.lines),
        "files": len(one.changes),
        "covering_tests": len(outcome.flipped) + len(outcome.passing),
        "failing_tests": len(outcome.flipped),
        "visible_tests": len(parts.visible),
    }
    if one.kind != "commit":
        suspects = rank(runs)
        found["suspects"] = len(suspects)
        best = rank_of(suspects, [Line(*line) for line in one.lines])
        if best is not None:
            found["suspiciousness_rank"] = best
    sizes = [_size(tree, one, key) for key in one.functions]
    for name in ("statements", "complexity", "file_lines"):
        found[name] = max((size.get(name, 0.0) for size in sizes), default=0.0)
    return found


def _size(tree: SourceTree, one: TaskCandidate, key: str) -> dict[str, float]:
    path, _, name = key.partition("::")
    try:
        program = parse(one.base.get(path) or tree.files[path].decode())
    except (SourceError, KeyError, UnicodeDecodeError):
        return {}
    for function in functions(program):
        if function.name == name:
            return {
                "statements": function.statements,
                "complexity": function.complexity,
                "file_lines": len(program.lines),
            }
    return {}
