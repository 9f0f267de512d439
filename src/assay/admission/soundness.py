"""From what was observed of a task to what is wrong with it, and whether it is admitted. Pure."""

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
from .findings import Finding
from .observed import Observed
from .probes import FIRST, Untried
from .sensitivity import Sensitivity, sensitivity_findings
from .separation import separation_findings
from .variations import CIRCUMSTANCES, CONTROLS

__all__ = ["Completeness", "Cost", "Strictness", "TaskReport", "Tried", "conclude", "judge_task"]

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
"""Mark of a verdict to the setting that it comes from."""
_OVERRULES: dict[str, str] = {
    "no_tests": "recorded test run",
    "failed_tests": "recorded test run",
    "exit_code": "exit code demanded",
    "reward_problem": "two rewards must agree",
    "untrusted_changes": "no trust in code that reaches for the verifier",
}
"""Mark to the setting that it comes from, where it overruled a reward that said pass."""


class Completeness(msgspec.Struct, frozen=True):
    """The reference solution's own attempts."""

    tried: int
    """Judged attempts under ordinary circumstances."""
    passed: int
    flake_rate: float | None
    """Share of those that did not pass; None where none was judged."""
    flake_interval: Interval
    circumstances: dict[str, str]
    """Name to `pass`, `fail`, `unknown`, `error`, or `not tested`."""


class Strictness(msgspec.Struct, frozen=True):
    """Solutions that mean the same."""

    tried: int
    accepted: int
    rejected: tuple[str, ...]
    """Names of those that did not pass."""
    rate: float | None
    interval: Interval


class Cost(msgspec.Struct, frozen=True):
    """What judging this task costs."""

    verification_s: float | None
    """Median seconds of one verification of the reference solution."""
    attempt_s: float | None
    """Median seconds of a whole attempt by the reference solution: sandbox, solution, verification."""
    peak_mib: float | None
    """The most memory that the verifier was seen to use."""
    battery_s: float
    """Seconds of all attempts of the battery together."""
    attempts: int
    attempt_cpu_s: float | None = None
    """Median processor seconds of what an attempt by the solution runs; None where the sandbox does not say."""
    battery_cpu_s: float | None = None
    """Processor seconds of what all attempts of the battery ran; None where one of them is not known."""
    in_verifications: float | None = None
    """The battery's cost in ordinary attempts by the reference solution: by processor seconds, which other work on the
    machine does not change, else by the clock."""
    in_verifications_by_clock: float | None = None


def conclude(*, admitted: bool, accepted_wrongly: int) -> str:
    """Returns the result of an admission in words."""
    if not admitted:
        return "not admitted"
    if not accepted_wrongly:
        return "admitted"
    return f"weak, accepts {accepted_wrongly} wrong solution{'s' if accepted_wrongly > 1 else ''}"


class TaskReport(msgspec.Struct, frozen=True):
    """All that is known of one task's verifier."""

    task: str
    task_digest: str
    admitted: dict[str, bool]
    """By verification."""
    findings: tuple[Finding, ...]
    completeness: Completeness
    sensitivity: Sensitivity | None
    strictness: Strictness | None
    cost: Cost
    difficulty: tuple[AgentRate, ...]
    changed: tuple[str, ...]
    """Files that solving adds or changes."""
    probes: tuple[Observed, ...]
    untried: tuple[Untried, ...]
    separation: Separation = "unknown"
    """The weakest grade of separation that a passing attempt by the reference solution reached."""

    @property
    def is_admitted(self) -> bool:
        """Returns whether it is admitted under every verification that was tried."""
        return all(self.admitted.values())

    @property
    def accepted_wrongly(self) -> int:
        """How many solutions passed that are shown to be wrong."""
        return self.sensitivity.changed if self.sensitivity is not None else 0

    @property
    def conclusion(self) -> str:
        """The result in words. `admitted` stands alone: never for a verifier that was seen to accept wrong work."""
        return conclude(admitted=self.is_admitted, accepted_wrongly=self.accepted_wrongly)

    def conclusion_under(self, verification: str) -> str:
        """Returns the same for one verification."""
        return conclude(admitted=self.admitted[verification], accepted_wrongly=self.accepted_wrongly)


class Tried(NamedTuple):
    """What the report of one task is made from."""

    task: str
    task_digest: str
    verifications: tuple[Verification, ...]
    has_oracle: bool
    observed: tuple[Observed, ...]
    untried: tuple[Untried, ...]
    sensitivity: Sensitivity | None = None
    difficulty: tuple[AgentRate, ...] = ()
    changed: tuple[str, ...] = ()
    more: tuple[Finding, ...] = ()
    """What others found: over-strictness, what the instruction lacks, a review's doubts."""


