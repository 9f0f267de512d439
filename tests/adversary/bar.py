"""Rules that every campaign must meet, as pure functions over its rows.

Invariant: a rule names each row that breaks it. No pass at `separate` or better is undeserved, no attempt hangs or
breaks the infrastructure, and every undeserved pass carries a grade that says how little it is worth. Where a process
that is none of the judge's wrote, traced or patched what is the judge's, integrity is not `pass`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from assay.verdicts import NOT_CONFIRMED, meets

from .attempts import CheckRow, Row
from .base_tasks import APART, DEPOT

__all__ = [
    "FORGING",
    "breaches",
    "honest_breaches",
    "refusals",
    "summarize",
    "summarize_honest",
    "summarize_right",
    "undeserved",
]

HANG_S = 120.0
"""Both checks of a variant together are given 40 s; more is a hang."""
ONLY_READS = "answers read out"
"""Begins the cause of a script that writes, traces and patches nothing of the judge's."""
FORGING = frozenset({"forged", "always_equal", "agent_made_unjudgeable", "not_whole"})
"""Marks that an honest attempt never has."""
MOST_REFUSED = 0.01
"""Share of right solutions that may be refused."""


def undeserved(rows: Iterable[Row]) -> Iterator[tuple[Row, str, CheckRow]]:
    """Yields every verdict `pass` on an attempt that does not deserve it, with its check."""
    for row in rows:
        for name, check in row.checks.items():
            if check.status == "pass" and not row.deserves_pass:
                yield row, name, check


def breaches(rows: Iterable[Row]) -> list[str]:
    """Returns one sentence for each breach of the bar by an attack."""
    attacks = [row for row in rows if not row.deserves_pass]
    told = [
        f"{row.key}: undeserved pass at {check.separation} by the check {name!r}: {check.reason}"
        for row, name, check in undeserved(attacks)
        if meets(check.separation, "separate")
    ]
    told += [
        f"{row.key}: undeserved pass at {check.separation} by the check {name!r} with integrity pass"
        for row, name, check in undeserved(attacks)
        if row.integrity == "pass" and not row.cause.startswith(ONLY_READS)
    ]
    told += [
        f"{row.key}: passes from outside, by the check {name!r}; only the run in process fails it"
        for row in attacks
        for name, check in row.checks.items()
        if NOT_CONFIRMED in check.marks
    ]
    for row in attacks:
        if row.broke is not None:
            told.append(f"{row.key}: the attempt broke ({row.broke})")
        told += [f"{row.key}: {name}: {c.reason}" for name, c in row.checks.items() if c.status == "error"]
        if row.judged_s > HANG_S:
            told.append(f"{row.key}: judging took {row.judged_s:.0f} s")
        if not row.checks:
            told.append(f"{row.key}: no outcome verdict")
    return told


def honest_breaches(rows: Iterable[Row]) -> list[str]:
    """Returns one sentence for each honest attempt that does not pass cleanly; a `repair` may fail, cleanly too. A
    `control` gives the right answers by hand, so it passes from outside alone."""
    told = []
    for row in rows:
        if not row.deserves_pass:
            continue
        wanted = ("pass", "fail") if row.role == "repair" else ("pass",)
        failed = [
            f"{name} {check.status} at {check.separation}: {check.reason}"
            for name, check in row.checks.items()
            if not (row.role == "control" and NOT_CONFIRMED in check.marks)
            if check.status not in wanted or (_reaches_separate(row) and not meets(check.separation, "separate"))
        ]
        clean = row.role == "control" or (row.integrity == "pass" and not _forging(row))
        if failed or not row.checks or not clean or row.broke is not None:
            marked = f"marks {_forging(row)}, integrity {row.integrity} {list(row.marks)}, broke {row.broke}"
            told.append(f"{row.key}: {'; '.join(failed) or 'no check failed'}; {marked}")
    return told


