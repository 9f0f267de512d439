"""Errors of passing attempts: their signatures, what is remembered of them, and what a loop makes of it."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from assay.agents.loop import LoopAgent
from assay.agents.memory import MemoryItem, MemoryRecord, read_memory
from assay.agents.recoveries import RecoveryIndex, failure_signature, find_recoveries
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.records import Observation, Step, ToolCall, canonical_bytes
from assay.settings import Settings
from experiments.recoveries import run_seed

TRACEBACK = "Traceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'blue'\n"


def call_of(arguments: str, name: str = "shell", error: str | None = None) -> ToolCall:
    return ToolCall("c", name, arguments, {}, error)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("seen", "signature"),
    [
        (Observation("", exit_code=1, stderr=TRACEBACK), "shell: exit 1: keyerror: '…'"),
        (Observation("no such file: /tmp/x/a7.txt", exit_code=2), "shell: exit 2: no such file: <path>"),
        (Observation("line 41: bad token at 0x7ffe", exit_code=1), "shell: exit 1: line #: bad token at #"),
        (Observation("GET https://a.example/b?c=1 gave 404", error=True), "shell: error: get <path> gave 404"),
        (Observation("due 2026-11-29, 12.50 of 123456", error=True), "shell: error: due #, # of #"),
        (Observation("whatever", timed_out=True), "shell: timed out: "),
        (Observation("fine", exit_code=0), None),
    ],
)
def test_a_signature_leaves_out_what_differs_from_task_to_task(seen: Observation, signature: str | None) -> None:
    assert failure_signature(call_of("{}"), seen) == signature


@pytest.mark.quick
def test_an_invalid_call_has_a_signature_and_a_hostile_text_is_bounded() -> None:
    invalid = call_of("{", error="the arguments are no JSON: 'x'")
    assert failure_signature(invalid, Observation("")) == "shell: invalid call: the arguments are no json: '…'"
    for text in ("'" * 1_000_000, "a" * 1_000_000, "/" * 1_000_000, "1." * 500_000, "http:" * 200_000):
        found = failure_signature(call_of("{}"), Observation(text, error=True))
        assert found is not None
        assert len(found) < 500


@pytest.mark.quick
def test_the_next_call_of_the_same_tool_that_worked_is_the_recovery_of_the_last_failure() -> None:
    made = [("go", "a", True), ("go", "b", True), ("look", "x", False), ("go", "c", False), ("go", "d", True)]
    steps = [
        Step(n, "agent", tool_calls=(call_of(at, name),), observations=(Observation("no way", error=failed),))
        for n, (name, at, failed) in enumerate(made)
    ]
    assert [*find_recoveries(steps)] == [MemoryItem("recovery", "go: error: no way", "go b", "go c", 3)]


def write_memory(path: Path) -> str:
    items = [MemoryItem("recovery", "fix: error: code #", f"fix {n}", f"fix {n}!", n) for n in (1, 2, 3)]
    record = MemoryRecord("r", "t@0", "head", "other", "d9", True, (*items,))
    path.write_bytes(canonical_bytes(record) + b"\n")
    return str(path)


async def test_a_loop_is_told_what_worked_and_each_recovery_once(tmp_path: Path) -> None:
    def fix(_: object) -> Observation:
        return Observation("code 123456", error=True)

    again = Reply(tool_calls=(ScriptedCall("fix", {}),))
    replies = [again, again, again, Reply(tool_calls=(ScriptedCall("finish", {"message": "done"}),))]
    tools = FakeTools({"fix": fix})
    options = {"system": "", "memory": write_memory(tmp_path / "m"), "recall": 0}
    for more, told in (({"scope": "any"}, [(3, 2), (1,)]), ({}, [])):
        attempt = FakeAttempt(backend=ScriptedBackend(replies), tools=tools, task=fake_task("Fix it.", id="a"))
        await LoopAgent(recover=True, **options, **more).run(attempt)
        sent = [one["content"] for one in attempt.calls[-1].request["messages"] if one["role"] == "user"]
        assert sent[0] == "Fix it."
        assert [tuple(n for n in (3, 2, 1) if f"then fix {n}! worked" in text) for text in sent[1:]] == told
        noted = [one.data for one in attempt.evidence if one.kind == "error_recognised"]
        assert [tuple(item["step"] for item in data["items"]) for data in noted] == told


@pytest.mark.quick
def test_other_items_are_no_recoveries_and_an_unknown_error_is_not_recognised() -> None:
    place = MemoryRecord("r", "t@0", "h", "t", "d", True, (MemoryItem("place", "go: error: no", "go", "x", 0),))
    assert RecoveryIndex([place]).recognise(call_of("{}", "go"), Observation("no", error=True)) is None


async def test_repeated_errors_of_a_world_are_recovered_from_and_a_placebo_does_not_help(tmp_path: Path) -> None:
    # The seeds follow from the content of the world's file: every checkout makes the same attempts, and any edit of the
    # file draws others. Margins: three standard errors of a difference between 30 tasks.
    found = await run_seed(1, Settings(tmp_path / "cache", tmp_path), held_out=30)
    rates = {arm: fmean(outcomes) for arm, outcomes in found.items()}
    assert rates["recover"] > rates["none"] + 0.25
    assert rates["placebo"] < rates["none"] + 0.25
    records = read_memory(tmp_path / "m-1.jsonl")
    kinds = {record.passed: {item.kind for item in record.items} for record in records}
    assert "recovery" in kinds[True]
    assert "recovery" not in kinds[False]