def judge_task(tried: Tried) -> TaskReport:
    """Sums up one task."""
    tried = tried._replace(observed=_controlled(tried.observed))
    untried = tuple(dict.fromkeys((*tried.untried, *_unheld(tried.observed))))
    tried = tried._replace(untried=untried)
    findings = (
        *_oracle_findings(tried),
        *_circumstance_findings(tried),
        *_paid_findings(tried),
        *separation_findings(tried.task, _plain_oracles(tried, tried.verifications[0])),
        *(sensitivity_findings(tried.task, tried.sensitivity) if tried.sensitivity is not None else ()),
        *_broken_findings(tried),
        *difficulty_findings(tried.task, tried.difficulty),
        *tried.more,
    )
    return TaskReport(
        task=tried.task,
        task_digest=tried.task_digest,
        admitted={name: _is_admitted(findings, name) for name in tried.verifications},
        findings=_ordered(findings),
        completeness=_completeness(tried),
        sensitivity=tried.sensitivity,
        strictness=_strictness(tried),
        cost=_cost(tried.observed),
        difficulty=tried.difficulty,
        changed=tried.changed,
        probes=tried.observed,
        untried=untried,
        separation=weakest(o.separation for o in _plain_oracles(tried, tried.verifications[0]) if o.passed),
    )


def _controlled(observed: Sequence[Observed]) -> tuple[Observed, ...]:
    """Returns what was observed, where what fails under a circumstance's control too says nothing of the
    circumstance."""
    failed = {o.probe for o in observed if o.probe.removeprefix("oracle.") in CONTROLS and not o.passed}
    why = "it fails with the means of this circumstance alone, so nothing is known of the circumstance"
    return tuple(
        msgspec.structs.replace(o, holds=False, ended=why) if f"{o.probe}-control" in failed else o for o in observed
    )


def _is_admitted(findings: Iterable[Finding], verification: Verification) -> bool:
    return not any(f.severity in BROKEN and f.verification in (None, verification) for f in findings)


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    order = {"hole": 0, "broken": 1, "weak": 2, "note": 3}
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.heuristic, f.kind, f.probe or "")))


def _plain_oracles(tried: Tried, verification: Verification) -> list[Observed]:
    """Ordinary attempts by the reference solution, under one verification."""
    return [o for o in _oracles(tried.observed) if o.verification == verification]


def _oracles(observed: Iterable[Observed]) -> list[Observed]:
    return [o for o in observed if o.group == "completeness" and o.probe.removeprefix("oracle.").isdecimal()]


def _completeness(tried: Tried) -> Completeness:
    judged = [o for o in _plain_oracles(tried, tried.verifications[0]) if o.outcome is not None]
    passed = sum(o.passed for o in judged)
    shown = {name: o for o in tried.observed for name in (*o.covers, o.probe)}
    untried = {u.probe for u in tried.untried}
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


def _oracle_findings(tried: Tried) -> list[Finding]:
    if not tried.has_oracle:
        text = "there is no reference solution: nobody has seen this verifier pass anything"
        return [Finding("no-oracle", tried.task, None, "broken", text, ("add solution/solve.sh",))]
    return [f for name in tried.verifications if (f := _oracle_finding(tried, name)) is not None]


def _oracle_finding(tried: Tried, verification: Verification) -> Finding | None:
    ran = _plain_oracles(tried, verification)
    judged = [o for o in ran if o.outcome is not None]
    bad = [o for o in judged if not o.passed]
    cited = tuple(o.attempt for o in (bad or ran))
    if not judged:
        cause = next((f"{o.broke}: {o.error}" for o in ran if o.broke is not None), "no attempt ended")
        text = f"the reference solution could not be judged: {cause}"
        return Finding("oracle-not-judged", tried.task, FIRST, "broken", text, (), False, verification, cited)
    if not bad:
        return None
    said = f"{bad[0].outcome}: {_cause(bad[0])}"
    if len(bad) == len(judged):
        text = f"the reference solution does not pass: {said}"
        return Finding("oracle-fails", tried.task, bad[0].probe, "broken", text, (), False, verification, cited)
    low, high = wilson(len(bad), len(judged))
    text = (
        f"the reference solution fails {len(bad)} of {len(judged)} times ({low:.0%} to {high:.0%}), for example {said}"
    )
    return Finding("oracle-flaky", tried.task, bad[0].probe, "broken", text, (), False, verification, cited)


def _cause(one: Observed) -> str:
    """Returns the verdict's reason with the last line that the verifier printed, which often names the failed check."""
    reason = one.reason or one.ended or "no reason is recorded"
    return f"{reason}; the verifier's last line: {one.output}" if one.output and one.output not in reason else reason


def _oracle_passes(tried: Tried) -> bool:
    return any(o.passed for o in _plain_oracles(tried, tried.verifications[0]))


