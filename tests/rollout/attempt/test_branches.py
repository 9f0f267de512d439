"""Combinators in ordinary runs: what is tried, what is handed in, what is recorded, and what limits bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.agents.building import build_agent
from assay.agents.combinators.agents import keep_better_half
from assay.agents.random_world import RandomWorldAgent
from assay.analysis.judged_path import judged_path
from assay.errors import AgentDefinitionError, OptionError, UserError
from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.records import Limits, Trajectory
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.counterfactual import rewind
from assay.rollout.rejudge.replay import replay
from assay.rollout.schedule.fork_states import path_of
from assay.settings import Settings
from assay.store import RunStore
from tests.rollout.acting import write_task
from tests.rollout.counting import counting_task

TRYING = Path(__file__).with_name("trying.py")
WORLD = "family:grid,n=6,size=4,seed=3"


def settings_of(folder: Path) -> Settings:
    return Settings(Settings.from_environment().cache, folder / "store")


async def run(tmp_path: Path, agent: str, *tasks: str, **fields: Any) -> list[Trajectory]:
    config = RunConfig(tasks=tasks or (WORLD,), agent=agent, run="r", **fields)
    await start_run(config, settings_of(tmp_path), Tally())
    with RunStore.open(tmp_path / "store", "r") as store:
        return [store.trajectory(row.chain) for row in sorted(store.attempts(), key=lambda row: row.attempt)]


def pick(made: Trajectory) -> dict[str, Any]:
    (found,) = [item.data for item in made.evidence if item.kind == "pick"]
    return found


def adopted(made: Trajectory) -> dict[str, Any]:
    (found,) = [item.data for item in made.evidence if item.kind == "branch_adopted"]
    return found


async def test_best_of_n_hands_in_a_passing_try_and_says_that_it_is_an_upper_bound(tmp_path: Path) -> None:
    made = await run(tmp_path, "best-of:6:random-world", agent_options={"judge": "verdict"})
    assert {one.agent for one in made} == {"best-of:6:random-world+upper-bound"}
    for one in made:
        found, tries = pick(one), pick(one)["tries"]
        assert (found["privileged"], len(tries), adopted(one)["upper_bound"]) == (True, 6, True)
        assert sum(t["steps"] for t in tries) == len(one.steps)
        best = max(t["score"] for t in tries)
        assert found["picked"] == next(t["branch"] for t in tries if t["score"] == best)
        assert (one.outcome == "pass") == (best == 1.0)
    assert {one.outcome for one in made} == {"pass", "fail"}


def test_the_better_half_of_the_tries_is_at_least_three_in_their_order() -> None:
    tries = [(0.9, "a"), (0.4, "b"), (0.8, "c"), (0.3, "d"), (0.7, "e"), (0.2, "f")]  # the hand case of R2E-Gym
    assert [name for _, name in keep_better_half(tries)] == ["a", "c", "e"]
    assert [name for _, name in keep_better_half([(0.5, n) for n in "abcdefgh"])] == ["a", "b", "c", "d"]
    assert len(keep_better_half(tries[:2])) == 2


async def test_two_judges_pick_together(tmp_path: Path) -> None:
    options = {"judge": f"{TRYING}:short", "screen": f"{TRYING}:late"}
    for made in await run(tmp_path, "best-of:8:random-world", agent_options=options):
        found = pick(made)
        tries = {one["branch"]: one for one in found["tries"]}
        let_through = sorted(tries.values(), key=lambda one: -one["screened"])[:4]
        judged = [one for one in tries.values() if one["score"] is not None]
        assert {one["branch"] for one in judged} == {one["branch"] for one in let_through}
        best = max(judged, key=lambda one: (one["score"], one["screened"]))
        assert (found["picked"], adopted(made)["branch"]) == (best["branch"], best["branch"])
        assert found["screen"].endswith("trying.py:late")


async def test_a_privileged_second_judge_makes_an_upper_bound_too(tmp_path: Path) -> None:
    options = {"judge": f"{TRYING}:short", "screen": "verdict"}
    made = await run(tmp_path, "best-of:4:random-world", agent_options=options)
    assert {one.agent for one in made} == {"best-of:4:random-world+upper-bound"}
    assert all(pick(one)["privileged"] for one in made)


async def test_one_try_is_the_plain_agent_with_the_same_seed(tmp_path: Path) -> None:
    (first, *_) = await run(tmp_path, "best-of:1:random-world", agent_options={"judge": "verdict"})
    assert judged_path(first) == first
    assert pick(first)["picked"] == adopted(first)["branch"] == 0
    assert path_of(first, 1.0).states == ()  # a fork of it would have no branches to open
    with pytest.raises(UserError, match="it tried several times"):
        await rewind(f"r:{first.attempt}", RandomWorldAgent(), settings_of(tmp_path))


async def test_the_judged_path_of_a_world_is_replayed(tmp_path: Path) -> None:
    made = await run(tmp_path, "vote:4:random-world")
    assert any(adopted(one)["branch"] for one in made) or all(pick(one)["picked"] == 0 for one in made)
    for one in made:
        path = judged_path(one)
        chosen = next(t for t in pick(one)["tries"] if t["branch"] == pick(one)["picked"])
        assert len(path.steps) == chosen["steps"] < len(one.steps)
    report = await replay("r", ReplayConfig(all=True), settings_of(tmp_path), Tally())
    assert report.counts == {"agree": 6, "differ": 0, "cannot": 0}


async def test_training_rows_come_from_the_adopted_try_alone(tmp_path: Path) -> None:
    made = await run(tmp_path, "vote:3:random-world")
    settings = settings_of(tmp_path)
    with RunReader.open(settings, "r", RowsConfig()) as reader:
        read = {one.attempt: [step.index for step in one.steps] for one in reader.trajectories()}
    assert read == {one.attempt: [step.index for step in judged_path(one).steps] for one in made}
    assert all(len(read[one.attempt]) < len(one.steps) for one in made)


async def test_a_model_judges_and_its_calls_are_no_part_of_the_try(tmp_path: Path) -> None:
    options = {"judge": "model", "max_turns": 1, "seeded": True}
    fields = {"agent_options": options, "model": f"scripted:{TRYING}:mover_and_judge"}
    for made in await run(tmp_path, "retry:9:loop", **fields):
        tries = pick(made)["tries"]
        assert [t["score"] for t in tries] == [0.0] * (len(tries) - 1) + [1.0]
        assert (len(made.calls), len(judged_path(made).calls)) == (2 * len(tries), 1)


async def test_retry_stops_at_the_first_accepted_try_and_a_run_limit_ends_all_of_them(tmp_path: Path) -> None:
    limits = Limits(turns=15)
    made = await run(tmp_path, "retry:50:random-world", agent_options={"judge": "verdict"}, limits=limits)
    for one in made:
        tries = pick(one)["tries"]
        assert all(t["score"] < 1 for t in tries[:-1])
        assert len(one.steps) <= 15
        if one.outcome == "pass":
            assert tries[-1]["score"] == 1.0
            assert pick(one)["picked"] == tries[-1]["branch"]
        else:
            assert one.finished is not None
            assert one.finished.stopped == "turns"


async def test_a_cascade_asks_the_expensive_agent_only_where_the_cheap_one_fails(tmp_path: Path) -> None:
    options = {"judge": "verdict", "1.steps": 4, "2.noise": 0.0}
    made = await run(tmp_path, "cascade:random-world,expert", agent_options=options)
    assert [one.outcome for one in made] == ["pass"] * 6
    used = {tuple(t["agent"] for t in pick(one)["tries"]) for one in made}
    assert ("random-world", "expert") in used
    assert used <= {("random-world",), ("random-world", "expert")}


async def test_verify_then_retry_continues_in_the_same_state_with_the_judges_words(tmp_path: Path) -> None:
    agent = f"verify-then-retry:3:{TRYING}:AdviceReader"
    config = RunConfig(tasks=("-",), agent=agent, agent_options={"judge": f"{TRYING}:content_judge"}, run="r")
    settings = settings_of(tmp_path)
    await start_run(config, settings, Tally(), tasks=(counting_task(),))
    with RunStore.open(settings.store, "r") as store:
        made = store.trajectory(store.find("count@0").chain)
    assert (made.outcome, len(made.steps), len(pick(made)["tries"])) == ("pass", 2, 2)
    assert (pick(made)["privileged"], adopted(made)["upper_bound"]) == (False, False)


async def test_a_judge_that_returns_no_score_is_the_agents_failure(tmp_path: Path) -> None:
    made = await run(tmp_path, "best-of:2:random-world", agent_options={"judge": f"{TRYING}:broken_judge"})
    assert {one.finished.broke for one in made if one.finished is not None} == {"agent"}
    assert "expected a number from 0 to 1" in str(made[0].finished)


@pytest.mark.long
async def test_tries_in_sandboxes_are_judged_by_a_command_in_a_fork(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "typing")
    options = {"judge": "command:grep -q done answer", "luck": 0.4}
    made = await run(tmp_path, f"retry:8:{TRYING}:Guesser", str(folder), agent_options=options, attempts=3)
    for one in made:
        tries = pick(one)["tries"]
        assert [t["score"] for t in tries] == [0.0] * (len(tries) - 1) + [1.0]
        assert one.outcome == "pass"
    assert any(len(pick(one)["tries"]) > 1 for one in made)


@pytest.mark.long
async def test_the_state_that_most_tries_share_is_handed_in(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "typing")
    made = await run(tmp_path, f"vote:5:{TRYING}:Guesser", str(folder), agent_options={"luck": 0.7}, attempts=3)
    for one in made:
        typed = [step.tool_calls[0].arguments for step in one.steps]
        is_majority_right = sum("done" in text for text in typed) > len(typed) / 2
        assert (one.outcome == "pass") == is_majority_right


@pytest.mark.quick
@pytest.mark.parametrize(
    ("spelling", "options", "kind"),
    [
        ("best-of:0:null", {"judge": "verdict"}, OptionError),
        ("best-of:3", {"judge": "verdict"}, OptionError),
        ("best-of", {"judge": "verdict"}, OptionError),
        ("retry:3:null", {}, OptionError),
        ("cascade:null", {"judge": "verdict"}, OptionError),
        ("best-of:2:vote:2:null", {"judge": "verdict"}, AgentDefinitionError),
        ("retry:2:null", {"judge": f"{TRYING}:Guesser"}, OptionError),
    ],
)
def test_a_wrong_spelling_is_refused_with_the_right_one(
    spelling: str, options: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        build_agent(spelling, options)


@pytest.mark.parametrize(
    "kind", ["branch", "branch_adopted", "contract", "guard", "task", "place", "facts", "snapshot"]
)
async def test_an_agent_adds_no_evidence_that_says_which_steps_count(tmp_path: Path, kind: str) -> None:
    config = RunConfig(tasks=("-",), agent=f"{TRYING}:Forger", agent_options={"kind": kind}, run="r")
    settings = settings_of(tmp_path)
    await start_run(config, settings, Tally(), tasks=(counting_task(),))
    with RunStore.open(settings.store, "r") as store:
        made = store.trajectory(store.find("count@0").chain)
    assert made.finished is not None
    assert (made.finished.broke, len(judged_path(made).steps)) == ("agent", 1)
    assert "is added by the runner alone" in str(made.finished.error)


async def test_a_declaration_during_the_attempt_obtains_no_verdict(tmp_path: Path) -> None:
    for made in await run(tmp_path, f"{TRYING}:LateAsker"):
        assert made.agent == "late-asker"
        assert made.finished is not None
        assert "declare upper_bound = True before the attempt begins" in str(made.finished.error)
        assert adopted(made)["privileged_reads"] == 0


async def test_a_branch_with_a_task_of_the_agents_own_keeps_the_limits(tmp_path: Path) -> None:
    loaded = counting_task(limits=Limits(turns=2))
    config = RunConfig(tasks=("count",), agent=f"{TRYING}:LimitLifter", run="r")
    await start_run(config, settings_of(tmp_path), Tally(), tasks=(loaded,))
    with RunStore.open(tmp_path / "store", "r") as store:
        (made,) = [store.trajectory(row.chain) for row in store.attempts()]
    assert (made.outcome, len(made.steps)) == ("fail", 2)
