"""The simulation in each CI run, and proofs that it can fail."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.sampling import WHOLE
from tests.simulation.__main__ import main, read_results
from tests.simulation.cluster import SimulationConfig, simulate
from tests.simulation.machine import FaultMachine, MistakenMachine

CI = SimulationConfig(slots=2_048, attempts=20_000, seed=1)
"""About 2 s of CPU."""
ONE_NODE = SimulationConfig(
    slots=8,
    slots_per_node=8,
    attempts=400,
    median_s=20.0,
    wall_s=120.0,
    node_lost_s=60.0,
    zombies=1.0,
    coordinator_dead_s=200.0,
    second_coordinator_s=30.0,
    outage_s=600.0,
    lost=0.05,
    lost_messages=0.05,
)
"""One node whose link is often cut, and coordinators that often overlap: the same node runs attempts again."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.long
def test_thousands_of_attempts_under_faults_are_each_decided_once() -> None:
    result = simulate(CI)
    assert (result.missing, result.twice, result.not_stored) == (0, 0, 0)
    assert min(result.superseded, result.rerun, result.lost_answers, result.retried, result.interrupted) > 0
    assert result.coordinators > 1
    assert result.nodes_lost > 10


def test_a_seed_gives_one_result() -> None:
    config = SimulationConfig(slots=64, slots_per_node=8, attempts=200, seed=3)
    first, second = (msgspec.structs.replace(simulate(config), cpu_s=0.0) for _ in range(2))
    assert first == second


def test_a_campaign_goes_on_with_the_seeds_that_are_missing(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    words = ["--slots", "64", "--attempts", "60", "--out", str(out), "--seeds"]
    assert main([*words, "1"]) == 0
    (first,) = json.loads(out.read_bytes())["seeds"]
    assert main([*words, "2"]) == 0
    found = json.loads(out.read_bytes())
    assert [one["seed"] for one in found["seeds"]] == [0, 1]
    assert found["seeds"][0] == first, "the CPU time shows that it was not run again"
    out.write_text(json.dumps({**found, "code": "of another version"}))
    assert read_results(out, 64, 60, [0, 1]) == []


@pytest.mark.long
def test_a_token_per_session_counts_attempts_twice() -> None:
    counted = 0
    for seed in range(1, 8):
        mistaken = msgspec.structs.replace(ONE_NODE, seed=seed, mistake="session token")
        counted += simulate(mistaken).twice
        if counted:
            assert simulate(msgspec.structs.replace(ONE_NODE, seed=seed)).problems == 0
            return
    pytest.fail("a token per session was not found")


@pytest.mark.long
def test_a_refused_create_taken_for_a_win_counts_attempts_twice() -> None:
    config = SimulationConfig(slots=256, attempts=2_000, seed=1, mistake="refused create wins")
    assert simulate(config).twice > 0


def _settings(examples: int, *phases: Phase) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        database=None,
        derandomize=True,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.long
def test_no_schedule_of_faults_loses_or_repeats_an_attempt() -> None:
    run_state_machine_as_test(FaultMachine, settings=_settings(2_000 if WHOLE else 60, *Phase))


def test_a_mistaken_protocol_is_found_by_some_schedule() -> None:
    phases = tuple(Phase) if WHOLE else (Phase.generate,)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(MistakenMachine, settings=_settings(300, *phases))


def _run_shrunk_schedule(machine: FaultMachine) -> None:
    """Runs the schedule that hypothesis shrank the mistake to."""
    machine.begin()
    machine.preempt_node(0)
    machine.start_coordinator()
    machine.toggle_link(1)
    machine.wait(35.0)
    machine.teardown()


def test_the_shrunk_schedule_fails_with_the_mistake_alone() -> None:
    _run_shrunk_schedule(FaultMachine())
    with pytest.raises(AssertionError):
        _run_shrunk_schedule(MistakenMachine())
