"""Test results in one format, for the readers `pytest_output`, `ctrf` and `junit`.

A report is a claim. Invariant: on hostile input a reader raises `ValueError` or returns a report, in bounded memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

TestStatus = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed", "other"]
STATUSES: tuple[TestStatus, ...] = ("passed", "failed", "error", "skipped", "xfailed", "xpassed", "other")
MOST_BYTES = 16 * 1024 * 1024
MOST_TESTS = 100_000
MOST_ID = 2_000


class TestResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One test. `id` is the runner's own name for it, cut at 2,000 characters."""

    __test__ = False

    id: str
    status: TestStatus
    message: str = ""
    duration_s: float | None = None


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Number of tests by status."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    skipped: int = 0
    xfailed: int = 0
    xpassed: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.error + self.skipped + self.xfailed + self.xpassed + self.other

    @property
    def bad(self) -> int:
        """Failures and errors."""
        return self.failed + self.error


class TestReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """A test run as one source reports it. `counts` may cover more tests than `tests`."""

    __test__ = False

    counts: Counts
    tests: tuple[TestResult, ...] = ()
    source: str = ""
    """`pytest`, `ctrf`, `junit` or `recorder`."""


def count(results: Iterable[TestResult]) -> Counts:
    return Counts(**Counter[str](result.status for result in results))


def make_report(results: Iterable[TestResult], source: str, counts: Counts | None = None) -> TestReport:
    """Returns a report with given counts, or counts of the results. Raises `ValueError` beyond `MOST_TESTS`."""
    kept: list[TestResult] = []
    for result in results:
        if len(kept) >= MOST_TESTS:
            raise ValueError(f"{source}: more than {MOST_TESTS} tests")
        kept.append(result)
    return TestReport(count(kept) if counts is None else counts, tuple(kept), source)
