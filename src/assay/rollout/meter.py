"""Counts what an attempt uses and says when a limit is met."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from assay.errors import LimitReached
from assay.records import Limits, Usage

__all__ = ["Meter"]


class Meter:
    """What one attempt has used. Waiting for models is wall time, not working time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turns = 0
        self.calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cost_usd: float | None = 0.0
        self.waited_s = 0.0
        self._started = time.monotonic()

    def turn(self) -> None:
        """Charges a turn before it happens. Raises `LimitReached` when none is left or working time is spent."""
        allowed = self.limits.turns
        if allowed is not None and self.turns >= allowed:
            raise _met(limit="turns", used=self.turns, allowed=allowed)
        self.check_time()
        self.turns += 1

    def check_time(self) -> None:
        """Raises `LimitReached` when working time is spent; wall time is held by a timer outside."""
        allowed = self.limits.working_s
        if allowed is not None and self.working_s >= allowed:
            raise _met(limit="working_s", used=self.working_s, allowed=allowed)

    def charge(self, usage: Usage, cost_usd: float | None) -> None:
        """Charges a model call after it was recorded. Raises `LimitReached` where it went over."""
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd
        tokens, cost = self.limits.tokens, self.limits.cost_usd
        used = self.prompt_tokens + self.completion_tokens
        if tokens is not None and used >= tokens:
            raise _met(limit="tokens", used=used, allowed=tokens)
        if cost is not None and (self.cost_usd is None or self.cost_usd >= cost):
            raise _met(limit="cost_usd", used=-1.0 if self.cost_usd is None else self.cost_usd, allowed=cost)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time inside is waiting, not working."""
        before = time.monotonic()
        try:
            yield
        finally:
            self.waited_s += time.monotonic() - before

    @property
    def wall_s(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._started

    @property
    def working_s(self) -> float:
        """Wall seconds less waiting."""
        return self.wall_s - self.waited_s

    def metrics(self) -> dict[str, float]:
        """What the record keeps. A cost that is not known is absent, never 0."""
        found: dict[str, float] = {
            "turns": float(self.turns),
            "model_calls": float(self.calls),
            "prompt_tokens": float(self.prompt_tokens),
            "completion_tokens": float(self.completion_tokens),
            "wall_s": round(self.wall_s, 6),
            "working_s": round(self.working_s, 6),
        }
        if self.cost_usd is not None:
            found["cost_usd"] = self.cost_usd
        return found


def _met(*, limit: str, used: float, allowed: float) -> LimitReached:
    return LimitReached(limit, used, allowed)
