"""Warns of a test script whose own text keeps right solutions below `separate`, although programs are judged apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from assay.records import Evidence, SeparationFacts
from assay.verdicts import weakest

from .findings import Finding

if TYPE_CHECKING:
    from .observed import Observed

__all__ = ["LoweredBy", "read_lowered", "separation_findings"]

MAX_SHOWN = 3
NAME_INPUTS = "list what judged programs may read under `inputs`, each program under `programs`"
COMPARE_TEXT = 'compare printed text as text (`[ "$got" = 7 ]`), or in a program under /tests that reads it as data'


class LoweredBy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ways in which printed text may have acted on the script, as in `SeparationFacts`."""

    unconfirmed_inputs: tuple[str, ...] = ()
    evaluations: tuple[str, ...] = ()


def read_lowered(facts: Iterable[Evidence]) -> LoweredBy | None:
    """Returns what the evidence of kind `separation` says; None where nothing lowers the grade. Malformed evidence
    grades `unknown` elsewhere and names no cause."""
    inputs: list[str] = []
    evaluations: list[str] = []
    for fact in facts:
        try:
            found = msgspec.convert(dict(fact.data), SeparationFacts)
        except msgspec.ValidationError:
            continue
        inputs += found.unconfirmed_inputs
        evaluations += found.evaluations
    if not inputs and not evaluations:
        return None
    return LoweredBy(tuple(dict.fromkeys(inputs)), tuple(dict.fromkeys(evaluations)))


def separation_findings(task: str, oracles: Sequence[Observed]) -> list[Finding]:
    """Returns the finding on the passing attempts of the reference solution whose grade the script lowers.

    Args:
        task: Id of the task.
        oracles: Ordinary attempts by the reference solution, under one verification.
    """
    lowered = [one for one in oracles if one.passed and one.lowered is not None]
    causes = [one.lowered for one in lowered if one.lowered is not None]
    inputs = list(dict.fromkeys(path for cause in causes for path in cause.unconfirmed_inputs))
    lines = list(dict.fromkeys(line for cause in causes for line in cause.evaluations))
    if not lowered:
        return []
    reasons, closed = [], []
    if inputs:
        reasons.append(f"it lends {_list(inputs)}, whose names may follow from what a judged program printed")
        closed.append(NAME_INPUTS)
    if lines:
        reasons.append(f"it evaluates text that a judged program may have printed: {_list(lines)}")
        closed.append(COMPARE_TEXT)
    text = (
        f"the script keeps right solutions at `{weakest(one.separation for one in lowered)}`, although its programs "
        f"are judged apart: {'; '.join(reasons)}. A run with `--require separate` accepts none of them"
    )
    return [
        Finding(
            "separation-lowered",
            task,
            lowered[0].probe,
            "weak",
            text,
            tuple(closed),
            verification=lowered[0].verification,
            evidence=tuple(one.attempt for one in lowered),
        )
    ]


def _list(items: Sequence[str]) -> str:
    shown = ", ".join(item[:120] for item in items[:MAX_SHOWN])
    return f"{shown} and {len(items) - MAX_SHOWN} more" if len(items) > MAX_SHOWN else shown
