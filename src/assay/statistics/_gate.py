"""Decides whether a candidate may replace a release, by task flips instead of two means.

The rule: no protected task may be lost; over all other tasks gains must outweigh losses by the exact one-sided sign
test (McNemar). After AgentDevel's flip-centred gate (published without numbers: the test and its level are our choice).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import msgspec

from ._paired import Flip, PairedComparison, format_p_value, sign_test
from ._summary import TaskCount


class GateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requirement on a candidate."""

    want: Literal["better", "not worse"] = "better"
    """`better`: gains must be significant. `not worse`: losses must not be."""
    alpha: float = 0.05
    tolerance: float = 0.0
    """A protected task is lost only if its rate falls by more than this: several attempts are noisy."""


class GateDecision(msgspec.Struct, frozen=True):
    """The decision and its grounds."""

    accepted: bool
    reasons: tuple[str, ...]
    """Reasons for the decision, the deciding one first."""
    broken: tuple[Flip, ...]
    """Protected tasks that were lost."""
    unseen: tuple[str, ...]
    """Protected tasks without a judged attempt on both sides, for which the candidate is refused."""
    gained: int
    lost: int
    """Over the tasks that are not protected."""
    p_value: float
    rule: GateRule


def count_undecided(counts: Iterable[TaskCount], as_status: Literal["passed", "failed"]) -> tuple[TaskCount, ...]:
    """Returns counts in which every attempt without a verdict passed, or failed.

    A gate counts those of the candidate as failed and those of the base as passed: a candidate that breaks its attempt
    where it would fail must not have that task left out of the comparison.
    """
    found = []
    for one in counts:
        changed = {as_status: getattr(one, as_status) + one.unknown + one.error, "unknown": 0, "error": 0}
        found.append(msgspec.structs.replace(one, **changed))
    return tuple(found)


def decide_gate(paired: PairedComparison, protected: Collection[str], rule: GateRule | None = None) -> GateDecision:
    """Decides on a candidate from its comparison with the base.

    Raises:
        ValueError: The rule's alpha is not in (0, 1), or its tolerance not in [0, 1].
    """
    rule = rule or GateRule()
    if not 0 < rule.alpha < 1:
        raise ValueError(f"alpha is between 0 and 1, got {rule.alpha}")
    if not 0 <= rule.tolerance <= 1:
        raise ValueError(f"tolerance is between 0 and 1, got {rule.tolerance}")
    protected_tasks = set(protected)
    broken = tuple(f for f in paired.lost if f.task in protected_tasks and f.before - f.after > rule.tolerance + 1e-12)
    unseen = tuple(sorted(protected_tasks - set(paired.tasks)))
    gained = sum(f.task not in protected_tasks for f in paired.gained)
    lost = sum(f.task not in protected_tasks for f in paired.lost)
    side: Literal["gain", "loss"] = "gain" if rule.want == "better" else "loss"
    p_value = sign_test(gained, lost, side)
    reasons = [f"protected task {f.task} fell from {f.before:.2f} to {f.after:.2f}" for f in broken]
    reasons += [f"protected task {task} was not judged in both" for task in unseen]
    known = format_p_value(p_value, digits=3)
    shown = f"one-sided p {known}" if known.startswith("<") else f"one-sided p = {known}"
    if rule.want == "better" and p_value > rule.alpha:
        why = "chance explains that" if gained > lost else "that is not a gain"
        reasons.append(f"{gained} gained and {lost} lost: {why} ({shown})")
    if rule.want == "not worse" and p_value <= rule.alpha:
        reasons.append(f"{lost} lost and {gained} gained: more than chance explains ({shown})")
    if not paired.n_tasks:
        reasons.append("no task was judged in both")
    accepted = not reasons
    if accepted:
        reasons = [f"{gained} gained, {lost} lost, no protected task lost ({shown})"]
    return GateDecision(accepted, tuple(reasons), broken, unseen, gained, lost, p_value, rule)
