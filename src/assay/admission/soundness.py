"""Derives findings and the admission decision from the probe results of a task. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from assay.agents.cheats import CHEATS
from assay.records import Separation
from assay.rollout.plan import Verification
from assay.statistics import Interval, wilson
from assay.verdicts import REWARD_OVERRULED, weakest

from .difficulty import AgentRate, difficulty_findings
from .findings import AdmissionFinding
from .probe import SkippedProbe
from .probe_results import ProbeResult
from .probes import FIRST
from .sensitivity import Sensitivity, sensitivity_findings
from .separation import separation_findings
from .variations import CIRCUMSTANCES, CONTROLS

BROKEN = ("hole", "broken")
_CHEATS = {f"cheat.{cheat.name}": cheat for cheat in CHEATS}
NO_RECORDED_TEST = "no test of the task was run by the recorded runner"
TEST_ORDER, SLEEPING = "oracle.test-order", "cheat.sleeping-program"
_CLOSED: dict[str, str] = {
    "conftest": "clean configuration",
    "pytest_configuration": "clean configuration",
    "start_up_hook": "clean configuration",
    "shadowed_module": "clean configuration",
    "edited_tests": "tests mounted read-only",
    "replaced_program": "clean configuration",
    "replaced_library": "clean configuration",
    "left_processes": "no process outlives the script",
    "forged": "recorded test run",
    "not_whole": "recorded test run",
    "always_equal": "probes for always-true comparison",
    "link_in_rewards": "rewards are regular files",
    "verifier_paths": "no trust in code that names the reward",
}
"""Mark of a verdict to the setting that causes it."""
_OVERRULES: dict[str, str] = {
    "no_tests": "recorded test run",
    "failed_tests": "recorded test run",
    "exit_code": "exit code demanded",
    "reward_problem": "two rewards must agree",
    "untrusted_changes": "no trust in code that reaches for the verifier",
}
"""Mark to the setting that causes it, for verdicts that overruled a passing reward."""


class Completeness(msgspec.Struct, frozen=True):
    """Attempts of the reference solution."""

    tried: int
    """Judged attempts under ordinary circumstances."""
    passed: int
    flake_rate: float | None
    """Share of those that failed; None without judged attempts."""
    flake_interval: Interval
    circumstances: dict[str, str]
    """Name to `pass`, `fail`, `unknown`, `error`, or `not tested`."""


class Strictness(msgspec.Struct, frozen=True):
    """Attempts of equivalent solutions."""

    tried: int
    accepted: int
    rejected: tuple[str, ...]
    """Names of the rejected ones."""
    rate: float | None
    interval: Interval


class Cost(msgspec.Struct, frozen=True):
    """Cost of verifying this task."""

    verification_s: float | None
    """Median seconds of one verification of the reference solution."""
    attempt_s: float | None
    """Median seconds of a whole attempt by the reference solution: sandbox, solution, verification."""
    peak_mib: float | None
    """Peak memory of a verifier."""
    battery_s: float
    """Seconds of all attempts of the battery together."""
    attempts: int
    attempt_cpu_s: float | None = None
    """Median CPU seconds of an attempt by the solution; None if the sandbox does not report them."""
    battery_cpu_s: float | None = None
    """CPU seconds of all attempts; None if one is unknown."""
    in_verifications: float | None = None
    """Cost of the battery as a multiple of the reference solution's attempts; in CPU seconds, else in wall time."""
    in_verifications_by_clock: float | None = None


def conclude(*, admitted: bool, accepted_wrongly: int) -> str:
    """Returns the result of an admission as text."""
    if not admitted:
        return "not admitted"
    if not accepted_wrongly:
        return "admitted"
    return f"weak, accepts {accepted_wrongly} wrong solution{'s' if accepted_wrongly > 1 else ''}"


