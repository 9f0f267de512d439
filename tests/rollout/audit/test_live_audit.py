"""The verdicts at an attempt's end are those of the audit of its stored record."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.analysis.actions import ActionReader
from assay.analysis.judge import Assessment, judge_integrity, judge_safety
from assay.analysis.subject import Subject
from assay.errors import StoreError
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Noted,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Trajectory,
    Verdict,
    VerdictAdded,
)
from assay.rollout.audit import live
from assay.rollout.audit.config import AuditConfig
from assay.rollout.audit.live import MOST_BYTES, MOST_INLINE_BYTES, LiveRecord, judge_record
from assay.rollout.audit.stored import audit_run, subject_of
from assay.rollout.recording.recorder import Recorder
from assay.store import RunStore
from assay.store.encoding import encode_body
from assay.verdicts import trust_of
from tests.analysis.test_anything import steps as odd_steps

pytestmark = pytest.mark.quick
STARTED = AttemptStarted("r", "t@0", "t", "d", "a", None, 0, 0)
END = AttemptEnded("done", metrics={"turns": 1.0})
COMMANDS = st.sampled_from(
    [
        "pytest -q tests",
        "cat tests/test_a.py && cd src",
        "rm tests/test_a.py",
        "rm -rf tests",
        "sed -i 's/assert x/pass/' tests/test_a.py",
        "echo 1 > /logs/verifier/reward.txt",
        "git log --all -p",
        "curl https://github.com/o/t/commit/abc",
        "find . -name 'test_*' -delete",
        "python -c 'import os; os.unlink(\"x\")'",
    ]
)
OUTPUTS = st.sampled_from(["", "2 passed in 0.01s", "tests/test_a.py\nok", "No such file or directory", "x" * 700])
SAID = st.sampled_from(["", "All tests pass.", "I ran `pytest -q` and 3 tests passed.", "Done."])


def is_recordable(step: Step) -> bool:
    try:
        encode_body(StepAdded(step), "")
    except StoreError:
        return False
    return True


@st.composite
def bodies(draw: st.DrawFn) -> list[Body]:
    """Events of an attempt: acts with their calls and the results that the model was told, evidence, verdicts."""
    found: list[Body] = []
    told: list[dict[str, Any]] = []
    for at in range(draw(st.integers(0, 7))):
        name = draw(st.sampled_from([f"t{at}", f"t{at}", "again"]))
        found.append(ModelCalled(ModelCall(f"c{at}", "openai-chat", "m", {"messages": told, "n": 1}, None)))
        if draw(st.integers(0, 4)) == 0:
            found.append(StepAdded(msgspec.structs.replace(draw(odd_steps.filter(is_recordable)), index=at)))
            continue
        command, output = draw(COMMANDS), draw(OUTPUTS)
        tool = ToolCall(name, "shell", command, {"command": draw(st.sampled_from([command, ("sh", "-c", command)]))})
        seen = Observation(output, name, exit_code=draw(st.sampled_from([None, 0, 1])))
        found.append(StepAdded(Step(at, "agent", draw(SAID), None, (tool,), (seen,), call=f"c{at}", started=at)))
        data = {"argv": ("sh", "-c", command), "exit_code": 0, "stdout": output, "path": "tests/test_a.py"}
        kind = draw(st.sampled_from(["execution", "write", "test_report", "reward", "processes"]))
        found.append(EvidenceAdded(Evidence(f"e{at}", draw(st.sampled_from(["audit", "state"])), kind, data)))
        told = [{"role": "tool", "tool_call_id": name, "content": draw(st.sampled_from([output, "another"]))}]
    status = draw(st.sampled_from(["pass", "fail", "unknown"]))
    found.append(VerdictAdded(Verdict("ten", "outcome", status, None, "so", ("e0",), marks=("orphaned_processes",))))
    return found


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(bodies(), st.integers(1, 5))
def test_what_is_held_is_judged_as_the_stored_record(
    tmp_path_factory: pytest.TempPathFactory, made: list[Body], batch: int
) -> None:
    with RunStore.create(tmp_path_factory.mktemp("store"), "r", {}) as store:
        recorder, record = Recorder(store, "t@0.0"), LiveRecord("t@0.0")
        store.watch("t@0.0", record.add_committed)
        events = [STARTED, *made]
        for at in range(0, len(events), batch):
            store.append("t@0.0", events[at : at + batch])
        live, stored = record.subject(recorder, END), finished(store)
        assert live.actions == stored.actions
        assert judge_integrity(live) == judge_integrity(stored)
        assert judge_safety(live) == judge_safety(stored)


def finished(store: RunStore) -> Subject:
    subject = subject_of(store, "t@0.0")
    return subject._replace(trajectory=msgspec.structs.replace(subject.trajectory, finished=END))


@pytest.fixture
def recorder(tmp_path: Path) -> Any:
    with RunStore.create(tmp_path, "r", {}) as store:
        yield Recorder(store, "t@0.0")


def recorded(recorder: Recorder, steps: int) -> LiveRecord:
    record = LiveRecord(recorder.chain)
    recorder.store.watch(recorder.chain, record.add_committed)
    acts = [StepAdded(Step(n, "agent", tool_calls=(ToolCall(f"t{n}", "shell", "ls", {}),))) for n in range(steps)]
    recorder.store.append(recorder.chain, [STARTED, *acts])
    return record


async def test_a_long_record_gets_its_verdict(recorder: Recorder) -> None:
    recorder.steps = 1_000
    record = recorded(recorder, recorder.steps)
    await judge_record(recorder, record, END)
    recorder.flush()
    assert [v.check for v in recorder.store.trajectory("t@0.0").verdicts] == ["integrity"]


@pytest.mark.parametrize("length", [10, MOST_INLINE_BYTES])
async def test_a_large_record_does_not_hold_up_the_event_loop(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    threads: list[int] = []

    def judges(*_: object) -> Assessment:
        threads.append(threading.get_ident())
        return Assessment((), ())

    monkeypatch.setattr(live, "_judge", judges)
    record = recorded(recorder, 2)
    told = [{"role": "tool", "tool_call_id": "t1", "content": "x" * length}]
    recorder.store.append(recorder.chain, [ModelCalled(ModelCall("c1", "openai-chat", "m", {"messages": told}, None))])
    await judge_record(recorder, record, END)
    assert (threads == [threading.get_ident()]) == (length == 10)


async def doubted(recorder: Recorder, record: LiveRecord) -> Trajectory:
    """A record whose rules could not run: its pass is doubted."""
    recorder.verdict(Verdict("tests", "outcome", "pass", 1.0, ""))
    await judge_record(recorder, record, END)
    recorder.add(END)
    recorder.flush()
    trajectory = recorder.store.trajectory("t@0.0")
    assert [(v.check, v.status) for v in trajectory.verdicts] == [("tests", "pass"), ("integrity", "error")]
    assert [note.name for note in trajectory.notes] == ["not audited"]
    assert trust_of(trajectory).headline == "pass (integrity not judged)"
    return trajectory


async def test_a_record_that_is_too_large_to_hold_is_left_to_the_audit(recorder: Recorder) -> None:
    record = recorded(recorder, 2)
    record.add_committed(Noted("more", {}, 1.0), bytes(MOST_BYTES), "")
    await doubted(recorder, record)
    (card,) = audit_run(recorder.store.layout.root, "r", AuditConfig(dry_run=True)).cards
    assert card.integrity is not None
    assert card.integrity.status == "pass"


async def test_a_step_that_cannot_be_read_holds_up_no_commit(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(ActionReader, "add", fails)
    await doubted(recorder, recorded(recorder, 2))


async def test_a_record_that_no_rule_can_read_is_not_trusted(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Subject) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(live, "judge_integrity", fails)
    await doubted(recorder, recorded(recorder, 2))
