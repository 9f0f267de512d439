"""Semi-online replay of attempts in a real Chromium, and its agreement with live runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.analysis.semi_online import PATCHED, replayed_steps_of
from assay.cli.app import build_app
from assay.errors import UserError
from assay.rollout.config import RunConfig
from assay.rollout.progress import Tally
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.semi_online import replay_semi_online
from assay.rollout.runs import start_run
from assay.settings import Settings
from assay.store import RunStore
from tests.optional import require_browser

SITES = "family:sites,site=bakery,least=4,most=6,n=3"


def settings(folder: Path) -> Settings:
    return Settings(folder / "cache", folder / "store")


async def live(folder: Path, run: str, agent: str, tasks: str = SITES, **options: Any) -> None:
    await start_run(RunConfig(tasks=(tasks,), agent=agent, agent_options=options, run=run), settings(folder), Tally())


def command(folder: Path, *words: str) -> Any:
    done = CliRunner().invoke(build_app(), [*words, "--store", str(folder / "store"), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_the_better_an_agent_the_higher_its_score_and_its_live_success(tmp_path: Path) -> None:
    require_browser()
    await live(tmp_path, "experts", "oracle")
    agents: list[tuple[str, dict[str, Any]]] = [
        ("expert", {}),
        ("expert", {"noise": 0.5}),
        ("page-walker", {"acts": 3}),
    ]
    runs, scores = [], []
    for number, (agent, options) in enumerate(agents):
        await live(tmp_path, f"live{number}", agent, **options)
        config = ReplayConfig(all=True, semi_online=True, agent=agent, agent_options=options, patches=2)
        report = await replay_semi_online("experts", config, settings(tmp_path), Tally())
        assert [one.problem for one in report.results] == [None] * 3
        runs += [f"live{number}", report.replay]
        scores.append([one.score for one in report.scores])
    assert scores[0] == [1.0, 1.0, 1.0]
    assert max(scores[1][0], scores[2][0]) < 1.0
    assert all(some == sorted(some) for some in scores)
    with RunStore.open(tmp_path / "store", runs[1]) as store:
        assert {(row.agent, row.outcome) for row in store.attempts()} == {("semi-online+expert", "pass")}
    with RunStore.open(tmp_path / "store", runs[3]) as store:  # what a patch helped along is no pass
        replays = [replayed_steps_of(store.trajectory(row.chain)) for row in store.attempts()]
        passed = [row.outcome == "pass" for row in store.attempts()]
    assert passed == [one is not None and one.completed and PATCHED not in one.outcomes for one in replays]
    assert any(one is not None and PATCHED in one.outcomes for one in replays)
    tables = command(tmp_path, "stats", *runs, "--table", "agreement", "--table", "semi-online")["tables"]
    assert [row["patches"] for row in tables["agreement"]] == [0, 1, 2]
    assert (tables["agreement"][0]["configurations"], tables["agreement"][0]["tasks"]) == (3, 3)
    assert tables["agreement"][0]["over_configurations"]["value"] > 0.4
    first = tables["semi-online"][0]
    assert (first["agent"], first["options"], first["live"], first["score"]) == ("expert", "-", 1.0, 1.0)


async def test_what_is_no_reference_is_refused(tmp_path: Path) -> None:
    await live(tmp_path, "other", "oracle", "family:grid,n=1")
    await live(tmp_path, "failed", "random-world", "family:grid,n=1", steps=1)
    config = ReplayConfig(all=True, semi_online=True)
    with pytest.raises(UserError, match="does not begin with a look"):
        await replay_semi_online("other", config, settings(tmp_path), Tally())
    with pytest.raises(UserError, match="no verified pass"):
        await replay_semi_online("failed", config, settings(tmp_path), Tally())
    with pytest.raises(UserError, match="two kinds of replay"):
        ReplayConfig(all=True, semi_online=True, from_each_prefix=True)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_replay_that_was_cut_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut(*_: Any) -> None:
        raise asyncio.CancelledError

    require_browser()
    await live(tmp_path, "experts", "oracle", SITES.replace("n=3", "n=1"))
    monkeypatch.setattr("assay.rollout.rejudge.semi_online.run_attempts", cut)
    with pytest.raises(asyncio.CancelledError):
        await replay_semi_online("experts", ReplayConfig(all=True, semi_online=True), settings(tmp_path), Tally())
    states = {one["run"]: one["state"] for one in command(tmp_path, "ls", "--runs")["summaries"]}
    assert len(states) == 2
    assert states.pop("experts") == "finished"
    assert [*states.values()] == ["interrupted"]
