"""Mutation score of a verifier: the share of behaviour-changing mutants of the reference solution that it rejects.

A mutant *behaves differently* if the verifier rejects it, or if a visible test, a call with the same arguments or a
compared output file differs (see `differential`). A survivor without such evidence is *undecided*. It is *equivalent*
only with proof: identical compiled code or data.

The best case is the share over decided mutants; the worst case counts undecided ones as accepted wrongly.
"""

from __future__ import annotations

import random
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

from assay.agents.cheats.interface import Knowledge
from assay.code.source import SourceError, compiled_identity
from assay.statistics import Interval, wilson

from ._changes import ChangedFile, changed_files
from ._mutations import STRUCTURAL, Mutation, generate_mutations
from .findings import AdmissionFinding
from .rewrites import Rewrite, unified

_WORD = re.compile(r"\w+")
WEAK_BELOW = 0.9
"""A rejection rate whose whole interval lies below this is a finding."""


class MutantComparison(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of comparing a mutant with the solution, without the verifier."""

    behaviour: Literal["changed", "same", "undecided"]
    by: str = ""
    """`visible tests`, `calls`, `examples`, `programs`, `output`, `compiled code`, `canonical data`; empty: nothing
    compared."""
    witness: str = ""
    """Evidence of the difference: a test, or a call with both results."""
    looked: int = 0
    """Number of compared tests, calls or files."""


class MutantRow(msgspec.Struct, frozen=True):
    """A mutant and its result."""

    rewrite: Rewrite
    outcome: str | None
    """The verifier's: `pass`, `fail`, `unknown`, `error`; None where the attempt itself broke."""
    attempt: str | None = None
    comparison: MutantComparison | None = None
    """For survivors; None without a comparison."""


class Survivor(msgspec.Struct, frozen=True):
    """A mutant that passed."""

    name: str
    operator: str
    judgement: Literal["changed", "equivalent", "undecided"]
    diff: str
    by: str = ""
    witness: str = ""
    looked: int = 0
    attempt: str | None = None


class Sensitivity(msgspec.Struct, frozen=True):
    """Mutation results of one verifier. Without decided mutants the shares are None."""

    tried: int
    """Mutants that the verifier judged."""
    rejected: int
    """Judged, and not passed."""
    unclear: int
    """Rejected mutants with verdict `unknown` or `error`."""
    changed: int
    """Survivors shown to behave differently."""
    equivalent: int
    """Survivors proved to be the same program; left out of all shares."""
    undecided: int
    not_run: int
    """Attempts that broke; excluded from everything."""
    best: float | None
    """Share of rejected mutants if no undecided one behaves differently."""
    best_interval: Interval
    worst: float | None
    """Share of rejected mutants if every undecided one behaves differently."""
    worst_interval: Interval
    survivors: tuple[Survivor, ...]
    operators: dict[str, tuple[int, int]]
    """Operator to the numbers of judged and rejected mutants."""


class _Candidate(NamedTuple):
    mutation: Mutation
    file: ChangedFile


def mutants(knowledge: Knowledge, *, seed: int, most: int, verifier: str = "") -> tuple[Rewrite, ...]:
    """Samples at most `most` mutants of the solution, with distinct bytes or, in Python, distinct compiled code.

    Where there are more, whole pieces taken away come first, and the rest is drawn in turns from the operators, so that
    a common operator does not crowd out a rare one. Of an operator's mutants, those that change a number or a text
    which the verifier's files (`verifier`) do not name come first, and so do operators that have one: a verifier checks
    least what it never names. The same knowledge, seed and verifier give the same mutants.
    """
    files = changed_files(knowledge)
    candidates = _distinct(_Candidate(m, file) for file in files for m in generate_mutations(file))
    chosen = _spread(candidates, random.Random(f"{seed} mutants"), most, frozenset(_WORD.findall(verifier.casefold())))
    width = max(3, len(str(len(chosen))))
    return tuple(_rewrite(one, f"mutant.{n:0{width}d}") for n, one in enumerate(chosen, 1))


def _distinct(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Returns the first of identical candidates, without those identical to the solution, but always removals of whole
    pieces: the task may have been to write comments."""
    seen: set[tuple[str, Hashable]] = set()
    solved: set[str] = set()
    found = []
    for one in candidates:
        path, known = one.file.path, one.file.solution_file
        if path not in solved:
            solved.add(path)
            seen |= {(path, known.after), (path, _identity(one.file, known.after))}
        content = known.before if one.mutation.content is None else one.mutation.content
        same_bytes, same_code = (path, content), (path, _identity(one.file, content))
        if same_bytes not in seen and (one.mutation.operator in STRUCTURAL or same_code not in seen):
            found.append(one)
        seen |= {same_bytes, same_code}
    return found


def _identity(file: ChangedFile, content: bytes | None) -> Hashable:
    if file.role != "python" or content is None:
        return content
    try:
        return compiled_identity(content.decode())
    except (SourceError, UnicodeDecodeError):
        return content


def _spread(
    candidates: Sequence[_Candidate], draw: random.Random, most: int, named: frozenset[str]
) -> list[_Candidate]:
    def is_unnamed(one: _Candidate) -> bool:
        return bool(named) and not named >= set(_WORD.findall(one.mutation.literal.casefold()))

    kinds: dict[str, list[_Candidate]] = {}
    for one in candidates:
        kinds.setdefault(one.mutation.operator, []).append(one)
    order = [name for name in STRUCTURAL if name in kinds]
    rest = sorted(kinds.keys() - set(STRUCTURAL))
    draw.shuffle(rest)
    for name in [*order, *rest]:
        draw.shuffle(kinds[name])
        kinds[name].sort(key=is_unnamed)  # the last one is taken first
    rest.sort(key=lambda name: not is_unnamed(kinds[name][-1]))
    chosen: list[_Candidate] = []
    while len(chosen) < most and any(kinds.values()):
        for name in [*order, *rest]:
            if kinds[name] and len(chosen) < most:
                chosen.append(kinds[name].pop())
    return chosen


def _rewrite(one: _Candidate, name: str) -> Rewrite:
    path, known, content = one.file.path, one.file.solution_file, one.mutation.content
    after = known.before if content is None else content
    diff = unified({path: known.after}, {path: after})
    return Rewrite(name, "sensitivity", {path: content}, diff, one.mutation.operator)


def judge_mutants(rows: Iterable[MutantRow]) -> Sensitivity:
    """Counts results. `unknown` and `error` count as rejected, and separately as unclear."""
    ran = list(rows)
    judged = [row for row in ran if row.outcome is not None]
    survivors = tuple(_survivor(row) for row in judged if row.outcome == "pass")
    count = {name: sum(s.judgement == name for s in survivors) for name in ("changed", "equivalent", "undecided")}
    rejected = len(judged) - len(survivors)
    decided, all_open = rejected + count["changed"], rejected + count["changed"] + count["undecided"]
    operators: dict[str, tuple[int, int]] = {}
    for row in judged:
        tried, gone = operators.get(row.rewrite.operator, (0, 0))
        operators[row.rewrite.operator] = (tried + 1, gone + (row.outcome != "pass"))
    return Sensitivity(
        tried=len(judged),
        rejected=rejected,
        unclear=sum(row.outcome not in ("pass", "fail") for row in judged),
        not_run=len(ran) - len(judged),
        **count,
        best=rejected / decided if decided else None,
        best_interval=wilson(rejected, decided),
        worst=rejected / all_open if all_open else None,
        worst_interval=wilson(rejected, all_open),
        survivors=survivors,
        operators=dict(sorted(operators.items())),
    )


def _survivor(row: MutantRow) -> Survivor:
    seen, rewrite = row.comparison or MutantComparison("undecided"), row.rewrite
    words: dict[str, Literal["changed", "equivalent", "undecided"]] = {"changed": "changed", "same": "equivalent"}
    judgement = words.get(seen.behaviour, "undecided")
    return Survivor(
        rewrite.name, rewrite.operator, judgement, rewrite.diff, seen.by, seen.witness, seen.looked, row.attempt
    )


def sensitivity_findings(task: str, sensitivity: Sensitivity) -> tuple[AdmissionFinding, ...]:
    """Returns one finding for each survivor with changed behaviour, one for undecided survivors."""
    findings = [
        AdmissionFinding(
            kind="mutant-survived",
            task=task,
            probe=one.name,
            severity="weak",
            text=f"a changed solution passes ({one.operator}); {one.by} told it from the right one: {one.witness}",
            closed_by=("a test that tells the two apart",),
            evidence=tuple(part for part in (one.attempt, one.diff) if part),
        )
        for one in sensitivity.survivors
        if one.judgement == "changed"
    ]
    undecided = [one for one in sensitivity.survivors if one.judgement == "undecided"]
    if undecided:
        names = ", ".join(one.name for one in undecided[:8]) + (" ..." if len(undecided) > 8 else "")
        text = (
            f"{len(undecided)} of {sensitivity.tried} changed solutions pass and nothing told them from the right one: "
            f"read their differences ({names})"
        )
        evidence = tuple(one.diff for one in undecided[:8])
        findings.append(AdmissionFinding("mutants-undecided", task, None, "note", text, evidence=evidence))
    if sensitivity.best is not None and sensitivity.best_interval.high < WEAK_BELOW:
        low, high = sensitivity.best_interval
        text = f"the verifier rejects {sensitivity.best:.0%} of the changed solutions ({low:.0%} to {high:.0%}) at best"
        findings.append(AdmissionFinding("low-sensitivity", task, None, "weak", text, ("more tests",)))
    return tuple(findings)
