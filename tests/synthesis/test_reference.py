"""Which tests of an unbroken tree can be relied on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from assay.code.batches import Job, JobResult, RunOutcome
from assay.synthesis._reference import find_stable_tests, measure_tests
from assay.synthesis.config import SynthesisConfig

pytestmark = pytest.mark.quick


def test_only_tests_that_pass_every_time_by_no_chance_are_used() -> None:
    passed, failed = RunOutcome("passed"), RunOutcome("failed")
    runs = [{"a": passed, "b": passed, "c": passed}, {"a": passed, "b": failed, "c": passed}]
    found = find_stable_tests(runs, 5.0, frozenset({"c"}))
    assert set(found.passing) == {"a"}
    assert found.left_out["c"] == "draws random numbers that nothing seeds"
    assert found.left_out["b"].startswith("does not pass every time")


class _Reporting:
    """A laboratory in which the file reports the test of another one, too."""

    async def run(self, jobs: Sequence[Job], **_: Any) -> dict[str, JobResult]:
        names = ("test_a.py::one", "../../up/test_b.py::two[../x]", "test_b.py::three")
        tests = {name: RunOutcome("passed") for name in names}
        covered: dict[str, dict[str, tuple[int, ...]]] = {name: {"a.py": (1,)} for name in names}
        return {job.id: JobResult(job.id, "done", tests=tests, covered=covered) for job in jobs}


async def test_only_tests_of_the_file_that_ran_are_used_whatever_names_it_reports() -> None:
    config = SynthesisConfig(source="s", out="o")
    measured = await measure_tests(cast("Any", _Reporting()), ["test_a.py"], config)
    assert (set(measured.passing), set(measured.covered)) == ({"test_a.py::one"}, {"test_a.py::one"})
    assert set(measured.left_out) == {"../../up/test_b.py::two", "test_b.py::three"}
