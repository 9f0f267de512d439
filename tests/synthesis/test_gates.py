"""What the text of a candidate alone decides, and what of a failure is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assay.code.batches import Job, JobResult, RunOutcome
from assay.synthesis._candidates import TaskCandidate
from assay.synthesis._gates import GateContext, GateOutcome, judge_candidates, normalise_message
from assay.synthesis.config import SynthesisConfig

pytestmark = pytest.mark.quick
RIGHT, WRONG = "def f():\n    return 1\n", "def f():\n    return 2\n"


class Unchanged:
    """A laboratory where everything passes."""

    async def run(self, jobs: Sequence[Job], *, repetition: int) -> dict[str, JobResult]:
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

    async def run(self, jobs: Sequence[Job], *, repetition: int) -> dict[str, JobResult]:
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
