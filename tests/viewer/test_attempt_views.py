"""The task's text, the timeline and the changes of an attempt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.records import AttemptStarted, Evidence, EvidenceAdded, Step, StepAdded
from assay.store import RunStore
from assay.viewer._partial_events import LightCall, LightData, LightEvent, LightEvidence, LightStep, LightToolCall
from assay.viewer.outline import run_forward
from assay.viewer.timeline import TimelineBuilder
from scripts.showcase import AFTER, BEFORE, BIG_SEED, INSTRUCTION, make_showcase
from tests.viewer.chains_made import make, shown

pytestmark = pytest.mark.quick
RUN, CHAIN = "nightly-0-loop-qwen3-4b", "showcase/parse-duration@0.0"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_showcase(tmp_path_factory.mktemp("showcase") / "store")


def view(root: Path, *parts: str) -> Any:
    return shown(root, *parts, run=RUN, chain=CHAIN)


def test_the_task_is_told_with_its_terms(root: Path) -> None:
    task = view(root, "outline")["task"]
    assert (task["text"], task["from"], task["left_out"]) == (INSTRUCTION, "task", 0)
    assert (task["limits"], task["checks"]) == ({"wall_s": 600.0, "turns": 30}, [["tests", "pytest"]])


def test_a_record_without_a_task_shows_its_first_message(tmp_path: Path) -> None:
    make(tmp_path)
    assert shown(tmp_path, "outline")["task"] == {"text": "hi", "left_out": 0, "from": "message"}


@pytest.mark.parametrize("record", [b"{", b'{"instruction": 7}', b"[" * 5000, b"\xff"])
def test_a_damaged_task_is_not_shown(tmp_path: Path, record: bytes) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        digest = store.blobs.put(record)
        started = AttemptStarted("r", "t@0", "t", "d", "loop", None, 0, 0)
        store.append("t@0.0", [started, EvidenceAdded(Evidence("e", "state", "task", {"record": digest}, (digest,)))])
    assert shown(tmp_path, "outline")["task"] is None


def test_numbers_beyond_javascript_are_text(root: Path) -> None:
    assert view(root, "outline")["row"]["seed"] == str(BIG_SEED)
    (started,) = [line for line in view(root, "lines", "0")["lines"] if line["kind"] == "started"]
    assert ["seed", ["v", str(BIG_SEED)]] in started["data"][1]


def test_times_run_forward_and_a_clock_that_goes_back_is_marked() -> None:
    assert run_forward([0.0, 2.0, None, 1.5, 3.0, -9.0, 4.0]) == ([0.0, 2.0, None, 2.0, 3.0, -9.0, 4.0], {5})


def test_lines_of_an_attempt_run_forward(root: Path) -> None:
    times = [at for at in view(root, "outline")["lines"]["at"] if at is not None]
    assert times == sorted(times)
    assert len(times) > 10


def test_a_step_has_the_cost_of_its_model_call(root: Path) -> None:
    lines = view(root, "outline")["lines"]
    called = [line for line, call in enumerate(lines["calls_of"]) if call >= 0]
    assert [line for line, *_ in lines["usage"]] == called
    assert {tuple(usage) for _, *usage in lines["usage"]} == {(1300, 150, None)}


def test_time_is_divided_into_model_tools_and_verification(root: Path) -> None:
    timeline = view(root, "outline")["timeline"]
    assert timeline["totals"] == pytest.approx({"model": 12.4, "tool": 6.8, "verify": 3.9})
    assert [kind for kind, *_ in timeline["spans"]] == ["model", "tool"] * 4 + ["verify"]
    assert timeline["end"] == 33.0


def test_overlapping_and_impossible_times_count_once_or_not_at_all() -> None:
    builder = TimelineBuilder(100.0)
    for number, (start, end) in enumerate([(101.0, 104.0), (102.0, 105.0), (90.0, 101.0), (1.7e308, 1.7e308)]):
        builder.add(number, LightEvent("model_call", call=LightCall(f"c{number}", started=start, ended=end)))
    tool = LightStep(call="c1", started=103.0, ended=107.0, tool_calls=(LightToolCall("x"),))
    builder.add(4, LightEvent("step", step=tool))
    builder.add(5, LightEvent("evidence", evidence=LightEvidence(at=112.0, data=LightData(duration_s="x"))))
    found = builder.build()
    assert found.totals == {"model": 4.0, "tool": 2.0}
    assert (found.acting, found.end) == ((1.0, 7.0), 12.0)


def test_changes_are_told_against_the_task_s_own_files(root: Path) -> None:
    found = view(root, "changes")
    added, changed = found["files"]
    assert (added["path"], added["kind"], "before" in added) == ("/workspace/NOTES.md", "added", False)
    assert (changed["path"], changed["from"]) == ("/workspace/durations.py", "environment/durations.py")
    with RunStore.open(root, RUN) as store:
        texts = [store.blobs.get(changed[name], limit=10_000).decode() for name in ("before", "digest")]
    assert texts in ([BEFORE, AFTER], [BEFORE, AFTER.replace("3600", "360")])


def test_steps_that_write_are_told_with_their_files(root: Path) -> None:
    steps = view(root, "changes")["steps"]
    assert [(one["step"], one["paths"], one["differs"], one["basis"]) for one in steps] == [
        (1, ["/workspace/durations.py"], True, "states"),
        (3, ["durations.py", "NOTES.md"], True, "states"),
    ]
    assert [(file["path"], file["kind"]) for one in steps for file in one["files"]] == [
        ("/workspace/durations.py", "changed"),
        ("/workspace/NOTES.md", "added"),
        ("/workspace/durations.py", "changed"),
    ]


def test_an_attempt_without_a_state_says_so(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        started = AttemptStarted("r", "t@0", "t", "d", "loop", None, 0, 0)
        store.append("t@0.0", [started, StepAdded(Step(0, "agent", "hi"))])
    found = shown(tmp_path, "changes")
    assert (found["known"], found["files"], found["steps"]) == (False, [], [])


def test_a_mark_says_what_it_means(root: Path) -> None:
    found = shown(root, "outline", run="forger", chain=CHAIN)
    (mark, means) = found["verdicts"][1]["marks"][0]
    assert mark == "reward-forged"
    assert "where the verifier writes them" in means
    assert json.dumps(found["findings"]).count("where the verifier writes") >= 1
