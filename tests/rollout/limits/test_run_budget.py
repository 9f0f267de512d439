"""The budget of a whole run: what it refuses, what it leaves to resume, and what it says before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.agents.interface import Attempt
from assay.cli.live import progress_line
from assay.errors import AssayError, BudgetExceededError, UserError
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.interface import ModelReply, ModelRequest, OnDeltas
from assay.learning.trainer.rollouts import RecipeBudget, complete_run
from assay.records import AttemptEnded, AttemptStarted
from assay.rollout import RunConfig, Tally, resume_run, start_run
from assay.rollout.limits.run_budget import BudgetLimits, ModelUse, RunBudget, estimate_use
from assay.settings import Settings
from assay.store import RunStore
from tests.rollout.counting import counting_task
from tests.rollout.programs import Program, run_program, write

pytestmark = pytest.mark.quick
PRICE_USD = 0.25


class Asker:
    """Asks the model twice and answers errors with silence."""

    name = "asker"
    needs_model = True

    async def run(self, attempt: Attempt) -> None:
        for turn in range(2):
            try:
                await attempt.ask(ModelRequest([{"role": "user", "content": f"turn {turn}"}]))
            except AssayError:  # an agent may swallow what it meets
                break
        attempt.finish("done")


class Priced(ScriptedBackend):
    """A model that names its price, or does not."""

    def __init__(self, price: float | None = PRICE_USD) -> None:
        super().__init__(lambda _: {"content": "yes"}, name="priced")
        self.price = price

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        return msgspec.structs.replace(await super().complete(request, on_deltas), cost_usd=self.price)


def arguments(root: Path, tasks: int, **fields: Any) -> tuple[RunConfig, Settings]:
    config = RunConfig(
        tasks=("-",), agent=f"{__file__}:Asker", model="scripted:given", run="r", concurrency=1, **fields
    )
    return config, Settings(cache=root / "cache", store=root / "store")


async def run(root: Path, *, price: float | None = PRICE_USD, tasks: int = 3, **fields: Any) -> Tally:
    config, settings = arguments(root, tasks, **fields)
    tally = Tally()
    given = [counting_task(f"t{n}") for n in range(tasks)]
    await start_run(config, settings, tally, tasks=given, backend=Priced(price))
    return tally


def endings(root: Path) -> list[tuple[str, bool, bool]]:
    with RunStore.open(root / "store", "r") as store:
        return sorted((row.attempt, row.finished is not None, row.interrupted) for row in store.attempts())


async def test_a_call_beyond_the_budget_interrupts_its_attempt_and_starts_no_other(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError, match="the budget of 3 model calls is used up"):
        await run(tmp_path, budget_calls=3)
    assert endings(tmp_path) == [("t0@0", True, False), ("t1@0", False, True)]


async def test_a_budget_in_money_counts_what_calls_cost(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError, match=r"the budget of \$0.5 is used up: \$0.5000 in 2 model calls"):
        await run(tmp_path, budget_usd=0.5)


async def test_an_unknown_price_ends_a_run_with_a_budget_in_money(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError, match="the price of a call is unknown: name the model's price in the file"):
        await run(tmp_path, budget_usd=9.0, price=None)


async def test_resuming_counts_what_was_used_before_and_completes_the_run(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError):
        await run(tmp_path, budget_calls=3)
    _, settings = arguments(tmp_path, 3)
    tasks = [counting_task(f"t{n}") for n in range(3)]
    for budget in (BudgetLimits(calls=4), BudgetLimits(calls=20)):
        tally, fails = Tally(), budget.calls == 4
        try:
            await resume_run("r", settings, tally, tasks=tasks, backend=Priced(), budget=budget)
        except BudgetExceededError:
            assert fails
        else:
            assert (fails, tally.done, tally.total) == (False, 3, 3)
    assert [ending for ending in endings(tmp_path) if ending[1]] == [(f"t{n}@0", True, False) for n in range(3)]


async def test_a_run_within_its_budget_says_what_is_left(tmp_path: Path) -> None:
    tally = await run(tmp_path, budget_usd=9.0, budget_calls=40)
    assert "$1.5000 of $9; 6 of 40 calls" in progress_line(tally)


async def test_an_estimate_comes_from_earlier_attempts_of_the_same_agent_and_model(tmp_path: Path) -> None:
    await run(tmp_path)
    told = estimate_use(tmp_path / "store", "asker", "priced", 10).sentence()
    assert told == "estimate: about 20 model calls and $5.00 for 10 attempts, by 3 earlier ones of asker with priced"
    unknown = estimate_use(tmp_path / "store", "asker", "m", 10)
    assert unknown.sentence() == "no estimate: the store has no earlier attempt of asker with m"


async def test_an_attempt_without_a_model_call_is_no_basis_of_an_estimate(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "store", "r", {}) as store:
        started = AttemptStarted("r", "t@0", "t", "d", "asker", "priced", 1, 0)
        store.append("t@0.0", [started, AttemptEnded("ended", at=2.0, metrics={"model_calls": 0.0, "cost_usd": 0.0})])
    assert estimate_use(tmp_path / "store", "asker", "priced", 10).earlier == 0


async def test_the_estimate_of_a_model_in_a_file_finds_its_earlier_attempts(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('["yes"]')
    config, settings = arguments(tmp_path, 1)
    for run in ("first", "second"):
        tally, told = Tally(), list[str]()
        tally.inform = told.append  # type: ignore[method-assign]
        config = msgspec.structs.replace(config, run=run, model=f"scripted:{tmp_path / 'model.json'}")
        await start_run(config, settings, tally, tasks=[counting_task("t")])
    assert told == [
        "estimate: about 2 model calls and $0.00 for 1 attempt, by 1 earlier one of asker with scripted:model.json"
    ]


async def test_an_estimate_reads_the_newest_runs_until_it_has_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, price in enumerate((8.0, PRICE_USD)):
        config, settings = arguments(tmp_path, 3)
        backend, tasks = Priced(price), [counting_task(f"t{n}") for n in range(3)]
        await start_run(
            msgspec.structs.replace(config, run=f"r{number}"), settings, Tally(), tasks=tasks, backend=backend
        )
    assert estimate_use(tmp_path / "store", "asker", "priced", 2).earlier == 6
    monkeypatch.setattr("assay.rollout.limits.run_budget.ENOUGH_ATTEMPTS", 3)
    newest = estimate_use(tmp_path / "store", "asker", "priced", 2)
    assert (newest.earlier, newest.cost_usd) == (3, 2 * 2 * PRICE_USD)


async def test_an_estimate_leaves_out_a_damaged_run(tmp_path: Path) -> None:
    await run(tmp_path)
    damaged = tmp_path / "store" / "runs" / "s"
    damaged.mkdir()
    (damaged / "run.sqlite").write_bytes(b"no database" * 500)
    assert estimate_use(tmp_path / "store", "asker", "priced", 10).earlier == 3


def test_a_budget_of_nothing_is_refused() -> None:
    for wrong in ({"budget_usd": 0.0}, {"budget_usd": float("nan")}, {"budget_calls": 0}):
        with pytest.raises(UserError, match="it must be"):
            RunConfig(tasks=("-",), **wrong)  # type: ignore[arg-type]


def test_an_unknown_cost_before_leaves_a_budget_in_calls_alone() -> None:
    budget = RunBudget(BudgetLimits(calls=2), ModelUse(1, None))
    budget.begin_call()
    with pytest.raises(BudgetExceededError):
        budget.begin_call()


async def test_a_program_that_asks_again_and_again_is_interrupted(tmp_path: Path) -> None:
    backend = ScriptedBackend(lambda _: write("a.txt"), name="m")
    budget = RunBudget(BudgetLimits(calls=2))
    with pytest.raises(BudgetExceededError):
        await asyncio.wait_for(run_program(tmp_path, Program(stubborn=True), backend, budget=budget), 60)
    with RunStore.open(tmp_path, "r") as store:
        (row,) = store.attempts()
        assert (row.interrupted, row.finished, len(store.trajectory(row.chain).calls)) == (True, None, 2)


async def test_a_recipe_shares_one_budget_among_its_runs(tmp_path: Path) -> None:
    config, settings = arguments(tmp_path, 3)
    tasks = [counting_task(f"t{n}") for n in range(3)]
    steps = [msgspec.structs.replace(config, run=f"grid-step-{n:04d}") for n in range(3)]
    other = msgspec.structs.replace(config, run="grid-1-step-0000")  # of another recipe, `grid-1`
    await complete_run(other, settings, Priced(), tasks)  # type: ignore[arg-type]
    few, enough = RecipeBudget("grid", 8), RecipeBudget("grid", 12)
    assert len(await complete_run(steps[0], settings, Priced(), tasks, budget=few)) == 3  # type: ignore[arg-type]
    assert few.describe(settings.store) == "6 of 8 model calls"
    with pytest.raises(BudgetExceededError, match="the budget of 2 model calls is used up"):
        await complete_run(steps[1], settings, Priced(), tasks, budget=few)  # type: ignore[arg-type]
    assert len(await complete_run(steps[0], settings, None, tasks, budget=few)) == 3
    with pytest.raises(BudgetExceededError, match="the budget of 8 model calls is used up before run grid-step-0002"):
        await complete_run(steps[2], settings, Priced(), tasks, budget=few)  # type: ignore[arg-type]
    assert len(await complete_run(steps[1], settings, Priced(), tasks, budget=enough)) == 3  # type: ignore[arg-type]
    assert RecipeBudget("grid-1", None).describe(settings.store) == "6 model calls"


async def test_a_recipe_whose_budget_is_taken_away_completes_its_run(tmp_path: Path) -> None:
    config, settings = arguments(tmp_path, 3)
    tasks = [counting_task(f"t{n}") for n in range(3)]
    step = msgspec.structs.replace(config, run="grid-step-0001")
    with pytest.raises(BudgetExceededError):
        await complete_run(step, settings, Priced(), tasks, budget=RecipeBudget("grid", 3))  # type: ignore[arg-type]
    rows = await complete_run(step, settings, Priced(), tasks, budget=RecipeBudget("grid", None))  # type: ignore[arg-type]
    assert len(rows) == 3
