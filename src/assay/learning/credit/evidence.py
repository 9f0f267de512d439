"""Evidence-aware credit: what was not verified trains nobody, and what was not honest is no success.

Ours; no published method looks at more than a reward. Around any estimator:

- an attempt whose outcome is `unknown`, `error` or `broke`, or was not judged, or has no reward, is left out: its turns
  are masked, and it is no part of any baseline. Zero in its place would teach that what nobody could judge is bad.
- an attempt whose integrity failed gets no positive credit at any turn, whatever the estimator says. Its pass counts as
  a fail, its reward as `failed_reward`, and nothing that it earned on the way counts before baselines are formed, so it
  neither lifts them above honest attempts nor escapes blame. With `dishonest="mask"` it is left out as the unknown ones
  are.
- a pass whose integrity was looked at and could not be told (`unknown`, `error`) is left out, as everywhere else such a
  pass is not taken for one. A fail stays a fail. Where nobody looked at integrity, passes count;
  `need_integrity=True` leaves those out too.

Turns are masked by attempt, so reasons count turns.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .interface import FAIL, NOT_JUDGED, PASS, UNKNOWN, Batch, Bools, Credit, Ints, Method

__all__ = ["evidence_aware", "judged", "subset"]

_OF_ATTEMPTS = ("group", "reward", "outcome", "integrity", "final_value", "final_state")


def evidence_aware(
    method: Method,
    *,
    dishonest: Literal["fail", "mask"] = "fail",
    need_integrity: bool = False,
    failed_reward: float = 0.0,
) -> Method:
    """The same estimator, of verified and honest attempts.

    Args:
        method: Any estimator.
        dishonest: What becomes of attempts whose integrity failed.
        need_integrity: Whether a pass must have passed an integrity verdict to be used.
        failed_reward: The reward that a dishonest attempt counts with.
    """

    def aware(batch: Batch, /, **options: Any) -> Credit:
        out = judged(batch, dishonest=dishonest, need_integrity=need_integrity)
        cheated = (batch.integrity == FAIL) & (out == "")
        believed = _discredited(batch, cheated, failed_reward) if cheated.any() else batch
        used, turns = subset(believed, out == "")
        given = method(used, **options)
        advantage = np.zeros(len(batch.attempt), dtype=np.float32)
        mask = np.zeros(len(batch.attempt), dtype=bool)
        advantage[turns], mask[turns] = given.advantage, given.mask
        withheld = cheated[batch.attempt] & (advantage > 0)
        advantage[withheld] = 0.0
        reasons = dict(given.reasons)
        turns_of = np.bincount(batch.attempt, minlength=len(out))
        for reason in np.unique(out[turns_of > 0]):
            if reason:
                reasons[str(reason)] = reasons.get(str(reason), 0) + int(turns_of[out == reason].sum())
        return Credit(advantage, mask, reasons)

    return aware


def _discredited(batch: Batch, cheated: Bools, failed_reward: float) -> Batch:
    """The batch in which what the attempts marked [A] earned counts for nothing."""
    turns = cheated[batch.attempt]
    return batch._replace(
        outcome=np.where(cheated & (batch.outcome == PASS), FAIL, batch.outcome).astype(np.int8),
        reward=np.where(cheated, np.minimum(batch.reward, failed_reward), batch.reward),
        turn_reward=np.where(turns, np.minimum(batch.turn_reward, 0.0), batch.turn_reward),
        progress=None if batch.progress is None else np.where(turns, np.nan, batch.progress),
        without=None if batch.without is None else np.where(turns, np.nan, batch.without),
    )


def judged(batch: Batch, *, dishonest: Literal["fail", "mask"] = "fail", need_integrity: bool = False) -> Any:
    """Why each attempt is left out, as strings [A]; empty for those that are used. The first reason that holds."""
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


def subset(batch: Batch, kept: Bools) -> tuple[Batch, Ints]:
    """The batch of the attempts kept [A], numbered anew, and the places [t] of its turns in the whole.

    A sub-agent that is kept without its caller has no parent in it.
    """
    if kept.all():
        return batch, np.arange(len(batch.attempt))
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    turns = np.flatnonzero(kept[batch.attempt])
    parent = np.where(batch.parent >= 0, number[batch.parent], -1)[kept]
    columns: dict[str, Any] = {"parent": parent, "attempt": number[batch.attempt[turns]]}
    for name, column in batch._asdict().items():
        if name not in columns:
            places = kept if name in _OF_ATTEMPTS else turns
            columns[name] = None if column is None else column[places]
    return Batch(**columns), turns
