"""Equal final states of a task are judged once, and nothing else is."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay.errors import VerifierError
from assay.records import Verdict
from assay.rollout import ReverifyConfig, RunConfig, Tally, reverify, start_run
from assay.rollout.rejudge import judging
from assay.rollout.rejudge.reverify import KIND
from assay.rollout.rejudge.shared_results import MOST, JudgedState, SharedResults
from assay.settings import Settings
from assay.store import later_events
from assay.verify import JudgeRequest
from assay.verify.interface import CheckResult

FOLDERS = Path(__file__).parents[2] / "tasks" / "harbor"
BASE = {"python:3.12-slim": "scratch"}
SAID = {"tests": (CheckResult(Verdict("tests", "outcome", "pass", 1.0, ""), ()),)}


class Judge:
    """Counts its judgements."""

    def __init__(self, *, alone: bool = True, broken: int = 0) -> None:
        self.count, self._alone, self._broken = 0, alone, broken

    async def __call__(self) -> JudgedState:
        self.count += 1
        await asyncio.sleep(0)
        if self.count <= self._broken:
            raise VerifierError("the sandbox broke")
        return JudgedState(SAID, depends_on_state_alone=self._alone)


@pytest.mark.quick
async def test_attempts_that_end_in_one_state_are_judged_once() -> None:
    shared, judge = SharedResults(), Judge()
    found = await asyncio.gather(*(shared.judge("state", chain, judge) for chain in "abc"))
    assert found == [SAID] * 3
    assert judge.count == 1
    assert [shared.judged_with(chain) for chain in "abc"] == [None, "a", "a"]
    await shared.judge("another state", "d", judge)
    assert judge.count == 2


@pytest.mark.quick
async def test_what_depends_on_more_than_the_state_is_judged_for_each() -> None:
    shared, judge = SharedResults(), Judge(alone=False)
    await asyncio.gather(*(shared.judge("state", chain, judge) for chain in "abc"))
    assert judge.count == 3
    assert [shared.judged_with(chain) for chain in "abc"] == [None] * 3


@pytest.mark.quick
async def test_a_failure_to_judge_is_that_of_one_attempt() -> None:
    shared, judge = SharedResults(), Judge(broken=1)
    found = await asyncio.gather(*(shared.judge("state", chain, judge) for chain in "abc"), return_exceptions=True)
    assert isinstance(found[0], VerifierError)
    assert found[1:] == [SAID, SAID]
    assert judge.count == 2


@pytest.mark.quick
async def test_old_states_are_forgotten() -> None:
    shared, judge = SharedResults(), Judge()
    for number in range(MOST + 1):
        await shared.judge(str(number), "a", judge)
    await shared.judge("0", "b", judge)
    assert judge.count == MOST + 2
    assert shared.judged_with("b") is None


@pytest.mark.long
@pytest.mark.parametrize("reads_transcript", [False, True])
async def test_a_run_is_judged_once_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_transcript: bool
) -> None:
    folder = shutil.copytree(FOLDERS / "sum-columns", tmp_path / "tasks" / "sum-columns")
    settings = Settings(Settings.from_environment().cache, tmp_path)
    named: dict[str, Any] = {"tasks": (str(folder),), "base": BASE, "concurrency": 2}
    await start_run(RunConfig(agent="oracle", run="r", attempts=3, **named), settings, Tally())
    real, judged = judging.verify_outcome, 0

    async def counted(request: JudgeRequest) -> tuple[CheckResult, ...]:
        nonlocal judged
        judged += 1
        if reads_transcript:
            assert request.transcript is not None
            request.transcript()
        return await real(request)

    monkeypatch.setattr(judging, "verify_outcome", counted)
    report = await reverify("r", ReverifyConfig(again=2, base=BASE, allow_task_code=True), settings)
    assert report.counts["agree"] == 3
    assert judged == (6 if reads_transcript else 2)
    added = later_events(tmp_path, "r")
    given = [b.evidence.data.get("judged_with") for bodies in added.values() for b in bodies if _is_result(b)]
    assert len(given) == 3
    assert Counter(one is None for one in given)[True] == (3 if reads_transcript else 1)
    assert {one for one in given if one} <= set(added)


def _is_result(body: Any) -> bool:
    return getattr(getattr(body, "evidence", None), "kind", None) == KIND
