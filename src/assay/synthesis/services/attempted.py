"""Acts of an attempt at a task of services, compared with the plan: its acts, their order, and paired intents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from assay.environments.services.conversation import SEND
from assay.environments.services.plans import PlannedCall
from assay.records import Task, Trajectory, canonical_bytes

from .planned import PlannedTask
from .twins import PAIR, PairedAct

MOST_COMPARED: Final = 500
"""Acts of an attempt that are compared with the plan; further ones count as different."""
PairedOutcome = Literal["followed", "same act", "otherwise"]


class _Logged(msgspec.Struct, frozen=True):
    role: str
    action: str
    arguments: dict[str, Any]
    code: str | None


def acts_of(planned: PlannedTask, trajectory: Trajectory) -> tuple[PlannedCall, ...] | None:
    """Returns the agent's writes that the world accepted, by the world's log; None without a log."""
    facts = next((e.data.get("facts") for e in reversed(trajectory.evidence) if e.kind == "facts"), None)
    try:
        log = msgspec.convert(facts["calls"] if isinstance(facts, dict) else None, tuple[_Logged, ...])
    except (KeyError, msgspec.ValidationError):
        return None
    actions = planned.world.composition.actions
    return tuple(
        PlannedCall(one.action, one.arguments)
        for one in log
        if one.role == "agent" and one.code is None and one.action != SEND and _is_write(actions.get(one.action))
    )


def _is_write(action: Any) -> bool:
    return action is not None and not action.reads_only


def plan_fidelity(plan: Sequence[PlannedCall], acts: Sequence[PlannedCall]) -> float:
    """Returns 1 minus the edit distance of the acts to the plan's, as a share of the longer one; 1 if both are
    empty."""
    left, right = [_key(one) for one in plan], [_key(one) for one in acts[:MOST_COMPARED]]
    longest = max(len(left), len(acts))
    if not longest:
        return 1.0
    row = list(range(len(right) + 1))
    for at, one in enumerate(left, 1):
        above, row[0] = row[0], at
        for place, other in enumerate(right, 1):
            above, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, above + (one != other))
    return 1 - (row[-1] + max(0, len(acts) - len(right))) / longest


def _key(call: PlannedCall) -> bytes:
    return canonical_bytes([call.action, call.arguments])


def paired_act(task: Task) -> PairedAct | None:
    """Returns what the metadata of a task says of its pair; None of a task without one."""
    try:
        return msgspec.convert(task.metadata[PAIR], PairedAct)
    except (KeyError, TypeError, msgspec.ValidationError):
        return None


class PairSide(NamedTuple):
    """Which of the two acts of a pair an attempt made."""

    has_right: bool
    has_other: bool


def side_of(pair: PairedAct, acts: Sequence[PlannedCall]) -> PairSide:
    """Returns which of the pair's acts are among those of an attempt."""
    made = {_key(one) for one in acts}
    return PairSide(_key(pair.right) in made, _key(pair.other) in made)


def paired_outcome(first: PairSide, twin: PairSide) -> PairedOutcome:
    """Returns whether the acts changed with the instruction.

    `followed`: each attempt made the act that its instruction asks for, and not the other. `same act`: both made the
    same one of the two acts. `otherwise`: anything else, such as neither act.
    """
    if first == twin == PairSide(has_right=True, has_other=False):
        return "followed"
    same = (first.has_right, first.has_other) == (twin.has_other, twin.has_right) and any(first)
    return "same act" if same else "otherwise"
