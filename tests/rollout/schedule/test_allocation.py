"""Which task gets the next attempts, decided from what was seen."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import UserError
from assay.rollout.schedule.allocation import (
    Grant,
    Policy,
    StatePath,
    TaskHistory,
    Uncertainty,
    UncertaintyOptions,
    expected_contrast,
    squared_deviations,
)
from assay.rollout.schedule.forks import anchors_of, success_posterior
from assay.rollout.schedule.policies import ALLOCATIONS, policy_named

pytestmark = pytest.mark.newest
NAMES = sorted(ALLOCATIONS)
scores = st.lists(st.sampled_from([0.0, 1.0, 0.5, None]), max_size=12)


@st.composite
def seen_tasks(draw: st.DrawFn) -> list[TaskHistory]:
    found = []
    for task in range(draw(st.integers(1, 9))):
        had = draw(scores)
        rounds = tuple(sorted(draw(st.lists(st.integers(0, 3), min_size=len(had), max_size=len(had)))))
        states = tuple(draw(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=4)))
        paths = tuple(StatePath(f"{task}@{n}.0", states, score) for n, score in enumerate(had))
        found.append(TaskHistory(tuple(had), rounds, task % 3, paths))
    return found


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(seen=seen_tasks(), left=st.integers(1, 200))
def test_a_round_is_within_what_is_left_and_the_same_again(name: str, seen: list[TaskHistory], left: int) -> None:
    grants = list(policy_named(name, {}).grants(seen, left))
    assert 1 <= sum(grant.attempts for grant in grants) <= left
    assert all(0 <= grant.task < len(seen) and grant.attempts >= 1 for grant in grants)
    assert grants == list(policy_named(name, {}).grants(seen, left))


def simulated(policy: Policy, rates: list[float], budget: int) -> list[list[float]]:
    """Plays a policy against known success rates."""
    draw = random.Random(5)
    had: list[list[float]] = [[] for _ in rates]
    rounds: list[list[int]] = [[] for _ in rates]
    number = 0
    while budget:
        seen = [TaskHistory(tuple(s), tuple(r)) for s, r in zip(had, rounds, strict=True)]
        for grant in policy.grants(seen, budget):
            had[grant.task] += [float(draw.random() < rates[grant.task]) for _ in range(grant.attempts)]
            rounds[grant.task] += [number] * grant.attempts
            budget -= grant.attempts
        number += 1
    return had


@pytest.mark.parametrize("name", ["halving", "uncertainty"])
def test_attempts_go_where_outcomes_differ(name: str) -> None:
    had = simulated(policy_named(name, {}), [0.0] * 15 + [1.0] * 15 + [0.5] * 10, 320)
    assert sum(map(len, had)) == 320
    assert sum(map(len, had[30:])) >= 1.5 * 80  # half as much again as where all get the same
    assert all(len(one) >= 2 for one in had)  # nothing is given up unseen


def test_uniform_gives_the_same_to_all() -> None:
    assert {len(one) for one in simulated(policy_named("uniform", {"step": 3}), [0.5] * 7, 7 * 8)} == {8}


def test_halving_halves() -> None:
    had = simulated(policy_named("halving", {}), [0.5] * 16, 16 * 8)
    assert sorted({len(one) for one in had}) == [2, 6, 14, 30]


def test_expected_contrast_is_the_mean_over_the_posterior() -> None:
    draw = random.Random(3)
    drawn = [draw.betavariate(1 + 2, 1 + 3) for _ in range(200_000)]
    told = expected_contrast([1, 1, 0, 0, 0])
    assert told == pytest.approx(math.fsum(p * (1 - p) for p in drawn) / len(drawn), abs=2e-4)
    assert expected_contrast([]) == pytest.approx(1 / 6)  # by hand: 1 * 1 / (2 * 3)


def test_signal_is_the_sum_of_squared_advantages() -> None:
    assert squared_deviations([1, 1, 0, 0]) == pytest.approx(4 * 0.5 * 0.5)
    assert squared_deviations([1, 1, 1]) == squared_deviations([]) == 0.0


@pytest.mark.parametrize(("deviation", "tried", "total"), [(0.5, 4, 100), (0.0, 4, 100), (0.3, 2, 7)])
def test_priority_is_the_narrowing_of_the_interval_and_a_bonus(deviation: float, tried: int, total: int) -> None:
    from scipy.stats import t as student

    def half(n: int) -> float:
        return float(student.ppf(0.975, n - 1)) * deviation / math.sqrt(n)

    expected = half(tried) - half(tried + 1) + 0.05 * math.sqrt(math.log(1 + total) / tried)
    assert Uncertainty(UncertaintyOptions()).priority(deviation, tried, total) == pytest.approx(expected)


def test_an_anchor_pools_all_attempts_through_its_state() -> None:
    paths = (
        StatePath("t@0.0", ("a", "b", "end"), 1.0),
        StatePath("t@1.0", ("x", "b", "lost"), 0.0),
        StatePath("t@2.0", ("c", "end"), 1.0, forked="b"),
    )
    found = {one.state: one for one in anchors_of(0, TaskHistory((1.0, 0.0), (0, 0), 0, paths))}
    b = found["b"]
    assert (b.passed, b.attempts, b.granted) == (2.0, 3, 1)
    assert b.at is not None
    assert (b.at.chain, b.at.prefix) == ("t@0.0", 2)
    assert (found[None].passed, found[None].attempts) == (1.0, 2)
    assert "end" not in found
    assert success_posterior(b, 0.5, 2.0) == (3.0, 2.0)


def test_forks_begin_where_the_way_divides() -> None:
    won = [StatePath(f"t@{n}.0", ("a", "b", "end"), 1.0) for n in range(4)]
    split = [StatePath(f"u@{n}.0", ("c", "end" if n % 2 else "lost"), float(n % 2)) for n in range(4)]
    seen = [TaskHistory((1.0,) * 4, (0,) * 4, 0, tuple(won)), TaskHistory((0.0, 1.0) * 2, (0,) * 4, 0, tuple(split))]
    (grant,) = policy_named("forks", {}).grants(seen, 4)
    assert grant.task == 1
    assert isinstance(grant, Grant)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("best", {}, "must be one of"),
        ("halving", {"frist": 2}, "there is no option frist; did you mean first"),
        ("uncertainty", {"first": 0}, "first: expected a whole number >= 1, got the number 0"),
    ],
)
def test_what_is_not_there_is_named(name: str, options: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        policy_named(name, options)
