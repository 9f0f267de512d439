"""Curricula over difficulty levels (settings of a task family). Pure functions of the history.

A level is one of a run's task sources, in order, the easiest first. Each teacher turns the history into shares over
levels; a trainer asks it between iterations, `assay run --allocate` between rounds. The trained policy changes between
iterations; within one run it does not, so learning progress is then noise.

Invariant: shares are non-negative and sum to 1. `progress` and `bandit` give every level a share; `frontier` ignores
levels more than one above the frontier.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import msgspec

from assay.rollout.schedule.allocation import Grant, TaskHistory

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class LevelOutcomes(NamedTuple):
    """The outcomes of one round at one level."""

    passed: float
    """Sum of scores."""
    attempts: int


History = Sequence[Sequence[LevelOutcomes]]
"""One row per round, one cell per level."""


class FrontierOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `frontier`."""

    promote: Share = 0.7
    """Success rate at which a level counts as mastered."""
    window: Count = 16
    """Smallest number of latest attempts to judge a level by."""
    frontier_share: Share = 0.6
    """Share of the frontier; the levels below it and the one above split the rest."""
    group: Count = 8
    """Attempts given to one task at once."""
    step: Count = 4
    """Groups per round and level."""


def frontier(history: History, levels: int, options: FrontierOptions | None = None) -> tuple[float, ...]:
    """Returns shares that favour the first level not mastered yet.

    A level is mastered while its latest `window` attempts (whole rounds, counted back) reach the rate `promote`; a
    forgotten level becomes the frontier again.
    """
    given = options or FrontierOptions()
    at = next((level for level in range(levels) if not _mastered(history, level, given)), levels - 1)
    rest = [level for level in range(levels) if level != at and level <= at + 1]
    share = given.frontier_share if rest else 1.0
    return tuple(share if level == at else (1 - share) / len(rest) if level in rest else 0.0 for level in range(levels))


def _mastered(history: History, level: int, options: FrontierOptions) -> bool:
    passed, attempts = 0.0, 0
    for row in reversed(history):
        passed, attempts = passed + row[level].passed, attempts + row[level].attempts
        if attempts >= options.window:
            return passed >= options.promote * attempts
    return False


class ProgressOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `progress`."""

    fast: Share = 0.5
    """Weight of the newest round in the fast average of a level's success rate."""
    slow: Share = 0.1
    """Weight of the newest round in the slow average."""
    floor: Share = 0.2
    """Share distributed evenly."""
    group: Count = 8
    """Attempts given to one task at once."""
    step: Count = 4
    """Groups per round and level."""


def progress(history: History, levels: int, options: ProgressOptions | None = None) -> tuple[float, ...]:
    """Returns shares by absolute learning progress: |fast - slow average| of each level's success rate.

    After Oudeyer & Kaplan (2007) and Matiisen et al. (arXiv 1707.00183); absolute, so that forgetting counts too. An
    untried level gets the largest progress seen, or 1.
    """
    given = options or ProgressOptions()
    gains = [_gain(history, level, given) for level in range(levels)]
    best = max((gain for gain in gains if gain is not None), default=1.0) or 1.0
    filled = [best if gain is None else gain for gain in gains]
    total = math.fsum(filled)
    even = given.floor if total else 1.0
    return tuple(even / levels + (1 - even) * (gain / total if total else 0.0) for gain in filled)


def _gain(history: History, level: int, options: ProgressOptions) -> float | None:
    fast: float | None = None
    slow = 0.0
    for row in history:
        if not row[level].attempts:
            continue
        rate = row[level].passed / row[level].attempts
        slow = rate if fast is None else slow + options.slow * (rate - slow)
        fast = rate if fast is None else fast + options.fast * (rate - fast)
    return None if fast is None else abs(fast - slow)


class BanditOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `bandit`."""

    rate: Annotated[float, msgspec.Meta(gt=0)] = 0.3
    """Learning rate of a level's weight."""
    explore: Share = 0.2
    """Share distributed evenly."""
    mix: Share = 0.05
    """Share of all weight mixed over all levels each round, so that an old lead is forgotten."""
    group: Count = 8
    """Attempts given to one task at once."""
    step: Count = 4
    """Groups per round and level."""


