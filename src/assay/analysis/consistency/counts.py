"""Consistency of test reports, logs, rewards, patches and verdicts."""

from __future__ import annotations

from collections.abc import Iterator

from assay.analysis.interface import Finding, Severity
from assay.analysis.quotes import from_evidence
from assay.analysis.subject import Rule, Subject
from assay.verdicts import is_imported, outcome_verdicts

from ._evidence import ReportedCounts, logged_counts, passes, reported_counts, reward

FEW = 100
"""Number of tests below which each was written for the task, so that a skipped one matters."""
_OVERRULING = frozenset({
    "reward_overruled", "failed_tests", "broken_files", "reported_failures", "exit_code", "no_tests",
    "untrusted_changes", "reward_problem",
})  # fmt: skip
"""Marks of a reward contradicted by other observations; any other mark reports interference."""


def _finding(rule: str, severity: Severity, summary: str, sources: list[ReportedCounts]) -> Finding:
    return Finding(
        rule=rule,
        family="consistency",
        severity=severity,
        summary=summary,
        quotes=tuple(from_evidence(one.quote) for one in sources),
        evidence=tuple(dict.fromkeys(one.evidence for one in sources)),
        data={one.source: {"ok": one.ok, "bad": one.bad, "total": one.total} for one in sources},
    )


def _without_tests(subject: Subject) -> Iterator[Finding]:
    reports = reported_counts(subject.trajectory)
    if not passes(subject.trajectory) or not reports or any(one.total for one in reports):
        return
    log = logged_counts(subject)
    if log and all(one.ok == one.total for one in log):
        summary = f"the record counts 0 tests, but {log[-1].describe()}: the counter is wrong, not the pass"
        yield _finding("reward-without-tests", "note", summary, [reports[0], log[-1]])
        return
    if log:
        printed = log[-1].describe()
        summary = f"paid as passed although the record counts 0 tests; {printed}, and nothing else is known of them"
        yield _finding("reward-without-tests", "major", summary, [reports[0], log[-1]])
        return
    summary = "paid as passed although the record counts 0 tests, and no log of any test run is there"
    yield _finding("reward-without-tests", "critical", summary, reports[:1])


def _fewer(subject: Subject) -> Iterator[Finding]:
    if not passes(subject.trajectory):
        return
    reports = [one for one in reported_counts(subject.trajectory) if one.ok < one.total]
    if not reports:
        return
    worst = max(reports, key=lambda one: (one.bad, one.total - one.ok))
    explained = max((one.skipped for one in reports), default=0) >= worst.total - worst.ok
    if worst.bad or not explained:
        summary = f"paid as passed although {worst.describe()}"
        yield _finding("passed-fewer-than-counted", "critical", summary, reports)
        return
    severity: Severity = "major" if worst.total < FEW else "minor"
    summary = f"paid as passed although {worst.describe()}: what the rest check was not checked"
    yield _finding("passed-fewer-than-counted", severity, summary, reports)


def _disagree(subject: Subject) -> Iterator[Finding]:
    reports, log = reported_counts(subject.trajectory), logged_counts(subject)
    told = [*reports, *(log if len(log) == 1 else ())]
    first = next((one for one in told if one.total), None)
    if first is None:
        return
    for other in told[told.index(first) + 1 :]:
        same = (first.ok, first.total) == (other.ok, other.total)
        if not other.total or (same and (first.bad == other.bad or first.unaccounted or other.unaccounted)):
            continue
        claim = f"{first.describe()}, {other.describe()}"
        if any(one.bad and not two.bad and not two.unaccounted for one, two in ((first, other), (other, first))):
            yield _finding("counts-disagree", "critical", f"two accounts of one run disagree: {claim}", [first, other])
        elif "the log" in (first.source, other.source) and first.total <= other.total:
            why = "a report may name only the tests asked for, or fold the cases of one test into one"
            yield _finding("counts-disagree", "note", f"{claim}: {why}", [first, other])
        else:
            yield _finding("counts-disagree", "major", f"two accounts of one run disagree: {claim}", [first, other])
        return


def _patch(subject: Subject) -> Iterator[Finding]:
    for item in subject.trajectory.evidence:
        if item.kind != "patch":
            continue
        resolved = item.data.get("resolved") is True or passes(subject.trajectory)
        missing = item.data.get("exists") is False
        if resolved and (missing or item.data.get("applied") is False):
            what = "there was no patch" if missing else "the patch was not applied"
            key = "exists" if missing else "applied"
            yield Finding(
                rule="patch-not-applied",
                family="consistency",
                severity="major",
                summary=f"counted as resolved although the report says that {what}",
                quotes=(from_evidence(f'"{key}":false'),),
                evidence=(item.id,),
            )


def _against_reward(subject: Subject) -> Iterator[Finding]:
    trajectory, given = subject.trajectory, reward(subject.trajectory)
    outcomes = outcome_verdicts(trajectory.verdicts)
    if given is None or not outcomes:
        return
    evidence = tuple(item.id for item in trajectory.evidence if item.kind == "reward")
    status = "pass" if passes(trajectory) else outcomes[0].status
    if status == "pass" and given <= 0:
        summary = f"judged as passed although the reward is {given:g}"
    elif status == "fail" and given >= 1 and len(outcomes) == 1 and _OVERRULING.issuperset(outcomes[0].marks):
        summary = f"judged as failed although the reward is {given:g}"
    elif status == "error" and given >= 1 and is_imported(outcomes[0].marks):
        summary = f"recorded as an error although the reward is {given:g}"
    else:
        return
    yield Finding("verdict-against-reward", "consistency", "major", summary, evidence=evidence)


RULES = (
    Rule(
        "reward-without-tests",
        "consistency",
        "critical",
        "A pass was recorded although the record counts no test. It is `note` where the verifier's own log shows that "
        "all tests passed, since the counter is wrong there, and `major` where the log shows another run of tests.",
        "A verifier that fails when it collected nothing; verifying the stored state again.",
        _without_tests,
    ),
    Rule(
        "passed-fewer-than-counted",
        "consistency",
        "critical",
        "A pass was recorded although fewer tests passed than were counted. Where all others were skipped it is "
        f"`major` below {FEW} tests and `minor` above.",
        "A verifier that counts a skipped test as not passed, or does not ship tests that skip.",
        _fewer,
    ),
    Rule(
        "counts-disagree",
        "consistency",
        "critical",
        "Two accounts of the same run of tests (recorded counts, CTRF, report, log) give other numbers: `critical` "
        "where only one knows of failures, `note` where a report has fewer tests than the log and neither has any.",
        "Counts taken from one place; verifying the stored state again.",
        _disagree,
    ),
    Rule(
        "patch-not-applied",
        "consistency",
        "major",
        "The report says that the patch does not exist or was not applied, and that the task is resolved.",
        "A judge that fails where it could not apply what it judges.",
        _patch,
    ),
    Rule(
        "verdict-against-reward",
        "consistency",
        "major",
        "The verdict and the recorded reward contradict each other.",
        "A verdict that is derived from the reward in one place.",
        _against_reward,
    ),
)
