"""May a candidate replace what is released? Decided by flips, not by two means.

The rule: no task of the protected set may be lost; over all other tasks gains must outweigh losses by the exact
one-sided sign test (McNemar). After AgentDevel's flip-centred gate (published without numbers: the test and its level
are our choice).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from ._paired import Flip, Paired, sign_test

__all__ = ["GateRule", "Ruling", "decide"]


class GateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a candidate has to show."""

    want: Literal["better", "not worse"] = "better"
    """`better`: gains must be more than chance explains. `not worse`: losses must not be."""
    alpha: float = 0.05
    tolerance: float = 0.0
    """How far a protected task's rate may fall and still not be lost: with several attempts each, noise moves it."""


class Ruling(msgspec.Struct, frozen=True):
    """The decision and what it rests on."""

    accepted: bool
    reasons: tuple[str, ...]
    """Why not, or what it was accepted for; the first is the one that decided."""
    broken: tuple[Flip, ...]
    """Protected tasks that were lost."""
    unseen: tuple[str, ...]
    """Protected tasks that were not judged in both: nobody knows, so the candidate is refused."""
    gained: int
    lost: int
    """Over the tasks that are not protected."""
    p_value: float
    rule: GateRule


def decide(paired: Paired, protected: Collection[str], rule: GateRule | None = None) -> Ruling:
    """Decides on a candidate from its comparison with the base.

    Raises:
        ValueError: The rule's level is no probability.
    """
    rule = rule or GateRule()
    if not 0 < rule.alpha < 1:
        raise ValueError(f"alpha is between 0 and 1, got {rule.alpha}")
    kept = set(protected)
    broken = tuple(f for f in paired.lost if f.task in kept and f.before - f.after > rule.tolerance + 1e-12)
    unseen = tuple(sorted(kept - set(paired.tasks)))
    gained = sum(f.task not in kept for f in paired.gained)
    lost = sum(f.task not in kept for f in paired.lost)
    side: Literal["gain", "loss"] = "gain" if rule.want == "better" else "loss"
    p_value = sign_test(gained, lost, side)
    reasons = [f"protected task {f.task} fell from {f.before:.2f} to {f.after:.2f}" for f in broken]
    reasons += [f"protected task {task} was not judged in both" for task in unseen]
    if rule.want == "better" and p_value > rule.alpha:
        why = "chance explains that" if gained > lost else "that is no gain"
        reasons.append(f"{gained} gained and {lost} lost: {why} (p = {p_value:.3f})")
    if rule.want == "not worse" and p_value <= rule.alpha:
        reasons.append(f"{lost} lost and {gained} gained: more than chance explains (p = {p_value:.3f})")
    if not paired.n_tasks:
        reasons.append("no task was judged in both")
    accepted = not reasons
    if accepted:
        reasons = [f"{gained} gained, {lost} lost, no protected task lost (p = {p_value:.3f})"]
    return Ruling(accepted, tuple(reasons), broken, unseen, gained, lost, p_value, rule)
