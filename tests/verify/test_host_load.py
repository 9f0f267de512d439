"""Time limits and blame on a busy host, simulated: checks that say when they came to a result, and a /proc of files."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest

from assay.errors import HostFailure
from assay.records import Evidence, Verdict
from assay.verdicts import AGENT_MADE_UNJUDGEABLE, HOST_BUSY, NO_RESULT
from assay.verify import _processes, host_load, outcome
from assay.verify.host_load import MAX_PATIENCE, HostLoad, measure_load, metered_sandbox
from assay.verify.interface import CheckInput, CheckResult
from assay.verify.sanitise import opened
from assay.verify.unjudgeable import JudgedRun, choose_patience

MARKS = {
    "unknown": (NO_RESULT,),
    "late": (NO_RESULT, "time_limit"),
    "twice": (NO_RESULT, "reward_problem"),
    "forged": (NO_RESULT, "forged"),
    "cut": ("exit_code",),
}
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
        marks = MARKS.get(status, ())
        cut = Evidence(f"{given.prefix}1", "audit", "judged_programs", {"programs": [], "cut_short": status == "cut"})
        status = {"cut": "fail"}.get(status, "unknown" if status in MARKS else status)
        await asyncio.sleep(0.05)
        return CheckResult(Verdict("the check", "outcome", status, None, f"simulated {status}", marks=marks), (cut,))


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_load, "PROC", tmp_path / "proc")
    (tmp_path / "proc" / "pressure").mkdir(parents=True)
    monkeypatch.setattr(host_load, "SAMPLE_S", 0.01)
    monkeypatch.setattr(host_load, "CGROUPS", tmp_path / "cgroups")
    monkeypatch.setattr(host_load.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(_processes, "FRESH_S", 0.0)
    monkeypatch.setattr(_processes, "MAX_SPENT", 0)
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


OWN = 7000
"""The first process of the simulated sandbox."""


def add_process(proc: Path, number: int, parent: int, state: str = "R", flags: int = 0) -> None:
    (proc / str(number)).mkdir(parents=True)
    fields = [state, str(parent), "0", "0", "0", "0", str(flags), *["0"] * 10, "1"]
    (proc / str(number) / "stat").write_text(f"{number} (a) R 1 (name) {' '.join(fields)}\n")


def set_load(proc: Path, others: int, own: int = 0, state: str = "R") -> None:
    """Lets processes run beside the sandbox, and in it."""
    for place in [*proc.glob("[0-9]*")]:
        shutil.rmtree(place)
    add_process(proc, 1, 0, "S")
    add_process(proc, 2, 0, "R", 0x00200000)
    add_process(proc, OWN, 1, "S")
    for number in range(others):
        add_process(proc, 100 + number, 1, state)
    for number in range(own):
        add_process(proc, OWN + 1 + number, OWN)


async def judge(bench: Any, agent: str, control: str) -> Any:
    SimulatedCheck.agent[:], SimulatedCheck.control[:] = agent.split(), control.split()
    return await bench.judge("echo hi > a.txt", KIND)


async def test_agent_is_blamed_where_both_states_say_the_same_twice(bench: Any, proc: Path) -> None:
    set_load(proc, 1)
    found = await judge(bench, "late late", "fail fail")
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
    assert [one["status"] for one in found.of_kind("control")] == ["fail"]


@pytest.mark.parametrize("status", ["twice", "forged"])
async def test_a_tampered_result_has_no_second_try(bench: Any, proc: Path, status: str) -> None:
    set_load(proc, 1)
    found = await judge(bench, f"{status} pass", "fail")
    assert (found.verdict.status, found.verdict.score) == ("fail", 0.0)
    assert MARKS[status][1] in found.verdict.marks
    assert SimulatedCheck.agent == ["pass"]
    assert [one["status"] for one in found.of_kind("control")] == ["fail"]


@pytest.mark.parametrize("status", ["twice", "forged"])
async def test_a_result_that_is_the_same_without_the_agent_blames_no_agent(bench: Any, proc: Path, status: str) -> None:
    set_load(proc, 1)
    found = await judge(bench, status, status)
    assert found.verdict.status == "unknown"
    assert AGENT_MADE_UNJUDGEABLE not in found.verdict.marks


async def test_tampering_in_the_second_run_fails(bench: Any, proc: Path) -> None:
    set_load(proc, 1)
    found = await judge(bench, "unknown twice", "fail")
    assert (found.verdict.status, "reward_problem" in found.verdict.marks) == ("fail", True)


@pytest.mark.parametrize("control", ["unknown", "fail unknown"])
async def test_a_control_without_a_result_blames_nobody(bench: Any, proc: Path, control: str) -> None:
    set_load(proc, 1)
    found = await judge(bench, "unknown unknown", control)
    assert found.verdict.status == "unknown"
    assert AGENT_MADE_UNJUDGEABLE not in found.verdict.marks


async def test_a_host_busier_than_limits_allow_blames_nobody(bench: Any, proc: Path) -> None:
    set_load(proc, 19)
    found = await judge(bench, "late late", "fail fail")
    assert found.verdict.status == "unknown"
    assert HOST_BUSY in found.verdict.marks
    assert SimulatedCheck.patience == [1.0, *[MAX_PATIENCE] * 3]


async def test_a_busy_host_that_limits_allow_for_excuses_nobody(bench: Any, proc: Path) -> None:
    set_load(proc, 7)
    found = await judge(bench, "late late", "fail fail")
    assert AGENT_MADE_UNJUDGEABLE in found.verdict.marks
    assert SimulatedCheck.patience == [1.0, 5.0, 5.0, 5.0]
    assert [one["patience"] for one in found.of_kind("host_load")] == [1.0, 5.0]


async def test_limits_stay_where_no_limit_was_met(bench: Any, proc: Path) -> None:
    set_load(proc, 7)
    found = await judge(bench, "unknown unknown", "fail fail")
    assert AGENT_MADE_UNJUDGEABLE in found.verdict.marks
    assert SimulatedCheck.patience == [1.0] * 4


@pytest.mark.parametrize(
    ("others", "runs", "status"),
    [(1, "cut", "fail"), (7, "cut pass", "pass"), (7, "cut fail", "fail"), (7, "cut cut", "unknown")],
)
async def test_a_script_that_ends_a_program_on_a_busy_host_is_run_once_more(
    bench: Any, proc: Path, others: int, runs: str, status: str
) -> None:
    set_load(proc, others)
    verdict = (await judge(bench, runs, "")).verdict
    assert verdict.status == status
    assert SimulatedCheck.agent == []
    assert (HOST_BUSY in verdict.marks) is (status == "unknown")
    assert "exit_code" not in verdict.marks or status != "pass"


async def test_a_script_that_ends_a_program_again_on_an_idle_host_has_failed(
    bench: Any, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_load(proc, 7)
    inner = SimulatedCheck.judge

    async def judge_then_rest(self: SimulatedCheck, given: CheckInput) -> CheckResult:
        set_load(proc, 0 if SimulatedCheck.patience else 7)
        return await inner(self, given)

    monkeypatch.setattr(SimulatedCheck, "judge", judge_then_rest)
    verdict = (await judge(bench, "cut cut", "")).verdict
    assert (verdict.status, HOST_BUSY in verdict.marks) == ("fail", False)


async def test_load_of_the_agents_two_runs_alone_is_seen(
    bench: Any, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def judge_beside_load(self: SimulatedCheck, given: CheckInput) -> CheckResult:
        set_load(proc, 99 if given.changes else 0)
        return await inner(self, given)

    inner = SimulatedCheck.judge
    monkeypatch.setattr(SimulatedCheck, "judge", judge_beside_load)
    found = await judge(bench, "late late", "fail fail")
    assert (found.verdict.status, HOST_BUSY in found.verdict.marks) == ("unknown", True)


class Sandbox:
    def host_pid(self) -> int:
        return OWN


async def measure(proc: Path, sandbox: object) -> HostLoad:
    async with measure_load() as meter:
        with metered_sandbox(sandbox):
            await asyncio.sleep(0.1)
        set_load(proc, 0)
        return await meter.read()


@pytest.mark.parametrize(
    ("others", "own", "patience"), [(0, 90, 1.0), (1, 90, 1.0), (5, 1, 3.75), (5, 90, 3.75), (50, 0, 1.0), (50, 2, 6.0)]
)
async def test_limits_grow_with_what_others_take_from_a_run(proc: Path, others: int, own: int, patience: float) -> None:
    set_load(proc, others, own)
    load = await measure(proc, Sandbox())
    late = CheckResult(Verdict("c", "outcome", "unknown", None, "late", marks=("time_limit",)), ())
    assert choose_patience(JudgedRun(late, load, 1.0)) == pytest.approx(patience, rel=0.25)


async def test_a_sandbox_that_cannot_be_told_apart_adds_no_load(proc: Path) -> None:
    set_load(proc, 0, 90)
    assert (await measure(proc, object())).slowdown < 2.0


async def test_an_agent_that_fills_the_disks_queue_is_not_excused(proc: Path) -> None:
    assert (await stall(proc, "R")).stalled == 0.0
    assert (await stall(proc, "D")).is_stalled


async def stall(proc: Path, state: str) -> HostLoad:
    set_load(proc, 1, 1, state)
    (proc / "pressure" / "io").write_text("full avg10=0.00 total=1000\n")
    async with measure_load() as meter:
        await asyncio.sleep(0.05)
        (proc / "pressure" / "io").write_text("full avg10=0.00 total=900000000\n")
        return await meter.read()


async def test_a_host_that_tells_nothing_counts_as_idle(proc: Path) -> None:
    async with measure_load() as meter:
        load = await meter.read()
    assert (load.slowdown, load.is_stalled) == (1.0, False)
    (proc / "loadavg").write_text("nonsense")
    async with measure_load(is_control=True) as meter:
        assert (await meter.read()).slowdown == 1.0


async def test_all_runnable_threads_count_where_no_agent_runs(proc: Path) -> None:
    (proc / "loadavg").write_text("0 0 0 11/99 1\n")
    async with measure_load(is_control=True) as meter:
        assert (await meter.read()).slowdown == 5.0


async def test_a_control_says_nothing_where_the_run_itself_was_seen_whole(proc: Path) -> None:
    assert HostLoad(2.0).required_patience(5.0) == pytest.approx(5.0)
    assert HostLoad(2.0, complete=True).required_patience(5.0) == pytest.approx(2.0)
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to("pid:[4026531836]")
    set_load(proc, 3, 1)
    assert (await measure(proc, Sandbox())).complete
    assert not (await measure(proc, object())).complete


async def test_a_quota_bounds_the_processors(proc: Path, tmp_path: Path) -> None:
    set_load(proc, 3)
    (proc / "self").mkdir()
    (proc / "self" / "cgroup").write_text("0::/job/part\n")
    (tmp_path / "cgroups/job/part").mkdir(parents=True)
    (tmp_path / "cgroups/job/part/cpu.max").write_text("max 100000\n")
    (tmp_path / "cgroups/job/cpu.max").write_text("50000 100000\n")
    async with measure_load() as meter:
        assert (await meter.read()).slowdown == 8.0


async def test_time_in_which_all_waited_for_a_disk_is_counted(proc: Path) -> None:
    async with measure_load(is_control=True) as meter:
        await asyncio.sleep(0.01)
        (proc / "pressure" / "io").write_text("some avg10=0.00 total=9\nfull avg10=0.00 total=900000000\n")
        load = await meter.read()
    assert load.stalled == 1.0
    assert load.is_stalled


@pytest.mark.long
async def test_a_real_sandboxs_own_threads_are_no_load(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "MAX_SPENT", 0)  # on a busy machine an old table would do for seconds
    async with measure_load() as meter, opened(bench.backend, bench.spec()) as workspace:
        spin = "for n in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait"
        await workspace.exec(spin, timeout_s=0.6)
        pids = {workspace.host_pid()}  # type: ignore[attr-defined]
        spinning = asyncio.create_task(workspace.exec(spin, timeout_s=1.6))
        await asyncio.sleep(0.8)
        threads = _processes.count_threads(Path("/proc"), pids)
        await spinning
        assert threads.own_runnable >= 8
        assert (await meter.read()).demand > 0.5
