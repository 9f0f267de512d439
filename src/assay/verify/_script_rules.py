"""Derives a status from the observed run of a test script: pure rules, each with a reason in words.

Invariant: `pass` requires all observations to agree. A doubt makes `unknown`, evidence of failing tests makes `fail`; a
missing observation never becomes a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from assay.code.results import TestReport
from assay.records import VerdictStatus
from assay.verdicts import REWARD_OVERRULED
from assay.verify._ruling import Ruling
from assay.verify.rewards import Rewards, headline

Demand = Literal["tests", "report", "script", "reward"]
"""Requirement for a pass besides the reward: a recorded test run; any test report; the script's exit code; nothing."""


class ScriptFacts(NamedTuple):
    """Facts that were observed of a script's run."""

    exit_code: int
    timed_out: bool
    killed_by: str | None
    rewards: Rewards
    records: tuple[dict[str, object], ...]
    reports: tuple[TestReport, ...]
    left_running: int
    orphans: int
    """Processes that outlived the program that started them and ended while the script ran."""
    untrusted: tuple[str, ...]
    demand: Demand
    allowed: tuple[str, ...] = ()
    """Names of suspicions that are part of this task's honest solutions."""
    notes: tuple[str, ...] = ()
    """Sentences for the verdict's reason, without effect on the status."""


class _Objection(NamedTuple):
    mark: str
    text: str


def rule_literally(facts: ScriptFacts) -> Ruling:
    """Returns the ruling by Harbor's rule: the reward file alone decides."""
    if not facts.rewards.values:
        return Ruling("error", None, facts.rewards.problem or "no reward was written", ("no_reward",))
    value = headline(facts.rewards.values)
    status: VerdictStatus = "pass" if value >= 1 else "fail"
    return Ruling(status, _score(value), f"reward {value:g}, taken literally: nothing else was asked of the run")


def rule(facts: ScriptFacts) -> Ruling:
    """Returns the ruling that follows from all observations."""
    failures, doubts = list(_failures(facts)), list(_doubts(facts))
    marks = tuple(dict.fromkeys(one.mark for one in (*failures, *doubts)))
    if facts.timed_out:
        return Ruling("unknown", None, "the test script met its time limit", ("time_limit", *marks))
    against = failures[0].text if failures else None
    if facts.rewards.unusable and not against:
        reason = f"one of two reward files cannot be used: {facts.rewards.problem}"
        return Ruling("error", None, reason, ("reward_problem", *marks))
    if not facts.rewards.values:
        problem = facts.rewards.problem or "no reward was written"
        if against:
            return Ruling("fail", 0.0, f"{against}; {problem}", ("no_reward", *marks))
        ended = f"the test script ended with exit code {facts.exit_code}{_by(facts)}"
        return Ruling("unknown", None, f"{problem}; {ended}", ("no_reward", *marks))
    value = headline(facts.rewards.values)
    if value < 1:
        return Ruling("fail", _score(value), f"reward {value:g}" + (f"; {against}" if against else ""), marks)
    if against:
        return Ruling("fail", 0.0, f"reward {value:g}, but {against}", (REWARD_OVERRULED, *marks))
    if doubts:
        return Ruling("unknown", None, f"reward {value:g}, but {doubts[0].text}", (REWARD_OVERRULED, *marks))
    return Ruling("pass", 1.0, f"reward {value:g}{_ran(facts)}")


def came_to_no_result(facts: ScriptFacts) -> bool:
    """Returns whether nothing was observed that a status could rest on: no reward, two rewards, no end, half a run."""
    problems = any(record.get("problems") for record in facts.records)
    return facts.timed_out or not facts.rewards.values or facts.rewards.problem is not None or problems


def without_own_doubts(facts: ScriptFacts) -> ScriptFacts:
    """Returns facts about a script in whose sandbox nothing of the agent's was: what it started and wrote is its own,
    and of two rewards the one in `reward.json` counts, as in Harbor."""
    rewards = facts.rewards
    if rewards.problem is None or rewards.unusable or not rewards.values:
        return facts._replace(orphans=0)
    return facts._replace(orphans=0, rewards=rewards._replace(problem=None), notes=(*facts.notes, rewards.problem))


