"""Decides on a skill from the pass counts of a trial's arms: pure, and the same for stored and simulated trials.

Error rates, each over the whole trial whatever its number of looks: a skill that is not better than one of the two
controls (no skill; the placebo) is accepted with a chance of at most alpha, by one test against each at the full level
(an intersection-union test: both must be rejected). A skill without any effect is accepted with a chance of at most
`NO_EFFECT_SHARE` of alpha if the three arms differ by draws alone, by a test against both controls together, which the
other two nearly imply; where the placebo ends as no skill does, attempt by attempt, alpha remains. All are exact
permutation tests on tasks (`assay.statistics.SequentialTest`).

A loss is tested beside the gains, and named first. Few and hard tasks refuse a harmful skill, since it does not help,
before they can prove that it harms: most of them fail either way, and those that gain by luck hide those that are lost.
A harm check therefore tries the tasks that passed without the skill again, in both arms. Its attempts are new, so that
the choice of tasks favours neither arm.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from assay.statistics import SequentialLook, SequentialTest, format_p_value, score_tasks, sign_flip_test

from .records import RefusalCause

NO_EFFECT_SHARE = 0.6
"""Level of the test against both controls together, as a share of alpha: 3% of 5%."""
HARM_LEVEL = 0.05
"""Level of the one-sided tests that the skill loses tasks, over both and over all looks: each look has the share of its
tasks, so that a skill without any effect is called harmful in at most 5% of trials. Where a harm check may follow, the
looks have half of it and the check the other half."""
_FUTILE_FRACTION = 0.5
"""Share of the planned tasks after which a trial without an observed gain stops."""


class TaskPasses(NamedTuple):
    """Passes at one task in each arm, of the same number of attempts."""

    task: str
    none: int
    skill: int
    placebo: int | None = None
    """None in a trial without that arm."""


class TrialDesign(NamedTuple):
    """Plan of a trial, fixed before it starts."""

    alpha: float
    tasks: int
    """Planned tasks."""
    attempts: int = 1
    """At each task in each arm."""
    protected: frozenset[str] = frozenset()
    control: str = "no skill"
    """Name of the arm without the change in messages."""
    has_harm_check: bool = False
    """True if a harm check may follow the looks."""

    @property
    def harm_level(self) -> float:
        """Level of the tests for a loss over all looks, and that of a harm check."""
        return HARM_LEVEL / 2 if self.has_harm_check else HARM_LEVEL


class TrialDecision(NamedTuple):
    """The decision and its grounds."""

    accepted: bool
    causes: tuple[RefusalCause, ...]
    reasons: tuple[str, ...]
    looks: int
    """The look at which it was made."""
    tasks: int
    """Tasks until then."""
    p_none: float
    """One-sided, against no skill, as if there had been no earlier look."""
    p_placebo: float | None
    """The same against the placebo; None without that arm."""
    p_both: float | None
    """The same against both together."""


class _TestResult(NamedTuple):
    """One of the trial's tests after a look."""

    name: str
    cause: RefusalCause
    level: float
    look: SequentialLook


class _PlannedTest(NamedTuple):
    """A test of the skill against one control or both."""

    name: str
    cause: RefusalCause
    level: float
    controls: tuple[Literal["none", "placebo"], ...]
    test: SequentialTest

    def look(self, tasks: Sequence[TaskPasses], design: TrialDesign) -> _TestResult:
        """Adds the tasks of one look."""
        columns = [[getattr(one, control) for one in tasks] for control in self.controls]
        scores = score_tasks([one.skill for one in tasks], columns, design.attempts)
        return _TestResult(self.name, self.cause, self.level, self.test.look(scores))


def decide_trial(looks: Sequence[Sequence[TaskPasses]], design: TrialDesign) -> TrialDecision | None:
    """Returns the decision at the first look that allows one; None where the next look must be awaited.

    Args:
        looks: The tasks that each look added, oldest first.
        design: The plan; all its tasks together make the last look.
    """
    seen: list[TaskPasses] = []
    plans = _plan_tests(design, has_placebo=all(one.placebo is not None for look in looks for one in look))
    for number, look in enumerate(looks, 1):
        seen += look
        tests = [plan.look(look, design) for plan in plans]
        decision = _decide(seen, tests, number, len(look) / design.tasks, design)
        if decision is not None:
            return decision
    return None


def _plan_tests(design: TrialDesign, *, has_placebo: bool) -> list[_PlannedTest]:
    full, share = design.alpha, design.alpha * NO_EFFECT_SHARE
    if not has_placebo:
        return [_PlannedTest("no skill", "no gain", share, ("none",), SequentialTest(share, design.tasks))]
    return [
        _PlannedTest("no skill", "no gain", full, ("none",), SequentialTest(full, design.tasks)),
        _PlannedTest("the placebo", "no gain over placebo", full, ("placebo",), SequentialTest(full, design.tasks)),
        _PlannedTest("both", "no gain", share, ("none", "placebo"), SequentialTest(share, design.tasks)),
    ]