def bandit(history: History, levels: int, options: BanditOptions | None = None) -> tuple[float, ...]:
    """Returns shares of a bandit teacher: EXP3.S (Auer et al. 2002) as in Graves et al. (arXiv 1704.03003).

    A level's reward is the absolute change of its success rate since its last round, relative to the largest change so
    far. Whole shares are played rather than one drawn arm, so rewards need no importance weighting.
    """
    given = options or BanditOptions()
    weights, last, largest = [0.0] * levels, [None] * levels, 0.0  # type: list[float], list[float | None], float
    for row in history:
        moves = [_move(cell, last[level]) for level, cell in enumerate(row)]
        last = [c.passed / c.attempts if c.attempts else last[level] for level, c in enumerate(row)]
        largest = max([largest, *(move for move in moves if move is not None)])
        rewards = [0.0 if move is None or not largest else move / largest for move in moves]
        weights = _mix_weights([w + given.rate * reward for w, reward in zip(weights, rewards, strict=True)], given.mix)
    top = max(weights)
    grown = [math.exp(weight - top) for weight in weights]
    total = math.fsum(grown)
    return tuple(given.explore / levels + (1 - given.explore) * one / total for one in grown)


def _move(cell: LevelOutcomes, last: float | None) -> float | None:
    return None if not cell.attempts or last is None else abs(cell.passed / cell.attempts - last)


def _mix_weights(weights: Sequence[float], mix: float) -> list[float]:
    """Returns log weights after mixing an even part of `mix` into every level."""
    if len(weights) == 1:
        return list(weights)
    top = max(weights)
    grown = [math.exp(weight - top) for weight in weights]
    total = math.fsum(grown)
    return [top + math.log((1 - mix) * one + mix * (total - one) / (len(grown) - 1)) for one in grown]


def history_of(histories: Sequence[TaskHistory]) -> list[list[LevelOutcomes]]:
    """Returns the outcomes by round and level."""
    levels = 1 + max(one.level for one in histories)
    rounds = 1 + max((number for one in histories for number in one.rounds), default=-1)
    cells = [[LevelOutcomes(0.0, 0)] * levels for _ in range(rounds)]
    for one in histories:
        for score, number in zip(one.scores, one.rounds, strict=True):
            if score is not None:
                old = cells[number][one.level]
                cells[number][one.level] = LevelOutcomes(old.passed + score, old.attempts + 1)
    return cells


Options = FrontierOptions | ProgressOptions | BanditOptions


class Curriculum:
    """Gives groups of attempts to the tasks of each level, by a teacher's shares."""

    wants_paths = False

    def __init__(self, options: Options, shares: Callable[[History, int], tuple[float, ...]]) -> None:
        self._options = options
        self._shares = shares

    def grants(self, histories: Sequence[TaskHistory], left: int) -> Sequence[Grant]:
        """Implements `Policy.grants`. Within a level, tasks with the fewest attempts come first."""
        history, levels = history_of(histories), 1 + max(one.level for one in histories)
        group = self._options.group
        groups = max(1, min(left // group, self._options.step * levels))
        numbers = _round_shares(self._shares(history, levels), groups, seed=len(history))
        queues = [
            sorted((len(one.scores), task) for task, one in enumerate(histories) if one.level == level)
            for level in range(levels)
        ]
        granted: dict[int, int] = {}
        for level, number in enumerate(numbers):
            # A level without tasks gives its groups to the first that has some.
            queue = queues[level] or next(filter(None, queues))
            for place in range(number):
                task = queue[place % len(queue)][1]
                granted[task] = granted.get(task, 0) + min(group, left)
        return [Grant(task, number) for task, number in sorted(granted.items())]


def _round_shares(shares: Sequence[float], groups: int, *, seed: int) -> list[int]:
    """Rounds shares to integers that sum to `groups`, by systematic sampling from a seeded start."""
    start, level, reached = random.Random(seed).random(), 0, shares[0] * groups
    numbers = [0] * len(shares)
    for place in range(groups):
        while place + start >= reached and level < len(shares) - 1:
            level += 1
            reached += shares[level] * groups
        numbers[level] += 1
    return numbers


class Frontier(Curriculum):
    """Policy for `frontier`."""

    def __init__(self, options: FrontierOptions) -> None:
        super().__init__(options, lambda history, levels: frontier(history, levels, options))


class Progress(Curriculum):
    """Policy for `progress`."""

    def __init__(self, options: ProgressOptions) -> None:
        super().__init__(options, lambda history, levels: progress(history, levels, options))


class Bandit(Curriculum):
    """Policy for `bandit`."""

    def __init__(self, options: BanditOptions) -> None:
        super().__init__(options, lambda history, levels: bandit(history, levels, options))
