"""Recorded attempts done again in real sandboxes: what is the same agrees, and what differs is explained."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import UserError
from assay.records import EvidenceAdded
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.attempt.variation import clock_variation
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.replay import ReplayReport, ReplayResult, replay
from assay.settings import Settings
from assay.store import RunStore, audit, later_events
from tests.rollout.acting import write_task
from tests.rollout.agents import Solver
from tests.rollout.counting import counting_task

FOLDERS = Path(__file__).parents[2] / "tasks" / "harbor"
ACTING = Path(__file__).parents[1] / "acting.py"
BASE = {"python:3.12-slim": "scratch"}


def settings(store: Path) -> Settings:
    return Settings(Settings.from_environment().cache, store)


async def made(store: Path, folder: Path, agent: str, **options: Any) -> None:
    config = RunConfig(tasks=(str(folder),), agent=agent, agent_options=options, run="first", base=BASE)
    await start_run(config, settings(store), Tally())


async def typed(store: Path, *commands: str) -> None:
    await made(store, write_task(store / "task"), f"{ACTING}:Typist", commands="\n".join(commands))


async def again(store: Path, **given: Any) -> ReplayReport:
    return await replay(
        "first", ReplayConfig(**{"all": True, "base": BASE, "allow_task_code": True, **given}), settings(store), Tally()
    )


async def one(store: Path, **given: Any) -> ReplayResult:
    (result,) = (await again(store, **given)).results
    return result


@pytest.mark.long
@pytest.mark.parametrize("name", ["sum-columns", "json-rewards", "three-steps", "collect-state"])
@pytest.mark.parametrize("agent", ["oracle", "null"])
async def test_baselines_agree_when_they_are_done_again(
    tmp_path: Path, name: str, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(FOLDERS / name, tmp_path / "tasks" / name))
    await made(tmp_path, folder, agent)
    shutil.rmtree(folder)
    result = await one(tmp_path)
    assert result.comparison is not None, result.problem
    assert (result.agrees, result.missing, result.comparison.paths) == (True, (), ())
    assert result.comparison.outcome[1] == ("pass" if agent == "oracle" else "fail")


async def test_the_replay_is_an_ordinary_run_with_a_report(tmp_path: Path) -> None:
    await typed(tmp_path, "echo done > answer")
    report = await again(tmp_path, times=2)
    assert (report.counts, report.rate) == ({"agree": 2, "differ": 0, "cannot": 0}, 1.0)
    assert audit(tmp_path, report.replay) == ()
    told = [
        b.evidence
        for bodies in later_events(tmp_path, report.replay).values()
        for b in bodies
        if hasattr(b, "evidence")
    ]
    assert [(e.kind, e.data["agrees"], e.data["run"]) for e in told] == [("replay", True, "first")] * 2
    with RunStore.open(tmp_path, report.replay) as store:
        rows = store.attempts()
    assert {(row.agent, row.outcome) for row in rows} == {("replay", "pass")}


@pytest.mark.long
async def test_what_is_brought_in_beside_steps_is_brought_in_again(tmp_path: Path) -> None:
    await made(tmp_path, write_task(tmp_path / "task"), f"{ACTING}:Bringer")
    result = await one(tmp_path)
    assert result.comparison is not None
    assert (result.agrees, result.missing) == (True, ())
    assert (result.comparison.steps, result.comparison.forks, result.comparison.observations) == (3, 1, 2)


@pytest.mark.long
async def test_what_means_nothing_is_no_divergence(tmp_path: Path) -> None:
    await typed(
        tmp_path,
        "date; mktemp; echo token $RANDOM$(date +%N)",
        "mkdir -p p; echo x = 1 > p/m.py; python3 -c 'import p.m; print(object(), set(\"abcdefgh\"))'",
        "sleep 1; touch p/m.py; python3 -c 'import p.m'; ls -la p",
    )
    result = await one(tmp_path)
    assert result.comparison is not None
    assert result.agrees, result.comparison.first
    assert "task: token <word>" in result.comparison.volatile
    assert result.comparison.normalised >= 2


CAUSES = {
    "randomness": "python3 -c 'import os; print(os.urandom(2).hex(), \"is the answer\")'",
    "ordering": "python3 -c 'print(*{str(n) for n in range(40)})'",
    "time": "python3 -c 'import time; print(\"it is\", time.time_ns() // 1000 % 1000000007)'",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(CAUSES))
async def test_the_cause_of_a_divergence_is_found_by_experiment(tmp_path: Path, kind: str) -> None:
    if kind == "time" and clock_variation("clock", "+0d") is None:
        pytest.skip("libfaketime is not installed: the clock cannot be shifted")
    await typed(tmp_path, "echo first", CAUSES[kind], "echo done > answer")
    result = await one(tmp_path)
    assert result.comparison is not None
    assert result.comparison.first is not None
    assert (result.comparison.first.step, result.comparison.first.field) == (1, "content")
    assert result.cause is not None
    assert (result.cause.kind, result.cause.by) == (kind, "experiment"), result.cause
    assert result.comparison.same_outcome


@pytest.mark.long
async def test_a_file_that_differs_is_named_by_its_path(tmp_path: Path) -> None:
    await typed(tmp_path, "head -c 8 /dev/urandom > noise; echo done > answer")
    result = await one(tmp_path)
    assert result.comparison is not None
    assert result.comparison.first is not None
    assert (result.comparison.first.field, result.comparison.same_outcome) == ("state", True)
    assert [path.path for path in result.comparison.paths] == ["/workspace/noise"]
    assert result.cause is not None
    assert (result.cause.kind, "/workspace/noise" in result.cause.reason) == ("randomness", True)


@pytest.mark.long
async def test_what_the_record_lacks_is_the_cause(tmp_path: Path) -> None:
    await made(tmp_path, write_task(tmp_path / "task"), f"{ACTING}:Bringer")
    with RunStore.open(tmp_path, "first", write=True) as store:
        (row,) = store.attempts()
        bodies = [event.body for event in store.events(row.chain)]
        store.append("older@0.0", [_without_bytes(body) for body in bodies])
    result = await one(tmp_path, all=False, attempts=("older@0.0",))
    assert result.cause is not None
    assert (result.cause.kind, result.cause.by) == ("missing", "comparison")
    assert "given.txt" in result.missing[0]


def _without_bytes(body: Any) -> Any:
    if isinstance(body, EvidenceAdded) and body.evidence.kind == "write":
        data = {key: value for key, value in body.evidence.data.items() if key != "digest"}
        return EvidenceAdded(msgspec.structs.replace(body.evidence, data=data, blobs=()))
    return body


async def test_today_s_task_may_be_another_one(tmp_path: Path) -> None:
    await typed(tmp_path, "echo done > answer")
    (tmp_path / "task" / "tests" / "test.sh").write_text("echo 0 > /logs/verifier/reward.txt; exit 1\n")
    assert (await one(tmp_path)).agrees
    result = await one(tmp_path, check_version="today")
    assert result.comparison is not None
    assert (result.comparison.outcome, result.agrees, result.cause) == (("pass", "fail"), False, None)


@pytest.mark.quick
async def test_worlds_are_replayed_too(tmp_path: Path) -> None:
    solver = f"{Path(__file__).parents[1] / 'agents.py'}:{Solver.__name__}"
    config = RunConfig(tasks=("-",), agent=solver, run="first", attempts=3)
    await start_run(config, settings(tmp_path), Tally(), tasks=(counting_task(),))
    report = await again(tmp_path)
    assert report.counts == {"agree": 3, "differ": 0, "cannot": 0}
    assert {one.comparison.same_states for one in report.results if one.comparison} == {2}


@pytest.mark.quick
async def test_what_cannot_be_replayed_is_told_why(tmp_path: Path) -> None:
    from tests.rollout.rejudge.test_reverify import GOOD, imported

    imported(tmp_path, GOOD, "pass")
    report = await replay("theirs", ReplayConfig(all=True), settings(tmp_path), Tally())
    assert (report.counts["cannot"], "it was imported" in str(report.results[0].problem)) == (1, True)


@pytest.mark.quick
@pytest.mark.parametrize("given", [{}, {"all": True, "attempts": ("a",)}])
async def test_either_attempts_or_all_are_asked_for(tmp_path: Path, given: dict[str, Any]) -> None:
    RunStore.create(tmp_path, "first", {}).close()
    with pytest.raises(UserError, match="--all"):
        await replay("first", ReplayConfig(**given), settings(tmp_path), Tally())


async def test_a_wrong_pattern_of_the_task_is_refused_before_anything_runs(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "task")
    text = (folder / "task.toml").read_text().replace('"token <word>"', '"<word>"')
    (folder / "task.toml").write_text(text)
    await made(tmp_path, folder, "null")
    started = time.monotonic()
    with pytest.raises(UserError, match="volatile pattern"):
        await again(tmp_path)
    assert time.monotonic() - started < 20
