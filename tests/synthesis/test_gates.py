"""What the text of a candidate alone decides, and what of a failure is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assay.code.batches import Job, JobResult, RunOutcome
from assay.synthesis._candidates import TaskCandidate
from assay.synthesis._gates import (
    MOST_SLOW,
    SLOW_S,
    GateContext,
    GateOutcome,
    judge_candidates,
    normalise_message,
    run_until_failure,
)
from assay.synthesis._separation_gate import SeparationGate
from assay.synthesis._split import Split
from assay.synthesis.config import SynthesisConfig

pytestmark = pytest.mark.quick
RIGHT, WRONG = "def f():\n    return 1\n", "def f():\n    return 2\n"


class Unchanged:
    """A laboratory where everything passes."""

    async def run(self, jobs: Sequence[Job], *, repetition: int, **_: bool) -> dict[str, JobResult]:
        return {job.id: JobResult(job.id, "done") for job in jobs}


async def find_objection(one: TaskCandidate, outcome: GateOutcome) -> str:
    return ""


async def ended(texts: dict[str, str], base: dict[str, str | None] | None = None) -> str:
    files = {path: text.encode() for path, text in texts.items()}
    given = GateContext(files, {}, SynthesisConfig(source="x", out="y"), find_objection)
    one = TaskCandidate("d", "operator", {"a/f.py": WRONG}, ("o",), ("a/f.py::f",), (), (), base=base or {})
    (outcome,) = await judge_candidates(given, [one], Unchanged())
    return f"{outcome.gate}: {outcome.reason}"


TWO = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"
BOTH = TWO.replace("return 1", "return 2")


class Notices:
    """A laboratory with two tests of `f` and `noticed`: a test of `g` that fails where `g` is broken."""

    def __init__(self, *, noticed: bool) -> None:
        self._noticed = noticed

    async def run(self, jobs: Sequence[Job], *, repetition: int, **_: bool) -> dict[str, JobResult]:
        return {job.id: self._result(job) for job in jobs}

    def _result(self, job: Job) -> JobResult:
        f, _, g = (job.write.get("a/f.py") or TWO).partition("def g")
        right_f, right_g = "return 1" in f, "return 1" in g
        fails = {"t.py::f1": not right_f, "t.py::f2": not right_f, "t.py::g": self._noticed and not right_g}
        return JobResult(
            job.id, "done", tests={t: RunOutcome("failed" if bad else "passed") for t, bad in fails.items()}
        )


class AsksForTruth(Notices):
    """A laboratory whose tests are content with anything that is true."""

    def _result(self, job: Job) -> JobResult:
        text = job.write.get("a/f.py") or RIGHT
        fails = "return 2" in text or "None" in text
        return JobResult(job.id, "done", tests={t: RunOutcome("failed" if fails else "passed") for t in job.tests})


async def test_a_candidate_whose_tests_are_content_with_a_constant_is_no_task() -> None:
    tests = ("t.py::f1", "t.py::f2")
    config = SynthesisConfig(source="x", out="y")
    given = GateContext({"a/f.py": RIGHT.encode(), "t.py": b""}, dict.fromkeys(tests, 1.0), config, find_objection)
    one = TaskCandidate("d", "operator", {"a/f.py": WRONG}, ("o",), ("a/f.py::f",), (), tests)
    (outcome,) = await judge_candidates(given, [one], AsksForTruth(noticed=True))
    assert (outcome.gate, outcome.reason) == (
        "constant",
        "True in place of every answer of what is changed passes every test",
    )


@pytest.mark.parametrize(("noticed", "gate"), [(True, "split"), (False, "needed")])
async def test_a_combination_ends_where_one_of_its_changes_is_noticed_by_no_test(noticed: bool, gate: str) -> None:
    tests = ("t.py::f1", "t.py::f2", "t.py::g")
    given = GateContext(
        {"a/f.py": TWO.encode(), "t.py": b""},
        dict.fromkeys(tests, 1.0),
        SynthesisConfig(source="x", out="y"),
        find_objection,
    )
    one = TaskCandidate("d", "combination", {"a/f.py": BOTH}, ("o", "o"), ("a/f.py::f", "a/f.py::g"), (), tests)
    (outcome,) = await judge_candidates(given, [one], Notices(noticed=noticed))
    assert outcome.gate == gate
    assert ("change 2 of 2" in outcome.reason) is not noticed


class KeepsAll(SeparationGate):
    """A gate `separate` that keeps every candidate and notes which it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def judge(self, context: GateContext, one: TaskCandidate, outcome: GateOutcome, split: Split) -> GateOutcome:
        self.asked.append(one.digest)
        return outcome