class TaskReport(msgspec.Struct, frozen=True):
    """Report on the verifier of one task."""

    task: str
    task_digest: str
    admitted: dict[str, bool]
    """By verification."""
    findings: tuple[AdmissionFinding, ...]
    completeness: Completeness
    sensitivity: Sensitivity | None
    strictness: Strictness | None
    cost: Cost
    difficulty: tuple[AgentRate, ...]
    changed: tuple[str, ...]
    """Files that the solution adds or changes."""
    probes: tuple[ProbeResult, ...]
    untried: tuple[SkippedProbe, ...]
    separation: Separation = "unknown"
    """The weakest grade of separation that a passing attempt by the reference solution reached."""

    @property
    def is_admitted(self) -> bool:
        """True where every tried verification admits the task."""
        return all(self.admitted.values())

    @property
    def accepted_wrongly(self) -> int:
        """Number of passed solutions that are proven wrong."""
        return self.sensitivity.changed if self.sensitivity is not None else 0

    @property
    def conclusion(self) -> str:
        """Result as text; plain `admitted` only if no proven wrong solution was accepted."""
        return conclude(admitted=self.is_admitted, accepted_wrongly=self.accepted_wrongly)

    def conclusion_under(self, verification: str) -> str:
        return conclude(admitted=self.admitted[verification], accepted_wrongly=self.accepted_wrongly)


class TaskEvidence(NamedTuple):
    task: str
    task_digest: str
    verifications: tuple[Verification, ...]
    has_oracle: bool
    observed: tuple[ProbeResult, ...]
    untried: tuple[SkippedProbe, ...]
    sensitivity: Sensitivity | None = None
    difficulty: tuple[AgentRate, ...] = ()
    changed: tuple[str, ...] = ()
    more: tuple[AdmissionFinding, ...] = ()
    """Findings from other sources: strictness, instruction, review."""


def judge_task(evidence: TaskEvidence) -> TaskReport:
    """Derives the report of one task."""
    evidence = evidence._replace(observed=_apply_controls(evidence.observed))
    untried = tuple(dict.fromkeys((*evidence.untried, *_skipped_circumstances(evidence.observed))))
    evidence = evidence._replace(untried=untried)
    findings = (
        *_oracle_findings(evidence),
        *_circumstance_findings(evidence),
        *_paid_findings(evidence),
        *separation_findings(evidence.task, _plain_oracles(evidence, evidence.verifications[0])),
        *(sensitivity_findings(evidence.task, evidence.sensitivity) if evidence.sensitivity is not None else ()),
        *_broken_findings(evidence),
        *difficulty_findings(evidence.task, evidence.difficulty),
        *evidence.more,
    )
    return TaskReport(
        task=evidence.task,
        task_digest=evidence.task_digest,
        admitted={name: _is_admitted(findings, name) for name in evidence.verifications},
        findings=_sort_findings(findings),
        completeness=_completeness(evidence),
        sensitivity=evidence.sensitivity,
        strictness=_strictness(evidence),
        cost=_cost(evidence.observed),
        difficulty=evidence.difficulty,
        changed=evidence.changed,
        probes=evidence.observed,
        untried=untried,
        separation=weakest(o.separation for o in _plain_oracles(evidence, evidence.verifications[0]) if o.passed),
    )


def _apply_controls(observed: Sequence[ProbeResult]) -> tuple[ProbeResult, ...]:
    """Invalidates circumstances whose control fails too."""
    failed = {o.probe for o in observed if o.probe.removeprefix("oracle.") in CONTROLS and not o.passed}
    why = "it fails with the means of this circumstance alone, so nothing is known of the circumstance"
    return tuple(
        msgspec.structs.replace(o, holds=False, ended=why) if f"{o.probe}-control" in failed else o for o in observed
    )


def _is_admitted(findings: Iterable[AdmissionFinding], verification: Verification) -> bool:
    return not any(f.severity in BROKEN and f.verification in (None, verification) for f in findings)


def _sort_findings(findings: Iterable[AdmissionFinding]) -> tuple[AdmissionFinding, ...]:
    order = {"hole": 0, "broken": 1, "weak": 2, "note": 3}
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.heuristic, f.kind, f.probe or "")))


def _plain_oracles(evidence: TaskEvidence, verification: Verification) -> list[ProbeResult]:
    return [o for o in _oracles(evidence.observed) if o.verification == verification]


def _oracles(observed: Iterable[ProbeResult]) -> list[ProbeResult]:
    return [o for o in observed if o.group == "completeness" and o.probe.removeprefix("oracle.").isdecimal()]


def _completeness(evidence: TaskEvidence) -> Completeness:
    judged = [o for o in _plain_oracles(evidence, evidence.verifications[0]) if o.outcome is not None]
    passed = sum(o.passed for o in judged)
    shown = {name: o for o in evidence.observed for name in (*o.covers, o.probe)}
    untried = {u.probe for u in evidence.untried}
    circumstances: dict[str, str] = {}
    for name in CIRCUMSTANCES:
        found = shown.get(f"oracle.{name}")
        if found is not None:
            circumstances[name] = (found.outcome or "not tested") if found.holds else "not tested"
        else:
            circumstances[name] = "not tested" if f"oracle.{name}" in untried or not passed else "pass"
    failed = len(judged) - passed
    rate = failed / len(judged) if judged else None
    return Completeness(len(judged), passed, rate, wilson(failed, len(judged)), circumstances)


