"""The decisive step of a failed attempt, and who made it, by rules alone.

Each sign of `signs` speaks for the step that it is of; early steps weigh a little more, because an error that others
follow from comes first, and a run's first step, which restates its task, counts only where it acts. The step with the
most weight is named; of equals, the earliest.

When it misleads: often. An error of fact leaves no sign that a rule can see; see the accuracy on labelled runs in
docs/explanation/attribution.md. Where the environment can fork, replaying from each prefix
(`assay.rollout.rejudge.counterfactual`) is evidence; this is a place to begin reading.
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

__all__ = ["Attribution", "Candidate", "attribute", "attribute_by_replay", "candidates_of", "finding_of"]

EARLY: Final = 0.12
"""How much of its weight a sign loses with each step."""


class Candidate(msgspec.Struct, frozen=True):
    """A step that may be the decisive one."""

    step: int
    who: str
    weight: float
    signs: tuple[str, ...]


class Attribution(msgspec.Struct, frozen=True):
    """Where an attempt was lost."""

    step: int
    who: str
    label: Label
    method: str
    """`rules`, `alignment` or `counterfactual`."""
    reason: str
    candidates: tuple[Candidate, ...] = ()
    """All, the likeliest first."""


def attribute(trajectory: Trajectory) -> Attribution | None:
    """The decisive step of a failed trajectory by rules; None where no agent did anything.

    The outcome is not looked at: asked of an attempt that passed, it names the step that it would have failed by.
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
    """Blames the limit that cut an attempt: at its last step, whatever went wrong before."""
    last = next((s for s in reversed(trajectory.steps) if s.actor in ("agent", "other_agent")), trajectory.steps[-1])
    found = tuple(candidates_of(trajectory.steps))
    reason = f"the limit {limit} was met"
    label = Label("system", "llm_limit" if limit in ("tokens", "cost_usd", "calls") else "step_limit")
    return Attribution(last.index, who(last), label, "rules", reason, found)


def candidates_of(steps: tuple[Step, ...]) -> list[Candidate]:
    """All steps of agents by their weight; of equals the earliest first."""
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
    """Returns what replaying from each prefix showed (`assay.rollout.rejudge.counterfactual`), as an attribution.

    Args:
        trajectory: That was replayed.
        decisive: Position among the agent's steps of the last one before which it could still be won and after which
            it could not; None where there is none.
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
    """An attribution as a finding; it is a note, and counts against nobody."""
    return Finding(
        rule=f"decisive-step-by-{found.method}",
        family="attribution",
        severity="note",
        summary=f"the attempt was lost at step {found.step} by {found.who} ({found.label.module}: {found.label.mode}): "
        f"{found.reason}",
        steps=(found.step,),
        data={"who": found.who, "module": found.label.module, "mode": found.label.mode},
    )
