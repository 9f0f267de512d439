"""Interface of credit estimators: columns over attempts and turns in, one advantage per turn out.

Columns instead of objects, so that a million turns are a few arrays. An attempt is one try at one task, a group is all
competing attempts (usually those at one task), a turn is one action of the agent with one or more sampled tokens.

Invariant: `Batch.attempt` never decreases, so an attempt's turns are adjacent and in order, and every attempt number is
below A. `make_batch` validates it.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

OUTCOMES = ("pass", "fail", "unknown", "error", "broke")
"""Outcome codes are indices of this tuple. `error`: the verifier failed; `broke`: the infrastructure failed."""
PASS, FAIL, UNKNOWN, ERROR, BROKE = range(5)
NOT_JUDGED = -1
"""No verdict of that kind."""


class Batch(NamedTuple):
    """A attempts and T turns. Built with `make_batch`, which validates columns and fills in defaults."""

    group: Ints
    """[A] group number; attempts of one group compete."""
    reward: Floats
    """[A] reward of the verified outcome; NaN without one. It is given at the attempt's last turn."""
    outcome: NDArray[np.int8]
    """[A] place in `OUTCOMES`, or `NOT_JUDGED`."""
    integrity: NDArray[np.int8]
    """[A] code of the integrity verdict."""
    parent: Ints
    """[A] parent attempt of a sub-agent; -1 for none."""
    forked: Bools
    """[A] True for an attempt that continues another one from a recorded state."""
    attempt: Ints
    """[T] attempt of the turn; never decreases."""
    turn_reward: Floats
    """[T] reward of the turn besides the outcome."""
    state: Ints
    """[T] code of the environment's state before the turn; -1 where it is not known."""
    tokens: Ints
    """[T] sampled tokens."""
    version: Ints
    """[T] version of the weights that sampled it; -1 where it is not known."""
    logprob: Floats
    """[T] mean log-probability, in nats, of its sampled tokens; NaN where it is not known."""
    error: Bools
    """[T] True if the action failed."""
    entropy: Floats | None = None
    """[T] mean entropy of the policy over the turn's tokens, in nats."""
    value: Floats | None = None
    """[T] a critic's estimate of the return from before the turn."""
    final_value: Floats | None = None
    """[A] the critic's estimate after the last turn of a truncated attempt; 0 for a finished one."""
    final_state: Ints | None = None
    """[A] code of the state after the last turn; -1 where it is not known."""
    progress: Floats | None = None
    """[T] share of the goal reached after the turn, in [0, 1]; NaN where it was not measured."""
    without: Floats | None = None
    """[T] reward of the same attempt replayed without the turn; NaN where it was not replayed."""


class Credit(NamedTuple):
    """Advantages and mask of a batch."""

    advantage: NDArray[np.float32]
    """[T] 0 where masked."""
    mask: Bools
    """[T] True if the turn may be trained on."""
    reasons: dict[str, int]
    """Number of masked turns by reason."""


class Method(Protocol):
    """An estimator: entry point group `assay.advantages`. Options are keyword-only and have defaults."""

    def __call__(self, batch: Batch, /, **options: Any) -> Credit:
        """Returns the credit of every turn. Raises `ValueError` if the batch lacks a required column."""
        ...


_OF_ATTEMPTS: dict[str, tuple[type, Any]] = {
    "outcome": (np.int8, NOT_JUDGED),
    "integrity": (np.int8, NOT_JUDGED),
    "parent": (np.int64, -1),
    "forked": (np.bool_, False),
    "final_value": (np.float64, None),
    "final_state": (np.int64, None),
}
TURN_COLUMNS: dict[str, tuple[type, Any]] = {
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
"""Columns of turns, with their types and defaults."""


_MEASURED = ("logprob", "entropy", "value", "final_value", "progress", "without")
"""Columns that may be NaN where unknown, except those of a critic."""


def make_batch(group: Any, reward: Any, attempt: Any, **columns: Any) -> Batch:
    """Builds a validated batch from arrays or sequences, without needless copies.

    Raises:
        ValueError: Lengths differ, the turns are out of order, a number is out of range, or a column has no such name.
    """
    unknown = sorted(columns.keys() - _OF_ATTEMPTS.keys() - TURN_COLUMNS.keys())
    if unknown:
        raise ValueError(f"a batch has no column {unknown[0]!r}; it has {', '.join([*_OF_ATTEMPTS, *TURN_COLUMNS])}")
    groups = np.asarray(group, dtype=np.int64)
    turns = np.asarray(attempt, dtype=np.int64)
    if groups.ndim != 1 or turns.ndim != 1:
        raise ValueError(f"columns of a batch have one dimension; group has {groups.ndim}, attempt {turns.ndim}")
    columns_by_name: dict[str, Any] = {"group": groups, "reward": _column("reward", reward, np.float64, len(groups))}
    for names, length in ((_OF_ATTEMPTS, len(groups)), (TURN_COLUMNS, len(turns))):
        for name, (kind, default) in names.items():
            value = columns.get(name, default)
            columns_by_name[name] = None if value is None else _column(name, value, kind, length)
    built = Batch(attempt=turns, **columns_by_name)
    _check(built)
    return built


def _column(name: str, value: Any, kind: type, length: int) -> Any:
    column: NDArray[Any] = np.asarray(value, dtype=kind)
    if column.ndim == 0:
        return np.full(length, column, dtype=kind)
    if column.shape != (length,):
        raise ValueError(f"column {name!r} has shape {column.shape}, expected ({length},)")
    return column


def _check(built: Batch) -> None:
    count = len(built.group)
    if len(built.attempt) and (
        built.attempt[0] < 0 or built.attempt[-1] >= count or np.any(np.diff(built.attempt) < 0)
    ):
        raise ValueError(f"column 'attempt' must not decrease and must name attempts from 0 to {count - 1}")
    for name in ("outcome", "integrity"):
        codes = getattr(built, name)
        if np.any((codes < NOT_JUDGED) | (codes >= len(OUTCOMES))):
            raise ValueError(f"column {name!r} holds a code outside -1 to {len(OUTCOMES) - 1} (see OUTCOMES)")
    if np.any((built.parent < -1) | (built.parent >= count)):
        raise ValueError(f"column 'parent' must name attempts from 0 to {count - 1}, or -1")
    if np.any(np.isinf(built.reward)) or np.any(~np.isfinite(built.turn_reward)):
        raise ValueError("a reward is infinite, or a turn's reward is not a number")
    for name in _MEASURED:
        column = getattr(built, name)
        if column is not None and np.any(np.isinf(column)):
            raise ValueError(f"column {name!r} holds an infinite number")
    for name in ("value", "final_value"):
        column = getattr(built, name)
        if column is not None and np.any(np.isnan(column)):
            raise ValueError(f"column {name!r} holds NaN; a critic has an estimate of every turn")
    if np.any(built.tokens < 0):
        raise ValueError("column 'tokens' holds a negative count")
