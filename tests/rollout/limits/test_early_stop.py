"""When an attempt is hopeless, and how often that was wrong."""

from __future__ import annotations

import random

import pytest

from assay.records import Step
from assay.rollout.limits.early_stop import (
    Lengths,
    LengthTracker,
    StopReport,
    StopRule,
    conformal_threshold,
    fit_stop_rule,
    is_control,
    longest_lengths,
)

pytestmark = pytest.mark.quick


def steps(*states: str | None) -> list[Step]:
    return [Step(index, "agent", state=state) for index, state in enumerate(states)]


def test_the_threshold_is_the_conformal_quantile() -> None:
    # By hand: of 19 successes and 5 % tolerated, place ceil(20 * 0.95) = 19: the longest.
    assert conformal_threshold(list(range(1, 20)), 0.05) == 19
    assert conformal_threshold(list(range(1, 20)), 0.10) == 18
    assert conformal_threshold(list(range(1, 19)), 0.05) is None


def test_no_more_successes_are_lost_than_are_tolerated() -> None:
    draw, lost, tried = random.Random(1), 0, 0
    for _ in range(400):
        known = [draw.randint(1, 30) for _ in range(60)]
        most = conformal_threshold(known, 0.1)
        assert most is not None
        lost += sum(draw.randint(1, 30) > most for _ in range(50))
        tried += 50
    assert lost / tried <= 0.105


def test_staleness_counts_turns_without_a_new_state() -> None:
    assert longest_lengths(steps("a", "b", "a", "b", "c", "c")) == Lengths(6, 2)
    assert longest_lengths(steps(None, None, None)) == Lengths(3, 0)  # not observed: not stale


def test_a_success_as_long_as_the_threshold_is_not_stopped() -> None:
    watch = LengthTracker(StopRule(turns=3))
    for step in steps("a", "b"):
        watch.add_step(step)
    assert watch.hopeless() is None  # the third turn may still be the last
    watch.add_step(Step(2, "agent", state="c"))
    why = watch.hopeless()
    assert why is not None
    assert (why.measure, why.used, why.allowed) == ("turns", 4, 3)


def test_what_goes_in_circles_is_hopeless() -> None:
    watch = LengthTracker(StopRule(stale=1))
    told = []
    for step in steps("a", "b", "a", "b"):
        watch.add_step(step)
        told.append(watch.hopeless() is not None)
    assert told == [False, False, False, True]


def test_what_is_tolerated_is_split_over_the_measures() -> None:
    rule = fit_stop_rule([Lengths(n, n % 4) for n in range(1, 40)], 0.05)
    assert (rule.turns, rule.stale) == (39, 3)


def test_a_fifth_are_controls() -> None:
    found = sum(is_control(f"t@{n}", 0) for n in range(5000))
    assert 900 < found < 1100
    assert is_control("t@1", 3) == is_control("t@1", 3)


def test_the_false_stop_rate_has_an_interval() -> None:
    report = StopReport(watched=100, stopped=40, controls=10, controls_passed=1)
    assert report.false_stop_rate == 0.1
    assert report.interval.low < 0.1 < report.interval.high
    assert StopReport(0, 0, 0, 0).false_stop_rate is None
