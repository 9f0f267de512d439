"""Which task gets the next attempts: policies over rounds. Pure: what earlier rounds showed gives the next one.

A group of attempts at one task teaches a group-relative trainer nothing where all pass or all fail, so what is sought
is outcomes that differ: `p (1 - p)`. Not for estimating a success rate: attempts that go where outcomes differ are no
fair sample over tasks (within one task they are), and a model trained on them sees those tasks more often.

Invariant: a policy keeps nothing between rounds, so that a resumed run decides what the cut one did.

Not here: forks (`forks.py`), curricula (`curriculum.py`), the rounds themselves (`rounds.py`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple, Protocol

import msgspec

__all__ = [
    "Anchor",
    "Grant",
    "Halving",
    "HalvingOptions",
    "Path",
    "Policy",
    "Seen",
    "Uncertainty",
    "UncertaintyOptions",
    "Uniform",
    "UniformOptions",
    "expected_contrast",
    "mixed",
    "signal",
    "spread",
]

Count = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Path(NamedTuple):
    """One attempt as the states it went through."""

    chain: str
    states: tuple[str | None, ...]
    """Digest of the environment after each step; None where it was not observed."""
    score: float | None
    forked: str | None = None
    """The state that it began in; None at the start of the task."""


class Seen(NamedTuple):
    """What earlier rounds showed of one task."""

    scores: tuple[float | None, ...] = ()
    """Of its attempts from the start, in the order in which they were granted: in [0, 1], None where no outcome was
    had."""
    rounds: tuple[int, ...] = ()
    """The round of each of these."""
    level: int = 0
    """Which of the given sources of tasks it is from: what curricula choose among."""
    paths: tuple[Path, ...] = ()
    """All its attempts, forks too, for policies that set `wants_paths`."""

    @property
    def known(self) -> tuple[float, ...]:
        """The scores that were had."""
        return tuple(score for score in self.scores if score is not None)


class Anchor(NamedTuple):
    """Where a fork begins: after so many steps of a recorded attempt, in this state."""

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
    """Whether it looks at `Seen.paths`, which cost reading every attempt."""

    def grants(self, seen: Sequence[Seen], left: int) -> Sequence[Grant]:
        """The next round.

        Args:
            seen: Of every task, by position; never empty.
            left: Attempts that may still be granted, at least 1.

        Returns:
            Grants of 1 to `left` attempts in all. The same arguments give the same grants, everywhere.
        """
        ...


def expected_contrast(scores: Sequence[float], prior: tuple[float, float] = (1.0, 1.0)) -> float:
    """Expectation of `p (1 - p)` over the Beta posterior of a task's success rate: `ab / ((a + b) (a + b + 1))`."""
    a = prior[0] + math.fsum(scores)
    b = prior[1] + len(scores) - math.fsum(scores)
    return a * b / ((a + b) * (a + b + 1.0))


def mixed(scores: Sequence[float]) -> bool:
    """Whether a group has outcomes that differ."""
    return len(set(scores)) > 1


def signal(scores: Sequence[float]) -> float:
    """Sum of squared distances from the group's mean: `n p (1 - p)` of passes and failures, which is what the squared
    advantages against a group's mean come to."""
    if not scores:
        return 0.0
    mean = math.fsum(scores) / len(scores)
    return math.fsum((score - mean) ** 2 for score in scores)


def spread(attempts: int, tasks: Sequence[int]) -> list[Grant]:
    """So many attempts over tasks, as evenly as can be, the first ones getting what is left over."""
    each, over = divmod(attempts, len(tasks))
    shares = [each + (place < over) for place in range(len(tasks))]
    return [Grant(task, share) for task, share in zip(tasks, shares, strict=True) if share]


class UniformOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `uniform`."""

    step: int = 0
    """Attempts at each task in one round; 0 is all at once."""


class Uniform:
    """The same for every task."""

    wants_paths = False

    def __init__(self, options: UniformOptions) -> None:
        self._options = options

    def grants(self, seen: Sequence[Seen], left: int) -> Sequence[Grant]:
        size = min(left, self._options.step * len(seen)) if self._options.step else left
        # Those with the fewest attempts first, so that the shares stay even whatever the size of a round.
        order = sorted(range(len(seen)), key=lambda task: (len(seen[task].scores), task))
        return sorted(spread(size, order))


class HalvingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `halving`."""

    first: Count = 2
    """Attempts at each task in the first round, if the budget has so many."""


