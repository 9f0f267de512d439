"""Which difficulty comes next: curricula over levels (settings of a family's knobs). Pure functions of what was seen.

A level is one of the task sources that a run names, in their order: the easiest first. Each teacher turns the history
into shares over levels; a trainer asks it between its iterations, `assay run --allocate` between rounds. The policy
that is trained moves between iterations; within one run it does not, and then learning progress is noise by definition.

Invariant: shares are not negative and sum to 1. `progress` and `bandit` give no level up; `frontier` does not look
beyond the level above the frontier.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import msgspec

from assay.rollout.schedule.allocation import Grant, Seen

__all__ = [
    "Bandit",
    "BanditOptions",
    "Curriculum",
    "Frontier",
    "FrontierOptions",
    "LevelSeen",
    "Progress",
    "ProgressOptions",
    "bandit",
    "frontier",
    "history_of",
    "progress",
]

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class LevelSeen(NamedTuple):
    """What one round showed of one level."""

    passed: float
    """Sum of scores."""
    attempts: int
    """With a score."""


History = Sequence[Sequence[LevelSeen]]
"""One row a round, one cell a level."""


class FrontierOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `frontier`."""

    promote: Share = 0.7
    """Success rate of a level from which on the next one is the frontier."""
    window: Count = 16
    """The latest attempts of a level that this is judged by, at least."""
    frontier_share: Share = 0.6
    """What the frontier gets; levels below it, and the one above, share the rest."""
    group: Count = 8
    """Attempts that are given to one task at once."""
    step: Count = 4
    """Groups of a round, for each level."""


def frontier(history: History, levels: int, options: FrontierOptions | None = None) -> tuple[float, ...]:
    """Tracks the frontier: the first level that is not mastered yet.

    A level is mastered while its latest `window` attempts (whole rounds, counted back) reach the rate `promote`; a
    level that is forgotten becomes the frontier again.
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
    """The same of the slow one."""
    floor: Share = 0.2
    """What is shared evenly whatever the progress."""
    group: Count = 8
    """Attempts that are given to one task at once."""
    step: Count = 4
    """Groups of a round, for each level."""


def progress(history: History, levels: int, options: ProgressOptions | None = None) -> tuple[float, ...]:
    """Absolute learning progress: shares in proportion to |fast - slow average| of each level's success rate.

    After Oudeyer & Kaplan (2007) and Matiisen et al. (arXiv 1707.00183); absolute, so that forgetting counts too. A
    level never tried counts as the largest progress seen, 1 where there is none.
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
    """How strongly a reward moves a level's weight."""
    explore: Share = 0.2
    """What is shared evenly."""
    mix: Share = 0.05
    """How much of all weight is shared among all levels each round, so that an old lead is forgotten."""
    group: Count = 8
    """Attempts that are given to one task at once."""
    step: Count = 4
    """Groups of a round, for each level."""


def bandit(history: History, levels: int, options: BanditOptions | None = None) -> tuple[float, ...]:
    """A bandit teacher: EXP3.S (Auer et al. 2002) as in Graves et al. (arXiv 1704.03003).

    A level's reward in a round is how far its success rate moved since it was tried before, up or down, relative to the
    largest move seen so far. Whole shares are played in a round rather than one arm drawn, so a reward needs no
    weighting by the chance of its arm.
    """
    given = options or BanditOptions()
    weights, last, largest = [0.0] * levels, [None] * levels, 0.0  # type: list[float], list[float | None], float
    for row in history:
        moves = [_move(cell, last[level]) for level, cell in enumerate(row)]
        last = [c.passed / c.attempts if c.attempts else last[level] for level, c in enumerate(row)]
        largest = max([largest, *(move for move in moves if move is not None)])
        rewards = [0.0 if move is None or not largest else move / largest for move in moves]
        weights = _shared([w + given.rate * reward for w, reward in zip(weights, rewards, strict=True)], given.mix)
    top = max(weights)
    grown = [math.exp(weight - top) for weight in weights]
    total = math.fsum(grown)
    return tuple(given.explore / levels + (1 - given.explore) * one / total for one in grown)


def _move(cell: LevelSeen, last: float | None) -> float | None:
    return None if not cell.attempts or last is None else abs(cell.passed / cell.attempts - last)


def _shared(weights: Sequence[float], mix: float) -> list[float]:
    """Log weights after every level got an even part of `mix` of the whole."""
    if len(weights) == 1:
        return list(weights)
    top = max(weights)
    grown = [math.exp(weight - top) for weight in weights]
    total = math.fsum(grown)
    return [top + math.log((1 - mix) * one + mix * (total - one) / (len(grown) - 1)) for one in grown]


def history_of(seen: Sequence[Seen]) -> list[list[LevelSeen]]:
    """What each round showed of each level."""
    levels = 1 + max(one.level for one in seen)
    rounds = 1 + max((number for one in seen for number in one.rounds), default=-1)
    cells = [[LevelSeen(0.0, 0)] * levels for _ in range(rounds)]
    for one in seen:
        for score, number in zip(one.scores, one.rounds, strict=True):
            if score is not None:
                old = cells[number][one.level]
                cells[number][one.level] = LevelSeen(old.passed + score, old.attempts + 1)
    return cells


Options = FrontierOptions | ProgressOptions | BanditOptions


class Curriculum:
    """Gives whole groups of attempts to tasks of levels, by a teacher's shares."""

    wants_paths = False

    def __init__(self, options: Options, shares: Callable[[History, int], tuple[float, ...]]) -> None:
        self._options = options
        self._shares = shares

    def grants(self, seen: Sequence[Seen], left: int) -> Sequence[Grant]:
        """See `Policy.grants`. Within a level, tasks with the fewest attempts come first."""
        history, levels = history_of(seen), 1 + max(one.level for one in seen)
        group = self._options.group
        groups = max(1, min(left // group, self._options.step * levels))
        numbers = _rounded(self._shares(history, levels), groups, seed=len(history))
        queues = [
            sorted((len(one.scores), task) for task, one in enumerate(seen) if one.level == level)
            for level in range(levels)
        ]
        granted: dict[int, int] = {}
        for level, number in enumerate(numbers):
            # A level of which there is no task gives its groups to the first that has some.
            queue = queues[level] or next(filter(None, queues))
            for place in range(number):
                task = queue[place % len(queue)][1]
                granted[task] = granted.get(task, 0) + min(group, left)
        return [Grant(task, number) for task, number in sorted(granted.items())]


def _rounded(shares: Sequence[float], groups: int, *, seed: int) -> list[int]:
    """Whole numbers that sum to `groups`, each above or below its share: systematic sampling, from a seeded start."""
    start, level, reached = random.Random(seed).random(), 0, shares[0] * groups
    numbers = [0] * len(shares)
    for place in range(groups):
        while place + start >= reached and level < len(shares) - 1:
            level += 1
            reached += shares[level] * groups
        numbers[level] += 1
    return numbers


class Frontier(Curriculum):
    """See `frontier`."""

    def __init__(self, options: FrontierOptions) -> None:
        super().__init__(options, lambda history, levels: frontier(history, levels, options))


class Progress(Curriculum):
    """See `progress`."""

    def __init__(self, options: ProgressOptions) -> None:
        super().__init__(options, lambda history, levels: progress(history, levels, options))


class Bandit(Curriculum):
    """See `bandit`."""

    def __init__(self, options: BanditOptions) -> None:
        super().__init__(options, lambda history, levels: bandit(history, levels, options))
