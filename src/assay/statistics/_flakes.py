"""Inconsistent results: attempts of one configuration, or two verifications of one state.

The first may be due to the agent's randomness; the second is always a fault of the verifier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from ._rates import Interval, wilson
from ._summary import TaskCount


class Flake(msgspec.Struct, frozen=True):
    """One task with inconsistent results for one configuration."""

    task: str
    agent: str
    model: str | None
    passed: int
    judged: int
    rate: float
    interval: Interval
    """Wilson's, for this task alone."""
    verifier: int
    """Attempts whose stored state got another result on re-verification, or different ones."""


def find_flakes(
    counts: Iterable[TaskCount], unsteady: Mapping[tuple[str, str | None, str], int] | None = None
) -> tuple[Flake, ...]:
    """Returns the flakes, those of verifiers first, then those nearest to a rate of one half.

    Args:
        counts: One a task, agent and model.
        unsteady: (agent, model, task) to the number of attempts with inconsistent re-verification.
    """
    inconsistent = Counter(dict(unsteady or {}))
    found = []
    for count in counts:
        verifier = inconsistent[count.agent, count.model, count.task]
        if count.judged and (0 < count.passed < count.judged or verifier):
            rate, interval = count.passed / count.judged, wilson(count.passed, count.judged)
            found.append(
                Flake(count.task, count.agent, count.model, count.passed, count.judged, rate, interval, verifier)
            )
    return tuple(sorted(found, key=lambda f: (-f.verifier, abs(f.rate - 0.5), -f.judged, f.task, f.agent)))
