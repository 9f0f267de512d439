"""From the rows of a store to the columns that statistics are made of: one place, so that no two screens differ.

Invariant: a pass that lacks integrity, or did not hold when it was judged again, is marked doubtful here and nowhere
else; what an attempt used and nobody recorded (or what is no amount) is absent, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from assay.records import Separation, VerdictStatus
from assay.statistics import Outcome
from assay.verdicts import CurrentVerdicts, OutcomeClass, assess

__all__ = ["MEASURES", "AttemptMeasures", "Row", "measure_attempts"]

MEASURES: dict[str, str] = {"cost_usd": "US dollars", "tokens": "tokens", "seconds": "seconds", "turns": "turns"}
"""What an attempt uses up, and its unit."""
_APART = 1_000_000
_STATUSES: dict[OutcomeClass, VerdictStatus] = {
    "pass": "pass",
    "doubt": "pass",
    "fail": "fail",
    "unknown": "unknown",
    "error": "error",
    "open": "unknown",
}


class Row(Protocol):
    """An attempt as a store sums it up (`store.AttemptRow`)."""

    @property
    def chain(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def number(self) -> int: ...
    @property
    def outcome(self) -> VerdictStatus | None: ...
    @property
    def score(self) -> float | None: ...
    @property
    def broke(self) -> str | None: ...
    @property
    def started(self) -> float | None: ...
    @property
    def finished(self) -> float | None: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def steps(self) -> int: ...
    @property
    def metrics(self) -> dict[str, float]: ...


class AttemptMeasures(NamedTuple):
    """One attempt."""

    outcome: Outcome
    used: dict[str, float]
    """Measure to amount; those of `MEASURES` that were recorded."""
    reverified: str | None
    """`agree`, `disagree`, `flaky` or `cannot`; None where nobody judged its state again."""
    scores: dict[str, float]
    """Process check to its score."""
    source: int
    """Which run it is of, by its place among those that were named."""


def measure_attempts(
    rows: Iterable[Row], stands: Mapping[str, CurrentVerdicts], *, source: int = 0, require: Separation = "unknown"
) -> list[AttemptMeasures]:
    """The attempts of one run.

    Args:
        rows: Its deciding tries (`store.deciding`).
        stands: Chain to how it stands (`store.standing`).
        source: Its place among several runs: attempts of different runs at one task are different attempts.
        require: The weakest grade of separation at which a pass counts.
    """
    found = []
    for row in rows:
        now = stands[row.chain]
        trust = assess(now, row, require)
        status = _STATUSES[trust.outcome_class]
        number = source * _APART + row.number
        doubtful = trust.outcome_class == "doubt"
        outcome = Outcome(row.task, row.agent, row.model, number, status, row.score, doubtful, trust.separation)
        found.append(AttemptMeasures(outcome, _resource_use(row), now.reverified, now.scores, source))
    return found


def _resource_use(row: Row) -> dict[str, float]:
    given = row.metrics
    found: dict[str, float | None] = {"cost_usd": given.get("cost_usd"), "turns": given.get("turns", float(row.steps))}
    if "prompt_tokens" in given and "completion_tokens" in given:
        found["tokens"] = given["prompt_tokens"] + given["completion_tokens"]
    found["seconds"] = given.get("wall_s", _duration(row.started, row.finished))
    known = {name: float(value) for name in MEASURES if (value := found.get(name)) is not None}
    return {name: value for name, value in known.items() if math.isfinite(value) and value >= 0}


def _duration(started: float | None, finished: float | None) -> float | None:
    """An imported record may know no time, or one that runs backwards."""
    return finished - started if started and finished and finished >= started else None
