"""Bounds the money and the model calls of a whole run, over all its attempts and across resumptions.

A call beyond the budget is refused. Its attempt is left interrupted, not failed, because the agent did nothing wrong;
attempts under way that need no further call end as usual, and no new one starts. `assay resume` with a larger budget
completes the run. Covered: every call that is recorded, the calls of interrupted attempts included. Not covered: what a
call under way costs beyond the rest, so a run may exceed the budget by the calls that are under way together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from assay.errors import BudgetExceededError, StoreError, UserError
from assay.records import ModelCall

if TYPE_CHECKING:
    from assay.store import AttemptRow, RunStore

MOST_RUNS_READ = 20
"""Newest runs that an estimate reads at most."""
ENOUGH_ATTEMPTS = 30
"""An estimate reads no further run once it has so many attempts."""


class BudgetLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Budget of a run; None is unlimited."""

    cost_usd: float | None = None
    calls: int | None = None

    def __post_init__(self) -> None:
        """Rejects invalid values before anything starts."""
        if self.cost_usd is not None and not self.cost_usd > 0:
            raise UserError(f"budget_usd is {self.cost_usd}: it must be more than 0")
        if self.calls is not None and self.calls < 1:
            raise UserError(f"budget_calls is {self.calls}: it must be at least 1")

    @property
    def is_unlimited(self) -> bool:
        return self.cost_usd is None and self.calls is None


class ModelUse(msgspec.Struct, frozen=True):
    """Model calls and their cost; None is unknown."""

    calls: int = 0
    cost_usd: float | None = 0.0


class RunBudget:
    """The budget of one run and what of it was used."""

    def __init__(self, limits: BudgetLimits, used: ModelUse | None = None) -> None:
        used = used or ModelUse()
        self.limits = limits
        self.calls = used.calls
        self.cost_usd = used.cost_usd
        self.exceeded: BudgetExceededError | None = None
        """Set once a call was refused."""

    def begin_call(self) -> None:
        """Counts a call before it is made. Raises `BudgetExceededError` if the budget is used up."""
        problem = self._problem()
        if problem is not None:
            self.exceeded = BudgetExceededError(problem)
            raise self.exceeded
        self.calls += 1

    def charge(self, cost_usd: float | None) -> None:
        """Adds the cost of a call that ended; None is unknown."""
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd

    def _problem(self) -> str | None:
        limits = self.limits
        if limits.calls is not None and self.calls >= limits.calls:
            return f"the budget of {limits.calls} model calls is used up"
        if limits.cost_usd is None:
            return None
        if self.cost_usd is None:
            return (
                f"the budget of ${limits.cost_usd:g} cannot be kept, because the price of a call is unknown: name the "
                "model's price in the file of ASSAY_PRICES, or bound the calls with --budget-calls"
            )
        if self.cost_usd >= limits.cost_usd:
            return f"the budget of ${limits.cost_usd:g} is used up: ${self.cost_usd:.4f} in {self.calls} model calls"
        return None


def use_of(store: RunStore) -> ModelUse:
    """Returns the model use of all trials of a run, interrupted ones included."""
    calls, costs = 0, list[float | None]()
    for row in store.attempts():
        if row.finished is not None:
            for name, cost in (("model_calls", "cost_usd"), ("user_calls", "user_cost_usd")):
                made = int(row.metrics.get(name, 0))
                calls += made
                costs.append(row.metrics.get(cost) if made else 0.0)
        else:
            trajectory = store.trajectory(row.chain)
            use = use_of_calls((*trajectory.calls, *trajectory.user_calls))
            calls += use.calls
            costs.append(use.cost_usd)
    return ModelUse(calls, _sum_known(costs))


def use_of_calls(recorded: Sequence[ModelCall]) -> ModelUse:
    """Returns the model use of calls of a trial that has no summary, because it was interrupted."""
    return ModelUse(len(recorded), _sum_known([call.cost_usd for call in recorded if call.error is None]))


def _sum_known(costs: Sequence[float | None]) -> float | None:
    """Returns the sum of costs; None if one is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


class UseEstimate(NamedTuple):
    """Estimated use of a plan, by earlier attempts of the same agent with the same model."""

    agent: str
    model: str
    attempts: int
    """Attempts of the plan."""
    earlier: int
    """Attempts that the estimate rests on; with 0 it is unknown."""
    calls: float = 0.0
    cost_usd: float | None = None
    """None if the cost of an earlier attempt is unknown."""

    def sentence(self) -> str:
        """Returns the estimate as one line."""
        if not self.earlier:
            return f"no estimate: the store has no earlier attempt of {self.agent} with {self.model}"
        money = "an unknown cost" if self.cost_usd is None else f"${self.cost_usd:.2f}"
        planned = f"{self.attempts} attempt{'s' * (self.attempts != 1)}"
        earlier = f"{self.earlier} earlier {'one' if self.earlier == 1 else 'ones'}"
        return (
            f"estimate: about {self.calls:.0f} model calls and {money} for {planned}, by {earlier} of {self.agent} "
            f"with {self.model}"
        )


class UseHistory:
    """Model use of earlier attempts; every run is read once, when an estimate first needs it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._newest: list[str] | None = None
        self._rows: dict[str, list[AttemptRow]] = {}

    def estimate(self, agent: str, model: str, attempts: int) -> UseEstimate:
        """Returns what a plan will use by the newest attempts of the same agent with the same model. An attempt without
        a model call, as of a program that did not start, does not count."""
        rows = [row for row in self._find(agent, model) if row.metrics.get("model_calls", 0) > 0]
        if not rows:
            return UseEstimate(agent, model, attempts, 0)
        from statistics import fmean

        costs = [row.metrics["cost_usd"] for row in rows if "cost_usd" in row.metrics]
        cost_usd = attempts * fmean(costs) if len(costs) == len(rows) else None
        calls = attempts * fmean(row.metrics["model_calls"] for row in rows)
        return UseEstimate(agent, model, attempts, len(rows), calls, cost_usd)

    def _find(self, agent: str, model: str) -> list[AttemptRow]:
        """Returns attempts of the newest runs, the newest run first."""
        from assay.store import list_runs  # late: `--help` reads no store

        if self._newest is None:
            self._newest = list_runs(self._root)[: -MOST_RUNS_READ - 1 : -1]
        found: list[AttemptRow] = []
        for run in self._newest:
            if len(found) >= ENOUGH_ATTEMPTS:
                break
            found += _matching(self._read(run), agent, model)
        return found

    def _read(self, run: str) -> list[AttemptRow]:
        from assay.store import RunStore

        if run not in self._rows:
            self._rows[run] = []
            with suppress(StoreError), RunStore.open(self._root, run) as store:  # a damaged run prevents no new one
                self._rows[run] = store.attempts()
        return self._rows[run]


def estimate_use(root: Path, agent: str, model: str, attempts: int) -> UseEstimate:
    """Returns what one plan will use. See `UseHistory.estimate`."""
    return UseHistory(root).estimate(agent, model, attempts)


def _matching(rows: Iterable[AttemptRow], agent: str, model: str) -> list[AttemptRow]:
    from assay.store import final_rows

    return [row for row in final_rows(rows) if (row.agent, row.model) == (agent, model) and row.broke is None]
