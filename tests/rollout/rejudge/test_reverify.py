"""Stored runs judged again: what holds agrees, what changed is told, and no first verdict is touched."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import StoreError, UserError
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    EvidenceAdded,
    Separation,
    Verdict,
    VerdictAdded,
    VerdictStatus,
)
from assay.rollout import ReverifyConfig, ReverifyReport, RunConfig, Tally, reverify, start_run
from assay.rollout.rejudge.own_results import CODE, FILE, OwnResults, compute_head
from assay.rollout.rejudge.reverify import KIND
from assay.settings import Settings
from assay.store import RunStore, annotate, audit, later_events, load_current_verdicts, seal
from assay.tasks import LoadedTask
from assay.verdicts import reverification_check
from assay.verify import JudgeRequest
from assay.verify.interface import CheckResult
from assay.verify.reverification import compare_verdicts
from tests.rollout.counting import counting_task

FOLDERS = Path(__file__).parents[2] / "tasks" / "harbor"
BASE = {"python:3.12-slim": "scratch"}
SOLVER = f"{Path(__file__).parents[1] / 'agents.py'}:Solver"
ROOT = Path(__file__).parents[3]
FAIL = Verdict("tests", "outcome", "fail", 0.0, "")
PASS = Verdict("tests", "outcome", "pass", 1.0, "")


def settings(store: Path) -> Settings:
    return Settings(Settings.from_environment().cache, store)


async def made(store: Path, agent: str, *folders: Path, tasks: tuple[LoadedTask, ...] | None = None) -> str:
    named = tuple(map(str, folders)) or ("-",)
    config = RunConfig(tasks=named, agent=agent, run=agent.rpartition(":")[2].lower(), concurrency=2, base=BASE)
    return (await start_run(config, settings(store), Tally(), tasks=tasks)).run


async def again(store: Path, run: str, **given: Any) -> ReverifyReport:
    return await reverify(
        run, ReverifyConfig(**{"again": 1, "base": BASE, "allow_task_code": True, **given}), settings(store)
    )


def marks(report: ReverifyReport) -> list[str]:
    return [one.mark for one in report.results]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDERS / "sum-columns", tmp_path / "tasks" / "sum-columns"))


@pytest.mark.long
@pytest.mark.parametrize(("agent", "outcome"), [("oracle", "pass"), ("null", "fail")])
async def test_a_stored_attempt_is_judged_the_same_again(
    folder: Path, tmp_path: Path, agent: str, outcome: str
) -> None:
    run = await made(tmp_path, agent, folder)
    report = await again(tmp_path, run, again=2)
    assert [(one.mark, one.was, one.now) for one in report.results] == [("agree", outcome, outcome)]
    (stands,) = load_current_verdicts(tmp_path, run).values()
    assert (stands.outcome, stands.reverified) == (outcome, "agree")
    assert audit(tmp_path, run) == ()


@pytest.mark.long
async def test_what_the_same_checks_judged_before_is_left_alone(folder: Path, tmp_path: Path) -> None:
    run = await made(tmp_path, "null", folder)
    await again(tmp_path, run)
    before = later_events(tmp_path, run)
    assert [one.before for one in (await again(tmp_path, run)).results] == [True]
    assert later_events(tmp_path, run) == before
    assert [one.before for one in (await again(tmp_path, run, again=2)).results] == [False]
    assert [one.before for one in (await again(tmp_path, run, force=True)).results] == [False]
    ids = [
        b.evidence.id for bodies in later_events(tmp_path, run).values() for b in bodies if isinstance(b, EvidenceAdded)
    ]
    assert len(ids) == len(set(ids))


async def test_a_store_cannot_say_that_it_was_judged(tmp_path: Path) -> None:
    """Results that somebody wrote into a store, and own ones that were copied to a changed record, do not count."""
    run = await made(tmp_path, SOLVER, tasks=(counting_task("count"),))
    await again(tmp_path, run)
    (chain, bodies), *_ = later_events(tmp_path, run).items()
    own = next(body.evidence for body in bodies if isinstance(body, EvidenceAdded) and body.evidence.kind == KIND)
    assert [one.before for one in (await again(tmp_path, run)).results] == [True]
    forged = {**own.data, "rounds": 99, "results": [{**one, "reason": "forged"} for one in own.data["results"]]}
    annotate(tmp_path, run, chain, [EvidenceAdded(msgspec.structs.replace(own, id="forged", data=forged))])
    (result,) = (await again(tmp_path, run, again=2)).results
    assert (result.before, "forged" in result.reason) == (False, False)


@pytest.mark.quick
def test_a_code_is_of_one_record_one_result_and_one_user(tmp_path: Path) -> None:
    own, data = OwnResults(tmp_path / "cache"), {"basis": "b", "rounds": 1, "results": []}
    signed = {**data, CODE: own.code("c", "head", data)}
    assert OwnResults(tmp_path / "cache").is_own("c", "head", signed)
    other = [("d", "head", signed), ("c", "tail", signed), ("c", "head", {**signed, "rounds": 2}), ("c", "head", data)]
    assert not any(own.is_own(*one) for one in other)
    assert not OwnResults(tmp_path / "of another").is_own("c", "head", signed)
    (tmp_path / "cache" / FILE).chmod(0o644)
    assert OwnResults(tmp_path / "cache").code("c", "head", data) is None


@pytest.mark.quick
def test_a_head_is_computed_from_the_bytes_of_a_record(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append("c", [AttemptStarted("r", "a", "t", "d", "x", None, 0, 0), AttemptEnded("done")])
        links = list(store.part("c", 0, 2))
    assert compute_head("c", links) == links[-1].digest
    changed = msgspec.structs.replace(links[0], body=links[0].body.replace(b'"x"', b'"y"'))
    assert compute_head("c", [changed, links[1]]) != links[-1].digest


@pytest.mark.long
async def test_the_recorded_version_is_judged_when_the_folder_has_changed_or_gone(folder: Path, tmp_path: Path) -> None:
    run = await made(tmp_path, "oracle", folder)
    (folder / "tests" / "test.sh").write_text("echo 0 > /logs/verifier/reward.txt; exit 1\n")
    today = {"check_version": "today", "tasks": (str(folder),)}
    assert marks(await again(tmp_path, run)) == ["agree"]
    (result,) = (await again(tmp_path, run, **today)).results
    assert (result.mark, result.was, result.now) == ("disagree", "pass", "fail")
    assert "3 of 3 rounds" in result.reason
    assert next(iter(load_current_verdicts(tmp_path, run).values())).outcome == "pass"
    shutil.rmtree(folder.parent)
    assert marks(await again(tmp_path, run, force=True)) == ["agree"]
    (gone,) = (await again(tmp_path, run, check_version="today")).results
    assert (gone.mark, "is missing" in gone.reason) == ("cannot", True)


@pytest.mark.long
async def test_a_state_that_is_gone_cannot_be_judged(folder: Path, tmp_path: Path) -> None:
    run = await made(tmp_path, "oracle", folder)
    with RunStore.open(tmp_path, run) as store:
        (chain,) = (row.chain for row in store.attempts())
        manifest = next(e.data["manifest"] for e in store.trajectory(chain).evidence if e.kind == "snapshot")
        store.blobs.remove(manifest)
    (result,) = (await again(tmp_path, run)).results
    assert (result.mark, "the stored state is missing or damaged" in result.reason) == ("cannot", True)


@pytest.mark.long
async def test_another_image_is_no_place_to_judge_the_old_state(folder: Path, tmp_path: Path) -> None:
    run = await made(tmp_path, "oracle", folder)
    (folder / "environment" / "data" / "numbers.csv").write_text("a,b\n1,2\n")
    (result,) = (await again(tmp_path, run, check_version="today", tasks=(str(folder),))).results
    assert (result.mark, "the image is another one now" in result.reason) == ("cannot", True)


@pytest.mark.long
async def test_each_part_of_a_task_of_steps_is_judged_again_and_sealed_runs_get_addenda(tmp_path: Path) -> None:
    run = await made(tmp_path, "oracle", FOLDERS / "three-steps")
    seal(tmp_path, run)
    report = await again(tmp_path, run)
    assert set(marks(report)) == {"agree"}
    assert [one.check for one in report.results] == ["tests/collect", "tests/count", "tests/report", "steps"]
    assert audit(tmp_path, run) == ()
    assert next(iter(load_current_verdicts(tmp_path, run).values())).reverified == "agree"


@pytest.mark.long
async def test_one_weaker_round_of_one_step_lowers_the_grade_of_the_whole(tmp_path: Path, monkeypatch: Any) -> None:
    async def judged(request: JudgeRequest) -> tuple[CheckResult, ...]:
        grade: Separation = "same-process" if request.prefix.startswith("2.count.") else "separate"
        return tuple(
            CheckResult(msgspec.structs.replace(PASS, check=c.name, separation=grade), ()) for c in request.task.checks
        )

    run = await made(tmp_path, "oracle", FOLDERS / "three-steps")
    monkeypatch.setattr("assay.rollout.rejudge.judging.verify_outcome", judged)
    await again(tmp_path, run, again=2)
    with RunStore.open(tmp_path, run) as store:
        (row,) = store.attempts()
        given = {v.check: v.separation for v in store.trajectory(row.chain).verdicts}
    assert (given[reverification_check("steps")], given[reverification_check("tests/count")]) == (
        "same-process",
        "same-process",
    )
    assert given[reverification_check("tests/collect")] == given[reverification_check("tests/report")] == "separate"


@pytest.mark.quick
async def test_a_world_is_judged_by_doing_its_calls_again(tmp_path: Path) -> None:
    run = await made(tmp_path, SOLVER, tasks=(counting_task(),))
    assert marks(await again(tmp_path, run, again=3)) == ["agree"]


@pytest.mark.quick
async def test_world_that_does_not_work_here_cannot_be_rebuilt(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(_: object) -> None:
        raise UserError("No Chromium is installed")

    run = await made(tmp_path, SOLVER, tasks=(counting_task(),))
    monkeypatch.setattr("assay.rollout.rejudge.judging.open_world", refuse)
    (found,) = (await again(tmp_path, run)).results
    assert (found.mark, "does not work here: No Chromium is installed" in str(found)) == ("cannot", True)


async def test_a_world_that_leads_elsewhere_now_is_not_judged(tmp_path: Path) -> None:
    run = await made(tmp_path, SOLVER, tasks=(counting_task(),))
    with RunStore.open(tmp_path, run, write=True) as store:
        (row,) = store.attempts()
        bodies = [event.body for event in store.events(row.chain)]
        other = [_with_start(store, body) for body in bodies]
        store.append("other@0.0", other)
    (result,) = (await again(tmp_path, run, attempt=("other@0.0",))).results
    assert (result.mark, "lead to another state now" in result.reason) == ("cannot", True)


def _with_start(store: RunStore, body: Any) -> Any:
    """The attempt under another name, at a task whose world starts elsewhere than the one that was acted in."""
    if isinstance(body, AttemptStarted):
        return msgspec.structs.replace(body, attempt="other@0")
    if isinstance(body, EvidenceAdded) and body.evidence.kind == "task":
        record = store.blobs.put(store.blobs.get(body.evidence.data["record"]).replace(b'"start":0', b'"start":1'))
        data = {**body.evidence.data, "record": record}
        return EvidenceAdded(msgspec.structs.replace(body.evidence, data=data, blobs=(record,)))
    return body


GOOD = """diff --git a/totals.csv b/totals.csv
new file mode 100644
--- /dev/null
+++ b/totals.csv
@@ -0,0 +1,2 @@
+apples,pears,plums
+12,150,1800
"""


def imported(store: Path, patch: str, status: VerdictStatus, *, as_text: bool = False) -> str:
    with RunStore.create(store, "theirs", {}) as run:
        blob = run.blobs.put(patch.encode())
        submitted = Evidence("i0", "state", "patch", {}, (blob,))
        if as_text:
            submitted = Evidence("i0", "gateway", "submission", {"text": patch})
        config = {"imported": {"format": "x"}}
        run.append(
            "t@0.0",
            [
                AttemptStarted("theirs", "t@0", "sum-columns", "", "them", None, 0, 0, config=config, at=1.0),
                EvidenceAdded(submitted),
                VerdictAdded(Verdict("imported", "outcome", status, None, "", ("i0",), marks=("imported",))),
                AttemptEnded("submitted", at=2.0),
            ],
        )
    return "theirs"


@pytest.mark.long
@pytest.mark.parametrize(
    ("patch", "claimed", "mark", "says"),
    [
        (GOOD, "pass", "agree", "pass again"),
        (GOOD, "fail", "disagree", "was fail"),
        (GOOD.replace("12", "13"), "pass", "disagree", "was pass"),
        (GOOD.replace("totals.csv", "../../etc/passwd"), "pass", "cannot", "not a plain path"),
        ("I am done.", "pass", "cannot", "is not a patch"),
        ("", "pass", "disagree", "was pass"),
    ],
)
async def test_an_imported_claim_is_judged_by_its_patch(
    folder: Path, tmp_path: Path, patch: str, claimed: VerdictStatus, mark: str, says: str
) -> None:
    run = imported(tmp_path, patch, claimed)
    (result,) = (await again(tmp_path, run, check_version="today", tasks=(str(folder.parent),))).results
    assert (result.mark, says in result.reason) == (mark, True), result.reason


async def test_a_submission_as_text_is_taken_as_the_patch(folder: Path, tmp_path: Path) -> None:
    run = imported(tmp_path, GOOD, "pass", as_text=True)
    assert marks(await again(tmp_path, run, check_version="today", tasks=(str(folder),))) == ["agree"]


async def test_an_imported_attempt_without_a_task_is_told_what_is_missing(tmp_path: Path) -> None:
    run = imported(tmp_path, GOOD, "pass")
    (result,) = (await again(tmp_path, run)).results
    assert (result.mark, "--tasks" in result.reason) == ("cannot", True)
    told = later_events(tmp_path, run)
    await again(tmp_path, run)
    assert later_events(tmp_path, run) == told


async def test_an_imported_attempt_names_no_version_of_its_task(folder: Path, tmp_path: Path) -> None:
    run = imported(tmp_path, GOOD, "pass")
    (result,) = (await again(tmp_path, run, tasks=(str(folder),))).results
    assert (result.mark, "--check-version today" in result.reason) == ("cannot", True)


@pytest.mark.quick
async def test_a_run_that_is_being_written_is_not_judged(tmp_path: Path) -> None:
    run = await made(tmp_path, SOLVER, tasks=(counting_task(),))
    with RunStore.open(tmp_path, run, write=True), pytest.raises(StoreError):
        await again(tmp_path, run)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("was", "said", "mark"),
    [
        ("pass", ["pass", "pass"], "agree"),
        ("pass", ["fail", "fail", "fail"], "disagree"),
        ("pass", ["fail", "pass", "fail"], "flaky"),
        ("fail", ["error"], "cannot"),
        ("pass", ["pass", "error"], "cannot"),
        ("error", ["error"], "agree"),
        ("error", ["error", "pass"], "flaky"),
        ("unknown", ["unknown"], "agree"),
    ],
)
def test_marks_follow_from_what_the_rounds_say(was: VerdictStatus, said: list[VerdictStatus], mark: str) -> None:
    rounds = [CheckResult(Verdict("tests", "outcome", status, None, "r"), ()) for status in said]
    found = compare_verdicts(Verdict("tests", "outcome", was, None, ""), rounds)
    assert (found.mark, found.verdict.marks, found.verdict.check) == (mark, (mark,), "reverify:tests")
    assert found.verdict.status == (said[0] if mark in ("agree", "disagree") else "unknown")


@pytest.mark.quick
def test_a_score_that_moves_is_told_and_does_not_disagree() -> None:
    found = compare_verdicts(Verdict("tests", "outcome", "fail", 0.5, ""), [CheckResult(FAIL, ())])
    assert (found.mark, "the score was 0.5, and is 0.0" in found.verdict.reason) == ("agree", True)


@pytest.mark.quick
def test_wrong_configurations_are_refused() -> None:
    with pytest.raises(UserError, match="0 or more"):
        ReverifyConfig(again=-1)


REVERIFIER = """
import asyncio, sys
from pathlib import Path
from assay.rollout import ReverifyConfig, reverify
from assay.settings import Settings
settings = Settings(Settings.from_environment().cache, Path(sys.argv[1]))
asyncio.run(reverify("solver", ReverifyConfig(again=40, allow_task_code=True), settings))
"""


@pytest.mark.long
async def test_a_killed_or_interrupted_reverification_goes_on_where_it_was(tmp_path: Path) -> None:
    tasks = tuple(counting_task(f"count-{n:03}") for n in range(80))
    run, moments, counts = await made(tmp_path, SOLVER, tasks=tasks), random.Random(3), [0]
    for _ in range(3):
        command = [sys.executable, "-c", REVERIFIER, str(tmp_path)]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.8, 1.6))
        os.kill(process.pid, signal.SIGINT if len(counts) % 2 else signal.SIGKILL)
        process.wait()
        counts.append(len(later_events(tmp_path, run)))
    assert counts == sorted(counts)
    report = await again(tmp_path, run, again=40)
    assert report.counts == {"agree": 80, "disagree": 0, "flaky": 0, "cannot": 0}
    assert sum(one.before for one in report.results) == counts[-1]
    assert audit(tmp_path, run) == ()
    given = [sum(isinstance(b, VerdictAdded) for b in bodies) for bodies in later_events(tmp_path, run).values()]
    assert given == [1] * 80
