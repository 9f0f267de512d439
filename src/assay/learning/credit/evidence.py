"""Evidence-aware credit: unverified attempts are left out, and dishonest attempts never count as successes.

Ours; published methods use only a reward. For any estimator:

- an attempt whose outcome is `unknown`, `error` or `broke`, or was not judged, or has no reward, is left out: its turns
  are masked, and it is in no baseline. A reward of zero would penalise what could not be judged.
- an attempt whose integrity failed gets no positive credit at any turn, whatever the estimator says. Its pass counts as
  a fail, its reward as `failed_reward`, and nothing that it earned on the way counts before baselines are formed, so it
  neither lifts them above honest attempts nor escapes blame. With `dishonest="mask"` it is left out as the unknown ones
  are.
- a pass with unknown integrity (`unknown`, `error`) is left out, as elsewhere. A fail stays a fail. Passes without an
  integrity verdict count, unless `need_integrity=True`.

Turns are masked by attempt, so reasons count turns.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from .interface import FAIL, NOT_JUDGED, PASS, TURN_COLUMNS, UNKNOWN, Batch, Bools, Credit, Ints, Method


class CountedAttempts(NamedTuple):
    """How the attempts of a batch count."""

    batch: Batch
    """The batch without what dishonest attempts earned."""
    reasons: Any
    """Why each attempt is left out, as strings [A]; empty for used ones."""
    cheated: Bools
    """[A] used attempts whose integrity failed."""


def evidence_aware(
    method: Method,
    *,
    dishonest: Literal["fail", "mask"] = "fail",
    need_integrity: bool = False,
    failed_reward: float = 0.0,
) -> Method:
    """Wraps an estimator so that it uses verified, honest attempts only.

    Args:
        method: Any estimator.
        dishonest: What becomes of attempts whose integrity failed.
        need_integrity: Whether a pass must have passed an integrity verdict to be used.
        failed_reward: The reward that a dishonest attempt counts with.
    """

    def aware(batch: Batch, /, **options: Any) -> Credit:
        adjusted, reasons_by_attempt, cheated = count_attempts(
            batch, dishonest=dishonest, need_integrity=need_integrity, failed_reward=failed_reward
        )
        included, turns = subset(adjusted, reasons_by_attempt == "")
        estimated = method(included, **options)
        advantage = np.zeros(len(batch.attempt), dtype=np.float32)
        mask = np.zeros(len(batch.attempt), dtype=bool)
        advantage[turns], mask[turns] = estimated.advantage, estimated.mask
        withheld = cheated[batch.attempt] & (advantage > 0)
        advantage[withheld] = 0.0
        reasons = dict(estimated.reasons)
        turns_of = np.bincount(batch.attempt, minlength=len(reasons_by_attempt))
        for reason in np.unique(reasons_by_attempt[turns_of > 0]):
            if reason:
                reasons[str(reason)] = reasons.get(str(reason), 0) + int(turns_of[reasons_by_attempt == reason].sum())
        return Credit(advantage, mask, reasons)

    return aware


def count_attempts(
    batch: Batch,
    *,
    dishonest: Literal["fail", "mask"] = "fail",
    need_integrity: bool = False,
    failed_reward: float = 0.0,
) -> CountedAttempts:
    """Returns how attempts count before baselines are formed; the arguments are those of `evidence_aware`."""
    reasons = exclusion_reasons(batch, dishonest=dishonest, need_integrity=need_integrity)
    cheated = (batch.integrity == FAIL) & (reasons == "")
    adjusted = _without_reward(batch, cheated, failed_reward) if cheated.any() else batch
    return CountedAttempts(adjusted, reasons, cheated)


def _without_reward(batch: Batch, cheated: Bools, failed_reward: float) -> Batch:
    """Returns the batch with the rewards of the marked attempts [A] removed."""
    turns = cheated[batch.attempt]
    return batch._replace(
        outcome=np.where(cheated & (batch.outcome == PASS), FAIL, batch.outcome).astype(np.int8),
        reward=np.where(cheated, np.minimum(batch.reward, failed_reward), batch.reward),
        turn_reward=np.where(turns, np.minimum(batch.turn_reward, 0.0), batch.turn_reward),
        progress=None if batch.progress is None else np.where(turns, np.nan, batch.progress),
        without=None if batch.without is None else np.where(turns, np.nan, batch.without),
    )


def exclusion_reasons(
    batch: Batch, *, dishonest: Literal["fail", "mask"] = "fail", need_integrity: bool = False
) -> Any:
    """Returns the first reason to leave out each attempt, as strings [A]; empty for used ones."""
    found = np.full(len(batch.group), "", dtype="<U24")
    passed = batch.outcome == PASS
    rules: tuple[tuple[Bools, str], ...] = (
        (~passed & (batch.outcome != FAIL), "outcome not judged"),
        (np.isnan(batch.reward), "no reward"),
        ((batch.integrity == FAIL) & (dishonest == "mask"), "integrity failed"),
        (passed & (batch.integrity >= UNKNOWN), "integrity not known"),
        (passed & (batch.integrity == NOT_JUDGED) & need_integrity, "integrity not judged"),
    )
    for holds, reason in rules:
        found[(found == "") & holds] = reason
    # A sub-agent is nothing without who called it: down the calls, one level a round.
    called = np.flatnonzero(batch.parent >= 0)
    while (orphans := called[(found[called] == "") & (found[batch.parent[called]] != "")]).size:
        found[orphans] = "its caller is left out"
    return found


def subset(batch: Batch, selected: Bools) -> tuple[Batch, Ints]:
    """Returns the batch of the selected attempts [A], renumbered, and the indices [t] of its turns.

    A sub-agent that is kept without its caller has no parent in it.
    """
    if selected.all():
        return batch, np.arange(len(batch.attempt))
    number = np.where(selected, np.cumsum(selected) - 1, -1)
    turns = np.flatnonzero(selected[batch.attempt])
    parent = np.where(batch.parent >= 0, number[batch.parent], -1)[selected]
    columns: dict[str, Any] = {"parent": parent, "attempt": number[batch.attempt[turns]]}
    for name, column in batch._asdict().items():
        if name not in columns:
            places = turns if name in TURN_COLUMNS else selected
            columns[name] = None if column is None else column[places]
    return Batch(**columns), turns
