"""Counts an attempt's usage and enforces its limits."""

from __future__ import annotations

import time
from collections.abc import Callable

from assay.errors import BudgetExceededError, LimitReached
from assay.records import Limits, Usage
from assay.rollout.limits.run_budget import RunBudget


class Meter:
    """The usage of one attempt. Time spent waiting for models is wall time, not working time."""

    def __init__(self, limits: Limits, budget: RunBudget | None = None) -> None:
        self.limits = limits
        self.budget = budget
        """Budget of the run; None is unlimited."""
        self.refused: BudgetExceededError | None = None
        """Set once the run's budget refused a call of this attempt."""
        self.turns = 0
        self.calls_begun = 0
        """Calls that were begun, however they ended."""
        self.calls = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cost_usd: float | None = 0.0
        self.user_calls = 0
        """Model calls of the simulated person, which count for the run's budget and for no limit of the attempt."""
        self.user_tokens = 0
        self.user_cost_usd: float | None = 0.0
        self.waited_s = 0.0
        self.paused_s = 0.0
        """Seconds for which the attempt was paused from outside, without a pause under way."""
        self.pauses = 0
        self._paused_since: float | None = None
        self.on_turn: Callable[[], None] | None = None
        """Called before a turn; raises `LimitReached` to prevent it."""
        self._waiting = 0
        self._since = 0.0
        self._started = time.monotonic()

    def turn(self) -> None:
        """Charges a turn before it happens. Raises `LimitReached` if turns or working time are used up."""
        allowed = self.limits.turns
        if allowed is not None and self.turns >= allowed:
            raise LimitReached("turns", self.turns, allowed)
        self.check_time()
        if self.on_turn is not None:
            self.on_turn()
        self.turns += 1

    def check_time(self) -> None:
        """Raises `LimitReached` if working time is used up; a timer elsewhere enforces wall time."""
        allowed = self.limits.working_s
        if allowed is not None and self.working_s >= allowed:
            raise LimitReached("working_s", self.working_s, allowed)

    def begin_call(self) -> None:
        """Charges a call before it is made. Raises `LimitReached` if calls or working time are used up, and
        `BudgetExceededError` if the run's budget is."""
        allowed = self.limits.calls
        if allowed is not None and self.calls_begun >= allowed:
            raise LimitReached("calls", self.calls_begun, allowed)
        self.check_time()
        self._begin_in_budget()
        self.calls_begun += 1

    def _begin_in_budget(self) -> None:
        if self.budget is not None:
            try:
                self.budget.begin_call()
            except BudgetExceededError as exc:
                self.refused = exc
                raise

    def begin_user_call(self) -> None:
        """Charges a call of the simulated person before it is made. Raises `BudgetExceededError`."""
        self._begin_in_budget()

    def count_user_call(self, usage: Usage, cost_usd: float | None) -> None:
        """Adds the usage of a recorded call of the simulated person."""
        self.user_calls += 1
        if self.budget is not None:
            self.budget.charge(cost_usd)
        self.user_tokens += (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        self.user_cost_usd = None if cost_usd is None or self.user_cost_usd is None else self.user_cost_usd + cost_usd

    def charge(self, usage: Usage, cost_usd: float | None) -> None:
        """Charges a recorded model call. Raises `LimitReached` if it exceeded a limit."""
        self.count(usage, cost_usd)
        self.check_use()

    def count(self, usage: Usage, cost_usd: float | None) -> None:
        """Adds a call's usage without checking limits."""
        self.calls += 1
        if self.budget is not None:
            self.budget.charge(cost_usd)
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd

    def check_use(self) -> None:
        """Raises `LimitReached` if tokens or cost are used up."""
        tokens, cost = self.limits.tokens, self.limits.cost_usd
        used = self.prompt_tokens + self.completion_tokens
        if tokens is not None and used >= tokens:
            raise LimitReached("tokens", used, tokens)
        if cost is not None and (self.cost_usd is None or self.cost_usd >= cost):
            raise LimitReached("cost_usd", -1.0 if self.cost_usd is None else self.cost_usd, cost)

    def check_turns(self) -> None:
        """Raises `LimitReached` if turns or wall time are used up."""
        turns, wall_s = self.limits.turns, self.limits.wall_s
        if turns is not None and self.turns >= turns:
            raise LimitReached("turns", self.turns, turns)
        if wall_s is not None and self.wall_s >= wall_s:
            raise LimitReached("wall_s", self.wall_s, wall_s)
        if self.on_turn is not None:
            self.on_turn()

    def is_spent(self) -> bool:
        """Returns whether a limit of the attempt allows no further turn or call."""
        if self.limits.calls is not None and self.calls_begun >= self.limits.calls:
            return True
        try:
            self.check_turns()
            self.check_time()
            self.check_use()
        except LimitReached:
            return True
        return False

    def begin_wait(self) -> None:
        """Starts waiting time, up to the matching `end_wait`; overlapping waits count once."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += 1

    def end_wait(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.waited_s += time.monotonic() - self._since

    def begin_pause(self) -> None:
        """Stops wall time and working time, up to `end_pause`."""
        if self._paused_since is None:
            self._paused_since = time.monotonic()
            self.pauses += 1
            self.begin_wait()

    def end_pause(self) -> None:
        """Ends a pause. Idempotent."""
        if self._paused_since is not None:
            self.paused_s += time.monotonic() - self._paused_since
            self._paused_since = None
            self.end_wait()

    def waiting(self) -> _Waiting:
        """Returns a context that counts the time inside as waiting."""
        return _Waiting(self)

    @property
    def wall_s(self) -> float:
        """Seconds since the attempt began, without pauses."""
        return self._now() - self._started - self.paused_s

    @property
    def working_s(self) -> float:
        """Seconds since the attempt began, without waiting and pauses."""
        return self._now() - self._started - self.waited_s

    def _now(self) -> float:
        """Returns the time, which stands still during a pause."""
        return time.monotonic() if self._paused_since is None else self._paused_since

    def metrics(self) -> dict[str, float]:
        """Returns the metrics to record. An unknown cost is absent, never 0."""
        found: dict[str, float] = {
            "turns": float(self.turns),
            "model_calls": float(self.calls),
            "prompt_tokens": float(self.prompt_tokens),
            "completion_tokens": float(self.completion_tokens),
            "wall_s": round(self.wall_s, 6),
            "working_s": round(self.working_s, 6),
        }
        if self.pauses:
            found["paused_s"] = round(self.paused_s, 6)
        if self.cost_usd is not None:
            found["cost_usd"] = self.cost_usd
        if self.user_calls:
            found |= {"user_calls": float(self.user_calls), "user_tokens": float(self.user_tokens)}
            found |= {} if self.user_cost_usd is None else {"user_cost_usd": self.user_cost_usd}
        return found


class _Waiting:
    """Context of `Meter.waiting`."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def __enter__(self) -> None:
        self._meter.begin_wait()

    def __exit__(self, *_: object) -> None:
        self._meter.end_wait()
