"""Batches of test runs, with the runner as a real process on a small package of our own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from assay.code.batches import Job, JobBatch, JobResult, read_reply, write_request
from assay.environments.payload import FORKED_TESTS

MODULE = """LIMIT = 3


def double(x):
    return x * 2


def small(x):
    if x < LIMIT:
        return True
    return False
"""
TESTS = """import unittest

import pytest
from m import double, small


@pytest.mark.parametrize("x", [1, 2])
def test_double(x):
    assert double(x) == x + x


def test_small():
    assert small(1)
    assert not small(5)


@pytest.mark.skip
def test_skipped():
    assert 0


class TestParts(unittest.TestCase):
    def test_parts(self):
        for x in (1, 2):
            with self.subTest(x=x):
                self.assertEqual(double(x), 2 * x)
"""


DRAWS = """import random


def test_shared():
    assert random.random() < 2


def test_own():
    assert random.Random(1).random() < 2
"""


def write_package(folder: Path) -> Path:
    (folder / "m.py").write_text(MODULE)
    (folder / "test_m.py").write_text(TESTS)
    (folder / "test_r.py").write_text(DRAWS)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_package(tmp_path)


def run(folder: Path, *jobs: Job, **more: object) -> dict[str, JobResult]:
    placed = [Job(**{**_fields(job), "tests": tuple(f"{folder}/{t}" for t in job.tests)}) for job in jobs]
    batch = JobBatch(jobs=tuple(placed), root=str(folder), paths=(str(folder),), cover=(str(folder),), **more)
    (folder / "request").write_bytes(write_request(batch))
    command = [sys.executable, str(FORKED_TESTS[0]), str(folder / "request"), str(folder / "reply")]
    subprocess.run(command, check=True, timeout=60)
    return {result.id: result for result in read_reply((folder / "reply").read_bytes())}


def _fields(job: Job) -> dict[str, object]:
    return {name: getattr(job, name) for name in job.__struct_fields__}


def outcomes(result: JobResult) -> dict[str, str]:
    return {name.partition("::")[2]: test.outcome for name, test in result.tests.items()}


def changed(folder: Path, old: str, new: str) -> dict[str, str | None]:
    return {str(folder / "m.py"): MODULE.replace(old, new)}


class Batch(NamedTuple):
    folder: Path
    found: dict[str, JobResult]


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """One batch of jobs that have nothing to do with each other."""
    folder = write_package(tmp_path_factory.mktemp("package"))
    wrong = changed(folder, "x < LIMIT", "x > LIMIT")
    exits = changed(folder, "return x * 2", "import os; os._exit(0)")
    jobs = (
        Job("measured", ("test_m.py",), measure=True),
        Job("costly", ("test_m.py",), measure=True, most_calls=1),
        Job("explained", ("test_m.py::test_small",), write=wrong, explain=True),
        Job("exits", ("test_m.py",), write=exits),
        Job("absent", ("test_m.py",), write={str(folder / "m.py"): None}),
        Job("plain", ("test_m.py",)),
        Job("draws", ("test_r.py",)),
    )
    return Batch(folder, run(folder, *jobs))


@pytest.mark.long
def test_a_measurement_ends_after_the_test_that_makes_a_call_too_many(batch: Batch) -> None:
    whole, cut = batch.found["measured"], batch.found["costly"]
    assert cut.ended == "done"
    assert sum(cut.calls.values()) == 2 < sum(whole.calls.values())
    assert list(cut.tests) == list(cut.calls) == list(whole.tests)[:1]
    assert [outcome.outcome for outcome in cut.tests.values()] == ["passed"]


@pytest.mark.long
def test_outcomes_and_lines(batch: Batch) -> None:
    folder, result = batch.folder, batch.found["measured"]
    assert outcomes(result) == {
        "test_double[1]": "passed",
        "test_double[2]": "passed",
        "test_small": "passed",
        "test_skipped": "skipped",
        "TestParts::test_parts": "passed",
    }
    assert result.covered["test_m.py::test_small"][str(folder / "m.py")] == (9, 10, 11)
    assert result.covered["test_m.py::test_double[1]"][str(folder / "m.py")] == (5,)


@pytest.mark.long
@pytest.mark.parametrize("warm", [True, False])
def test_each_job_has_its_own_version_and_files_are_left_as_they_were(folder: Path, warm: bool) -> None:
    jobs = [
        Job("wrong", ("test_m.py",), write=changed(folder, "x * 2", "x * 3")),
        Job("right", ("test_m.py",), write=changed(folder, "x * 2", "x + x")),
        Job("outside", ("test_m.py",), write=changed(folder, "LIMIT = 3", "LIMIT = 0")),
        Job("broken", ("test_m.py",), write=changed(folder, "return x", "return (x")),
    ]
    found = run(folder, *jobs, warm=warm)
    assert {n for n, o in outcomes(found["wrong"]).items() if o == "failed"} == {
        "test_double[1]", "test_double[2]", "TestParts::test_parts",
    }  # fmt: skip
    assert "failed" not in outcomes(found["right"]).values()
    assert outcomes(found["outside"])["test_small"] == "failed"
    assert found["broken"].problems
    assert (folder / "m.py").read_text() == MODULE


@pytest.mark.long
def test_failures_say_type_message_and_line(batch: Batch) -> None:
    failure = batch.found["explained"].tests["test_m.py::test_small"]
    assert (failure.type, failure.line) == ("AssertionError", 13)
    assert "small(1)" in failure.message


@pytest.mark.long
@pytest.mark.parametrize("warm", [True, False])
def test_endless_job_is_ended_and_the_next_one_runs(folder: Path, warm: bool) -> None:
    endless = Job("a", ("test_m.py",), write=changed(folder, "return x * 2", "while x: pass"), cpu_s=0.5)
    found = run(folder, endless, Job("b", ("test_m.py",)), warm=warm)
    assert (found["a"].ended, found["b"].ended) == ("time", "done")


@pytest.mark.long
def test_job_that_exits_is_no_pass(batch: Batch) -> None:
    assert batch.found["exits"] == JobResult("exits", "died")


@pytest.mark.long
def test_give_up_and_stop_early(folder: Path) -> None:
    wanted = ("test_m.py::test_small",)
    jobs = [
        Job("no", ("test_m.py",), write=changed(folder, "x < LIMIT", "x > LIMIT"), give_up_on=wanted),
        Job("yes", ("test_m.py",), write=changed(folder, "x < LIMIT", "x <= 4"), give_up_on=wanted),
        Job("late", ("test_m.py",)),
    ]
    found = run(folder, *jobs, warm=True, stop_when_green=True)
    assert outcomes(found["no"]) == {"test_small": "failed"}
    assert len(found["yes"].tests) == 5
    assert "late" not in found


@pytest.mark.long
def test_file_can_be_absent_for_a_run(batch: Batch) -> None:
    assert batch.found["absent"].problems
    assert not batch.found["plain"].problems


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"id": "a", "ended": "well"}', b"\xff"])
def test_odd_reply_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_reply(data)


@pytest.mark.long
def test_which_tests_draw_random_numbers_is_told(batch: Batch) -> None:
    assert [name.partition("::")[2] for name in batch.found["draws"].drew] == ["test_shared"]


@pytest.mark.parametrize(("stops", "count"), [(True, 1), (False, 4)])
def test_a_run_that_asks_if_all_pass_ends_at_the_first_failure(folder: Path, *, stops: bool, count: int) -> None:
    job = Job("one", ("test_m.py",), write=changed(folder, "x * 2", "x * 3"), until_failure=stops)
    tests = run(folder, job)["one"].tests
    assert tests["test_m.py::test_double[1]"].outcome == "failed"
    assert sum(result.outcome != "skipped" for result in tests.values()) == count
