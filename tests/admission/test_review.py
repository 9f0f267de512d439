"""A model's word: structured, bounded, recorded as an attempt, and never decisive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.admission.battery import admit, resume_admission
from assay.admission.config import AdmitConfig
from assay.admission.soundness import TaskReport
from assay.cli.live import progress_line
from assay.errors import BudgetExceededError
from assay.rollout import Tally
from assay.rollout.limits.run_budget import BudgetLimits
from assay.settings import Settings
from assay.store import RunStore
from tests.admission.worlds import Whole, world_task

pytestmark = pytest.mark.quick
DOUBT = {"kind": "pays-too-much", "where": "checks", "what": "ten may be reached by chance"}


def asking(tmp_path: Path, replies: list[str], **fields: Any) -> tuple[AdmitConfig, Settings]:
    script = tmp_path / "model.json"
    script.write_text(json.dumps(replies))
    config = AdmitConfig(tasks=("-",), run="a", quick=True, model=f"scripted:{script}", **fields)
    return config, Settings(cache=tmp_path / "cache", store=tmp_path / "store")


async def reviewed(tmp_path: Path, reply: str) -> TaskReport:
    config, settings = asking(tmp_path, [reply])
    (report,) = (await admit(config, settings, Tally(), tasks=[world_task(Whole)])).reports
    return report


def doubts(report: TaskReport) -> list[tuple[str, bool, str]]:
    return [(f.severity, f.heuristic, f.text) for f in report.findings if f.kind == "model-review"]


async def test_a_doubt_is_a_note_and_the_task_is_admitted(tmp_path: Path) -> None:
    report = await reviewed(tmp_path, json.dumps({"doubts": [DOUBT]}))
    assert doubts(report) == [("note", True, "a model doubts (pays-too-much): checks: ten may be reached by chance")]
    assert report.is_admitted


async def test_what_was_asked_and_answered_is_in_the_record(tmp_path: Path) -> None:
    await reviewed(tmp_path, json.dumps({"doubts": []}))
    with RunStore.open(tmp_path / "store", "a") as store:
        (call,) = store.trajectory("world@review.0").calls
    asked: dict[str, Any] = call.request
    assert "Reach ten." in str(asked["messages"])
    assert asked["response_format"]["json_schema"]["name"] == "review"


@pytest.mark.parametrize(
    "reply",
    [
        "A perfect task, admit it!",
        '{"doubts": [{"kind": "hole"}]}',
        '{"doubts": [], "admitted": true}',
        "[" * 9000,
    ],
)
async def test_any_other_reply_is_no_review(tmp_path: Path, reply: str) -> None:
    report = await reviewed(tmp_path, reply)
    ((severity, heuristic, text),) = doubts(report)
    assert (severity, heuristic, report.is_admitted) == ("note", True, True)
    assert "gave nothing" in text


async def test_a_fence_around_the_reply_is_taken_off(tmp_path: Path) -> None:
    report = await reviewed(tmp_path, f"```json\n{json.dumps({'doubts': [DOUBT]})}\n```")
    assert len(doubts(report)) == 1


class Told(Tally):
    """Keeps what an admission says before its attempts."""

    def __init__(self) -> None:
        super().__init__()
        self.informed: list[str] = []

    def inform(self, text: str) -> None:
        self.informed.append(text)


async def test_a_budget_ends_an_admission_and_a_larger_one_completes_it(tmp_path: Path) -> None:
    config, settings = asking(tmp_path, [json.dumps({"doubts": []})] * 2, concurrency=1, budget_calls=1)
    tasks = [world_task(Whole, name="first"), world_task(Whole, name="second")]
    with pytest.raises(BudgetExceededError, match="the budget of 1 model calls is used up"):
        await admit(config, settings, Tally(), tasks=tasks)
    tally = Tally()
    resumed = await resume_admission("a", settings, tally, tasks=tasks, budget=BudgetLimits(calls=3))
    assert all(report.is_admitted for report in resumed.reports)
    assert "2 of 3 calls" in progress_line(tally)


async def test_an_admission_says_what_its_reviews_will_use(tmp_path: Path) -> None:
    config, settings = asking(tmp_path, [json.dumps({"doubts": []})] * 3)
    for run, tasks in (("a", [world_task(Whole)]), ("b", [world_task(Whole, name="x"), world_task(Whole, name="y")])):
        told = Told()
        await admit(msgspec.structs.replace(config, run=run), settings, told, tasks=tasks)
    assert [text.partition(" attempts")[0] for text in told.informed] == [
        "estimate: about 2 model calls and $0.00 for 2"
    ]
