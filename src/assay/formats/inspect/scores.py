"""Converts Inspect's scores to verdicts: claims of the log, each with the score as evidence, edits included."""

from __future__ import annotations

import math
from typing import Any

from msgspec import structs

from assay.formats.inspect.chat import REST
from assay.formats.shared.round_trip_builder import RoundTripBuilder, objects_in
from assay.records import Trajectory, Verdict, VerdictAdded, VerdictStatus
from assay.verdicts import IMPORTED, is_imported

INVALIDATED, UNSCORED, EDITED = "invalidated", "unscored", "edited"
_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def as_number(value: Any) -> float | None:
    """Returns a score on Inspect's own scale (correct 1, partial 0.5, incorrect and no answer 0); else None."""
    if isinstance(value, str):
        try:
            found = _WORDS.get(value, _WORDS.get(value.lower()))
            value = float(value) if found is None else found
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def judge_scores(builder: RoundTripBuilder, scores: Any) -> None:
    """Adds evidence for each score, and a verdict for each that is in [0, 1].

    Other scores are evidence without a verdict; where no score gives one, the outcome is unknown.
    """
    is_judged = False
    unclear: list[Verdict] = []
    for name, score in scores.items() if isinstance(scores, dict) else ():
        held = score if isinstance(score, dict) else {"value": score}
        values = _values(str(name), held.get("value"))
        id_ = builder.add_evidence("reward", {"values": values, "scorer": str(name), REST: score})
        number = as_number(held.get("value"))
        base = Verdict(IMPORTED, "outcome", "unknown", None, "", (id_,), rewards=values)
        if number is not None and 0 <= number <= 1:
            status: VerdictStatus = "pass" if number >= 1 else "fail"
            marks = (IMPORTED, EDITED) if held.get("history") and isinstance(held["history"], list) else (IMPORTED,)
            _add_verdict(builder, base, status=status, score=number, reason=_reason(str(name), held), marks=marks)
            is_judged = True
        else:
            unclear.append(structs.replace(base, reason=f"score `{name}` is on no scale from 0 to 1"))
            builder.remark("scores", f"score `{name}` is {held.get('value')!r}"[:100] + ", on no scale from 0 to 1")
    nothing = [Verdict(IMPORTED, "outcome", "unknown", None, "Inspect recorded no score")]
    for verdict in [] if is_judged else unclear or nothing:
        _add_verdict(builder, verdict, marks=(IMPORTED, UNSCORED))


def _add_verdict(builder: RoundTripBuilder, verdict: Verdict, **named: Any) -> None:
    builder.add(VerdictAdded(structs.replace(verdict, **named)))


def _values(name: str, value: Any) -> dict[str, float]:
    if isinstance(value, dict):
        found = {f"{name}.{key}": as_number(item) for key, item in value.items()}
        return {key: number for key, number in found.items() if number is not None}
    number = as_number(value)
    return {} if number is None else {name: number}


def _reason(name: str, score: dict[str, Any]) -> str:
    said = f"score `{name}` is {score.get('value')!r} as recorded by Inspect"
    edit = next((e for e in reversed(objects_in(score.get("history"))) if e.get("provenance")), None)
    if edit is None or not isinstance(edit["provenance"], dict):
        return said
    who = edit["provenance"]
    return f"{said}, edited by {who.get('author')}" + (f": {who['reason']}" if who.get("reason") else "")


def judge_invalidation(builder: RoundTripBuilder, invalidation: Any) -> None:
    """Adds a failed integrity verdict for an invalidated sample."""
    if isinstance(invalidation, dict):
        who, why = invalidation.get("author"), invalidation.get("reason")
        reason = f"invalidated by {who}" + (f": {why}" if why else "")
        builder.add(VerdictAdded(Verdict(IMPORTED, "integrity", "fail", None, reason, marks=(IMPORTED, INVALIDATED))))


def is_own_verdict(trajectory: Trajectory, verdict: Verdict) -> bool:
    """Returns whether a verdict follows from a log's scores, their absence, or its invalidation."""
    if {INVALIDATED, UNSCORED} & set(verdict.marks):
        return True
    scores = {e.id for e in trajectory.evidence if REST in e.data and "scorer" in e.data}
    return is_imported(verdict.marks) and any(id_ in scores for id_ in verdict.evidence)


def visible_value(verdict: Verdict) -> str | float | None:
    """Returns a verdict as a score's value; None where it is neither pass nor fail."""
    if verdict.status not in ("pass", "fail"):
        return None
    if verdict.score is not None and 0 < verdict.score < 1:
        return verdict.score
    return "C" if verdict.status == "pass" else "I"