def _circumstance_findings(tried: Tried) -> list[Finding]:
    if not _oracle_passes(tried):
        return []
    found = []
    for one in tried.observed:
        name = one.probe.removeprefix("oracle.")
        if one.group != "completeness" or name not in CIRCUMSTANCES or not one.holds:
            continue
        if one.outcome is not None and not one.passed:
            text = f"the reference solution does not pass with {CIRCUMSTANCES[name]} ({one.outcome}: {_cause(one)})"
            closed = (f"do not depend on the {name.replace('-', ' ')}",)
            found.append(
                Finding(
                    "oracle-breaks-under", tried.task, one.probe, "weak", text, closed, False, one.verification,
                    (one.attempt,),
                )
            )  # fmt: skip
    return found


def _unheld(observed: Iterable[Observed]) -> list[Untried]:
    """Circumstances that were tried and not seen to hold."""
    found = []
    for one in observed:
        name = one.probe.removeprefix("oracle.")
        if name in CIRCUMSTANCES and one.group == "completeness" and not one.holds:
            why = NO_RECORDED_TEST if name == "test-order" else one.ended or ""
            found.append(Untried(one.probe, one.group, why or one.error or "it did not take effect"))
        if one.group == "completeness" and one.covers:
            found += [
                Untried(m, one.group, NO_RECORDED_TEST) for m in one.members if m not in one.covers and m == TEST_ORDER
            ]
        if one.probe == SLEEPING and one.outcome == "unknown":
            found.append(Untried(one.probe, one.group, "the verifier had not ended after its time limit"))
    return found


def _paid_findings(tried: Tried) -> list[Finding]:
    """Null answers and cheats that were paid."""
    beside = {(name, o.verification): o for o in tried.observed for name in (*o.covers, o.probe)}
    found = []
    for one in tried.observed:
        if one.group not in ("null", "cheat") or not one.passed:
            continue
        members = (beside.get((name, one.verification)) for name in one.members)
        if one.probe not in _CHEATS and any(member is not None and member.passed for member in members):
            continue  # each of those is a finding of its own, which names the cause
        other: Verification = "default" if one.verification == "as_asked" else "as_asked"
        found.append(_paid(tried.task, one, beside.get((one.probe, other))))
    return found


def _paid(task: str, one: Observed, other: Observed | None) -> Finding:
    known = _CHEATS.get(one.probe)
    closed: list[str] = []
    seen = ""
    if one.verification == "as_asked" and other is not None and other.outcome is not None and not other.passed:
        closed += saved_by(other)
        marks = f"; marks: {', '.join(other.marks)}" if other.marks else ""
        seen = f" Judged by default it does not ({other.outcome}: {other.reason}{marks})."
    if known is not None:
        closed += known.closed_by
        text = f"the cheat {known.name} is paid: {known.exploits.rstrip('.')}.{seen}"
    else:
        about = f"{one.about} (together, no single one)" if one.members else one.about
        text = f"{about} is paid.{seen}"
    kind = "cheat-passed" if one.group == "cheat" else "null-passed"
    return Finding(
        kind, task, one.probe, "hole", text, tuple(dict.fromkeys(closed)), False, one.verification, (one.attempt,)
    )


def saved_by(judged: Observed) -> tuple[str, ...]:
    """Settings of the default verification that a verdict shows at work; the fresh fork where nothing was left."""
    found = [_CLOSED[mark] for mark in judged.marks if mark in _CLOSED]
    if REWARD_OVERRULED in judged.marks:  # else the reward itself was not fooled
        found += [_OVERRULES[mark] for mark in judged.marks if mark in _OVERRULES]
    return tuple(dict.fromkeys(found)) or ("fresh fork",)


def _strictness(tried: Tried) -> Strictness | None:
    ran = [o for o in tried.observed if o.group == "strictness" and o.outcome is not None]
    if not ran:
        return None
    accepted = sum(o.passed for o in ran)
    rejected = tuple(o.probe for o in ran if not o.passed)
    return Strictness(len(ran), accepted, rejected, accepted / len(ran), wilson(accepted, len(ran)))


def _broken_findings(tried: Tried) -> list[Finding]:
    """Probes that could not be judged: they prove nothing."""
    broke = [o for o in tried.observed if o.outcome is None and o.group in ("null", "cheat")]
    if not broke:
        return []
    causes: dict[str, list[Observed]] = {}
    for one in broke:
        causes.setdefault(f"{one.broke}: {one.error}", []).append(one)
    return [_not_judged(tried.task, cause, ones) for cause, ones in causes.items()]


def _not_judged(task: str, cause: str, broke: Sequence[Observed]) -> Finding:
    named = ", ".join(o.probe for o in broke[:8]) + (" ..." if len(broke) > 8 else "")
    text = f"{len(broke)} attempts broke before they could be judged ({named}): {cause}"
    return Finding("not-judged", task, None, "note", text, evidence=tuple(o.attempt for o in broke[:20]))


def _cost(observed: Sequence[Observed]) -> Cost:
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
