"""Attempts that had more than one draw: begun again after they had acted, and then taken another way.

An attempt is begun again where infrastructure failed, or where its run was cut off and resumed. With a model that
samples, the new trial is another draw, and whoever can bring about the failure, or cuts off what goes badly, draws
until the result is good. Where the new trial repeats the acts of the earlier one, it is the same draw; where a damaged
record cannot show that, it is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.errors import StoreError
from assay.records import Trajectory

from .rows import AttemptRow, final_rows
from .run import RunStore


def redrawn_chains(store: RunStore, rows: Sequence[AttemptRow]) -> frozenset[str]:
    """Returns the chains, of deciding trials among the rows of a run, whose acts do not begin with those of every
    earlier trial."""
    later = {row.attempt: row for row in final_rows(rows)}
    earlier = [row for row in rows if not row.final and row.attempt in later]
    return frozenset(later[row.attempt].chain for row in earlier if not _repeats(store, later[row.attempt], row))


def _repeats(store: RunStore, later: AttemptRow, earlier: AttemptRow) -> bool:
    try:
        first, second = store.trajectory(earlier.chain), store.trajectory(later.chain)
    except StoreError:
        return False
    # An act that was cut off is on record without what it led to, and the new trial makes it, too.
    acts, acts_again = _acts(first), _acts(second)
    if acts != acts_again[: len(acts)]:
        return False
    used = {step.call for step in first.steps}
    replies, replies_again = _replies(first), _replies(second)
    return all(
        index < len(replies_again) and replies_again[index].reply == one.reply
        for index, one in enumerate(replies)
        if one.call not in used
    )


def _acts(trial: Trajectory) -> list[tuple[str, str | None, tuple[tuple[str, str], ...]]]:
    return [
        (one.actor, one.message, tuple((call.name, call.arguments) for call in one.tool_calls)) for one in trial.steps
    ]


class _Reply(NamedTuple):
    """A reply of the model, without what a server numbers."""

    call: str
    reply: dict[str, Any]


def _replies(trial: Trajectory) -> list[_Reply]:
    return [
        _Reply(one.id, {name: value for name, value in one.response.items() if name not in ("id", "created")})
        for one in trial.calls
        if one.response is not None
    ]
