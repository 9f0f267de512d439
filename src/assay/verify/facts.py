"""Judges an in-process world by its facts: no sandbox, no process, only a comparison of JSON data."""

from __future__ import annotations

from typing import Any

from assay.environments.task_digest import digest_check
from assay.records import Check, Evidence, Task, Verdict, VerdictStatus, canonical_bytes

from .interface import CheckResult


def judge_facts(task: Task, facts: dict[str, Any]) -> tuple[CheckResult, ...]:
    """Returns one verdict per check. A check of kind `facts` names in `expected` the facts that must hold, key by key;
    one that the world does not report gives `unknown`, never `fail`. Another kind of check gives `error`."""
    return tuple(_judge(check, facts, f"facts-{index}") for index, check in enumerate(task.checks))


def _judge(check: Check, facts: dict[str, Any], evidence_id: str) -> CheckResult:
    verifier = digest_check(check)
    expected = check.parameters.get("expected")
    if check.kind != "facts" or not isinstance(expected, dict) or not expected:
        what = "names no fact in 'expected'" if check.kind == "facts" else "cannot judge an in-process world"
        reason = (
            f"a check of kind {check.kind!r} {what}: use kind 'facts' with 'expected', a table of facts that must hold"
        )
        return CheckResult(Verdict(check.name, "outcome", "error", None, reason, verifier=verifier), ())
    seen = {key: facts[key] for key in expected if key in facts}
    evidence = Evidence(evidence_id, "state", "facts", {"expected": expected, "observed": seen})
    cited = (evidence.id,)
    missing = sorted(set(expected) - set(seen))
    if missing:
        reason = f"not observed: {', '.join(missing)}"
        return CheckResult(Verdict(check.name, "outcome", "unknown", None, reason, cited, verifier), (evidence,))
    wrong = [key for key in expected if canonical_bytes(expected[key]) != canonical_bytes(seen[key])]
    reason = f"differs: {', '.join(wrong)}" if wrong else f"all {len(expected)} facts hold"
    status: VerdictStatus = "fail" if wrong else "pass"
    score = 0.0 if wrong else 1.0
    # A world runs nothing that the agent wrote: what it sent reached the world as arguments of typed tools.
    verdict = Verdict(check.name, "outcome", status, score, reason, cited, verifier, separation="no-agent-code")
    return CheckResult(verdict, (evidence,))
