"""What every estimator of credit takes and gives: columns over attempts and turns in, one advantage a turn out.

Columns instead of objects, so that a million turns are a few arrays. An attempt is one try at one task, a group is all
attempts that compete (as a rule those at one task), a turn is one act of the agent: one or several sampled tokens.

Invariant: `Batch.attempt` never decreases, so an attempt's turns stand together and in the order in which they were
taken, and every attempt, the last included, has a number below A. `batch(...)` checks it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["BROKE", "ERROR", "FAIL", "NOT_JUDGED", "OUTCOMES", "PASS", "UNKNOWN", "Batch", "Bools", "Credit", "Floats",
           "Ints", "Method", "batch"]  # fmt: skip

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OUTCOMES = ("pass", "fail", "unknown", "error", "broke")
"""Code of an outcome is its place here. `error`: the verifier failed; `broke`: the infrastructure did."""
PASS, FAIL, UNKNOWN, ERROR, BROKE = range(5)
NOT_JUDGED = -1
"""No verdict of that kind."""


class Batch(NamedTuple):
    """A attempts and T turns. Build it with `batch`, which fills in what is not given and checks the rest."""

    group: Ints
    """[A] which attempts compete: equal numbers, one group."""
    reward: Floats
    """[A] reward of the verified outcome; NaN where there is none. It is given at the attempt's last turn."""
    outcome: NDArray[np.int8]
    """[A] place in `OUTCOMES`, or `NOT_JUDGED`."""
    integrity: NDArray[np.int8]
    """[A] the same of the integrity verdict."""
    parent: Ints
    """[A] the attempt whose sub-agent this one is; -1 for none."""
    attempt: Ints
    """[T] the attempt that the turn is of; never decreases."""
    turn_reward: Floats
    """[T] what was earned at that turn besides the outcome."""
    state: Ints
    """[T] code of the environment's state before the turn; -1 where it is not known."""
    tokens: Ints
    """[T] sampled tokens."""
    version: Ints
    """[T] version of the weights that sampled it; -1 where it is not known."""
    logprob: Floats
    """[T] mean log-probability, in nats, of its sampled tokens; NaN where it is not known."""
    error: Bools
    """[T] whether the act came to an error."""
    entropy: Floats | None = None
    """[T] mean entropy of the policy over the turn's tokens, in nats."""
    value: Floats | None = None
    """[T] a critic's estimate of the return from before the turn."""
    final_value: Floats | None = None
    """[A] the same from after the last turn, where a limit cut the attempt off; 0 where it ended."""
    final_state: Ints | None = None
    """[A] code of the state after the last turn; -1 where it is not known."""
    progress: Floats | None = None
    """[T] share of the goal reached after the turn, in [0, 1]; NaN where it was not measured."""
    without: Floats | None = None
    """[T] reward of the same attempt replayed without the turn; NaN where it was not replayed."""


class Credit(NamedTuple):
    """What each turn is given."""

    advantage: NDArray[np.float32]
    """[T] 0 where masked."""
    mask: Bools
    """[T] whether the turn may be trained on."""
    reasons: dict[str, int]
    """Why turns are masked, with the number of turns for each reason."""


class Method(Protocol):
    """An estimator: entry point group `assay.advantages`. Options are keyword-only and have defaults."""

    def __call__(self, batch: Batch, /, **options: Any) -> Credit:
        """The credit of every turn. Raises `ValueError` where the batch lacks what it needs."""
        ...


_OF_ATTEMPTS: dict[str, tuple[type, Any]] = {
    "outcome": (np.int8, NOT_JUDGED),
    "integrity": (np.int8, NOT_JUDGED),
    "parent": (np.int64, -1),
    "final_value": (np.float64, None),
    "final_state": (np.int64, None),
}
_OF_TURNS: dict[str, tuple[type, Any]] = {
    "turn_reward": (np.float64, 0.0),
    "state": (np.int64, -1),
    "tokens": (np.int64, 1),
    "version": (np.int64, -1),
    "logprob": (np.float64, np.nan),
    "error": (np.bool_, False),
    "entropy": (np.float64, None),
    "value": (np.float64, None),
    "progress": (np.float64, None),
    "without": (np.float64, None),
}


_MEASURED = ("logprob", "entropy", "value", "final_value", "progress", "without")
"""Columns of numbers, which may be NaN where they are not known, but for those of a critic."""


def batch(group: Any, reward: Any, attempt: Any, **columns: Any) -> Batch:
    """A checked batch from arrays or sequences; columns that are not given are unknown, and none is copied in vain.

    Raises:
        ValueError: Lengths differ, the turns are out of order, a number is out of range, or a column has no such name.
    """
    unknown = sorted(columns.keys() - _OF_ATTEMPTS.keys() - _OF_TURNS.keys())
    if unknown:
        raise ValueError(f"a batch has no column {unknown[0]!r}; it has {', '.join([*_OF_ATTEMPTS, *_OF_TURNS])}")
    groups = np.asarray(group, dtype=np.int64)
    turns = np.asarray(attempt, dtype=np.int64)
    if groups.ndim != 1 or turns.ndim != 1:
        raise ValueError(f"columns of a batch have one dimension; group has {groups.ndim}, attempt {turns.ndim}")
    held: dict[str, Any] = {"group": groups, "reward": _column("reward", reward, np.float64, len(groups))}
    for names, length in ((_OF_ATTEMPTS, len(groups)), (_OF_TURNS, len(turns))):
        for name, (kind, default) in names.items():
            given = columns.get(name, default)
            held[name] = None if given is None else _column(name, given, kind, length)
    made = Batch(attempt=turns, **held)
    _check(made)
    return made


def _column(name: str, given: Any, kind: type, length: int) -> Any:
    column: NDArray[Any] = np.asarray(given, dtype=kind)
    if column.ndim == 0:
        return np.full(length, column, dtype=kind)
    if column.shape != (length,):
        raise ValueError(f"column {name!r} has shape {column.shape}, expected ({length},)")
    return column


def _check(made: Batch) -> None:
    count = len(made.group)
    if len(made.attempt) and (made.attempt[0] < 0 or made.attempt[-1] >= count or np.any(np.diff(made.attempt) < 0)):
        raise ValueError(f"column 'attempt' must not decrease and must name attempts from 0 to {count - 1}")
    for name in ("outcome", "integrity"):
        codes = getattr(made, name)
        if np.any((codes < NOT_JUDGED) | (codes >= len(OUTCOMES))):
            raise ValueError(f"column {name!r} holds a code outside -1 to {len(OUTCOMES) - 1} (see OUTCOMES)")
    if np.any((made.parent < -1) | (made.parent >= count)):
        raise ValueError(f"column 'parent' must name attempts from 0 to {count - 1}, or -1")
    if np.any(np.isinf(made.reward)) or np.any(~np.isfinite(made.turn_reward)):
        raise ValueError("a reward is infinite, or a turn's reward is not a number")
    for name in _MEASURED:
        column = getattr(made, name)
        if column is not None and np.any(np.isinf(column)):
            raise ValueError(f"column {name!r} holds an infinite number")
    for name in ("value", "final_value"):
        column = getattr(made, name)
        if column is not None and np.any(np.isnan(column)):
            raise ValueError(f"column {name!r} holds what is no number; a critic has an estimate of every turn")
    if np.any(made.tokens < 0):
        raise ValueError("column 'tokens' holds a negative count")
