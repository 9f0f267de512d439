"""Rules that every campaign must meet, as pure functions over its rows.

Invariant: a rule names each row that breaks it. No pass at `separate` or better is undeserved, no attempt hangs or
breaks the infrastructure, and every undeserved pass carries a grade that says how little it is worth. Where a process
that is none of the judge's wrote, traced or patched what is the judge's, integrity is not `pass`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from assay.verdicts import meets

from .attempts import CheckRow, Row
from .base_tasks import APART, DEPOT

__all__ = ["FORGING", "breaches", "honest_breaches", "summarize", "undeserved"]

HANG_S = 120.0
"""Both checks of a variant together are given 40 s; more is a hang."""
ONLY_READS = "answers read out"
"""Begins the cause of a script that writes, traces and patches nothing of the judge's."""
FORGING = frozenset({"forged", "always_equal", "agent_made_unjudgeable", "not_whole"})
"""Marks that an honest attempt never has."""


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
    """Returns one sentence for each honest attempt that does not pass cleanly."""
    told = []
    for row in rows:
        if not row.deserves_pass:
            continue
        marks = {mark for check in row.checks.values() for mark in check.marks} & FORGING
        failed = [
            f"{name} {check.status} at {check.separation}: {check.reason}"
            for name, check in row.checks.items()
            if check.status != "pass" or (_reaches_separate(row) and not meets(check.separation, "separate"))
        ]
        clean = row.role == "control" or (row.integrity == "pass" and not marks)
        if failed or not row.checks or not clean or row.broke is not None:
            marked = f"marks {sorted(marks)}, integrity {row.integrity} {list(row.marks)}, broke {row.broke}"
            told.append(f"{row.key}: {'; '.join(failed) or 'all checks pass'}; {marked}")
    return told


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
