"""Reads the Common Test Report Format (JSON, `results.tests` with a status each, `results.summary` with counts).

The code under test may have written the file, so it is a claim to compare with others. A summary that contradicts its
own tests is malformed.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from .results import MOST_BYTES, MOST_ID, TestReport, TestResult, TestStatus, make_report

_STATUS: dict[str, TestStatus] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "pending": "skipped",
    "other": "other",
}


class _Test(msgspec.Struct):
    name: str
    status: str
    duration: float | None = None
    message: str | None = None
    suite: Any = None


class _Results(msgspec.Struct):
    tests: list[_Test] = []
    summary: dict[str, Any] = {}


class _Document(msgspec.Struct):
    results: _Results


def read_ctrf(data: bytes) -> TestReport:
    """Returns the report in a CTRF document. Raises `ValueError` for a malformed or contradictory one."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"a CTRF file of {len(data)} bytes; at most {MOST_BYTES} are read")
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise ValueError(f"not a CTRF report: {exc}") from exc
    report = make_report((_result(test) for test in document.results.tests), "ctrf")
    _check_summary(report, document.results.summary)
    return report


def _result(test: _Test) -> TestResult:
    status = _STATUS.get(test.status)
    if status is None:
        raise ValueError(f"CTRF test {test.name[:200]!r} has the unknown status {test.status[:50]!r}")
    duration = test.duration
    known = duration is not None and math.isfinite(duration) and duration >= 0
    seconds = duration / 1000 if known and duration is not None else None
    return TestResult(test.name[:MOST_ID], status, (test.message or "")[:MOST_ID], seconds)


def _check_summary(report: TestReport, summary: dict[str, Any]) -> None:
    ours = {"tests": report.counts.total, "passed": report.counts.passed, "failed": report.counts.failed}
    for name, counted in ours.items():
        told = summary.get(name)
        if isinstance(told, int) and told != counted:
            raise ValueError(f"the CTRF summary says {name}={told}, its own tests say {counted}")
