"""Slower answers cut the attempts under way where they bring no more work, and only there."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import ceil

from assay.rollout.limits.attempt_limit import AttemptLimit
from assay.rollout.limits.latency_watch import FORGET_S, LatencyWatch, ServerLoad

SLOTS = 64


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def simulate(
    latency_s: Callable[[int, float], float],
    seconds: float,
    tokens: int | None = 100,
    demand: Callable[[float], int] = lambda _: SLOTS,
) -> list[int]:
    """Keeps as many calls under way as demand and limit allow; returns the limit after each answer.

    Args:
        latency_s: Seconds of a call that begins with so many under way, at this time.
        seconds: Of the simulation.
        tokens: Of each answer.
        demand: Calls that are wanted at a time.
    """
    clock = _Clock()
    limit, under_way = AttemptLimit(SLOTS, clock), list[tuple[float, float]]()
    load = ServerLoad(LatencyWatch(clock), lambda: None, limit.grow, lambda: limit.cut(len(under_way), 16))
    history = []
    while clock.now < seconds:
        while len(under_way) < min(limit.allowed, demand(clock.now)):
            took = latency_s(len(under_way) + 1, clock.now)
            heapq.heappush(under_way, (clock.now + took, took))
        clock.now, took = heapq.heappop(under_way)
        load.on_reply(took, tokens)
        history.append(limit.allowed)
    return history


def test_a_server_that_batches_is_not_cut_though_it_answers_more_slowly_with_more_calls() -> None:
    rising = lambda now: 4 if now < 60 else SLOTS  # noqa: E731
    history = simulate(lambda calls, _: 1.0 + 0.05 * calls, 600.0, demand=rising)  # 1.2 s with 4 calls, 4.2 s with 64
    assert set(history) == {SLOTS}


def test_a_server_past_its_knee_is_cut() -> None:
    rising = lambda now: 16 if now < 60 else SLOTS  # noqa: E731
    history = simulate(lambda calls, _: max(1.0, calls / 16), 600.0, demand=rising)
    assert 16 <= min(history) < 24
    assert sum(history[-500:]) / 500 < 48


def test_a_server_that_slows_down_under_others_load_is_cut_to_a_quarter_and_not_below() -> None:
    history = simulate(lambda calls, now: 2.0 if now < 100 else 10.0, 400.0)
    assert history[0] == SLOTS
    assert min(history) == 16
    assert history[-1] == 16


def test_a_server_that_recovers_gets_all_slots_again() -> None:
    history = simulate(lambda calls, now: 10.0 if 100 < now < 300 else 2.0, 800.0)
    assert min(history) == 16
    assert history[-1] == SLOTS


def test_what_is_slow_for_long_is_the_new_measure() -> None:
    history = simulate(lambda calls, now: 2.0 if now < 100 else 10.0, 100.0 + 2 * FORGET_S)
    assert history[-1] == SLOTS


def test_longer_answers_are_not_slower() -> None:
    clock = _Clock()
    watch = LatencyWatch(clock)
    for number in range(400):
        clock.now += 0.5
        tokens = 50 if number < 200 else 1000
        assert not watch.add(tokens / 50, tokens)


def test_answers_without_a_count_of_tokens_are_watched_too() -> None:
    assert min(simulate(lambda calls, now: 2.0 if now < 100 else 10.0, 400.0, tokens=None)) == 16


def test_a_slow_sign_leaves_what_errors_have_cut_further() -> None:
    clock = _Clock()
    limit = AttemptLimit(SLOTS, clock)
    limit.cut(4)
    assert limit.allowed == 2
    clock.now = 10.0
    limit.cut(2, ceil(0.25 * SLOTS))
    assert limit.allowed == 2