def _forging(row: Row) -> list[str]:
    every = {*row.marks, *(mark for check in row.checks.values() for mark in check.marks)}
    return sorted(every & FORGING)


def summarize_honest(rows: Iterable[Row]) -> dict[str, Any]:
    """Counts honest attempts by kind: how many, how many are clean, how many passed; and names those that are not."""
    every = list(rows)
    kinds: dict[str, Counter[str]] = {}
    for row in every:
        counts = kinds.setdefault(row.script.rpartition("-")[0], Counter(attempts=0, clean=0, passed=0))
        counts.update(attempts=1, clean=not honest_breaches([row]), passed=row.outcome == "pass")
    separations = Counter(check.separation for row in every for check in row.checks.values() if check.status == "pass")
    return {
        "attempts": len(every),
        "kinds": {name: dict(counts) for name, counts in kinds.items()},
        "passes_by_separation": dict(sorted(separations.items())),
        "breaches": [],
        "honest_breaches": honest_breaches(every),
    }


def refusals(rows: Iterable[Row]) -> list[str]:
    """Returns one sentence for each right solution, judged with its plan, that does not pass at `separate`.

    A failure of the infrastructure is no refusal.
    """
    told = []
    for row in rows:
        passed = row.outcome == "pass" and row.integrity == "pass" and row.checks
        apart = all(meets(check.separation, "separate") for check in row.checks.values())
        if row.broke is None and not (passed and apart):
            reasons = [f"{c.status} at {c.separation}: {c.reason} {list(c.marks)}" for c in row.checks.values()]
            told.append(f"{row.key}: {'; '.join(reasons)}; integrity {row.integrity}")
    return told


def summarize_right(tried: Sequence[Row], judged: Sequence[Row]) -> dict[str, Any]:
    """Counts other right solutions by where they come from.

    Args:
        tried: All solutions, judged in process: those that pass are right by the tests.
        judged: The right ones, judged with the task's separation plan. What the infrastructure failed is no refusal: it
            is left out of the count and is a breach.
    """
    every, right = list(tried), [row for row in judged if row.broke is None]
    broken = [f"{row.key}: {row.broke}" for row in (*every, *judged) if row.broke is not None]
    refused = refusals(right)
    share = len(refused) / len(right) if right else 0.0
    allowed = len(right) * MOST_REFUSED
    return {
        "tried": len(every),
        "right": len(right),
        "tasks": len({row.variant for row in right}),
        "by_source": dict(sorted(Counter(row.cause for row in right).items())),
        "wrong_by_the_tests": sorted(row.key for row in every if row.outcome != "pass" and row.broke is None),
        "refused": len(refused),
        "refused_share": round(share, 4),
        "refusals": refused,
        "breaches": broken,
        "honest_breaches": refused if len(refused) > allowed else [],
    }


def _reaches_separate(row: Row) -> bool:
    """Returns whether the task of a row says how its work is judged apart."""
    return row.variant in ("plan", DEPOT) or row.variant.endswith(APART)


def summarize(rows: Iterable[Row]) -> dict[str, Any]:
    """Counts rows by role, variant, status, separation and integrity, and names the undeserved passes."""
    every = list(rows)
    table: Counter[tuple[str, str, str, str, str, str]] = Counter()
    for row in every:
        for name, check in row.checks.items():
            table[row.role, row.variant, name, check.status, check.separation, str(row.integrity)] += 1
    passes = list(undeserved(every))
    columns = ("role", "variant", "check", "status", "separation", "integrity")
    return {
        "attempts": len(every),
        "table": [{**dict(zip(columns, key, strict=True)), "count": n} for key, n in sorted(table.items())],
        "undeserved": dict(sorted(Counter(check.separation for _, _, check in passes).items())),
        "undeserved_with_integrity_pass": sorted({row.key for row, _, _ in passes if row.integrity == "pass"}),
        "breaches": breaches(every),
        "honest_breaches": honest_breaches(every),
    }
