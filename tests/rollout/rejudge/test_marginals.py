"""Marginals of a team's acts and actors, against their exact values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.errors import UserError
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import MarginalsConfig
from assay.rollout.rejudge.marginals import measure_marginals
from assay.settings import Settings
from assay.store import RunStore
from experiments.teams import CREDIT_TEAM, Exact

TASKS = "family:split-constraints,n=1,variables=3,values=3,parts=3,turns=3,seed=4"


async def record(tmp_path: Path, options: dict[str, Any], agent: str = "team") -> Settings:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    await start_run(RunConfig(tasks=(TASKS,), run="r", agent=agent, agent_options=options), settings, Tally())
    return settings


async def test_marginals_of_acts_are_near_the_exact_ones_and_the_cost_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.teams.CREDIT_TASKS", TASKS)
    settings = await record(tmp_path, CREDIT_TEAM)
    with RunStore.open(settings.store, "r") as store:
        made = store.trajectory(store.attempts()[0].chain)
    exact = dict(Exact(made).marginals(made))
    report = await measure_marginals("r", MarginalsConfig(forks=24), settings, Tally())
    assert {one.step for one in report.marginals} == set(exact)
    assert report.continuations == 48 * len(exact)
    assert report.turns > 0
    for one in report.marginals:
        assert one.marginal is not None
        assert one.pairs == 24
        assert abs(one.marginal - exact[one.step or 0]) < 0.35
    acts = [step.index for step in made.steps if step.actor == "agent"]
    with RunStore.open(settings.store, report.forks) as store:
        assert {row.agent for row in store.attempts()} == {f"fork+{made.agent}"}
        for started in [store.trajectory(row.chain).started for row in store.attempts() if row.number == 0]:
            side = started.config["marginal"]
            prefix = acts.index(side["step"]) + (side["side"] == "with")
            assert started.config.get("fork", {"prefix": 0})["prefix"] == prefix


async def test_an_actor_without_whom_nothing_is_assigned_is_worth_the_whole_success(tmp_path: Path) -> None:
    settings = await record(tmp_path, CREDIT_TEAM)
    report = await measure_marginals("r", MarginalsConfig(forks=6, units="actors"), settings, Tally())
    by_actor = {one.actor: one for one in report.marginals}
    assert list(by_actor) == ["one", "two", "solver"]
    assert by_actor["solver"].without_it == 0
    assert by_actor["solver"].marginal == by_actor["solver"].with_it
    only = await measure_marginals("r", MarginalsConfig(forks=2, units="actors", actors=("two",)), settings, Tally())
    assert [one.actor for one in only.marginals] == ["two"]


async def test_attempts_without_a_team_and_unknown_actors_are_refused(tmp_path: Path) -> None:
    settings = await record(tmp_path, {}, "clue-solver")
    with pytest.raises(UserError, match="it is not of a team"):
        await measure_marginals("r", MarginalsConfig(), settings, Tally())
    settings = await record(tmp_path / "other", CREDIT_TEAM)
    with pytest.raises(UserError, match="no role is called 'three'"):
        await measure_marginals("r", MarginalsConfig(actors=("three",)), settings, Tally())


async def test_a_recorded_team_that_names_code_is_not_run_without_leave(tmp_path: Path) -> None:
    actor = f"{Path(__file__).parents[1] / 'attempt' / 'teaming.py'}:Adder"
    settings = await record(tmp_path, {"roles": [{"name": "a", "agent": actor, "view": "all"}]})
    with pytest.raises(UserError, match="names Python code"):
        await measure_marginals("r", MarginalsConfig(units="actors"), settings, Tally())
