"""Stores to look at: an ordinary run, a hostile attempt, an admission."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec

from assay.admission.certificate import certify
from assay.admission.config import AdmitConfig
from assay.admission.soundness import TaskReport
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Observation,
    SpanProof,
    Step,
    StepAdded,
    ToolCall,
    Usage,
    Verdict,
    VerdictAdded,
    digest_bytes,
)
from assay.store import ADMISSION, RunStore

__all__ = ["BIDI", "HOSTILE", "HUGE", "admission", "attempt", "hostile", "ordinary", "picture"]

TASKS, ATTEMPTS = 6, 4
MODELS = ("small", "large")
BIDI = "access\u202e\u2066// check admin\u2069\u2066"
LINK = "\x1b]8;;https://evil.example/\x1b\\click me\x1b]8;;\x1b\\"
HOSTILE = (
    "<script>window.pwned = 'script'</script>\n"
    "<img src=x onerror=\"window.pwned = 'onerror'\">\n"
    "<a href=\"javascript:window.pwned = 'link'\">a link</a>\n"
    '<iframe srcdoc="<script>parent.pwned = 1</script>"></iframe>\n'
    "</script></textarea></title><svg onload=\"window.pwned = 'svg'\">\n"
    f"\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1Hwiped {LINK} \x1b]0;title\x07\n"
    f"{BIDI} zero\u200bwidth \x00 null\n"
)
HUGE = "A" * (10 << 20)


def picture() -> str:
    """A PNG of one red dot, as a data address."""
    import base64

    rows = zlib.compress(b"\x00\xff\x00\x00")
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def attempt(
    run: str, task: str, number: int, *, passed: bool, agent: str = "loop", model: str = "small"
) -> tuple[str, list[Body]]:
    """One attempt of three steps, two model calls and a test run; its chain and its events."""
    name = f"{task}@{agent}-{model}-{number}"
    began = 1_763_000_000.0 + number
    digest = [digest_bytes(f"{task} {at} {passed if at > 1 else ''}".encode()) for at in range(4)]
    bodies: list[Body] = [
        AttemptStarted(run, name, task, digest_bytes(task.encode()), agent, model, number, number, at=began)
    ]
    for at in range(3):
        bodies.append(ModelCalled(_call(f"c{at}", began + at, certified=at != 1)))
        bodies.append(StepAdded(_step(at, began + at, digest[at + 1], passed=passed)))
    bodies += _judged(passed=passed)
    metrics = {"prompt_tokens": 900.0 + 90 * number, "completion_tokens": 100.0, "wall_s": 3.5 + number, "turns": 3.0}
    metrics["cost_usd"] = 0.01 if model == "small" else 0.05
    bodies.append(AttemptEnded("agent said so", at=began + 4, metrics=metrics))
    return f"{name}.0", bodies


def _call(name: str, at: float, *, certified: bool) -> ModelCall:
    message = {"role": "assistant", "content": "Let me look."}
    return ModelCall(
        id=name,
        dialect="openai-chat",
        model="small",
        request={"messages": [{"role": "user", "content": "Repair it."}]},
        response={"choices": [{"message": message}]},
        usage=Usage(30, 4),
        cost_usd=0.003,
        prompt_token_ids=(1, 2, 3),
        completion_token_ids=(10, 11, 12, 13),
        logprobs=(-0.01, -0.4, -2.5, -0.02),
        started=at,
        ended=at + 0.4,
        certificate=SpanProof(certified, None if certified else "the prompt was rewritten", None if certified else 2),
    )


def _step(at: int, began: float, state: str, *, passed: bool) -> Step:
    calls = (
        ToolCall("a", "bash", '{"command": "ls"}', {"command": "ls"}),
        ToolCall("b", "edit", '{"path": "lib.py"}', {"path": "lib.py"}),
        ToolCall("d", "bash", '{"command": "pytest -q"}', {"command": "pytest -q"}),
    )
    seen = (
        Observation("\x1b[34mlib.py\x1b[0m\ntest_lib.py\n", "a", 0),
        Observation("--- a/lib.py\n+++ b/lib.py\n@@ -1 +1 @@\n-return a - b\n+return a + b\n", "b", 0),
        Observation("1 passed" if passed else "E  assert 1 == 2\n1 failed", "d", 0 if passed else 1),
    )
    said = ("I look at the files.", "I change the sign.", "I run the tests.")
    return Step(
        at,
        "agent",
        said[at],
        "The sign looks wrong." if at == 1 else None,
        (calls[at],),
        (seen[at],),
        f"c{at}",
        state,
        began,
        began + 0.9,
    )


def _judged(*, passed: bool) -> list[Body]:
    out = (
        "collected 2 items\ntest_lib.py::test_add "
        + ("PASSED" if passed else "FAILED")
        + "\ntest_lib.py::test_sub PASSED\n"
    )
    data = {"argv": ["pytest"], "cwd": "/work", "exit_code": 0 if passed else 1, "stdout": out, "stderr": ""}
    reason = "both tests pass" if passed else "1 of 2 tests failed: test_lib.py::test_add"
    verdict = Verdict("tests", "outcome", "pass" if passed else "fail", float(passed), reason, ("v1",))
    quality = Verdict("quality", "process", "pass", 0.8 if passed else 0.35, "steps that help", ())
    return [
        EvidenceAdded(Evidence("v1", "audit", "execution", data)),
        EvidenceAdded(Evidence("v2", "audit", "screenshot", {"picture": picture()})),
        VerdictAdded(verdict),
        VerdictAdded(Verdict("integrity", "integrity", "pass", None, "nothing was found", ())),
        VerdictAdded(quality),
    ]


def ordinary(root: Path, run: str = "demo") -> None:
    """48 attempts: two models at six tasks, four times each; the larger model passes more."""
    with RunStore.create(root, run, {"config": {"agent": "loop", "attempts": ATTEMPTS}}) as store:
        batch = []
        for place, model in enumerate(MODELS):
            for task in range(TASKS):
                for number in range(ATTEMPTS):
                    good = task + number < 3 + 3 * place
                    batch.append(attempt(run, f"made/task-{task}", number, passed=good, model=model))
        store.append_all(batch)


def hostile(root: Path, run: str = "hostile") -> None:
    """Two attempts whose every text is written by an enemy of whoever looks at it; one of them is long too."""
    with RunStore.create(root, run, {"config": {"agent": HOSTILE}, "note": HOSTILE}) as store:
        store.append("h@0.0", _hostile(run, 0, HUGE + HOSTILE))
        store.append("h@1.0", _hostile(run, 1, HOSTILE))


def _hostile(run: str, number: int, long: str) -> list[Body]:
    task = "made/<img src=x onerror=window.pwned=1>"
    call = ToolCall(
        "a", '<b onclick="window.pwned=2">bash</b>', '{"x": "</script><script>window.pwned=3</script>"}', None
    )
    first = Step(0, "agent", HOSTILE, HOSTILE, (call,), (Observation(HOSTILE, "a", 0, stderr=HOSTILE),))
    second = Step(1, "agent", "a long line follows", None, (), (Observation(long),))
    evil = "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9InBhcmVudC5wd25lZD0xIi8+"
    return [
        AttemptStarted(run, f"h@{number}", task, "d", f"agent {HOSTILE}", f"model {BIDI}", 0, number, at=1.0),
        StepAdded(first),
        StepAdded(second),
        EvidenceAdded(
            Evidence("<i>v1</i>", "audit", "execution", {"stdout": HOSTILE, "picture": evil, "__proto__": {"x": 1}})
        ),
        VerdictAdded(Verdict(HOSTILE, "outcome", "fail", 0.0, HOSTILE, ("<i>v1</i>",), marks=(BIDI,))),
        AttemptEnded(HOSTILE, at=2.0, error=HOSTILE),
    ]


def admission(root: Path, run: str = "sound") -> None:
    """Two tasks, one of them with a hole."""
    config = AdmitConfig(tasks=("made",), run=run)
    manifest = {ADMISSION: msgspec.to_builtins(config), "tasks": {"made/good": "d1", "made/bad": "d2"}}
    with RunStore.create(root, run, manifest) as store:
        for task, digest, good in (("made/good", "d1", True), ("made/bad", "d2", False)):
            chain, bodies = attempt(run, task, 0, passed=True, agent="oracle")
            store.append(chain, bodies)
            certify(store, _report(task, digest, chain, good=good), config)


def _report(task: str, digest: str, chain: str, *, good: bool) -> TaskReport:
    hole = {
        "kind": "null-passed",
        "task": task,
        "probe": "null.empty",
        "severity": "hole",
        "text": "an empty answer is paid",
    }
    survivor = {
        "name": "mutant.001",
        "operator": "boundary",
        "judgement": "changed",
        "diff": "-a < b\n+a <= b",
        "witness": "f(1, 1)",
    }
    probe = {
        "probe": "oracle.1",
        "group": "completeness",
        "wanted": "pass",
        "verification": "default",
        "about": "the solution",
    }
    plain: dict[str, Any] = {
        "task": task,
        "task_digest": digest,
        "admitted": {"default": good},
        "findings": [] if good else [hole | {"closed_by": ["recorded test run"], "evidence": [f"{task}@null.empty"]}],
        "completeness": {
            "tried": 3,
            "passed": 3,
            "flake_rate": 0.0,
            "flake_interval": [0.0, 0.56],
            "circumstances": {"locale": "pass"},
        },
        "sensitivity": {
            **dict.fromkeys(("unclear", "equivalent", "undecided", "not_run"), 0),
            **{"tried": 20, "rejected": 19, "changed": 1, "best": 0.95, "best_interval": [0.76, 0.99]},
            **{
                "worst": 0.95,
                "worst_interval": [0.76, 0.99],
                "survivors": [survivor],
                "operators": {"boundary": [4, 3]},
            },
        },
        "strictness": None,
        "cost": {"verification_s": 0.4, "attempt_s": 0.9, "peak_mib": 40.0, "battery_s": 60.0, "attempts": 50},
        "difficulty": [],
        "changed": ["lib.py"],
        "probes": [probe | {"attempt": chain[:-2], "chain": chain, "outcome": "pass"}],
        "untried": [{"probe": "clock.later", "group": "completeness", "reason": "no faketime here"}],
    }
    return msgspec.convert(plain, TaskReport)
