"""Allocation policies: which task gets the next attempts, from the outcomes of earlier rounds. Pure.

A group of attempts teaches a group-relative trainer nothing if all pass or all fail, so policies seek differing
outcomes: `p (1 - p)`. Not for estimating success rates: allocated attempts are no fair sample over tasks (within one
task they are), and a model trained on them sees those tasks more often.

Invariant: a policy keeps no state between rounds, so a resumed run repeats the interrupted one's decisions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple, Protocol

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class StatePath(NamedTuple):
    """The states of one attempt."""

    chain: str
    states: tuple[str | None, ...]
    """Digest of the environment after each step; None where unobserved."""
    score: float | None
    forked: str | None = None
    """Initial state; None for the start of the task."""


class TaskHistory(NamedTuple):
    """Results of earlier rounds for one task."""

    scores: tuple[float | None, ...] = ()
    """Scores in [0, 1] of its attempts from the start, in the order granted; None without an outcome."""
    rounds: tuple[int, ...] = ()
    level: int = 0
    """Index of its task source, used by curricula."""
    paths: tuple[StatePath, ...] = ()
    """All its attempts, including forks, for policies that set `wants_paths`."""

    @property
    def known_scores(self) -> tuple[float, ...]:
        """The scores without None."""
        return tuple(score for score in self.scores if score is not None)


class Anchor(NamedTuple):
    """The starting point of a fork: a recorded attempt, a number of steps, and the state after them."""

    chain: str
    prefix: int
    state: str


class Grant(NamedTuple):
    """Attempts at one task, by its position."""

    task: int
    attempts: int
    anchor: Anchor | None = None


class Policy(Protocol):
    """Decides round by round."""

    wants_paths: bool
    """True if it uses `TaskHistory.paths`, which requires reading every attempt."""

    def grants(self, histories: Sequence[TaskHistory], left: int) -> Sequence[Grant]:
        """Returns the grants of the next round.

        Args:
            histories: Of every task, by position; never empty.
            left: Attempts that may still be granted, at least 1.

        Returns:
            Grants of 1 to `left` attempts in all. The same arguments give the same grants, everywhere.
        """
        ...


def expected_contrast(scores: Sequence[float], prior: tuple[float, float] = (1.0, 1.0)) -> float:
    """Returns the expectation of `p (1 - p)` over the Beta posterior of a task's success rate: `ab / ((a + b) (a + b +
    1))`."""
    a = prior[0] + math.fsum(scores)
    b = prior[1] + len(scores) - math.fsum(scores)
    return a * b / ((a + b) * (a + b + 1.0))


def squared_deviations(scores: Sequence[float]) -> float:
    """Returns the sum of squared deviations from the mean: `n p (1 - p)` for passes and failures, the sum of squared
    group-relative advantages."""
    if not scores:
        return 0.0
    mean = math.fsum(scores) / len(scores)
    return math.fsum((score - mean) ** 2 for score in scores)


def spread_evenly(attempts: int, tasks: Sequence[int]) -> list[Grant]:
    """Distributes attempts over tasks as evenly as possible; the first tasks get the remainder."""
    each, over = divmod(attempts, len(tasks))
    shares = [each + (place < over) for place in range(len(tasks))]
    return [Grant(task, share) for task, share in zip(tasks, shares, strict=True) if share]


def interleave_grants(grants: Sequence[Grant]) -> Iterator[Grant]:
    """Yields a grant for each of its attempts; each grant's first attempt precedes any second one."""
    for place in range(max((grant.attempts for grant in grants), default=0)):
        yield from [grant for grant in grants if place < grant.attempts]


class UniformOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `uniform`."""

    step: int = 0
    """Attempts at each task per round; 0 is all at once."""


class Uniform:
    """The same number for every task."""

    wants_paths = False

    def __init__(self, options: UniformOptions) -> None:
        self._options = options

    def grants(self, histories: Sequence[TaskHistory], left: int) -> Sequence[Grant]:
        size = min(left, self._options.step * len(histories)) if self._options.step else left
        # Those with the fewest attempts first, so that the shares stay even whatever the size of a round.
        order = sorted(range(len(histories)), key=lambda task: (len(histories[task].scores), task))
        return sorted(spread_evenly(size, order))


class HalvingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `halving`."""

    first: Count = 2
    """Attempts at each task in the first round, budget permitting."""


class Halving:
    """Successive halving (Karnin et al. 2013; Jamieson & Talwalkar 2016) towards differing outcomes.

    The budget is split evenly over rounds; each round goes to half as many tasks as the one before, those with the
    highest `expected_contrast`. A dropped task may return if others turned out worse.
    """

    wants_paths = False

    def __init__(self, options: HalvingOptions) -> None:
        self._options = options

    def grants(self, histories: Sequence[TaskHistory], left: int) -> Sequence[Grant]:
        used = sum(len(one.scores) for one in histories)
        sizes = self._rounds(len(histories), used + left)
        number, end = 0, sizes[0]
        while used >= end:
            number += 1
            end += sizes[number]
        alive = max(1, len(histories) >> number)
        order = sorted(range(len(histories)), key=lambda task: (-expected_contrast(histories[task].known_scores), task))
        return spread_evenly(end - used, order[:alive])

    def _rounds(self, tasks: int, budget: int) -> list[int]:
        """Returns the sizes of all rounds, as many as leave `first` attempts per task in the first."""
        most = max(1, tasks.bit_length())
        rounds = max(1, min(most, budget // (tasks * self._options.first)))
        each, over = divmod(budget, rounds)
        return [each + (number < over) for number in range(rounds)]


class UncertaintyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `uncertainty`. The paper leaves these constants open; ours were chosen by simulation."""

    first: Count = 2
    """Attempts at each task in the first round."""
    step: Count = 1
    """Attempts of a later round, as a multiple of half the number of tasks."""
    confidence: Share = 0.95
    explore: Annotated[float, msgspec.Meta(ge=0)] = 0.05
    """Weight of the bonus for rarely tried tasks."""
    most: Count = 32
    """Largest number of attempts at one task while others have had fewer."""


class Uncertainty:
    """Uncertainty reduction after XRPO (arXiv 2510.06672; independent implementation, our constants).

    A task's priority is how much one more attempt would narrow the t-interval of its mean score, `h(n) - h(n + 1)` with
    `h(n) = t(n - 1) s / sqrt(n)`, plus `explore * sqrt(ln(N) / n)`. With equal outcomes s is 0 and only the bonus
    remains.
    """

    wants_paths = False

    def __init__(self, options: UncertaintyOptions) -> None:
        self._options = options

    def grants(self, histories: Sequence[TaskHistory], left: int) -> Sequence[Grant]:
        options = self._options
        short = [task for task, one in enumerate(histories) if len(one.scores) < options.first]
        if short:
            missing = [Grant(task, options.first - len(histories[task].scores)) for task in short]
            return _truncate_grants(missing, left)
        size = min(left, max(1, options.step * len(histories) // 2))
        return self._greedy(histories, size)

    def _greedy(self, histories: Sequence[TaskHistory], size: int) -> list[Grant]:
        total = sum(len(one.scores) for one in histories)
        deviations = [_deviation(one.known_scores) for one in histories]
        tried = [len(one.scores) for one in histories]
        queue = [(self._order(deviations[task], tried[task], total), task) for task in range(len(histories))]
        heapq.heapify(queue)
        given = [0] * len(histories)
        for _ in range(size):
            _, task = heapq.heappop(queue)
            given[task] += 1
            now = tried[task] + given[task]
            heapq.heappush(queue, (self._order(deviations[task], now, total), task))
        return [Grant(task, number) for task, number in enumerate(given) if number]

    def _order(self, deviation: float, tried: int, total: int) -> tuple[bool, float]:
        return tried >= self._options.most, -self.priority(deviation, tried, total)

    def priority(self, deviation: float, tried: int, total: int) -> float:
        """Returns the priority of a task from its standard deviation, its attempts and the total attempts."""
        narrowed = _half_width(deviation, tried, self._options.confidence)
        narrowed -= _half_width(deviation, tried + 1, self._options.confidence)
        return narrowed + self._options.explore * math.sqrt(math.log(1 + total) / max(tried, 1))


def _half_width(deviation: float, tried: int, confidence: float) -> float:
    from scipy.special import stdtrit  # late: scipy is slow to import

    if tried < 2 or deviation == 0.0:
        return 0.0
    return float(stdtrit(tried - 1, 0.5 + confidence / 2)) * deviation / math.sqrt(tried)


def _deviation(scores: Sequence[float]) -> float:
    return math.sqrt(squared_deviations(scores) / (len(scores) - 1)) if len(scores) > 1 else 0.0


def _truncate_grants(grants: Sequence[Grant], left: int) -> list[Grant]:
    """Returns the first `left` attempts of the grants."""
    kept = []
    for grant in grants:
        number = min(grant.attempts, left)
        left -= number
        if number:
            kept.append(grant._replace(attempts=number))
    return kept
