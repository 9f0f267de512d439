"""Where the same thing came out differently: attempts of one configuration, or two judgements of one state.

The first may be the agent's chance, which is no fault; the second is the verifier's, which always is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ._rates import Interval, wilson
from ._summary import TaskCount

__all__ = ["Flake", "flakes"]


class Flake(msgspec.Struct, frozen=True):
    """One task with one configuration that is not decided."""

    task: str
    agent: str
    model: str | None
    passed: int
    judged: int
    rate: float
    interval: Interval
    """Wilson's, for this task alone."""
    verifier: int
    """Attempts whose stored state, judged again, came out differently or differed from one judgement to the next."""


def flakes(
    counts: Iterable[TaskCount], unsteady: Mapping[tuple[str, str | None, str], int] | None = None
) -> tuple[Flake, ...]:
    """Returns what flips, the verifier's own first, then the nearest to a coin's throw.

    Args:
        counts: One a task, agent and model.
        unsteady: (agent, model, task) to how many of its attempts were judged again and came out differently.
    """
    again = Counter(dict(unsteady or {}))
    found = []
    for count in counts:
        verifier = again[count.agent, count.model, count.task]
        if count.judged and (0 < count.passed < count.judged or verifier):
            rate, interval = count.passed / count.judged, wilson(count.passed, count.judged)
            found.append(
                Flake(count.task, count.agent, count.model, count.passed, count.judged, rate, interval, verifier)
            )
    return tuple(sorted(found, key=lambda f: (-f.verifier, abs(f.rate - 0.5), -f.judged, f.task, f.agent)))
