"""What `--json` prints has the keys that the reference says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.records import Trajectory
from assay.rollout import ReverificationResult, RunConfig, Tally, start_run
from assay.rollout.rejudge.counterfactual import RewindResult
from assay.rollout.rejudge.marginals import Marginal
from assay.rollout.rejudge.replay import ReplayResult
from assay.rollout.rejudge.tier_labels import TierLabels
from assay.settings import Settings
from assay.store import AttemptRow, GcReport, SealReport
from scripts.make_reference import JSON
from tests.rollout.counting import counting_task

pytestmark = pytest.mark.quick
AGENT = Path(__file__).parents[1] / "rollout" / "agents.py"
SQL = "select task, outcome from trajectories"


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    config = RunConfig(tasks=("-",), agent=f"{AGENT}:Solver", run="r")
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    await start_run(config, settings, Tally(), tasks=[counting_task()])
    return settings.store


def printed(store: Path | None, *words: str) -> Any:
    place = [] if store is None else ["--store", str(store)]
    return json.loads(CliRunner().invoke(build_app(), [*words, "--json", *place]).stdout)


@pytest.mark.parametrize("words", ["ls", "ls --runs", "stats", "verify"])
async def test_document_has_the_keys_of_the_reference(words: str, store: Path) -> None:
    assert set(printed(store, *words.split())) == set(JSON[words][0])


def test_judging_again_and_replaying_have_the_keys_of_the_reference(store: Path) -> None:
    again = printed(store, "verify", "--again", "2", "--allow-task-code")["again"]
    assert set(again) == {"run", "results", "unjudged", "counts"}
    assert [one.mark for one in msgspec.convert(again["results"], list[ReverificationResult])] == ["agree"]
    found = printed(store, "replay", "--all", "--run", "r", "--allow-task-code")
    assert set(found) == set(JSON["replay"][0])
    assert msgspec.convert(found["results"], list[ReplayResult])[0].agrees
    rewound = printed(
        store, "replay", "count@0", "--from-each-prefix", "--agent", "null", "--run", "r", "--allow-task-code"
    )
    assert set(rewound) == set(JSON["replay --from-each-prefix"][0])
    assert msgspec.convert(rewound["rewound"], list[RewindResult])[0].steps == 2


async def test_marginals_have_the_keys_of_the_reference(tmp_path: Path) -> None:
    team = {"roles": [{"name": name, "agent": "clue-solver"} for name in ("one", "two")]}
    tasks = ("family:split-constraints,n=1,variables=3,values=3",)
    config = RunConfig(tasks=tasks, agent="team", agent_options=team, run="r")
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    await start_run(config, settings, Tally())
    words = ("marginals", "--run", "r", "--units", "actors", "--forks", "2")
    found = await asyncio.to_thread(printed, settings.store, *words)
    assert set(found) == set(JSON["marginals"][0])
    assert [one.actor for one in msgspec.convert(found["marginals"], list[Marginal])] == ["one", "two"]


async def test_labels_and_scores_of_routers_have_the_keys_of_the_reference(tmp_path: Path) -> None:
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    await start_run(RunConfig(tasks=("family:tables,n=2",), agent="expert", run="r"), settings, Tally())
    tiers = ("--tier", "weak=null", "--cost", "weak=1", "--tier", "strong=expert", "--cost", "strong=2")
    found = await asyncio.to_thread(printed, settings.store, "router", "label", "--run", "r", *tiers)
    assert set(found) == set(JSON["router label"][0])
    assert msgspec.convert(found, TierLabels).steps
    scored = await asyncio.to_thread(printed, settings.store, "router", "score", found["labels"])
    assert set(scored) == set(JSON["router score"][0])


async def test_query_has_the_keys_of_the_reference(store: Path) -> None:
    found = printed(store, "query", SQL)
    assert set(found) == set(JSON["query"][0])
    assert found["rows"] == [{"task": "count", "outcome": "pass"}]


async def test_objects_are_what_the_reference_says(store: Path) -> None:
    msgspec.convert(printed(store, "ls")["attempts"], list[AttemptRow])
    assert msgspec.convert(printed(store, "show", "count@0"), Trajectory).outcome == "pass"
    msgspec.convert(printed(store, "gc"), GcReport)
    msgspec.convert(printed(store, "seal"), SealReport)


def test_agents_has_the_keys_of_the_reference() -> None:
    found = printed(None, "agents")
    assert set(found) == set(JSON["agents"][0])
    assert {"name", "installed", "version", "dialects", "side_calls"} <= set(found["agents"][0])


def test_plugins_and_lint_have_the_keys_of_the_reference(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "task.toml").write_text("schema_version = 3")
    assert set(printed(None, "plugins")) == set(JSON["plugins"][0])
    found = printed(None, "lint", str(tmp_path))
    assert set(found) == set(JSON["lint"][0])
    assert set(found["findings"][0]) == {"task", "finding"}
