"""What a run reports while it goes on. The command line draws it; tests read it."""

from __future__ import annotations

import time
from typing import Protocol

from assay.rollout.attempt.trial import TryResult

from .plan import PlannedAttempt

__all__ = ["Progress", "Tally"]


class Progress(Protocol):
    """Told what happens, as it happens, from the event loop; must not block."""

    def begin(self, *, total: int, done: int) -> None:
        """The run starts (or goes on, with `done` attempts already finished)."""
        ...

    def started(self, attempt: PlannedAttempt) -> None:
        """An attempt starts."""
        ...

    def retrying(self, attempt: PlannedAttempt, result: TryResult) -> None:
        """A try failed for an infrastructure cause and another one follows."""
        ...

    def finished(self, attempt: PlannedAttempt, result: TryResult) -> None:
        """An attempt has its last try behind it."""
        ...


class Tally(Progress):
    """Counts; the base of every display."""

    def __init__(self) -> None:
        self.total = 0
        self.before = 0
        self.done = 0
        self.running: dict[str, float] = {}
        self.outcomes = {"pass": 0, "fail": 0, "unknown": 0, "error": 0, "broke": 0}
        self.stopped = 0
        self.retries = 0
        self.tokens = 0
        self.cost_usd = 0.0
        """Of the tries whose cost is known."""
        self.unpriced = 0
        """Tries whose cost is not known."""
        self.began = time.monotonic()

    def begin(self, *, total: int, done: int) -> None:
        self.total, self.before, self.done = total, done, done
        self.began = time.monotonic()

    def started(self, attempt: PlannedAttempt) -> None:
        self.running[attempt.id] = time.monotonic()

    def retrying(self, attempt: PlannedAttempt, result: TryResult) -> None:
        self.retries += 1
        self._spent(result)

    def finished(self, attempt: PlannedAttempt, result: TryResult) -> None:
        self.running.pop(attempt.id, None)
        self.done += 1
        self.outcomes[result.outcome or "broke"] += 1
        self.stopped += result.stopped is not None
        self._spent(result)

    def _spent(self, result: TryResult) -> None:
        self.tokens += int(result.metrics.get("prompt_tokens", 0) + result.metrics.get("completion_tokens", 0))
        cost = result.metrics.get("cost_usd")
        self.cost_usd += cost or 0.0
        self.unpriced += cost is None

    def seconds_left(self) -> float | None:
        """An estimate from the pace so far; None before the first attempt is done."""
        fresh = self.done - self.before
        if fresh == 0:
            return None
        return (time.monotonic() - self.began) / fresh * (self.total - self.done)
