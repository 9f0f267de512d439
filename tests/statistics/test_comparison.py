"""Paired comparisons, corrections for many of them, gates and plans; golden numbers are statsmodels 0.14's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.statistics import (
    GateRule,
    StudyDesign,
    TaskCount,
    attempts_needed,
    compare_paired,
    decide_gate,
    detectable_difference,
    difference_interval,
    holm,
    sign_test,
    standard_error,
    tasks_needed,
)

pytestmark = pytest.mark.quick
P_VALUES = [0.001, 0.04, 0.03, 0.2, 0.5, 0.012]


def counts(**passed: tuple[int, int]) -> list[TaskCount]:
    return [TaskCount("a", None, task, good, of - good, 0, 0) for task, (good, of) in passed.items()]


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(9, 2, 0.0654296875), (5, 0, 0.0625), (7, 7, 1.0), (1, 12, 0.00341796875), (0, 0, 1.0)]
)
def test_exact_mcnemar(gained: int, lost: int, p: float) -> None:
    assert sign_test(gained, lost) == pytest.approx(p, abs=1e-12)


@given(st.integers(0, 60), st.integers(0, 60))
def test_one_sided_tests_are_binomial_tests(gained: int, lost: int) -> None:
    from scipy import stats

    if gained + lost:
        wanted = stats.binomtest(gained, gained + lost, 0.5, alternative="greater").pvalue
        assert sign_test(gained, lost, "gain") == pytest.approx(wanted, rel=1e-9)
        assert sign_test(lost, gained, "loss") == pytest.approx(wanted, rel=1e-9)


def test_flips_are_listed_with_their_size() -> None:
    before = counts(a=(4, 4), b=(0, 4), c=(2, 4), d=(1, 1), e=(0, 0))
    after = counts(a=(1, 4), b=(4, 4), c=(2, 4), e=(1, 1), f=(1, 1))
    found = compare_paired(before, after)
    assert [(f.task, f.before, f.after, f.whole) for f in found.lost] == [("a", 1.0, 0.25, False)]
    assert [(f.task, f.whole) for f in found.gained] == [("b", True)]
    assert (found.tasks, found.same, found.only_before, found.only_after) == (("a", "b", "c"), 1, ("d",), ("e", "f"))
    assert found.difference.value == pytest.approx(0.25 / 3)


def test_a_comparison_of_nothing_says_so() -> None:
    found = compare_paired(counts(a=(1, 1)), counts(b=(1, 1)))
    assert (found.n_tasks, found.difference.value, found.difference.method) == (0, None, "no task was judged in both")
    assert found.p_value == 1.0


def test_a_task_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' is given twice"):
        compare_paired([*counts(a=(1, 1)), *counts(a=(0, 1))], counts(a=(1, 1)))


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=3, max_size=40))
def test_the_interval_of_a_difference_is_students(values: list[float]) -> None:
    from scipy import stats

    found = difference_interval(values)
    assert found is not None
    spread = float(np.std(values, ddof=1))
    if spread > 0:
        half = stats.t.ppf(0.975, len(values) - 1) * spread / math.sqrt(len(values))
        assert found.low == pytest.approx(max(-1, np.mean(values) - half))
        assert found.high == pytest.approx(min(1, np.mean(values) + half))
    else:
        assert found.high - found.low > 0


def test_holm() -> None:
    assert holm(P_VALUES) == pytest.approx([0.006, 0.12, 0.12, 0.4, 0.5, 0.06])
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_corrections_never_make_a_p_value_smaller(p_values: list[float]) -> None:
    assert all(p <= adjusted + 1e-12 <= 1 + 2e-12 for p, adjusted in zip(p_values, holm(p_values), strict=True))


def test_a_protected_task_that_falls_closes_the_gate() -> None:
    before = counts(kept=(4, 4), **{f"t{n}": (0, 4) for n in range(10)})
    after = counts(kept=(3, 4), **{f"t{n}": (4, 4) for n in range(10)})
    refused = decide_gate(compare_paired(before, after), {"kept"})
    assert not refused.accepted
    assert refused.reasons[0] == "protected task kept fell from 1.00 to 0.75"
    assert decide_gate(compare_paired(before, after), {"kept"}, GateRule(tolerance=0.25)).accepted


def test_a_protected_task_that_nobody_judged_closes_the_gate() -> None:
    before, after = counts(**{f"t{n}": (0, 1) for n in range(9)}), counts(**{f"t{n}": (1, 1) for n in range(9)})
    assert decide_gate(compare_paired(before, after), ()).accepted
    assert decide_gate(compare_paired(before, after), {"elsewhere"}).unseen == ("elsewhere",)
    assert not decide_gate(compare_paired(before, after), {"elsewhere"}).accepted


def test_better_and_not_worse_are_different_questions() -> None:
    same = compare_paired(counts(a=(1, 1), b=(0, 1)), counts(a=(1, 1), b=(0, 1)))
    assert not decide_gate(same, ()).accepted
    assert decide_gate(same, (), GateRule(want="not worse")).accepted
    nothing = compare_paired(counts(a=(1, 1)), counts(b=(1, 1)))
    assert not decide_gate(nothing, (), GateRule(want="not worse")).accepted


def test_the_standard_error_is_that_of_simulated_runs() -> None:
    design = StudyDesign(tasks=40, attempts=4, rate=0.3, icc=0.4)
    draw = np.random.default_rng(0)
    rates = draw.beta(0.3 * 1.5, 0.7 * 1.5, (20_000, 40))
    means = draw.binomial(4, rates).mean(axis=1) / 4
    assert standard_error(design) == pytest.approx(float(means.std()), rel=0.03)


def test_a_plan_finds_what_it_says_as_often_as_it_says() -> None:
    from scipy import stats

    design = StudyDesign(tasks=80, attempts=4, rate=0.5, icc=0.3, power=0.8)
    gap, draw = detectable_difference(design), np.random.default_rng(1)
    shift = gap / 2
    sides = []
    for rate in (0.5 - shift, 0.5 + shift):
        whole = 1 / 0.3 - 1
        rates = draw.beta(rate * whole, (1 - rate) * whole, (4000, 80))
        sides.append(draw.binomial(4, rates) / 4)
    p_values = stats.ttest_rel(sides[1], sides[0], axis=1).pvalue
    assert float((p_values < 0.05).mean()) == pytest.approx(0.8, abs=0.05)


def test_more_attempts_help_up_to_a_floor() -> None:
    design = StudyDesign(tasks=50, icc=0.4)
    assert attempts_needed(design, 0.1) is None
    needed = attempts_needed(design, 0.3)
    assert needed is not None
    assert detectable_difference(StudyDesign(tasks=50, attempts=needed, icc=0.4)) <= 0.3
    assert needed == 1 or detectable_difference(StudyDesign(tasks=50, attempts=needed - 1, icc=0.4)) > 0.3


@given(st.floats(0.02, 0.9), st.integers(1, 8), st.floats(0, 0.9), st.floats(0, 0.9))
def test_the_tasks_needed_are_enough_and_not_too_many(gap: float, attempts: int, icc: float, shared: float) -> None:
    design = StudyDesign(tasks=1, attempts=attempts, icc=icc, shared=shared)
    needed = tasks_needed(design, gap)
    assert detectable_difference(StudyDesign(tasks=needed, attempts=attempts, icc=icc, shared=shared)) <= gap + 1e-9
    if needed > 2:
        assert detectable_difference(StudyDesign(tasks=needed - 1, attempts=attempts, icc=icc, shared=shared)) > gap


@pytest.mark.parametrize("wrong", [{"tasks": 0}, {"tasks": 1, "rate": 1.5}, {"tasks": 1, "alpha": 0.0}])
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"plan|rate|alpha"):
        StudyDesign(**wrong)  # type: ignore[arg-type]


def test_every_way_to_flip_two_tasks_is_symmetric() -> None:
    for rates in itertools.product([0, 1, 2], repeat=4):
        before, after = counts(a=(rates[0], 2), b=(rates[1], 2)), counts(a=(rates[2], 2), b=(rates[3], 2))
        there, back = compare_paired(before, after), compare_paired(after, before)
        assert [f.task for f in there.gained] == [f.task for f in back.lost]
        assert there.p_value == back.p_value
