"""Decides by repeated control runs whether an attempt made itself unjudgeable, and therefore failed.

A check without a result (its time limit, no reward, two rewards, a test run that is not whole, an exception)
is run over the initial state, once more over the agent's state, and over the initial state again. If the agent's state
has no result twice and the initial state has one twice, the agent's changes are the cause: the verdict is `fail` with
the mark `agent_made_unjudgeable`. If the second run over the agent's state has a result, that result counts, with the
marks of both. The verdict stays `unknown` or `error` where a control comes to no result either,
where the host is seen to have failed, where it was busier than the time limits of the second run allow for
(`host_busy`), and where the agent changed nothing.

A second reward and a forged record are no accident that a repetition could set right: one control that comes to a
result without them decides.

Not for doubts: a pass that is not believed stays `unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.environments.interface import Change
from assay.environments.task_digest import digest_check
from assay.records import Check, Evidence, Verdict, VerdictStatus
from assay.verdicts import AGENT_MADE_UNJUDGEABLE, HOST_BUSY, NO_RESULT, REWARD_OVERRULED, TIME_LIMITS

from .host_load import MAX_PATIENCE, HostLoad
from .interface import CheckResult

_UNRESOLVED: frozenset[VerdictStatus] = frozenset({"unknown", "error"})
_CUT_SHORT = frozenset({"exit_code", "no_report", "no_reward", "no_tests", "not_whole", "tests_not_run", *TIME_LIMITS})
"""Marks that a time limit alone can explain."""
_OF_FAILURES = frozenset({REWARD_OVERRULED, "broken_files", "failed_tests", "reported_failures"})
WANTED = 0.2
"""Share of its time from which a run counts as wanting a processor all the time."""
HEADROOM = 1.25
"""Factor by which the load may be higher in a repetition; a lower load never extends a limit."""
_FORGED, _TWO_REWARDS = "forged", "reward_problem"


class JudgedRun(NamedTuple):
    result: CheckResult
    load: HostLoad
    patience: float
    """Factor of its time limits."""

    @property
    def met_limit(self) -> bool:
        """Returns whether a time limit ended the run or a part of it."""
        executions = (item.data for item in self.result.evidence if item.kind == "execution")
        late = TIME_LIMITS.intersection(self.result.verdict.marks)
        return bool(late) or any(data.get("timed_out") for data in executions) or self.was_cut_short

    @property
    def was_cut_short(self) -> bool:
        """Returns whether the run is not a pass and the script ended a judged program, perhaps by its own limit."""
        programs = (item.data for item in self.result.evidence if item.kind == "judged_programs")
        return self.result.verdict.status != "pass" and any(data.get("cut_short") for data in programs)

    @property
    def extension(self) -> float:
        """Returns the factor of the time limits that were met; a repetition does not extend a script's own limits."""
        return 1.0 if self.was_cut_short else self.patience


def is_unresolved(result: CheckResult) -> bool:
    """Returns whether a verdict is neither a pass nor a fail."""
    return result.verdict.status in _UNRESOLVED


def has_no_result(result: CheckResult, changes: tuple[Change, ...]) -> bool:
    """Returns whether controls are needed to attribute a missing result."""
    return bool(changes) and is_unresolved(result) and NO_RESULT in result.verdict.marks


def met_limit_on_busy_host(run: JudgedRun) -> bool:
    """Returns whether a run met a time limit that it might have kept on an idle host."""
    return run.met_limit and run.load.is_beyond(run.extension)


def choose_patience(run: JudgedRun, slowdown: float = 1.0) -> float:
    """Returns the factor of a repetition's time limits, as far as the host's load ended the run.

    `slowdown` is the host's during a control run.
    """
    if not run.met_limit:
        return run.patience
    load = msgspec.structs.replace(run.load, demand=1.0) if run.load.demand >= WANTED else run.load
    required = load.required_patience(slowdown)
    return min(MAX_PATIENCE, max(run.patience, required * HEADROOM if required > HEADROOM else 1.0))


def excuse_late_run(run: JudgedRun) -> CheckResult:
    """Returns a run's result, with a mark if a busy host may have prevented its end."""
    verdict = run.result.verdict
    if not met_limit_on_busy_host(run):
        return run.result
    return run.result._replace(
        verdict=msgspec.structs.replace(verdict, marks=tuple(sorted({*verdict.marks, HOST_BUSY})))
    )


def is_forged(result: CheckResult) -> bool:
    """Returns whether a result was tampered with, so that it is not repeated for a better one."""
    marks = result.verdict.marks
    if _TWO_REWARDS in marks and result.verdict.separation != "separate":  # there, no other than the script wrote both
        return _FORGED in marks or not TIME_LIMITS.intersection(marks)
    return _FORGED in marks


def fail_forger(result: CheckResult, control: JudgedRun, prefix: str) -> CheckResult:
    """Returns a tampered result as a failure; unchanged if the control, which is cited, is not better."""
    cited = _cite_control(control, f"{prefix}control")
    if is_unresolved(control.result) or is_forged(control.result):
        reason = f"{result.verdict.reason}; the same without the agent's changes: {control.result.verdict.reason[:300]}"
        return _decide([result], [cited], reason, ())
    reason = f"forged: {result.verdict.reason}; without the agent's changes the check has a result"
    return _decide([result], [cited], reason, (AGENT_MADE_UNJUDGEABLE,), fail=True)


