"""Decisive step of a failed attempt, and its actor, by rules alone.

Each sign of `signs` adds weight to its step; early steps weigh slightly more, because first errors cause later ones,
and the first step, which restates the task, counts only if it acts. The step with the most weight is named; ties go to
the earliest.

Unreliable: a factual error leaves no sign (accuracy on labelled runs: docs/explanation/attribution.md). If the
environment can fork, replaying from each prefix (`assay.rollout.rejudge.counterfactual`) is evidence; this is a hint.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from assay.analysis.actors import who
from assay.analysis.interface import Finding
from assay.records import Step, Trajectory

from .signs import SIGNS, Sign, Watcher
from .taxonomy import Label

EARLY: Final = 0.12
"""Loss of a sign's weight per step."""


class Candidate(msgspec.Struct, frozen=True):
    """Candidate for the decisive step."""

    step: int
    who: str
    weight: float
    signs: tuple[str, ...]


class Attribution(msgspec.Struct, frozen=True):
    """Attribution of a failure."""

    step: int
    who: str
    label: Label
    method: str
    """`rules`, `alignment` or `counterfactual`."""
    reason: str
    candidates: tuple[Candidate, ...] = ()
    """All candidates, the likeliest first."""


def attribute(trajectory: Trajectory) -> Attribution | None:
    """Returns the decisive step of a failed trajectory by rules; None without agent steps.

    The outcome is ignored.
    """
    ended = trajectory.finished
    if ended is not None and ended.stopped is not None and trajectory.steps:
        return _stopped(trajectory, ended.stopped)
    found = candidates_of(trajectory.steps)
    if not found:
        return None
    first = found[0]
    strongest = max(first.signs, key=lambda name: SIGNS[name].weight, default=None)
    label = SIGNS[strongest].label if strongest else Label("others", "other")
    reason = "; ".join(SIGNS[name].means for name in first.signs) or "no sign speaks for any step: the first that acts"
    return Attribution(first.step, first.who, label, "rules", reason, tuple(found))


def _stopped(trajectory: Trajectory, limit: str) -> Attribution:
    """Blames the last step of an attempt cut by a limit, whatever went wrong before."""
    last = next((s for s in reversed(trajectory.steps) if s.actor in ("agent", "other_agent")), trajectory.steps[-1])
    found = tuple(candidates_of(trajectory.steps))
    reason = f"the limit {limit} was met"
    label = Label("system", "llm_limit" if limit in ("tokens", "cost_usd", "calls") else "step_limit")
    return Attribution(last.index, who(last), label, "rules", reason, found)


def candidates_of(steps: tuple[Step, ...]) -> list[Candidate]:
    """Returns all agent steps by decreasing weight; ties go to the earliest."""
    watcher = Watcher()
    signs: defaultdict[int, list[Sign]] = defaultdict(list)
    for step in steps:
        for sign in watcher.see(step):
            signs[sign.step].append(sign)
    acting = [step for step in steps if step.actor in ("agent", "other_agent")]
    found = [_candidate(step, position, signs[step.index]) for position, step in enumerate(acting)]
    return sorted(found, key=lambda candidate: (-candidate.weight, candidate.step))


def _candidate(step: Step, position: int, signs: list[Sign]) -> Candidate:
    names = tuple(dict.fromkeys(sign.kind for sign in signs))
    weight = sum(SIGNS[name].weight for name in names) * max(0.2, 1 - EARLY * position)
    return Candidate(step.index, who(step), round(weight, 6), names)


def attribute_by_replay(trajectory: Trajectory, decisive: int | None) -> Attribution | None:
    """Returns the attribution that follows from replays of each prefix (`assay.rollout.rejudge.counterfactual`).

    `decisive` is the position among the agent's steps of the last one before which the attempt could still be won and
    after which it could not; None without one.
    """
    acting = [step for step in trajectory.steps if step.actor == "agent"]
    if decisive is None or not 0 <= decisive < len(acting):
        return None
    step = acting[decisive]
    signs = next(one for one in candidates_of(trajectory.steps) if one.step == step.index).signs
    strongest = max(signs, key=lambda name: SIGNS[name].weight, default=None)
    label = SIGNS[strongest].label if strongest else Label("action", "misalignment")
    reason = "another agent that went on from before it passed, and from after it none did"
    return Attribution(step.index, who(step), label, "counterfactual", reason)


def finding_of(found: Attribution) -> Finding:
    """Converts an attribution to a finding with severity `note`."""
    return Finding(
        rule=f"decisive-step-by-{found.method}",
        family="attribution",
        severity="note",
        summary=f"the attempt was lost at step {found.step} by {found.who} ({found.label.module}: {found.label.mode}): "
        f"{found.reason}",
        steps=(found.step,),
        data={"who": found.who, "module": found.label.module, "mode": found.label.mode},
    )