async def judge_wave(enough: int) -> tuple[list[str], list[str]]:
    """Judges six candidates until some are kept, one of which breaks nothing; returns those that ended, and those that
    were planned apart."""
    tests, gate = ("t.py::test_f1", "t.py::test_f2"), KeepsAll()
    config = SynthesisConfig(source="x", out="y", concurrency=1)
    text = "def test_f1():\n    assert f() == 1\n\n\ndef test_f2():\n    assert f() == 1\n"
    given = GateContext(
        {"a/f.py": RIGHT.encode(), "t.py": text.encode()}, dict.fromkeys(tests, 1.0), config, find_objection, gate
    )
    texts = [RIGHT if n == 1 else RIGHT.replace("1", f"2 + {n} * 0") for n in range(6)]
    wave = [
        TaskCandidate(str(n), "operator", {"a/f.py": text}, ("o",), ("a/f.py::f",), (), tests)
        for n, text in enumerate(texts)
    ]
    ended = await judge_candidates(
        given, wave, AsksForTwo(noticed=True), lambda first: sum(one.gate == "kept" for one in first) >= enough
    )
    return [one.digest for one in ended], gate.asked


class AsksForTwo(Notices):
    """A laboratory whose two tests fail where the function does not return 1."""

    def _result(self, job: Job) -> JobResult:
        fails = "return 1" not in (job.write.get("a/f.py") or RIGHT)
        return JobResult(job.id, "done", tests={t: RunOutcome("failed" if fails else "passed") for t in job.tests})


async def test_candidates_are_planned_apart_in_order_until_enough_are_kept() -> None:
    assert await judge_wave(2) == (["0", "1", "2"], ["0", "2"])
    assert await judge_wave(9) == (["0", "1", "2", "3", "4", "5"], ["0", "2", "3", "4", "5"])


class SlowTests:
    """A laboratory in which some tests are slow, and the last of the others fails."""

    def __init__(self, *slow: str, failing: str = "") -> None:
        self.slow, self.failing, self.runs = slow, failing, list[tuple[tuple[str, ...], float]]()

    async def run(self, jobs: Sequence[Job], *, repetition: int, **_: bool) -> dict[str, JobResult]:
        (job,) = jobs
        self.runs.append((job.tests, job.slow_s))
        for test in job.tests:
            if test == self.failing:
                return {job.id: JobResult(job.id, "done", tests={test: RunOutcome("failed")})}
            if test in self.slow and job.slow_s:
                return {job.id: JobResult(job.id, "slow", slow=f"{test}[case]")}
        return {job.id: JobResult(job.id, "time")}


async def test_a_slow_test_runs_last_where_a_run_ends_with_the_first_failure() -> None:
    laboratory = SlowTests("a", failing="b")
    done = await run_until_failure(laboratory, [Job("one", ("a", "b", "c"))], together=False)
    assert done["one"].tests.keys() == {"b"}
    assert laboratory.runs == [(("a", "b", "c"), SLOW_S), (("b", "c", "a"), SLOW_S)]


async def test_slow_tests_run_to_their_end_where_no_other_one_fails() -> None:
    laboratory = SlowTests("a", "c")
    assert (await run_until_failure(laboratory, [Job("one", ("a", "b", "c"))], together=False))["one"].ended == "time"
    assert laboratory.runs[-1] == (("b", "a", "c"), 0.0)
    many = SlowTests(*"abcdef")
    await run_until_failure(many, [Job("one", tuple("abcdef"))], together=False)
    assert len(many.runs) == MOST_SLOW + 2


async def test_copy_of_the_unbroken_file_ends_a_candidate() -> None:
    assert (await ended({"a/f.py": RIGHT, "docs/f.txt": RIGHT})).startswith("copied: docs/f.txt")
    assert (await ended({"a/f.py": "x = 1\n"}, {"a/f.py": RIGHT, "b/f.py": RIGHT})).startswith("copied: b/f.py")


async def test_copy_that_the_commit_does_not_hold_is_none() -> None:
    assert not (await ended({"a/f.py": RIGHT, "b/f.py": RIGHT}, {"b/f.py": None})).startswith("copied")
    assert not (await ended({"a/f.py": RIGHT, "b/f.py": RIGHT}, {"b/f.py": WRONG})).startswith("copied")


@pytest.mark.parametrize("serial", ["0", "17"])
def test_messages_are_told_without_what_differs_between_runs(serial: str) -> None:
    told = normalise_message(f"<f at 0x7f00{serial}aa00> in '/tmp/pytest-of-root/pytest-{serial}/test_x0/a.txt'")
    assert told == "<f at 0x...> in '/tmp/pytest/test_x0/a.txt'"
