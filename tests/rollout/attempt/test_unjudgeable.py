"""An attempt that makes itself unjudgeable is in every denominator; what the host did is in none."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from assay.agents.interface import Attempt
from assay.environments.workspace import _entries
from assay.errors import EnvironmentFailure, HostFailure
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.attempt.site import WorkspaceSite
from assay.settings import Settings
from assay.statistics import AttemptOutcome, summarise
from assay.store import AttemptRow, RunStore
from assay.verdicts import AGENT_MADE_UNJUDGEABLE
from assay.verify import host_load

TASK = 'schema_version = "1.4"\n[environment]\nworkdir = "/workspace"\n[verifier]\ntimeout_sec = 2.0\n'
SCRIPT = """#!/bin/sh
reward=0
if [ "$(cat /workspace/a.txt)" = hi ]; then reward=1; fi
echo $reward > /logs/verifier/reward.txt
"""


@pytest.fixture(autouse=True)
def idle_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host_load, "PROC", tmp_path / "proc")  # what these tests run beside is no part of them


class Typist:
    """Types one line; each attempt the next of its commands."""

    name = "typist"
    needs_model = False

    def __init__(self, commands: list[str]) -> None:
        self._commands = itertools.cycle(commands)

    async def run(self, attempt: Attempt) -> None:
        await attempt.shell(next(self._commands), message="type")
        attempt.finish("typed")


async def run(tmp_path: Path, *commands: str, attempts: int = 1, **fields: Any) -> list[AttemptRow]:
    folder = tmp_path / "hello"
    files = {"task.toml": TASK, "instruction.md": "Write hi.", "tests/test.sh": SCRIPT}
    for name, text in {**files, "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    settings = Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")
    fields["agent_options"] = {"commands": list(commands)}
    config = RunConfig(tasks=(str(folder),), agent=f"{__file__}:Typist", run="r", attempts=attempts, **fields)
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        return store.attempts()


@pytest.mark.long
async def test_attempts_that_cannot_be_judged_lower_the_rate(tmp_path: Path) -> None:
    right, pipe = "echo hi > a.txt", "mkfifo a.txt"
    rows = await run(tmp_path, *[right] * 10, *[pipe] * 2, attempts=12, concurrency=2)
    assert sorted(str(row.outcome) for row in rows) == ["fail"] * 2 + ["pass"] * 10
    (group,) = summarise([AttemptOutcome(r.task, r.agent, r.model, r.number, r.outcome or "error") for r in rows])
    assert group.pass_at_1.value == pytest.approx(10 / 12)


async def test_a_state_over_the_bound_fails_and_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_entries, "MOST_CHANGES", 50)
    (row,) = await run(tmp_path, "echo hi > a.txt; for i in $(seq 100); do : > f$i; done")
    assert (row.outcome, row.broke, row.retry) == ("fail", None, 0)
    assert "more than 50 changed paths" in reason_of(tmp_path)


def breaks(monkeypatch: pytest.MonkeyPatch, failure: EnvironmentFailure) -> None:
    """Makes the first sealing of a final state fail."""
    failures, seal = [failure], WorkspaceSite._seal

    async def failing(self: WorkspaceSite, unsealed: Any) -> None:
        if failures:
            raise failures.pop()
        await seal(self, unsealed)

    monkeypatch.setattr(WorkspaceSite, "_seal", failing)


async def test_a_sandbox_that_fails_while_the_host_works_is_the_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, EnvironmentFailure("12 processes could not be killed"))
    (row,) = await run(tmp_path, "echo hi > a.txt")
    assert (row.outcome, row.broke, row.retry) == ("fail", None, 0)
    assert "12 processes could not be killed" in reason_of(tmp_path)


async def test_a_host_that_fails_is_tried_again_and_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch, HostFailure("the disk is full"))
    rows = await run(tmp_path, "echo hi > a.txt")
    assert [(row.outcome, row.broke) for row in rows] == [(None, "environment"), ("pass", None)]


def reason_of(tmp_path: Path) -> str:
    with RunStore.open(tmp_path / "store", "r") as store:
        (trajectory,) = store.trajectories()
    (verdict,) = [v for v in trajectory.verdicts if v.kind == "outcome"]
    assert verdict.marks == (AGENT_MADE_UNJUDGEABLE,)
    return verdict.reason
