"""The number of attempts under way falls with signs of overload and recovers with answers."""

from __future__ import annotations

import random

from assay.rollout.limits.attempt_limit import CUT_EVERY_S, AttemptLimit


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_many_signs_at_once_are_one() -> None:
    clock = _Clock()
    limit = AttemptLimit(10, clock)
    for _ in range(5):
        limit.cut(10)
    assert (limit.allowed, limit.cuts) == (7, 1)
    assert not limit.grow()  # answers of calls that were under way then
    clock.now = CUT_EVERY_S
    limit.cut(10)
    assert (limit.allowed, limit.cuts) == (4, 2)


def test_a_cut_counts_from_what_is_under_way() -> None:
    limit = AttemptLimit(64, _Clock())
    limit.cut(10)
    assert limit.allowed == 7


def test_the_limit_never_leaves_its_bounds_and_recovers() -> None:
    clock, random_numbers = _Clock(), random.Random(1)
    limit = AttemptLimit(12, clock)
    for _ in range(500):
        clock.now += random_numbers.uniform(0, 3)
        if random_numbers.random() < 0.5:
            limit.cut(random_numbers.randrange(20))
        else:
            limit.grow()
        assert 1 <= limit.allowed <= 12
    clock.now += CUT_EVERY_S
    grown = sum(limit.grow() for _ in range(48))
    assert limit.allowed == 12
    assert grown <= 11
