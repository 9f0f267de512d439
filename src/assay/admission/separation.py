"""Findings on tasks whose right solutions stay below `separate` although the test script judges programs apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from assay.records import Evidence, SeparationFacts
from assay.verdicts import weakest

from .findings import AdmissionFinding

if TYPE_CHECKING:
    from .probe_results import ProbeResult

MAX_SHOWN = 3
PRINT_THE_SAME = (
    "let the solution print the same bytes in each run: no times, process numbers or temporary names, sets and "
    "folders sorted (the script may set `PYTHONHASHSEED=0`)"
)
FIX_CASES = "let the script ask the same cases in each run: write them out, or draw them from a fixed seed"


def read_reasons(facts: Iterable[Evidence]) -> tuple[str, ...]:
    """Returns why text of judged programs lowers the grade, by the evidence of kind `separation`; none if it is
    malformed."""
    reasons: list[str] = []
    for fact in facts:
        try:
            recorded = msgspec.convert(dict(fact.data), SeparationFacts)
        except msgspec.ValidationError:
            continue
        if recorded.reference_difference:
            reasons.append(recorded.reference_difference)
    return tuple(dict.fromkeys(reasons))


def separation_findings(task: str, oracles: Sequence[ProbeResult]) -> list[AdmissionFinding]:
    """Returns the finding on passing attempts of the reference solution whose grade their own text lowers."""
    lowered = [one for one in oracles if one.passed and one.lowered]
    if not lowered:
        return []
    reasons = list(dict.fromkeys(reason for one in lowered for reason in one.lowered))
    text = (
        f"right solutions stay at `{weakest(one.separation for one in lowered)}`, although programs are judged apart: "
        "a pass is `separate` only where these print what they print for the reference solution, and that is not "
        f"shown even for its own attempts: {_list(reasons)}. A run with `--require separate` accepts no pass"
    )
    return [
        AdmissionFinding(
            "separation-lowered",
            task,
            lowered[0].probe,
            "weak",
            text,
            (PRINT_THE_SAME, FIX_CASES),
            verification=lowered[0].verification,
            evidence=tuple(one.attempt for one in lowered),
        )
    ]


def _list(items: Sequence[str]) -> str:
    shown = "; ".join(item[:200] for item in items[:MAX_SHOWN])
    return f"{shown}; and {len(items) - MAX_SHOWN} more" if len(items) > MAX_SHOWN else shown
