"""A model's word: structured, bounded, recorded as an attempt, and never decisive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.admission.battery import admit
from assay.admission.config import AdmitConfig
from assay.admission.soundness import TaskReport
from assay.rollout import Tally
from assay.settings import Settings
from assay.store import RunStore
from tests.admission.worlds import Whole, world_task

pytestmark = pytest.mark.quick
DOUBT = {"kind": "pays-too-much", "where": "checks", "what": "ten may be reached by chance"}


async def reviewed(tmp_path: Path, reply: str) -> TaskReport:
    script = tmp_path / "model.json"
    script.write_text(json.dumps([reply]))
    config = AdmitConfig(tasks=("-",), run="a", quick=True, model=f"scripted:{script}")
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
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
