"""Converts a store's rows to the columns of statistics, so that all screens agree.

Invariant: a pass is doubtful exactly where `verdicts.assess` doubts it; an unrecorded or invalid amount is absent,
never 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from assay.records import Separation, VerdictStatus
from assay.statistics import AttemptOutcome
from assay.verdicts import CurrentVerdicts, OutcomeClass, assess

MEASURES: dict[str, str] = {"cost_usd": "US dollars", "tokens": "tokens", "seconds": "seconds", "turns": "turns"}
"""Resources used by an attempt, and their units."""
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
    """Summary of an attempt in a store (`store.AttemptRow`)."""

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

    outcome: AttemptOutcome
    used: dict[str, float]
    """Measure to amount; the recorded ones of `MEASURES`."""
    reverified: str | None
    """`agree`, `disagree`, `flaky` or `cannot`; None without re-verification."""
    scores: dict[str, float]
    """Process check to its score."""
    source: int
    """Index of its run among the named ones."""


def measure_attempts(
    rows: Iterable[Row],
    stands: Mapping[str, CurrentVerdicts],
    *,
    source: int = 0,
    require: Separation = "unknown",
    redrawn: Collection[str] = (),
) -> list[AttemptMeasures]:
    """Returns the attempts of one run from its deciding trials (`store.deciding`) and the current verdicts of their
    chains.

    `source` is the run's index among several: attempts of different runs at one task are different attempts. `require`
    is the minimum grade of separation of a counted pass. `redrawn` are the chains of `store.redrawn_chains`.
    """
    found = []
    for row in rows:
        now = stands[row.chain]
        trust = assess(now, row, require)
        status = _STATUSES[trust.outcome_class]
        number = source * _APART + row.number
        doubtful = trust.outcome_class == "doubt"
        outcome = AttemptOutcome(
            *(row.task, row.agent, row.model, number, status, row.score, doubtful, trust.separation),
            redrawn=row.chain in redrawn,
        )
        found.append(AttemptMeasures(outcome, _resource_use(row), now.reverified, now.scores, source))
    return found


def _resource_use(row: Row) -> dict[str, float]:
    given = row.metrics
    tokens = None
    if "prompt_tokens" in given and "completion_tokens" in given:
        tokens = given["prompt_tokens"] + given["completion_tokens"]
    seconds = given["wall_s"] if "wall_s" in given else _duration(row.started, row.finished)
    found = (
        ("cost_usd", given.get("cost_usd")),
        ("tokens", tokens),
        ("seconds", seconds),
        ("turns", given.get("turns", row.steps)),
    )
    return {name: float(value) for name, value in found if value is not None and 0 <= value < math.inf}


def _duration(started: float | None, finished: float | None) -> float | None:
    """Returns the duration; None for an imported record without time or with a negative one."""
    return finished - started if started and finished and finished >= started else None