def _oracle_findings(evidence: TaskEvidence) -> list[AdmissionFinding]:
    if not evidence.has_oracle:
        text = "the task has no reference solution: no attempt shows that the verifier can pass"
        return [AdmissionFinding("no-oracle", evidence.task, None, "broken", text, ("add solution/solve.sh",))]
    return [f for name in evidence.verifications if (f := _oracle_finding(evidence, name)) is not None]


def _oracle_finding(evidence: TaskEvidence, verification: Verification) -> AdmissionFinding | None:
    ran = _plain_oracles(evidence, verification)
    judged = [o for o in ran if o.outcome is not None]
    bad = [o for o in judged if not o.passed]
    cited = tuple(o.attempt for o in (bad or ran))
    if not judged:
        cause = next((f"{o.broke}: {o.error}" for o in ran if o.broke is not None), "no attempt ended")
        text = f"the reference solution could not be judged: {cause}"
        return AdmissionFinding(
            "oracle-not-judged", evidence.task, FIRST, "broken", text, (), False, verification, cited
        )
    if not bad:
        return None
    said = f"{bad[0].outcome}: {_cause(bad[0])}"
    if len(bad) == len(judged):
        text = f"the reference solution does not pass: {said}"
        return AdmissionFinding(
            "oracle-fails", evidence.task, bad[0].probe, "broken", text, (), False, verification, cited
        )
    low, high = wilson(len(bad), len(judged))
    text = (
        f"the reference solution fails {len(bad)} of {len(judged)} times ({low:.0%} to {high:.0%}), for example {said}"
    )
    return AdmissionFinding("oracle-flaky", evidence.task, bad[0].probe, "broken", text, (), False, verification, cited)


def _cause(one: ProbeResult) -> str:
    """Returns the verdict's reason and the verifier's last output line, which often names the failed check."""
    reason = one.reason or one.ended or "no reason is recorded"
    return f"{reason}; the verifier's last line: {one.output}" if one.output and one.output not in reason else reason


def _circumstance_findings(evidence: TaskEvidence) -> list[AdmissionFinding]:
    if not any(o.passed for o in _plain_oracles(evidence, evidence.verifications[0])):
        return []
    findings = []
    for one in evidence.observed:
        name = one.probe.removeprefix("oracle.")
        if one.group != "completeness" or name not in CIRCUMSTANCES or not one.holds:
            continue
        if one.outcome is not None and not one.passed:
            text = f"the reference solution does not pass with {CIRCUMSTANCES[name]} ({one.outcome}: {_cause(one)})"
            closed = (f"do not depend on the {name.replace('-', ' ')}",)
            findings.append(
                AdmissionFinding(
                    "oracle-breaks-under", evidence.task, one.probe, "weak", text, closed, False, one.verification,
                    (one.attempt,),
                )
            )  # fmt: skip
    return findings


def _skipped_circumstances(observed: Iterable[ProbeResult]) -> list[SkippedProbe]:
    skipped = []
    for one in observed:
        name = one.probe.removeprefix("oracle.")
        if name in CIRCUMSTANCES and one.group == "completeness" and not one.holds:
            why = NO_RECORDED_TEST if name == "test-order" else one.ended or ""
            skipped.append(SkippedProbe(one.probe, one.group, why or one.error or "it did not take effect"))
        if one.group == "completeness" and one.covers:
            skipped += [
                SkippedProbe(m, one.group, NO_RECORDED_TEST)
                for m in one.members
                if m not in one.covers and m == TEST_ORDER
            ]
        if one.probe == SLEEPING and one.outcome == "unknown":
            skipped.append(SkippedProbe(one.probe, one.group, "the verifier had not ended after its time limit"))
    return skipped


def _paid_findings(evidence: TaskEvidence) -> list[AdmissionFinding]:
    beside = {(name, o.verification): o for o in evidence.observed for name in (*o.covers, o.probe)}
    found = []
    for one in evidence.observed:
        if one.group not in ("null", "cheat") or not one.passed:
            continue
        members = (beside.get((name, one.verification)) for name in one.members)
        if one.probe not in _CHEATS and any(member is not None and member.passed for member in members):
            continue  # each of those is a finding of its own, which names the cause
        other: Verification = "default" if one.verification == "as_asked" else "as_asked"
        found.append(_paid_finding(evidence.task, one, beside.get((one.probe, other))))
    return found


