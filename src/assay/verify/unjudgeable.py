"""An attempt that makes itself unjudgeable has failed: repeated control runs decide whose doing it was.

A check that comes to no result (its time limit, no reward, two rewards, a test run that is not whole, an exception)
is run over the state that the agent was given, once more over the agent's state, and over the given state again. Where
the agent's state has no result twice and the given state has one twice, the difference is the agent's changes: the
verdict is `fail` with the mark `agent_made_unjudgeable`. Where the second run over the agent's state comes to a result,
that counts. The verdict stays `unknown` or `error` where a control comes to no result either, where the host is seen to
have failed, where it was busier during the controls than the time limits allow for (`host_busy`), and where the agent
changed nothing.

Not for doubts: a pass that is not believed stays `unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.environments.interface import Change
from assay.records import Check, Evidence, Verdict, VerdictStatus, digest_record
from assay.verdicts import AGENT_MADE_UNJUDGEABLE, HOST_BUSY, NO_RESULT

from .host_load import HostLoad
from .interface import CheckResult

__all__ = ["Control", "blame_agent", "has_no_result", "is_unresolved", "replace_result", "unjudgeable_state"]

_UNRESOLVED: frozenset[VerdictStatus] = frozenset({"unknown", "error"})


class Control(NamedTuple):
    """A run over the state that the agent was given."""

    result: CheckResult
    load: HostLoad


def is_unresolved(result: CheckResult) -> bool:
    """Returns whether a check came to neither a pass nor a fail."""
    return result.verdict.status in _UNRESOLVED


def has_no_result(result: CheckResult, changes: tuple[Change, ...]) -> bool:
    """Returns whether controls are needed to tell whose doing it is that there is no result."""
    return bool(changes) and is_unresolved(result) and NO_RESULT in result.verdict.marks


def replace_result(first: CheckResult, second: CheckResult) -> CheckResult:
    """Returns the result of the second run over the agent's state, where the first one came to none."""
    evidence = (*first.evidence, *second.evidence)
    reason = f"{second.verdict.reason}; an earlier run came to no result: {first.verdict.reason[:300]}"
    cited = (*first.verdict.evidence, *second.verdict.evidence)
    return CheckResult(msgspec.structs.replace(second.verdict, reason=reason, evidence=cited), evidence)


def blame_agent(
    runs: Sequence[CheckResult], controls: Sequence[Control], prefix: str, *, patience: float
) -> CheckResult:
    """Returns the first result with the verdict that follows from the controls, which are cited as evidence.

    Args:
        runs: The results over the agent's state, in their order; none of them has a result.
        controls: The runs over the state that the agent was given.
        prefix: Of the evidence's ids.
        patience: What the time limits of the last run over the agent's state were multiplied by.
    """
    verdict = runs[0].verdict
    cited = tuple(
        Evidence(f"{prefix}control{number or ''}", "audit", "control", _described(verdict.check, one, patience))
        for number, one in enumerate(controls)
    )
    evidence = (*(found for run in runs for found in run.evidence), *cited)
    ids = (*(name for run in runs for name in run.verdict.evidence), *(found.id for found in cited))
    open_ones = [one.result.verdict for one in controls if is_unresolved(one.result)]
    repeated = len(runs) > 1 and NO_RESULT in runs[-1].verdict.marks and len(controls) > 1
    status, score, marks = verdict.status, verdict.score, set(verdict.marks)
    if open_ones:
        reason = f"{verdict.reason}; the same without the agent's changes: {open_ones[0].reason[:300]}"
    elif not repeated:
        reason = f"{verdict.reason}; this was not seen twice: {runs[-1].verdict.reason[:300]}"
    elif any(one.load.is_beyond(patience) for one in controls):
        reason = f"{verdict.reason}; the host was too busy to tell whether the agent's changes are the cause"
        marks.add(HOST_BUSY)
    else:
        reason = (
            f"the agent's changes made it unjudgeable, twice: {verdict.reason}; without them the check comes to a "
            "result, twice"
        )
        status, score = "fail", 0.0
        marks.add(AGENT_MADE_UNJUDGEABLE)
    decided = msgspec.structs.replace(
        verdict, status=status, score=score, reason=reason, evidence=ids, marks=tuple(sorted(marks))
    )
    return CheckResult(decided, evidence)


def _described(check: str, control: Control, patience: float) -> dict[str, object]:
    other = control.result.verdict
    load = {"slowdown": control.load.slowdown, "stalled": control.load.stalled, "patience": round(patience, 2)}
    return {
        "check": check,
        "status": other.status,
        "reason": other.reason[:500],
        "marks": list(other.marks),
        "host": load,
    }


def unjudgeable_state(check: Check, why: str, cited: tuple[str, ...] = ()) -> Verdict:
    """Returns the verdict on an attempt whose final state could not be sealed while the host worked."""
    reason = f"the agent left a state that cannot be sealed, while the host works: {why[:1000]}"
    marks = (AGENT_MADE_UNJUDGEABLE,)
    return Verdict(check.name, "outcome", "fail", 0.0, reason, cited, digest_record(check), marks=marks)
