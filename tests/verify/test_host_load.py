"""Time limits and blame on a busy host, simulated: checks that say when they came to a result, and a /proc of files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay.errors import HostFailure
from assay.records import Verdict
from assay.verdicts import AGENT_MADE_UNJUDGEABLE, HOST_BUSY, NO_RESULT
from assay.verify import host_load, outcome
from assay.verify.host_load import MAX_PATIENCE, HostLoad, current_patience, measure_load
from assay.verify.interface import CheckInput, CheckResult

KIND = "tests.verify.test_host_load:SimulatedCheck"


class SimulatedCheck:
    """Gives recorded statuses in turn, for the agent's state and for the given one."""

    kind = "simulated"
    agent: ClassVar[list[str]] = []
    control: ClassVar[list[str]] = []
    patience: ClassVar[list[float]] = []

    async def judge(self, given: CheckInput) -> CheckResult:
        status: Any = (self.agent if given.changes else self.control).pop(0)
        self.patience.append(given.patience)
        marks = (NO_RESULT,) if status == "unknown" else ()
        return CheckResult(Verdict("the check", "outcome", status, None, f"simulated {status}", marks=marks), ())


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_load, "PROC", tmp_path / "proc")
    (tmp_path / "proc" / "pressure").mkdir(parents=True)
    SimulatedCheck.patience.clear()
    return tmp_path / "proc"


@pytest.mark.parametrize(("failures", "status"), [(1, "pass"), (2, "error")])
async def test_what_breaks_around_a_check_is_tried_once_more(
    bench: Any, monkeypatch: pytest.MonkeyPatch, failures: int, status: str
) -> None:
    left = [RuntimeError("a sandbox that did not answer")] * failures

    def needs(_: CheckResult) -> bool:
        if left:
            raise left.pop()
        return False

    monkeypatch.setattr(outcome, "needs_altered_tests", needs)
    found = await judge(bench, "pass pass", "")
    assert found.verdict.status == status
    assert ("did not answer" in found.verdict.reason) is (status == "error")


async def test_a_host_that_failed_is_no_verdict(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: CheckResult) -> bool:
        raise HostFailure("the launcher died")

    monkeypatch.setattr(outcome, "needs_altered_tests", fail)
    with pytest.raises(HostFailure):
        await judge(bench, "pass", "")


def set_load(proc: Path, runnable: float, minute: float = 0.0) -> None:
    processors = len(host_load.os.sched_getaffinity(0))
    (proc / "loadavg").write_text(f"{minute * processors:.2f} 0 0 {int(runnable * processors) + 1}/99 1\n")


async def judge(bench: Any, agent: str, control: str) -> Any:
    SimulatedCheck.agent[:], SimulatedCheck.control[:] = agent.split(), control.split()
    return await bench.judge("echo hi > a.txt", KIND)


async def test_agent_is_blamed_where_both_states_say_the_same_twice(bench: Any, proc: Path) -> None:
    set_load(proc, 1)
    found = await judge(bench, "unknown unknown", "fail fail")
    assert (found.verdict.status, found.verdict.score) == ("fail", 0.0)
    assert AGENT_MADE_UNJUDGEABLE in found.verdict.marks
    assert [one["host"]["slowdown"] for one in found.of_kind("control")] == [1.0, 1.0]


@pytest.mark.parametrize("status", ["pass", "fail"])
async def test_a_second_run_that_comes_to_a_result_counts(bench: Any, proc: Path, status: str) -> None:
    set_load(proc, 1)
    found = await judge(bench, f"unknown {status}", "fail")
    assert found.verdict.status == status
    assert AGENT_MADE_UNJUDGEABLE not in found.verdict.marks
    assert "an earlier run came to no result" in found.verdict.reason


@pytest.mark.parametrize("control", ["unknown", "fail unknown"])
async def test_a_control_without_a_result_blames_nobody(bench: Any, proc: Path, control: str) -> None:
    set_load(proc, 1)
    found = await judge(bench, "unknown unknown", control)
    assert found.verdict.status == "unknown"
    assert AGENT_MADE_UNJUDGEABLE not in found.verdict.marks


async def test_a_host_busier_than_limits_allow_blames_nobody(bench: Any, proc: Path) -> None:
    set_load(proc, 10)
    found = await judge(bench, "unknown unknown", "fail fail")
    assert found.verdict.status == "unknown"
    assert HOST_BUSY in found.verdict.marks
    assert SimulatedCheck.patience == [MAX_PATIENCE] * 4


async def test_a_busy_host_that_limits_allow_for_excuses_nobody(bench: Any, proc: Path) -> None:
    set_load(proc, 4)
    found = await judge(bench, "unknown unknown", "fail fail")
    assert AGENT_MADE_UNJUDGEABLE in found.verdict.marks
    assert SimulatedCheck.patience == [4.0] * 4


@pytest.mark.parametrize(
    ("runnable", "minute", "patience"), [(0, 0, 1), (1.0, 0, 1), (3, 1, 3), (1, 2.5, 2.5), (50, 0, 6)]
)
def test_limits_grow_with_the_load(proc: Path, runnable: float, minute: float, patience: float) -> None:
    set_load(proc, runnable, minute)
    assert current_patience() == patience


def test_a_host_that_tells_nothing_counts_as_idle(proc: Path) -> None:
    assert current_patience() == 1.0
    (proc / "loadavg").write_text("nonsense")
    assert current_patience(2.0) == 2.0


async def test_time_in_which_all_waited_for_a_disk_is_counted(proc: Path) -> None:
    set_load(proc, 1)
    (proc / "pressure" / "io").write_text("some avg10=0.00 total=9\nfull avg10=0.00 total=1000\n")
    async with measure_load() as meter:
        await asyncio.sleep(0.01)
        (proc / "pressure" / "io").write_text("some avg10=0.00 total=9\nfull avg10=0.00 total=900000000\n")
        load = meter.read()
    assert load.stalled == 1.0
    assert load.is_beyond(6.0)
    assert not HostLoad().is_beyond(1.0)
