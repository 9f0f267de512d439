"""Names of checks and marks that mean the same everywhere, and the typed questions that readers ask of a verdict.

Invariant: no other module compares the text of a mark or the prefix of a check's name; it asks a function of this one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

from assay.records import AttemptStarted, Verdict

_BASELINES = frozenset({"late-writer", "null", "oracle", "replay"})
_REVERIFY = "reverify:"
IMPORTED = "imported"
"""Mark of a verdict that another system gave, and the key of an imported record's origin in its configuration."""
AS_ASKED = "as_asked"
FLAKY = "flaky"
REWARD_OVERRULED = "reward_overruled"
AGENT_MADE_UNJUDGEABLE = "agent_made_unjudgeable"
"""Mark of a `fail`: the check comes to a result without the agent's changes, and to none with them."""
HOST_FAILED = "host_failed"
"""Mark: there is positive evidence that the host failed."""
HOST_BUSY = "host_busy"
"""Mark: the host was busier than time limits allow for."""
TIME_LIMITS = frozenset({"time_limit", "worker_late"})
"""Marks: a limit in seconds of the wall clock was met."""
NO_RESULT = "no_result"
"""Mark: judging ended without a result that a status could rest on."""
NOT_CONFIRMED = "not_confirmed"
"""Mark of a `fail`: the tests pass from outside, and not in one process with the agent's code."""
DISTURBED = "disturbed"
"""Mark: the agent's code wrote to the record of the run that confirms its pass, or ended that run."""

Reverification = Literal["disagree", "flaky", "cannot", "agree"]
"""Result of judging a stored state again; of several checks the first in this order stands for the attempt."""
REVERIFICATIONS: tuple[Reverification, ...] = get_args(Reverification)

MARKS: dict[str, str] = {
    IMPORTED: "another system gave this verdict",
    AS_ASKED: "judged in the agent's living sandbox, as the task's own settings ask",
    FLAKY: "repetitions or rounds of the same check gave different statuses",
    AGENT_MADE_UNJUDGEABLE: "the check comes to a result without the agent's changes, and to none with them",
    HOST_FAILED: "there is positive evidence that the host failed",
    HOST_BUSY: "the host was too busy to tell who caused the missing result",
    NO_RESULT: "judging ended without a result that a status could rest on",
    NOT_CONFIRMED: "the tests pass from outside, and not in one process with the agent's code",
    DISTURBED: "in the run that confirms a pass, something else wrote to its record, or ended it",
    "agree": "judging the stored state again gave the recorded status",
    "disagree": "judging the stored state again gave another status in all rounds",
    "cannot": "the stored state could not be judged again",
    "always_equal": "a value from the code under test compares as equal to anything",
    "broken_files": "test files could not be collected",
    "exit_code": "the test script ended with an exit code other than 0",
    "failed_tests": "a recorded test failed",
    "forged": "a test that must fail did not, or the test run's results were overwritten",
    "left_processes": "processes outlived the test run",
    "no_report": "the test runner gave no report",
    "no_reward": "the test script wrote no usable reward",
    "no_tests": "no test that passed was observed, and the task demands one",
    "not_whole": "the recorded test run is not whole",
    "literal": "the reward file alone decided, as the task asks",
    "not_isolated": "the sandbox isolates nothing, so nothing was judged",
    "reported_failures": "a report file counts failures",
    "orphaned_processes": "processes were orphaned while the test script ran",
    REWARD_OVERRULED: "the reward alone said pass, and another observation overruled it",
    "reward_problem": "the reward files contradict each other",
    "tests_not_run": "some of the tests that must pass did not run",
    "time_limit": "the test run met its time limit",
    "untrusted_changes": "changed files reach for the verifier",
}
"""Each mark of an outcome verdict that has a fixed meaning. Further marks name changed files that were neutralised
(`verify.sanitise`) or the rules of an audit that found something."""


def is_imported(marks: Collection[str]) -> bool:
    """Returns whether a verdict with these marks was given by another system."""
    return IMPORTED in marks


def is_imported_record(started: AttemptStarted) -> bool:
    """Returns whether an attempt's record was written by another system and imported."""
    return IMPORTED in started.config


def is_baseline(started: AttemptStarted) -> bool:
    """Returns whether an attempt's agent did not try to do the task by itself, so that its rate shows no difficulty.

    Records that do not say so are of a version in which these agents were known by their names.
    """
    if started.attempts_task is None:
        return started.agent.partition("+")[0] in _BASELINES
    return not started.attempts_task


def was_given_solution(started: AttemptStarted) -> bool:
    """Returns whether an attempt's agent was given the reference solution.

    Records that do not say so are of a version in which the agent named `oracle` alone was given it.
    """
    if started.takes_solution is None:
        return not is_imported_record(started) and started.agent.partition("+")[0] == "oracle"
    return started.takes_solution and not is_imported_record(started)


def reverification_check(check: str) -> str:
    """Returns the name under which the re-verification of a check is recorded."""
    return _REVERIFY + check


def is_reverification(check: str) -> bool:
    """Returns whether a verdict of a check with this name judges a stored state again."""
    return check.startswith(_REVERIFY)


def recorded_check(check: str) -> str:
    """Returns the name of the check that a re-verification is of; any other name unchanged."""
    return check.removeprefix(_REVERIFY)


def outcome_verdicts(verdicts: Collection[Verdict]) -> list[Verdict]:
    """Returns the outcome verdicts in order, without re-verifications of them."""
    return [v for v in verdicts if v.kind == "outcome" and not is_reverification(v.check)]