def _score(value: float) -> float:
    return min(1.0, max(0.0, value))


def _by(facts: ScriptFacts) -> str:
    return f", ended by the limit of {facts.killed_by}" if facts.killed_by else ""


def _tests(record: dict[str, object]) -> list[dict[str, str]]:
    tests = record.get("tests")
    return [test for test in tests if isinstance(test, dict)] if isinstance(tests, list) else []


def _failures(facts: ScriptFacts) -> Iterator[_Objection]:
    """Yields positive evidence that the task is not solved."""
    for record in facts.records:
        if record.get("always_equal"):
            yield _Objection("always_equal", "a value from the code under test compares as true with anything")
        bad = [str(t.get("id")) for t in _tests(record) if t.get("status") in ("failed", "error")]
        if bad:
            yield _Objection("failed_tests", f"{len(bad)} tests failed, first {bad[0][:200]}")
        if record.get("broken_files"):
            yield _Objection("broken_files", "test files could not be collected")
    for report in facts.reports:
        if report.counts.bad:
            yield _Objection("reported_failures", f"{report.source} tells of {report.counts.bad} failures")


def _doubts(facts: ScriptFacts) -> Iterator[_Objection]:
    """Yields reasons to distrust a reward, most serious first."""
    problems = [str(p) for record in facts.records if isinstance(found := record.get("problems"), list) for p in found]
    if problems:
        mark = "forged" if any(_passed_canaries(record) for record in facts.records) else "not_whole"
        yield _Objection(mark, f"the recorded test run is not whole: {'; '.join(problems)[:500]}")
    if facts.rewards.values and facts.rewards.problem is not None:
        yield _Objection("reward_problem", facts.rewards.problem)
    if facts.exit_code != 0:
        yield _Objection("exit_code", f"the test script ended with exit code {facts.exit_code}{_by(facts)}")
    if facts.left_running > 0:
        text = f"{facts.left_running} processes were still running when the test script ended"
        yield _Objection("left_processes", text)
    if facts.orphans > 0 and not facts.records and "orphaned_processes" not in facts.allowed:
        yield _Objection("orphaned_processes", _orphaned(facts))
    if not _demanded(facts):
        yield _Objection("no_tests", _missing(facts))
    if facts.untrusted:
        yield _Objection("untrusted_changes", f"changed files reach for {', '.join(facts.untrusted)}")


def _passed_canaries(record: dict[str, object]) -> bool:
    """Returns whether a planted test that must fail was reported as passed."""
    canaries = record.get("canaries")
    counts = canaries if isinstance(canaries, dict) else {}
    planted, failed, unsure = (counts.get(name, 0) for name in ("planted", "failed", "unsure"))
    return all(isinstance(n, int) for n in (planted, failed, unsure)) and failed + unsure < planted


def _passed(facts: ScriptFacts) -> int:
    return sum(test.get("status") == "passed" for record in facts.records for test in _tests(record))


def _demanded(facts: ScriptFacts) -> bool:
    if facts.demand == "tests":
        return _passed(facts) > 0
    if facts.demand == "report":
        return _passed(facts) > 0 or any(report.counts.passed for report in facts.reports)
    return True


def _orphaned(facts: ScriptFacts) -> str:
    return (
        f"{facts.orphans} processes outlived the program that started them while the script ran, and nothing but the "
        "reward tells how it ended (allow = ['orphaned_processes'] accepts it)"
    )


def _missing(facts: ScriptFacts) -> str:
    if facts.demand == "tests":
        return "the recorded test runner observed no passing test (evidence = 'report' accepts what a script reports)"
    return "nothing reports a test that passed (evidence = 'reward' accepts the reward alone)"


def _ran(facts: ScriptFacts) -> str:
    return (
        f"; {_passed(facts)} tests were seen to pass" if facts.records else "; the test script ended with exit code 0"
    )
