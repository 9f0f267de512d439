"""Order of an attempt's stages.

Source: AgentLens (arXiv 2605.12925), formulas in our own code. `coherence` and `workflow_similarity` are in
[0, 1], higher is better, and independent of the outcome.

Misleading: an attempt of one act or stage is perfectly coherent. Similarity to a reference rewards imitation. Thinking
is a stage (orchestrate), so an agent that thinks between acts backtracks each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from .alignment import lcs_ratio
from .stages import STAGES, Stage
from .states import State

Move = Literal["deepen", "pivot", "backtrack", "confirm"]
"""Transition of stages: to itself, later, earlier, or into orchestration."""
_RANK: dict[Stage, int] = {stage: rank for rank, stage in enumerate(STAGES)}
_FREE_REPEATS = 2


def moves(stages: Sequence[Stage]) -> Counter[Move]:
    """Counts the transitions between consecutive acts."""
    return Counter(_move(first, second) for first, second in pairwise(stages))


def _move(first: Stage, second: Stage) -> Move:
    if first == second:
        return "deepen"
    if second == "orchestrate":
        return "confirm"
    return "pivot" if _RANK[second] > _RANK[first] else "backtrack"


def retries(states: Sequence[State]) -> tuple[int, ...]:
    """Returns positions of blind retries: from the third on in a run of acts with one tool, file and stage."""
    found: list[int] = []
    length = 0
    for position, state in enumerate(states):
        same = position > 0 and _key(states[position - 1]) == _key(state)
        length = length + 1 if same else 1
        if length > _FREE_REPEATS:
            found.append(position)
    return tuple(found)


def _key(state: State) -> tuple[str, str, Stage]:
    return state.tool, state.file, state.stage


def coherence(states: Sequence[State]) -> float:
    """Returns the forward share of directed transitions times the share of transitions that are no blind retry.

    1 without directed transitions, or with fewer than two acts.
    """
    if len(states) < 2:
        return 1.0
    made = moves([state.stage for state in states])
    forward = made["pivot"] + made["confirm"]
    directed = forward + made["backtrack"]
    repeated = min(1.0, len(retries(states)) / (len(states) - 1))
    return (forward / directed if directed else 1.0) * (1.0 - repeated)


def workflow_similarity(stages: Sequence[Stage], reference: Sequence[Stage]) -> float:
    """Returns the LCS of two sequences of stages over the longer length."""
    return lcs_ratio(stages, reference)
