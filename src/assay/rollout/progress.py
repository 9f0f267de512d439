"""Progress reports of a run. The command line draws them; tests read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from assay.rollout.attempt.trial import TrialResult
from assay.rollout.limits.run_budget import BudgetLimits
from assay.store import AttemptRow

from .plan import PlannedAttempt


class Progress(Protocol):
    """Receives events from the event loop as they happen; must not block."""

    def warn(self, text: str) -> None:
        """Something in the configuration or the tasks is doubtful; the run goes on. Does nothing by default."""
        return None

    def inform(self, text: str) -> None:
        """Says what the run will use. Does nothing by default."""
        return None

    def bound(self, budget: BudgetLimits) -> None:
        """The run has this budget. Does nothing by default."""
        return None

    def opened(self, run: str, rows: Sequence[AttemptRow]) -> None:
        """The run is open for writing; `rows` are the trials of earlier processes. Does nothing by default."""
        return None

    def begin(self, *, total: int, done: int) -> None:
        """The run starts, or resumes with `done` finished attempts."""
        ...

    def started(self, attempt: PlannedAttempt) -> None:
        """An attempt starts."""
        ...

    def retrying(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        """A trial failed for an infrastructure cause; another follows."""
        ...

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        """The last trial of an attempt ended."""
        ...


class ForwardedProgress(Progress):
    """Forwards the events of a part to the progress of the whole, except its begin."""

    def __init__(self, whole: Progress) -> None:
        self.whole = whole

    def warn(self, text: str) -> None:
        self.whole.warn(text)

    def inform(self, text: str) -> None:
        self.whole.inform(text)

    def bound(self, budget: BudgetLimits) -> None:
        self.whole.bound(budget)

    def opened(self, run: str, rows: Sequence[AttemptRow]) -> None:
        self.whole.opened(run, rows)

    def begin(self, *, total: int, done: int) -> None:
        """Does nothing: the whole begins by itself."""

    def started(self, attempt: PlannedAttempt) -> None:
        self.whole.started(attempt)

    def retrying(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        self.whole.retrying(attempt, result)

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        self.whole.finished(attempt, result)


class Tally(Progress):
    """Counts events; the base of every display."""

    def __init__(self) -> None:
        self.run: str | None = None
        """Name of the run; None until it is open."""
        self.warnings: list[str] = []
        self.total = 0
        self.done_before = 0
        self.done = 0
        self.running: dict[str, float] = {}
        self.outcomes = {"pass": 0, "fail": 0, "unknown": 0, "error": 0, "broke": 0}
        self.stopped = 0
        self.retries = 0
        self.tokens = 0
        self.cost_usd = 0.0
        """Total of the trials with known cost."""
        self.priced = 0
        """Trials with known cost."""
        self.calls = 0
        """Model calls of the trials that ended."""
        self.budget = BudgetLimits()
        self.unpriced = 0
        """Trials with unknown cost."""
        self.began = time.monotonic()

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def bound(self, budget: BudgetLimits) -> None:
        self.budget = budget

    def opened(self, run: str, rows: Sequence[AttemptRow]) -> None:
        self.run = run
        for row in rows:
            if row.final:
                self.outcomes[row.outcome or "broke"] += 1
                self.stopped += row.stopped is not None
            if row.finished is not None:
                self.retries += row.retried
                self._add_usage(row.metrics)

    def begin(self, *, total: int, done: int) -> None:
        self.total, self.done_before, self.done = total, done, done
        self.began = time.monotonic()

    def started(self, attempt: PlannedAttempt) -> None:
        self.running[attempt.id] = time.monotonic()

    def retrying(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        self.retries += 1
        self._add_usage(result.metrics)

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        self.running.pop(attempt.id, None)
        self.done += 1
        self.outcomes[result.outcome or "broke"] += 1
        self.stopped += result.stopped is not None
        self._add_usage(result.metrics)

    def _add_usage(self, metrics: Mapping[str, float]) -> None:
        self.tokens += int(metrics.get("prompt_tokens", 0) + metrics.get("completion_tokens", 0))
        self.calls += int(metrics.get("model_calls", 0))
        cost = metrics.get("cost_usd")
        self.cost_usd += cost or 0.0
        self.priced += cost is not None
        self.unpriced += cost is None

    def seconds_left(self) -> float | None:
        """Estimates the remaining seconds from the pace so far; None before the first attempt ends."""
        fresh = self.done - self.done_before
        if fresh == 0:
            return None
        return (time.monotonic() - self.began) / fresh * (self.total - self.done)


class SpokenTally(Tally):
    """Counts, and says its sentences at once."""

    def __init__(self, speak: Callable[[str], None]) -> None:
        super().__init__()
        self._speak = speak

    def warn(self, text: str) -> None:
        self._speak(text)

    def inform(self, text: str) -> None:
        self._speak(text)
