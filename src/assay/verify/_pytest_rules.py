"""Derives a status from a recorded run of tests: pure rules, each with a reason in words.

Invariant: `pass` requires one report `passed` for each required test, from a run that reached its end and whose
canaries failed. If no test is named, every test of every file is required, so a file without reports does not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.code.results import TestReport
from assay.records import VerdictStatus
from assay.verify._ruling import Ruling


class PytestFacts(NamedTuple):
    """Facts that were observed of a test run."""

    expected: tuple[str, ...]
    also: tuple[str, ...]
    report: TestReport | None
    """None if the runner gave no report."""
    problems: tuple[str, ...]
    always_equal: tuple[str, ...]
    broken_files: tuple[str, ...]
    """Files whose tests were not collected: they could not be imported, or left themselves out."""
    canaries: int
    """Number of canaries (tests that must fail) that failed."""
    forged: bool
    """A canary did not fail."""
    timed_out: bool
    exit_code: int
    left_running: int
    untrusted: tuple[str, ...]


def rule(facts: PytestFacts) -> Ruling:
    """Returns the ruling that follows from the facts."""
    if facts.report is None:
        if facts.timed_out:
            return Ruling(
                "unknown",
                None,
                "the tests met their time limit and the runner gave no report",
                ("time_limit", "no_report"),
            )
        reason = f"the test runner gave no report; it ended with exit code {facts.exit_code}"
        return Ruling("unknown", None, reason, ("no_report",))
    if facts.forged:
        return Ruling("fail", 0.0, f"forged: {'; '.join(facts.problems)[:500]}", ("forged",))
    if facts.always_equal:
        told = f"a value from the code under test compares as true with anything: {facts.always_equal[0]}"
        return Ruling("fail", 0.0, told, ("always_equal",))
    bad, missing, good = _sort(facts, facts.report)
    score = len(good) / max(1, len(good) + len(bad) + len(missing))
    if bad:
        reason = f"{len(bad)} of the wanted tests: {bad[0]}"
        return Ruling("fail", score if missing == [] else 0.0, reason, ("failed_tests",))
    if facts.timed_out:
        reason = f"the tests met their time limit with {len(missing)} not yet run"
        return Ruling("unknown", None, reason, ("time_limit",))
    if facts.broken_files and (missing or not (facts.expected or facts.also)):
        return Ruling("fail", 0.0, f"not collected: {facts.broken_files[0][:300]}", ("broken_files",))
    if facts.problems:
        return Ruling("unknown", None, f"not whole: {'; '.join(facts.problems)[:500]}", ("not_whole",))
    if missing or not good:
        lost = f"{len(missing)} of the wanted tests did not run: {missing[0]}" if missing else "no test ran"
        return Ruling("fail", 0.0, lost, ("tests_not_run",))
    return _doubted(facts, len(good))


def came_to_no_result(facts: PytestFacts) -> bool:
    """Returns whether the run gave no report, did not end, or is not whole."""
    return facts.report is None or facts.timed_out or bool(facts.problems)


def merge_rulings(parts: Sequence[tuple[Ruling, int]]) -> Ruling:
    """Returns the ruling over parts, each with its number of tests: a failure or a doubt of one is the whole's."""
    order: tuple[VerdictStatus, ...] = ("fail", "error", "unknown", "pass")
    worst = min((ruling for ruling, _ in parts), key=lambda ruling: order.index(ruling.status))
    if len(parts) == 1:
        return worst
    marks = tuple(dict.fromkeys(mark for ruling, _ in parts for mark in ruling.marks))
    score = None
    if worst.status in ("pass", "fail"):
        score = sum((ruling.score or 0.0) * count for ruling, count in parts) / max(1, sum(count for _, count in parts))
    reason = "; ".join(ruling.reason for ruling, _ in parts) if worst.status == "pass" else worst.reason
    return Ruling(worst.status, score, reason, marks)


def _doubted(facts: PytestFacts, passed: int) -> Ruling:
    if facts.left_running:
        told = f"all {passed} tests passed, but {facts.left_running} processes outlived them"
        return Ruling("unknown", None, told, ("left_processes",))
    if facts.untrusted:
        told = f"all {passed} tests passed, but changed files reach for {', '.join(facts.untrusted)}"
        return Ruling("unknown", None, told, ("untrusted_changes",))
    return Ruling("pass", 1.0, f"all {passed} wanted tests passed; {facts.canaries} that must fail failed")


def _sort(facts: PytestFacts, report: TestReport) -> tuple[list[str], list[str], list[str]]:
    """Returns the required tests that did not pass (with their status), that were not reported, and that passed."""
    statuses: dict[str, str] = {}
    for test in report.tests:  # of two tests under one (cut) name, the one that did not pass counts
        if statuses.get(test.id, "passed") == "passed":
            statuses[test.id] = test.status
    unfinished = {test.id for test in report.tests if test.message == "missing"}
    wanted = dict.fromkeys((*facts.expected, *facts.also)) or dict.fromkeys(statuses)
    bad, missing, good = [], [], []
    for name in wanted:
        status = statuses.get(name)
        if status is None or name in unfinished:
            missing.append(name)
        elif status == "passed":
            good.append(name)
        else:
            bad.append(f"{name} {status}")
    return bad, missing, good