class Halving:
    """Successive halving (Karnin et al. 2013; Jamieson & Talwalkar 2016), with outcomes that differ as what is sought.

    The budget is split evenly over rounds; each round goes to half as many tasks as the one before, those with the
    highest `expected_contrast`. A task that fell out may come back where others turned out worse.
    """

    wants_paths = False

    def __init__(self, options: HalvingOptions) -> None:
        self._options = options

    def grants(self, seen: Sequence[Seen], left: int) -> Sequence[Grant]:
        used = sum(len(one.scores) for one in seen)
        sizes = self._rounds(len(seen), used + left)
        number, end = 0, sizes[0]
        while used >= end:
            number += 1
            end += sizes[number]
        alive = max(1, len(seen) >> number)
        order = sorted(range(len(seen)), key=lambda task: (-expected_contrast(seen[task].known), task))
        return spread(end - used, order[:alive])

    def _rounds(self, tasks: int, budget: int) -> list[int]:
        """Sizes of all rounds: as many as leave `first` attempts a task in the first."""
        most = max(1, tasks.bit_length())
        rounds = max(1, min(most, budget // (tasks * self._options.first)))
        each, over = divmod(budget, rounds)
        return [each + (number < over) for number in range(rounds)]


class UncertaintyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `uncertainty`. The source leaves these constants open; ours were chosen by simulation."""

    first: Count = 2
    """Attempts at each task in the first round."""
    step: Count = 1
    """Attempts of a later round, as a multiple of the number of tasks, halved."""
    confidence: Share = 0.95
    explore: Annotated[float, msgspec.Meta(ge=0)] = 0.05
    """Weight of the bonus for tasks that were tried little."""
    most: Count = 32
    """Attempts that one task gets at most, while others have had fewer."""


class Uncertainty:
    """Reduces uncertainty, after XRPO (arXiv 2510.06672; code not seen, constants ours).

    A task's priority is how much one more attempt would narrow the t-interval of its mean score,
    `h(n) - h(n + 1)` with `h(n) = t(n - 1) s / sqrt(n)`, plus `explore * sqrt(ln(N) / n)`. Where all outcomes so far
    are the same, s is 0 and the bonus alone speaks for the task.
    """

    wants_paths = False

    def __init__(self, options: UncertaintyOptions) -> None:
        self._options = options

    def grants(self, seen: Sequence[Seen], left: int) -> Sequence[Grant]:
        options = self._options
        short = [task for task, one in enumerate(seen) if len(one.scores) < options.first]
        if short:
            missing = [Grant(task, options.first - len(seen[task].scores)) for task in short]
            return _cut(missing, left)
        size = min(left, max(1, options.step * len(seen) // 2))
        return self._greedy(seen, size)

    def _greedy(self, seen: Sequence[Seen], size: int) -> list[Grant]:
        total = sum(len(one.scores) for one in seen)
        deviations = [_deviation(one.known) for one in seen]
        tried = [len(one.scores) for one in seen]
        queue = [(self._order(deviations[task], tried[task], total), task) for task in range(len(seen))]
        heapq.heapify(queue)
        given = [0] * len(seen)
        for _ in range(size):
            _, task = heapq.heappop(queue)
            given[task] += 1
            now = tried[task] + given[task]
            heapq.heappush(queue, (self._order(deviations[task], now, total), task))
        return [Grant(task, number) for task, number in enumerate(given) if number]

    def _order(self, deviation: float, tried: int, total: int) -> tuple[bool, float]:
        return tried >= self._options.most, -self.priority(deviation, tried, total)

    def priority(self, deviation: float, tried: int, total: int) -> float:
        """Of a task with this standard deviation after so many attempts, of so many in all."""
        narrowed = _half_width(deviation, tried, self._options.confidence)
        narrowed -= _half_width(deviation, tried + 1, self._options.confidence)
        return narrowed + self._options.explore * math.sqrt(math.log(1 + total) / max(tried, 1))


def _half_width(deviation: float, tried: int, confidence: float) -> float:
    from scipy.special import stdtrit  # late: scipy is slow to import

    if tried < 2 or deviation == 0.0:
        return 0.0
    return float(stdtrit(tried - 1, 0.5 + confidence / 2)) * deviation / math.sqrt(tried)


def _deviation(scores: Sequence[float]) -> float:
    return math.sqrt(signal(scores) / (len(scores) - 1)) if len(scores) > 1 else 0.0


def _cut(grants: Sequence[Grant], left: int) -> list[Grant]:
    """As many of the first attempts of the grants as there are left."""
    kept = []
    for grant in grants:
        number = min(grant.attempts, left)
        left -= number
        if number:
            kept.append(grant._replace(attempts=number))
    return kept
