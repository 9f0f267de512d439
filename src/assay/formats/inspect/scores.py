"""Converts Inspect's scores to verdicts: claims of the log, each with the score as evidence, edits included."""

from __future__ import annotations

import math
import statistics
from collections import Counter
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
    nothing = [Verdict(IMPORTED, "outcome", "unknown", None, "Inspect recorded no score")]
    for verdict in [] if is_judged else unclear:
        if verdict.rewards:
            builder.remark("scores", verdict.reason)
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


class ScoreTotals:
    """Accuracy and its standard error for each scorer, over the samples of a log that Inspect did not write."""

    def __init__(self) -> None:
        self._samples = 0
        self._values: dict[str, list[float]] = {}
        self._unscored: Counter[str] = Counter()

    def add(self, sample: dict[str, Any]) -> None:
        """Adds a sample's scores; those of an invalidated sample and of an unknown outcome count as unscored."""
        self._samples += 1
        scores = sample.get("scores")
        for name, score in scores.items() if isinstance(scores, dict) else ():
            value = as_number(score.get("value")) if isinstance(score, dict) else None
            values = self._values.setdefault(str(name), [])
            if value is None or sample.get("invalidation"):
                self._unscored[str(name)] += 1
            else:
                values.append(value)

    def results(self) -> dict[str, Any]:
        """Returns the log's `results`."""
        scores = [self._score(name, values) for name, values in self._values.items()]
        return {"total_samples": self._samples, "completed_samples": self._samples, "scores": scores}

    def _score(self, name: str, values: list[float]) -> dict[str, Any]:
        mean = sum(values) / len(values) if values else None
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
        known = {} if mean is None else {"accuracy": mean, "stderr": error}
        metrics = {metric: {"name": metric, "value": value, "params": {}} for metric, value in known.items()}
        counts = {"scored_samples": len(values), "unscored_samples": self._unscored[name]}
        return {"name": name, "scorer": name, "params": {}, "metrics": metrics, **counts}


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
