"""Decides on a skill from the task counts of a trial's arms: pure, and the same for stored and simulated trials."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from assay.statistics import PairedComparison, TaskCount, compare_paired, decide_gate, format_p_value, sign_flip_test

from .records import RefusalCause

HARM_LEVEL = 0.05
"""Level of the one-sided test that the skill loses more tasks than it gains."""


class TrialDecision(NamedTuple):
    """The decision and its grounds."""

    accepted: bool
    causes: tuple[RefusalCause, ...]
    reasons: tuple[str, ...]
    p_none: float
    """One-sided, against no skill."""
    p_placebo: float | None
    """The same against the placebo; None without that arm."""


def decide_trial(
    none: Sequence[TaskCount],
    skill: Sequence[TaskCount],
    placebo: Sequence[TaskCount] | None,
    alpha: float,
    protected: Collection[str] = (),
) -> TrialDecision:
    """Accepts a skill that gains over no skill and over the placebo, each by the exact sign-flip test on tasks.

    Both tests must pass at `alpha`, so a skill without effect is accepted with a chance of at most `alpha`. A skill
    that loses tasks is refused as harmful, and so is one that loses a protected task.
    """
    against_none = compare_paired(none, skill)
    against_placebo = None if placebo is None else compare_paired(placebo, skill)
    causes, reasons = list[RefusalCause](), list[str]()
    p_harm = _p_gain(against_none, side=-1)
    if p_harm <= HARM_LEVEL:
        causes.append("harm")
        reasons.append(f"harmful: {_flips(against_none)} (one-sided p {format_p_value(p_harm, digits=3)} for a loss)")
    gate = decide_gate(against_none, protected)
    if gate.broken or gate.unseen:
        causes.append("protected")
        reasons += [f"protected task {one.task} fell from {one.before:.2f} to {one.after:.2f}" for one in gate.broken]
        reasons += [f"protected task {task} was not judged in both" for task in gate.unseen]
    p_none = _p_gain(against_none)
    if p_none > alpha:
        causes.append("no gain")
        reasons.append(f"no gain over no skill: {_flips(against_none)} ({_level(p_none, alpha)})")
    p_placebo = None if against_placebo is None else _p_gain(against_placebo)
    if against_placebo is not None and p_placebo is not None and p_placebo > alpha:
        causes.append("no gain over placebo")
        reasons.append(f"no gain over the placebo: {_flips(against_placebo)} ({_level(p_placebo, alpha)})")
    if not causes:
        rates = f"{against_none.before:.3f} without, {against_none.after:.3f} with"
        reasons.append(f"{rates}: {_flips(against_none)} ({_level(p_none, alpha)})")
    return TrialDecision(not causes, tuple(causes), tuple(reasons), p_none, p_placebo)


def _p_gain(pair: PairedComparison, side: int = 1) -> float:
    return sign_flip_test([side * (flip.after - flip.before) for flip in (*pair.gained, *pair.lost)])


def _flips(pair: PairedComparison) -> str:
    return f"{len(pair.gained)} tasks gained, {len(pair.lost)} lost"


def _level(p_value: float, alpha: float) -> str:
    return f"one-sided p {format_p_value(p_value, digits=4)}, level {alpha:.4g}"
