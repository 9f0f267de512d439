"""Decisive step of a failed attempt by comparison with passing attempts at the same task.

Acts are compared as states (normalised operation and target). The passing attempt with the most in common is the
reference; the first act after the last shared one is decisive, because nothing after it matches success. An earlier
parting after which the attempts meet again is not decisive.

Misleading for different solutions that share nothing: then the first act is named, with little weight (`shared`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.analysis.actors import who
from assay.analysis.alignment import align, equal_rows
from assay.analysis.interface import Action
from assay.analysis.states import State, states_of
from assay.records import Trajectory

from .rules import Attribution, Candidate
from .taxonomy import Label

MOST_ACTS = 4_000
"""Maximum number of compared acts per attempt."""


def attribute_by_alignment(
    trajectory: Trajectory, actions: Sequence[Action], passed: Sequence[Sequence[Action]]
) -> Attribution | None:
    """Returns the decisive step of a failed attempt, given the acts of passing attempts at its task; None without
    either.
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
