"""From what a test script did to a status: pure rules, in one place, each with its reason in words.

Invariant: `pass` needs every witness to agree. A doubt makes `unknown`, evidence of failing tests makes `fail`; nothing
here turns a missing observation into a pass.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from assay.code.results import TestReport
from assay.records import VerdictStatus
from assay.verify.rewards import Rewards, headline

__all__ = ["Demand", "Ruling", "ScriptFacts", "came_to_no_result", "rule", "rule_literally"]

Demand = Literal["tests", "report", "script", "reward"]
"""What a pass needs beside the reward: a recorded test run; any report of one; the script's own exit code; nothing."""


class ScriptFacts(NamedTuple):
    """What was observed."""

    exit_code: int
    timed_out: bool
    killed_by: str | None
    rewards: Rewards
    records: tuple[dict[str, object], ...]
    reports: tuple[TestReport, ...]
    left_running: int
    untrusted: tuple[str, ...]
    demand: Demand


class Ruling(NamedTuple):
    """A status, its score and why."""

    status: VerdictStatus
    score: float | None
    reason: str


def rule_literally(facts: ScriptFacts) -> Ruling:
    """Harbor's own meaning: the reward file alone decides."""
    if not facts.rewards.values:
        return Ruling("error", None, facts.rewards.problem or "no reward was written")
    value = headline(facts.rewards.values)
    status: VerdictStatus = "pass" if value >= 1 else "fail"
    return Ruling(status, _score(value), f"reward {value:g}, taken literally: nothing else was asked of the run")


def rule(facts: ScriptFacts) -> Ruling:
    """The sound meaning."""
    against = _failures(facts)
    if facts.timed_out:
        return Ruling("unknown", None, "the test script met its time limit")
    if not facts.rewards.values:
        problem = facts.rewards.problem or "no reward was written"
        if against:
            return Ruling("fail", 0.0, f"{against}; {problem}")
        return Ruling("unknown", None, f"{problem}; the test script ended with exit code {facts.exit_code}{_by(facts)}")
    value = headline(facts.rewards.values)
    if value < 1:
        return Ruling("fail", _score(value), f"reward {value:g}" + (f"; {against}" if against else ""))
    if against:
        return Ruling("fail", 0.0, f"reward {value:g}, but {against}")
    doubt = _doubt(facts)
    if doubt is not None:
        return Ruling("unknown", None, f"reward {value:g}, but {doubt}")
    return Ruling("pass", 1.0, f"reward {value:g}{_ran(facts)}")


def came_to_no_result(facts: ScriptFacts) -> bool:
    """Returns whether nothing was observed that a status could rest on: no reward, two rewards, no end, half a run."""
    problems = any(record.get("problems") for record in facts.records)
    return facts.timed_out or not facts.rewards.values or facts.rewards.problem is not None or problems


def _score(value: float) -> float:
    return min(1.0, max(0.0, value))


def _by(facts: ScriptFacts) -> str:
    return f", ended by the limit of {facts.killed_by}" if facts.killed_by else ""


def _tests(record: dict[str, object]) -> list[dict[str, str]]:
    tests = record.get("tests")
    return [test for test in tests if isinstance(test, dict)] if isinstance(tests, list) else []


def _failures(facts: ScriptFacts) -> str | None:
    """Positive evidence that the work is not done."""
    for record in facts.records:
        if record.get("always_equal"):
            return "a value from the code under test compares as true with anything"
        bad = [str(t.get("id")) for t in _tests(record) if t.get("status") in ("failed", "error")]
        if bad:
            return f"{len(bad)} tests failed, first {bad[0][:200]}"
        if record.get("broken_files"):
            return "test files could not be collected"
    for report in facts.reports:
        if report.counts.bad:
            return f"{report.source} tells of {report.counts.bad} failures"
    return None


def _doubt(facts: ScriptFacts) -> str | None:
    """The first reason not to believe a reward."""
    problems = [str(p) for record in facts.records if isinstance(found := record.get("problems"), list) for p in found]
    doubts = (
        (bool(problems), f"the recorded test run is not whole: {'; '.join(problems)[:500]}"),
        (facts.rewards.problem is not None, str(facts.rewards.problem)),
        (facts.exit_code != 0, f"the test script ended with exit code {facts.exit_code}{_by(facts)}"),
        (facts.left_running > 0, f"{facts.left_running} processes were still running when the test script ended"),
        (not _demanded(facts), _missing(facts)),
        (bool(facts.untrusted), f"changed files reach for {', '.join(facts.untrusted)}"),
    )
    return next((text for holds, text in doubts if holds), None)


def _passed(facts: ScriptFacts) -> int:
    return sum(test.get("status") == "passed" for record in facts.records for test in _tests(record))


def _demanded(facts: ScriptFacts) -> bool:
    if facts.demand == "tests":
        return _passed(facts) > 0
    if facts.demand == "report":
        return _passed(facts) > 0 or any(report.counts.passed for report in facts.reports)
    return True


def _missing(facts: ScriptFacts) -> str:
    if facts.demand == "tests":
        return (
            "no test was seen to pass by the recorded test runner (evidence = 'report' accepts what a script reports)"
        )
    return "nothing reports a test that passed (evidence = 'reward' accepts the reward alone)"


def _ran(facts: ScriptFacts) -> str:
    return (
        f"; {_passed(facts)} tests were seen to pass" if facts.records else "; the test script ended with exit code 0"
    )
