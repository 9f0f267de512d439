"""Counts what an attempt uses and says when a limit is met."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from assay.errors import LimitReached
from assay.records import Limits, Usage

__all__ = ["Meter"]


class Meter:
    """What one attempt has used. Waiting for models is wall time, not working time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turns = 0
        self.begun = 0
        """Calls that were begun, however they ended."""
        self.calls = 0
        """Calls that were answered."""
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cost_usd: float | None = 0.0
        self.waited_s = 0.0
        self.on_turn: Callable[[], None] | None = None
        """Called before a turn; raises `LimitReached` where there is to be none."""
        self._waiting = 0
        self._since = 0.0
        self._started = time.monotonic()

    def turn(self) -> None:
        """Charges a turn before it happens. Raises `LimitReached` when none is left or working time is spent."""
        allowed = self.limits.turns
        if allowed is not None and self.turns >= allowed:
            raise _met(limit="turns", used=self.turns, allowed=allowed)
        self.check_time()
        if self.on_turn is not None:
            self.on_turn()
        self.turns += 1

    def check_time(self) -> None:
        """Raises `LimitReached` when working time is spent; wall time is held by a timer outside."""
        allowed = self.limits.working_s
        if allowed is not None and self.working_s >= allowed:
            raise _met(limit="working_s", used=self.working_s, allowed=allowed)

    def begin_call(self) -> None:
        """Charges a call before it is made. Raises `LimitReached` when none is left, or working time is spent."""
        allowed = self.limits.calls
        if allowed is not None and self.begun >= allowed:
            raise _met(limit="calls", used=self.begun, allowed=allowed)
        self.check_time()
        self.begun += 1

    def charge(self, usage: Usage, cost_usd: float | None) -> None:
        """Charges a model call after it was recorded. Raises `LimitReached` where it went over."""
        self.count(usage, cost_usd)
        self.check_use()

    def count(self, usage: Usage, cost_usd: float | None) -> None:
        """Adds what a call used; `check_use` says whether that was too much."""
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd

    def check_use(self) -> None:
        """Raises `LimitReached` when tokens or money are spent."""
        tokens, cost = self.limits.tokens, self.limits.cost_usd
        used = self.prompt_tokens + self.completion_tokens
        if tokens is not None and used >= tokens:
            raise _met(limit="tokens", used=used, allowed=tokens)
        if cost is not None and (self.cost_usd is None or self.cost_usd >= cost):
            raise _met(limit="cost_usd", used=-1.0 if self.cost_usd is None else self.cost_usd, allowed=cost)

    def check_turns(self) -> None:
        """Raises `LimitReached` when no turn is left, or wall time is spent."""
        turns, wall_s = self.limits.turns, self.limits.wall_s
        if turns is not None and self.turns >= turns:
            raise _met(limit="turns", used=self.turns, allowed=turns)
        if wall_s is not None and self.wall_s >= wall_s:
            raise _met(limit="wall_s", used=self.wall_s, allowed=wall_s)
        if self.on_turn is not None:
            self.on_turn()

    def begin_wait(self) -> None:
        """Time until the matching `end_wait` is waiting, not working; time that several wait at once counts once."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += 1

    def end_wait(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.waited_s += time.monotonic() - self._since

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time inside is waiting, as between `begin_wait` and `end_wait`."""
        self.begin_wait()
        try:
            yield
        finally:
            self.end_wait()

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