def _decide(
    seen: Sequence[TaskPasses], tests: Sequence[_TestResult], number: int, share: float, design: TrialDesign
) -> TrialDecision | None:
    refusals = _harm_refusals(seen, share, design) + _protected_refusals(seen, design)
    gains = {"none": sum(one.skill - one.none for one in seen)}
    if len(tests) > 1:
        gains["placebo"] = sum(one.skill - (one.placebo or 0) for one in seen)
    is_last = len(seen) >= design.tasks
    is_futile = len(seen) >= _FUTILE_FRACTION * design.tasks and min(gains.values()) <= 0
    is_gain = all(test.look.crossed for test in tests) and min(gains.values()) > 0
    if not (refusals or is_gain or is_last or is_futile):
        return None
    if not is_gain:
        refusals += _gain_refusals(seen, tests, gains, design)
    causes = tuple(dict.fromkeys(cause for cause, _ in refusals))
    reasons = [reason for _, reason in refusals] or [
        f"{_rates(seen, design)}: {_flips(seen)} ({_p_values(tests, design)})"
    ]
    p_values = {test.name: test.look.p_value for test in tests}
    return TrialDecision(
        not refusals, causes, tuple(reasons), number, len(seen), p_values["no skill"], p_values.get("the placebo"),
        p_values.get("both"),
    )  # fmt: skip


def _harm_refusals(seen: Sequence[TaskPasses], share: float, design: TrialDesign) -> list[tuple[RefusalCause, str]]:
    """Tests for a loss over all tasks, and over those that pass in at least half of the attempts of both arms.

    The tasks are chosen by what both arms have in common: those that pass without the skill, or with the placebo, which
    may take the same way as no skill with equal seeds, would fall by chance alone.
    """
    refusals: list[tuple[RefusalCause, str]] = []
    tests = [(list(seen), "")]
    if design.attempts > 1:  # with one attempt the two tests are the same
        passing = [one for one in seen if one.none + one.skill >= design.attempts]
        tests.append((passing, " among tasks that mostly pass"))
    for tasks, where in tests:
        p_harm = sign_flip_test([(one.none - one.skill) / design.attempts for one in tasks])
        if p_harm <= design.harm_level * share / len(tests):
            refusals.append(("harm", _harm_reason(tasks, where, p_harm)))
    return refusals


def _harm_reason(tasks: Sequence[TaskPasses], where: str, p_harm: float) -> str:
    return f"harmful: {_flips(tasks)}{where} (one-sided p {format_p_value(p_harm, digits=3)} for a loss)"


def choose_harm_tasks(seen: Sequence[TaskPasses], decision: TrialDecision, design: TrialDesign) -> tuple[str, ...]:
    """Returns the tasks that a harm check tries again: those that passed without the skill. Empty where the looks found
    harm or no loss, and where too few tasks passed for any result to be significant."""
    is_loss = sum(one.skill - one.none for one in seen) < 0
    passed = tuple(one.task for one in seen if one.none)
    if not design.has_harm_check or decision.accepted or "harm" in decision.causes or not is_loss:
        return ()
    return passed if 0.5 ** len(passed) <= design.harm_level else ()


def add_harm_check(
    decision: TrialDecision, tasks: Sequence[TaskPasses], attempts: int, design: TrialDesign
) -> tuple[TrialDecision, float]:
    """Returns the decision after a harm check, and the check's p-value.

    Args:
        decision: A refusal.
        tasks: Passes of the check's own attempts at each of its tasks.
        attempts: Attempts at each task in each arm.
        design: The trial's plan.
    """
    p_harm = sign_flip_test([(one.none - one.skill) / attempts for one in tasks])
    if p_harm > design.harm_level:
        return decision, p_harm
    reason = _harm_reason(tasks, " in further attempts at tasks that passed without it", p_harm)
    return decision._replace(causes=("harm", *decision.causes), reasons=(reason, *decision.reasons)), p_harm


def _protected_refusals(seen: Sequence[TaskPasses], design: TrialDesign) -> list[tuple[RefusalCause, str]]:
    return [
        ("protected", f"protected task {one.task} fell from {one.none} to {one.skill} of {design.attempts} passes")
        for one in seen
        if one.task in design.protected and one.skill < one.none
    ]


def _gain_refusals(
    seen: Sequence[TaskPasses], tests: Sequence[_TestResult], gains: dict[str, int], design: TrialDesign
) -> list[tuple[RefusalCause, str]]:
    refusals: list[tuple[RefusalCause, str]] = [
        (
            test.cause,
            f"no significant gain over {_control_name(test.name, design)}: {_p_value(test)}; against {design.control} "
            f"{_flips(seen)}",
        )
        for test in tests
        if not test.look.crossed
    ]
    if not refusals:
        worst = "no skill" if gains["none"] <= 0 else "the placebo"
        cause: RefusalCause = "no gain" if worst == "no skill" else "no gain over placebo"
        refusals = [(cause, f"the pass rate does not rise over {_control_name(worst, design)}")]
    return refusals


def _rates(seen: Sequence[TaskPasses], design: TrialDesign) -> str:
    total = len(seen) * design.attempts
    return f"{sum(one.none for one in seen) / total:.3f} without, {sum(one.skill for one in seen) / total:.3f} with"


def _flips(seen: Collection[TaskPasses]) -> str:
    gained, lost = sum(one.skill > one.none for one in seen), sum(one.skill < one.none for one in seen)
    return f"{gained} tasks gained, {lost} lost"


def _p_values(tests: Sequence[_TestResult], design: TrialDesign) -> str:
    return "; ".join(f"against {_control_name(test.name, design)} {_p_value(test)}" for test in tests)


def _control_name(name: str, design: TrialDesign) -> str:
    return design.control if name == "no skill" else name


def _p_value(test: _TestResult) -> str:
    return f"one-sided p {format_p_value(test.look.p_value, digits=4)}, level {test.level:.4g}"
