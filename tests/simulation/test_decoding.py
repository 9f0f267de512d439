"""Model servers in virtual time against times that follow from the costs, and policies of drafts against each other."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.simulation.cluster import SimulationConfig, simulate
from tests.simulation.decoding import Adaptive, Costs, Decoding, ModelServer, speculation_named, tokens_a_step
from tests.simulation.virtual_time import run_virtual

COSTS = Costs()


def _times(decoding: Decoding, acceptance: float, alone_s: list[float]) -> list[float]:
    """Returns when each of several sequences that begin together ends."""

    async def generate() -> list[float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        server = ModelServer(COSTS, speculation_named(decoding, COSTS), acceptance, random.Random(1))

        async def one(wait_s: float) -> float:
            await server.generate(wait_s)
            return loop.time() - began

        return list(await asyncio.gather(*map(one, alone_s)))

    return run_virtual(generate())


def test_sequences_take_the_time_that_follows_from_the_costs() -> None:
    assert _times("plain", 0.7, [10.0]) == pytest.approx([10.0])
    assert _times("plain", 0.7, [10.0, 30.0]) == pytest.approx([10.0, 30.0]), "reading weights serves both"
    full = round(COSTS.weights_s / COSTS.token_s)
    assert _times("plain", 0.7, [10.0] * 2 * full) == pytest.approx([20.0] * 2 * full), "arithmetic is the bound"
    rate = tokens_a_step(0.7, 4) / COSTS.step_s(1, 4) * COSTS.weights_s
    assert _times("drafts of 4", 0.7, [10.0]) == pytest.approx([10.0 / rate])


def test_rates_follow_the_sequences_that_are_left() -> None:
    full = round(COSTS.weights_s / COSTS.token_s)
    times = _times("plain", 0.7, [10.0] * full + [30.0] * full)
    assert times[0] == pytest.approx(20.0)
    assert times[-1] == pytest.approx(40.0), "half of the load is gone for the last 20 s"


def test_a_sequence_that_is_given_up_takes_no_share() -> None:
    async def generate() -> float:
        loop = asyncio.get_running_loop()
        server = ModelServer(COSTS, speculation_named("plain", COSTS), 0.7, random.Random(1))
        others = [loop.create_task(server.generate(1_000.0)) for _ in range(399)]
        first = loop.create_task(server.generate(10.0))
        await asyncio.sleep(2.0)
        for other in others:
            other.cancel()
        await first
        return loop.time()

    assert run_virtual(generate()) == pytest.approx(11.0), "2 s at half the rate, then alone"


@pytest.mark.parametrize("acceptance", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("batch", [1, 16, 64, 256])
def test_a_length_by_load_and_acceptance_is_no_slower_than_any_fixed_one(batch: int, acceptance: float) -> None:
    drawn = random.Random(batch)
    alone_s = [100.0 * drawn.lognormvariate(0.0, 0.6) for _ in range(batch)]
    adaptive, plain, fixed = (sum(_times(name, acceptance, alone_s)) for name in ("adaptive", "plain", "drafts of 4"))
    assert adaptive <= 1.02 * min(plain, fixed)


def test_nothing_is_drafted_where_arithmetic_is_the_bound() -> None:
    policy = Adaptive(COSTS)
    policy.observe(1_000.0, 700.0)
    lengths = [policy.drafted(batch) for batch in (1, 32, 64, 128, 256, 512)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] >= 3
    assert lengths[-2:] == [0, 0]


def test_runs_under_faults_end_sooner_and_are_as_whole() -> None:
    config = SimulationConfig(slots=256, attempts=2_000, seed=1)
    found = {}
    for name in ("plain", "drafts of 4", "adaptive"):
        result = simulate(SimulationConfig(slots=256, attempts=2_000, seed=1, decoding=name))
        assert result.problems == 0
        found[name] = result.virtual_s
    assert simulate(config).problems == 0
    assert found["adaptive"] < found["drafts of 4"] < found["plain"]
