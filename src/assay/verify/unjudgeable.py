"""An attempt that makes itself unjudgeable has failed: a control run decides whose doing it was.

A check that comes to no result (its time limit, no reward, two rewards, a test run that is not whole, an exception)
is run once more over the state that the agent was given. Where it comes to a result there, the difference is the
agent's changes and the verdict is `fail` with the mark `agent_made_unjudgeable`. Where the control comes to no result
either, or the host is seen to have failed, or the agent changed nothing, the verdict stays `unknown` or `error`.

Not for doubts: a pass that is not believed stays `unknown`.
"""

from __future__ import annotations

import msgspec

from assay.environments.interface import Change
from assay.records import Check, Evidence, Verdict, VerdictStatus, digest_record
from assay.verdicts import AGENT_MADE_UNJUDGEABLE, NO_RESULT

from .interface import CheckResult

__all__ = ["blame_agent", "needs_control", "unjudgeable_state"]

_UNRESOLVED: frozenset[VerdictStatus] = frozenset({"unknown", "error"})


def needs_control(verdict: Verdict, changes: tuple[Change, ...]) -> bool:
    """Returns whether a control run is needed to tell whose doing it is that there is no result."""
    return bool(changes) and verdict.status in _UNRESOLVED and NO_RESULT in verdict.marks


def blame_agent(result: CheckResult, control: CheckResult, prefix: str) -> CheckResult:
    """Returns the result with the verdict that follows from the control's, which is cited as evidence."""
    verdict, other = result.verdict, control.verdict
    data = {"check": verdict.check, "status": other.status, "reason": other.reason[:500], "marks": list(other.marks)}
    cited = Evidence(f"{prefix}control", "audit", "control", data)
    evidence = (*result.evidence, cited)
    if other.status in _UNRESOLVED:
        reason = f"{verdict.reason}; the same without the agent's changes: {other.reason[:300]}"
        kept = msgspec.structs.replace(verdict, reason=reason, evidence=(*verdict.evidence, cited.id))
        return CheckResult(kept, evidence)
    failed = msgspec.structs.replace(
        verdict,
        status="fail",
        score=0.0,
        reason=f"the agent's changes made it unjudgeable: {verdict.reason}; without them the check comes to a result",
        evidence=(*verdict.evidence, cited.id),
        marks=tuple(sorted({*verdict.marks, AGENT_MADE_UNJUDGEABLE})),
    )
    return CheckResult(failed, evidence)


def unjudgeable_state(check: Check, why: str, cited: tuple[str, ...] = ()) -> Verdict:
    """Returns the verdict on an attempt whose final state could not be sealed while the host worked."""
    reason = f"the agent left a state that cannot be sealed, while the host works: {why[:1000]}"
    marks = (AGENT_MADE_UNJUDGEABLE,)
    return Verdict(check.name, "outcome", "fail", 0.0, reason, cited, digest_record(check), marks=marks)