def _paid_finding(task: str, one: ProbeResult, other: ProbeResult | None) -> AdmissionFinding:
    cheat = _CHEATS.get(one.probe)
    closed: list[str] = []
    contrast = ""
    if one.verification == "as_asked" and other is not None and other.outcome is not None and not other.passed:
        closed += list_effective_settings(other)
        marks = f"; marks: {', '.join(other.marks)}" if other.marks else ""
        contrast = f" Judged by default it does not ({other.outcome}: {other.reason}{marks})."
    if cheat is not None:
        closed += cheat.closed_by
        text = f"the cheat {cheat.name} is paid: {cheat.exploits.rstrip('.')}.{contrast}"
    else:
        about = f"{one.about} (together, no single one)" if one.members else one.about
        text = f"{about} is paid.{contrast}"
    kind = "cheat-passed" if one.group == "cheat" else "null-passed"
    return AdmissionFinding(
        kind, task, one.probe, "hole", text, tuple(dict.fromkeys(closed)), False, one.verification, (one.attempt,)
    )


def list_effective_settings(judged: ProbeResult) -> tuple[str, ...]:
    """Returns the default settings that a verdict's marks show in effect; `fresh fork` without marks."""
    found = [_CLOSED[mark] for mark in judged.marks if mark in _CLOSED]
    if REWARD_OVERRULED in judged.marks:  # else the reward itself was not fooled
        found += [_OVERRULES[mark] for mark in judged.marks if mark in _OVERRULES]
    return tuple(dict.fromkeys(found)) or ("fresh fork",)


def _strictness(evidence: TaskEvidence) -> Strictness | None:
    ran = [o for o in evidence.observed if o.group == "strictness" and o.outcome is not None]
    if not ran:
        return None
    accepted = sum(o.passed for o in ran)
    rejected = tuple(o.probe for o in ran if not o.passed)
    return Strictness(len(ran), accepted, rejected, accepted / len(ran), wilson(accepted, len(ran)))


def _broken_findings(evidence: TaskEvidence) -> list[AdmissionFinding]:
    broke = [o for o in evidence.observed if o.outcome is None and o.group in ("null", "cheat")]
    if not broke:
        return []
    causes: dict[str, list[ProbeResult]] = {}
    for one in broke:
        causes.setdefault(f"{one.broke}: {one.error}", []).append(one)
    return [_not_judged(evidence.task, cause, ones) for cause, ones in causes.items()]


def _not_judged(task: str, cause: str, broke: Sequence[ProbeResult]) -> AdmissionFinding:
    named = ", ".join(o.probe for o in broke[:8]) + (" ..." if len(broke) > 8 else "")
    text = f"{len(broke)} attempts broke before they could be judged ({named}): {cause}"
    return AdmissionFinding("not-judged", task, None, "note", text, evidence=tuple(o.attempt for o in broke[:20]))


def _cost(observed: Sequence[ProbeResult]) -> Cost:
    oracles = [o for o in _oracles(observed) if o.passed] or _oracles(observed)
    peaks = [o.peak_bytes for o in observed if o.peak_bytes is not None]
    attempt_s, battery_s = _median(o.attempt_s for o in oracles), sum(o.attempt_s for o in observed)
    told = [o.cpu_s for o in observed if o.cpu_s is not None]
    battery_cpu_s = sum(told) if told and len(told) == len(observed) else None
    attempt_cpu_s = _median(o.cpu_s for o in oracles if o.cpu_s is not None)
    by_clock = _times(battery_s, attempt_s)
    by_processor = _times(battery_cpu_s, attempt_cpu_s)
    return Cost(
        verification_s=_median(o.judged_s for o in oracles),
        attempt_s=attempt_s,
        peak_mib=round(max(peaks) / (1 << 20), 3) if peaks else None,
        battery_s=round(battery_s, 3),
        attempts=len(observed),
        attempt_cpu_s=attempt_cpu_s,
        battery_cpu_s=None if battery_cpu_s is None else round(battery_cpu_s, 3),
        in_verifications=by_clock if by_processor is None else by_processor,
        in_verifications_by_clock=by_clock,
    )


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def _times(whole: float | None, one: float | None) -> float | None:
    return round(whole / one, 3) if whole is not None and one else None
