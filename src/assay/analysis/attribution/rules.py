"""Decisive step of a failed attempt, and its actor: by rules alone, or by comparison with attempts that passed.

Each sign of `signs` adds weight to its step; early steps weigh slightly more, because first errors cause later ones,
and the first step, which restates the task, counts only if it acts. The step with the most weight is named; ties go to
the earliest.

Unreliable: a factual error leaves no sign (accuracy on labelled runs: docs/explanation/attribution.md). If the
environment can fork, replaying from each prefix (`assay.rollout.rejudge.counterfactual`) is evidence; this is a hint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from assay.analysis.actors import who
from assay.analysis.alignment import align, equal_rows
from assay.analysis.interface import Action, Finding
from assay.analysis.states import State, states_of
from assay.records import Step, Trajectory

from .signs import SIGNS, Label, Sign, Watcher

MOST_ACTS: Final = 4_000
"""Maximum number of compared acts per attempt."""
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


def attribute_by_alignment(
    trajectory: Trajectory, actions: Sequence[Action], passed: Sequence[Sequence[Action]]
) -> Attribution | None:
    """Returns the decisive step of a failed attempt, given the acts of passing attempts at its task; None without
    either.

    Acts are compared as states (normalised operation and target). The passing attempt with the most in common is the
    reference; the first act after the last shared one is decisive, because nothing after it matches success. An earlier
    parting after which the attempts meet again is not decisive.

    Misleading for different solutions that share nothing: then the first act is named, with little weight (`shared`).
    """
    if not actions or not any(passed):
        return None
    mine = [_key(state) for state in states_of(actions[:MOST_ACTS])]
    shared, _, last = max((*_compared(mine, other), -n) for n, other in enumerate(passed) if other)[:3]
    at = min(last + 1, len(actions) - 1)
    named = {step.index: who(step) for step in trajectory.steps}
    step = actions[at].step
    reason = (
        f"{shared:.0%} of its acts are those of an attempt that passed, and after step {actions[last].step} none"
        if last >= 0
        else "it shares no act with any attempt that passed"
    )
    label = Label("planning", "inefficient_plan") if last >= 0 else Label("planning", "constraint_ignorance")
    candidate = Candidate(step, named.get(step, "agent"), round(shared, 6), ("leaves-the-passing-path",))
    return Attribution(step, candidate.who, label, "alignment", reason, (candidate,))


def _compared(mine: Sequence[tuple[str, ...]], other: Sequence[Action]) -> tuple[float, int, int]:
    """Returns the shared portion of the failed attempt's acts, their number, and the last position (-1 for none)."""
    theirs = [_key(state) for state in states_of(other[:MOST_ACTS])]
    pairs = align(np.array(list(equal_rows(mine, theirs))))
    return len(pairs) / len(mine), len(pairs), pairs[-1].left if pairs else -1


def _key(state: State) -> tuple[str, ...]:
    return (state.kind, state.tool, state.file, state.what)
