"""Attempts of every kind of line, small enough for unit tests of the views."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    BranchCause,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Noted,
    Observation,
    SpanProof,
    Step,
    StepAdded,
    ToolCall,
    Usage,
    Verdict,
    VerdictAdded,
)
from assay.store import RunStore
from assay.viewer.interface import view_name
from assay.viewer.views import VIEWS, make_view

LONG = "first line\n" + "x" * 200_000 + "\nneedle here\n" + "last line é\n" * 300
PATCH = "def f():\n    return 1\n"


def png(width: int = 20, height: int = 10) -> bytes:
    raw = b"".join(b"\0" + b"\x20\x80\xc0" * width for _ in range(height))

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def as_address(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def started(number: int, run: str) -> AttemptStarted:
    return AttemptStarted(run, f"t@{number}", "set/t", "blake3:" + "1" * 64, "loop", "m", 7, number, at=1000.0)


def shell(index: int, command: str, output: str, **more: Any) -> StepAdded:
    call = ToolCall("t", "shell", json.dumps({"command": command}), {"command": command})
    code = more.pop("code", 0)
    seen = Observation(output, "t", code, bool(code))
    state = "blake3:" + f"{more.pop('state', index):064x}"
    return StepAdded(Step(index, "agent", tool_calls=(call,), observations=(seen,), state=state, **more))


def asked(
    name: str, parent: str | None = None, branch: str = "c1", cause: BranchCause | None = None, **more: Any
) -> ModelCalled:
    words = ["Hel", "lo", "\n", "!"]
    message = {"role": "assistant", "content": "".join(words)}
    told = {"content": [{"token": word, "logprob": -0.5} for word in words]}
    return ModelCalled(
        ModelCall(
            name, "openai-chat", "m", {"messages": [{"role": "user", "content": "hi"}]},
            {"choices": [{"message": message, "logprobs": told}]}, Usage(5, 4), 0.01, (1, 2), (3, 4, 5, 6),
            (-0.1, -0.5, float("-1e9"), -2.0), parent=parent, branch=branch, cause=cause,
            certificate=SpanProof(more.pop("certified", True), None), lineage=more.pop("lineage", {}),
        )
    )  # fmt: skip


def judged() -> list[Body]:
    failing = {"id": "tests/test_a.py::test_b", "status": "failed"}
    passing = [{"id": f"tests/test_a.py::test_{n}", "status": "passed"} for n in range(400)]
    counts = {"passed": 400, "failed": 1}
    output = {"argv": ["pytest"], "exit_code": 1, "stdout": "ok\nFAILED tests/test_a.py::test_b - assert\n"}
    quote = {"step": 2, "field": "observation", "text": "needle here", "call": 0}
    finding = {"rule": "made", "family": "integrity", "severity": "major", "summary": "It is made.", "steps": [2]}
    return [
        EvidenceAdded(Evidence("e1", "audit", "execution", output, (), 1009.0)),
        EvidenceAdded(Evidence("e2", "audit", "test_report", {"counts": counts, "tests": [*passing, failing]})),
        VerdictAdded(Verdict("tests", "outcome", "fail", 0.0, "tests/test_a.py::test_b failed", ("e1", "e2", "gone"))),
        Noted("audited", {"findings": [{**finding, "quotes": [quote]}, {"rule": 7}]}, 1010.0),
    ]


def full(run: str, number: int = 0) -> list[Body]:
    """An attempt with a bit of everything."""
    return [
        started(number, run),
        asked("c1", cause="root"),
        StepAdded(Step(0, "agent", "I look.", "because", call="c1", started=1001.0)),
        asked("c2", "c1", "c2", "resample"),
        asked("c3", "c1", "c3", "sub_agent", lineage={"agent": "helper"}, certified=False),
        shell(1, "ls", "a.py", call="c3", started=1002.0),
        shell(2, "cat a.py", LONG, code=1),
        shell(3, "show", as_address(png())),
        StepAdded(Step(4, "other_agent", "hi", extra={"name": "critic"})),
        *judged(),
        AttemptEnded("done", None, None, None, {"wall_s": 11.0}, {"out.txt": "blake3:" + "2" * 64}, 1011.0),
    ]


def make(root: Path, run: str = "r", attempts: int = 1) -> None:
    """A run of such attempts, chains `t@0.0`, `t@1.0`, ..."""
    with RunStore.create(root, run, {}) as store:
        for number in range(attempts):
            store.append(f"t@{number}.0", full(run, number))


def shown(root: Path, *parts: str, run: str = "r", chain: str = "t@0.0") -> Any:
    """A view of an attempt, read."""
    found = make_view(root, view_name("run", run, "attempt", chain, *parts))
    assert found is not None, "there is such a view"
    return json.loads(found)


def view_names(root: Path, run: str) -> Iterator[str]:
    """Yields the names of all views in an export of a run, kind by kind."""
    for view in VIEWS:
        yield from view.names(root, run)