def replace_result(
    first: CheckResult,
    second: CheckResult,
    controls: Sequence[JudgedRun] = (),
    prefix: str = "",
    *,
    outcome: str = "came to no result",
) -> CheckResult:
    """Returns the result of the second run over the agent's state, with the marks of both, if the first one had
    none."""
    cited = _cite_controls(controls, prefix)
    evidence = (*first.evidence, *second.evidence, *cited)
    reason = f"{second.verdict.reason}; an earlier run {outcome}: {first.verdict.reason[:300]}"
    ids = (*first.verdict.evidence, *second.verdict.evidence, *(item.id for item in cited))
    earlier = set(first.verdict.marks) - {NO_RESULT}
    if TIME_LIMITS & earlier:
        earlier -= _CUT_SHORT
    marks = tuple(sorted({*second.verdict.marks, *earlier}))
    verdict = msgspec.structs.replace(second.verdict, reason=reason, evidence=ids, marks=marks)
    return second._replace(verdict=verdict, evidence=evidence)


def failed_on_busy_host(run: JudgedRun) -> bool:
    """Returns whether a run failed and the script's own time limit may have ended a judged program too early."""
    return run.result.verdict.status == "fail" and run.was_cut_short and met_limit_on_busy_host(run)


def replace_cut_short(first: JudgedRun, second: JudgedRun) -> JudgedRun:
    """Returns the second run, with the evidence of both, if the first failed on a host that has become idle."""
    marks = tuple(sorted(set(first.result.verdict.marks) - _CUT_SHORT - _OF_FAILURES))
    earlier = first.result._replace(verdict=msgspec.structs.replace(first.result.verdict, marks=marks))
    result = replace_result(earlier, second.result, outcome="failed on a busy host")
    if failed_on_busy_host(second):
        verdict = result.verdict
        reason = f"{verdict.reason}; the host was too busy to tell whether a judged program is too slow"
        marks = tuple(sorted({*verdict.marks, HOST_BUSY}))
        verdict = msgspec.structs.replace(verdict, status="unknown", score=None, reason=reason, marks=marks)
        result = result._replace(verdict=verdict)
    return second._replace(result=result)


def blame_agent(runs: Sequence[JudgedRun], controls: Sequence[JudgedRun], prefix: str) -> CheckResult:
    """Returns the first result with the verdict that follows from the controls, which are cited as evidence.

    `runs` over the agent's state gave no result; `controls` are runs over the initial state.
    """
    results, cited = [run.result for run in runs], _cite_controls(controls, prefix)
    verdict, last = results[0].verdict, results[-1].verdict
    open_ones = [one.result.verdict for one in controls if is_unresolved(one.result)]
    repeated = len(runs) > 1 and NO_RESULT in last.marks and len(controls) > 1
    if open_ones:
        reason = f"{verdict.reason}; the same without the agent's changes: {open_ones[0].reason[:300]}"
        return _decide(results, cited, reason, ())
    if not repeated:
        reason = f"{verdict.reason}; this was not seen twice: {last.reason[:300]}"
        return _decide(results, cited, reason, ())
    if _was_too_busy(runs, controls):
        reason = f"{verdict.reason}; the host was too busy to tell whether the agent's changes are the cause"
        return _decide(results, cited, reason, (HOST_BUSY,))
    reason = (
        f"the agent's changes made it unjudgeable, twice: {verdict.reason}; without them the check has a result, twice"
    )
    return _decide(results, cited, reason, (AGENT_MADE_UNJUDGEABLE,), fail=True)


def _was_too_busy(runs: Sequence[JudgedRun], controls: Sequence[JudgedRun]) -> bool:
    """Returns whether the second run may have received less time than its limits grant, or a run waited for a device.
    If no limit of ours was met, one of the task's own script may have been, on a much busier host."""
    second = runs[-1]
    granted = second.extension if second.met_limit else MAX_PATIENCE
    slowdown = max(one.load.slowdown for one in controls)
    return second.load.is_beyond(granted * HEADROOM, slowdown) or any(one.load.is_stalled for one in (*runs, *controls))


def _decide(
    results: Sequence[CheckResult], cited: Sequence[Evidence], reason: str, marks: Sequence[str], *, fail: bool = False
) -> CheckResult:
    """Returns the first result with the evidence of all."""
    first = results[0]
    evidence = (*(found for result in results for found in result.evidence), *cited)
    ids = (*(name for result in results for name in result.verdict.evidence), *(found.id for found in cited))
    verdict = msgspec.structs.replace(
        first.verdict, reason=reason, evidence=ids, marks=tuple(sorted({*first.verdict.marks, *marks}))
    )
    if fail:
        verdict = msgspec.structs.replace(verdict, status="fail", score=0.0)
    return CheckResult(verdict, evidence)


def _cite_controls(controls: Sequence[JudgedRun], prefix: str) -> list[Evidence]:
    return [_cite_control(one, f"{prefix}control{number or ''}") for number, one in enumerate(controls)]


def _cite_control(control: JudgedRun, name: str) -> Evidence:
    other = control.result.verdict
    data = {
        "check": other.check,
        "status": other.status,
        "reason": other.reason[:500],
        "marks": list(other.marks),
        "host": {"patience": round(control.patience, 2), **msgspec.structs.asdict(control.load)},
    }
    return Evidence(name, "audit", "control", data)


def unjudgeable_state(check: Check, why: str, cited: tuple[str, ...] = ()) -> Verdict:
    """Returns the verdict on an attempt whose final state could not be sealed although the host worked."""
    reason = f"the agent left a state that cannot be sealed, while the host works: {why[:1000]}"
    marks = (AGENT_MADE_UNJUDGEABLE,)
    return Verdict(check.name, "outcome", "fail", 0.0, reason, cited, digest_check(check), marks=marks)
