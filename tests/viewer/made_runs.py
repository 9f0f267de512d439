"""Small runs for the viewer's tests."""

from __future__ import annotations

from pathlib import Path

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Isolation,
    Noted,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Verdict,
    VerdictAdded,
    VerdictKind,
    VerdictStatus,
)
from assay.store import RunStore

HOSTILE = "<img src=x onerror=alert(1)>\u202e\u0000/../../etc"


def given(kind: VerdictKind, status: VerdictStatus, check: str = "") -> VerdictAdded:
    return VerdictAdded(Verdict(check or kind, kind, status, None, "because"))


def started(run: str, number: int, task: str = "pkg/t", agent: str = "loop", retry: int = 0) -> AttemptStarted:
    attempt, digest = f"{task}@{number}", "blake3:" + "1" * 64
    held = Isolation("namespaces")
    return AttemptStarted(run, attempt, task, digest, agent, "m", 7, number, retry, held, at=1.0 + number)


def attempt(run: str, number: int, outcome: VerdictStatus, *more: Body, task: str = "pkg/t") -> tuple[str, list[Body]]:
    call = ToolCall("c", "shell", '{"command": "ls"}', {"command": "ls"})
    step = StepAdded(Step(0, "agent", "I look", tool_calls=(call,), observations=(Observation("a.py", "c"),)))
    metrics = {"wall_s": 2.5, "prompt_tokens": 10.0, "completion_tokens": 5.0}
    verdict = given("outcome", outcome, "tests")
    bodies = [started(run, number, task), step, verdict, *more, AttemptEnded("done", metrics=metrics, at=9.0)]
    return f"{task}@{number}.0", bodies


def small_run(root: Path, run: str = "r") -> None:
    """Five attempts: a pass, a doubtful one, a fail, one that broke and was tried again, one that still runs."""
    with RunStore.create(root, run, {"asked": "for this"}) as store:
        store.append_all(
            [
                attempt(run, 0, "pass", given("integrity", "pass"), given("process", "fail")),
                attempt(run, 1, "pass", given("integrity", "fail")),
                attempt(run, 2, "fail", given("safety", "pass", "safety:c"), task=f"pkg/{HOSTILE}"),
                ("pkg/t@3.0", [started(run, 3), AttemptEnded(broke="provider", error="502", at=4.0)]),
                ("pkg/t@4.0", [started(run, 4)]),
            ]
        )
        store.append("pkg/t@3.0", [Noted("retried")])
