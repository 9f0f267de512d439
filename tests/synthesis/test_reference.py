"""Which tests of an unbroken tree can be relied on."""

from __future__ import annotations

import pytest

from assay.code.batches import RunOutcome
from assay.synthesis._reference import find_stable_tests

pytestmark = pytest.mark.quick


def test_only_tests_that_pass_every_time_by_no_chance_are_used() -> None:
    passed, failed = RunOutcome("passed"), RunOutcome("failed")
    runs = [{"a": passed, "b": passed, "c": passed}, {"a": passed, "b": failed, "c": passed}]
    found = find_stable_tests(runs, 5.0, frozenset({"c"}))
    assert set(found.passing) == {"a"}
    assert found.left_out["c"] == "draws random numbers that nothing seeds"
    assert found.left_out["b"].startswith("does not pass every time")
