"""The report of `assay improve`."""

from __future__ import annotations

import msgspec

from assay.statistics import Estimate


class EvaluationPoint(msgspec.Struct, frozen=True):
    """Held-out success after a number of steps."""

    step: int
    success: float | None
    low: float | None
    high: float | None
    attempts: int
    run: str


class ImproveReport(msgspec.Struct, frozen=True):
    """Result of a training."""

    name: str
    seed: int
    before: EvaluationPoint
    """After the demonstrations, before the first step."""
    after: EvaluationPoint
    difference: Estimate
    """After minus before, task by task."""
    curve: tuple[EvaluationPoint, ...]
    accepted: bool
    """True if the gate accepts the model."""
    why: str
    model: str
    """Folder of the last checkpoint, as `local:FOLDER` takes it."""
    version: str
    """Version of its weights."""
    attempts: int
    """Attempts of all steps, including dropped ones."""
    seconds: float
    """Duration of this call, without earlier calls of a resumed training."""


def format_point(point: EvaluationPoint) -> str:
    """Returns the success of an evaluation with its interval, for a sentence."""
    if point.success is None:
        return "unknown: nothing was judged"
    return f"{point.success:.3f} [{point.low:.3f}, {point.high:.3f}] of {point.attempts}"
