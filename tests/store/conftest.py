"""Runs to test on: small, of every record type."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    Isolation,
    LimitHold,
    ModelCall,
    ModelCalled,
    Noted,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Truncation,
    Usage,
    Verdict,
    VerdictAdded,
)
from assay.store import RunStore, seal

Fill = Callable[..., None]


def started(number: int = 0, *, run: str = "r") -> AttemptStarted:
    isolation = Isolation("namespaces", (LimitHold("memory", "hard", 1.0, "MiB", "cgroup v2"),))
    return AttemptStarted(
        run, f"t.a.{number}", "t", "blake3:" + "1" * 64, "a", None, 7, number, isolation=isolation, at=1.0 + number
    )


def whole_chain(blob: str, number: int = 0, run: str = "r") -> list[Body]:
    """One event of every type, with every nested record in it."""
    cut = Truncation(100, blob)
    call = ToolCall("c1", "shell", '{"command": "ls"}', {"command": "ls"})
    seen = Observation("needle in output", "c1", 1, True, "to stderr", cut, cut, duration_s=0.5)
    step = Step(0, "agent", "I look: häagen \u2028 🎈", "because", (call,), (seen,), "m1", blob, 1.0, 2.5)
    model = ModelCall(
        "m1", "openai", "m", {"messages": []}, {"text": "x"}, Usage(1, 2), 0.5, (1, 2), (3,), (-0.25,), at_parent()
    )
    return [
        started(number, run=run),
        ModelCalled(model),
        StepAdded(step),
        EvidenceAdded(Evidence("e1", "audit", "execution", {"argv": ["ls"], "exit_code": 1}, (blob,), 2.0)),
        VerdictAdded(Verdict("tests", "outcome", "pass", 1.0, "all passed", ("e1",), "v", 0.1, {"r": 1.0}, ("m",))),
        Noted("remark", {"deep": {"list": [1, 2.5, None, "x"]}}, 3.0),
        AttemptEnded("done", None, None, None, {"wall_s": 2.0, "prompt_tokens": 1.0}, {"out.txt": blob}, 4.0),
    ]


def at_parent() -> dict[str, float]:
    return {"temperature": 0.5}


@pytest.fixture
def chain() -> Callable[..., list[Body]]:
    return whole_chain


def write_run(root: Path, run: str, attempts: int) -> None:
    """A run of some finished attempts and an unfinished one, closed."""
    with RunStore.create(root, run, {"what": "a test"}) as store:
        blob = store.blobs.put(f"the whole output of {run}".encode())
        for number in range(attempts):
            store.append(f"t.a.{number}.0", whole_chain(blob, number, run))
        store.append("t.a.99.0", [started(99, run=run)])


@pytest.fixture(scope="session")
def live_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store that most tests begin with, written once and copied."""
    root = tmp_path_factory.mktemp("live")
    write_run(root, "r", 3)
    return root


@pytest.fixture(scope="session")
def sealed_store(live_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, sealed."""
    root = tmp_path_factory.mktemp("sealed")
    shutil.copytree(live_store, root, dirs_exist_ok=True)
    seal(root, "r")
    return root


@pytest.fixture
def fill(tmp_path: Path, live_store: Path) -> Fill:
    """Makes a run of some finished attempts and an unfinished one, and closes it."""

    def make(run: str = "r", attempts: int = 3) -> None:
        if (run, attempts) == ("r", 3):
            shutil.copytree(live_store, tmp_path, dirs_exist_ok=True)
        else:
            write_run(tmp_path, run, attempts)

    return make


@pytest.fixture
def live(tmp_path: Path, fill: Fill) -> Iterator[RunStore]:
    fill()
    with RunStore.open(tmp_path, "r") as store:
        yield store


@pytest.fixture(params=["live", "sealed"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store with the run `r` of one kind."""
    shutil.copytree(request.getfixturevalue(f"{request.param}_store"), tmp_path, dirs_exist_ok=True)
    return tmp_path
