"""`python -m tests.simulation --slots N --attempts N --seeds N --out JSON`: simulates runs on many nodes, seed by seed.

Exit code 0 where each seed has 0 attempts missing, 0 counted twice and every superseded trial stored; else 1. The
result says whether the CPU time an attempt is within its bar of 100 microseconds; it depends on what else the machine
does, so a reference is measured beside it. Seeds that the file holds already, of the same size and the same code, are
not run again. This is a simulation under virtual time in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec

from assay.records import digest_bytes
from assay.rollout.cluster import (
    agent,
    commits,
    coordinator,
    epochs,
    objects,
    patient_store,
    placement,
    run_state,
    transport,
)
from assay.rollout.schedule import allocation, policies

from .cluster import SimulationConfig, SimulationResult, simulate
from .decoding import Decoding
from .virtual_time import run_virtual

MOST_CPU_US = 100.0
SIMULATED = (
    *(agent, commits, coordinator, epochs, objects, patient_store, placement, run_state, transport),
    *(allocation, policies),
)
"""The code that runs in a simulation."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the simulations and prints a line for each; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slots", type=int, default=10_048)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--slots-per-node", type=int, default=64)
    parser.add_argument("--decoding", choices=get_args(Decoding), help="how the model server of a node decodes")
    parser.add_argument("--out", type=Path, help="the result, a JSON file")
    given = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    results = read_results(given.out, given.slots, given.attempts, seeds)
    for seed in seeds:
        if seed in {result.seed for result in results}:
            continue
        size = {"slots": given.slots, "slots_per_node": given.slots_per_node, "attempts": given.attempts}
        result = simulate(SimulationConfig(**size, seed=seed, decoding=given.decoding))
        results.append(result)
        sys.stdout.write(f"{line(result)}\n")
        sys.stdout.flush()
        if given.out is not None:
            given.out.write_text(json.dumps(summarize(results), indent=2) + "\n", encoding="utf-8")
    results.sort(key=lambda result: result.seed)
    found = summarize(results)
    for name in ("each attempt is decided once", "cpu within bar"):
        sys.stdout.write(f"{name}: {'yes' if found[name] else 'NO'}\n")
    return 0 if found["each attempt is decided once"] else 1


def read_results(out: Path | None, slots: int, attempts: int, seeds: Sequence[int]) -> list[SimulationResult]:
    """Returns the results of these seeds that a file holds, of runs of this size and of the same code."""
    if out is None or not out.is_file():
        return []
    found = json.loads(out.read_bytes())
    if found.get("code") != code_digest():
        return []
    results = msgspec.convert(found["seeds"], list[SimulationResult])
    return [one for one in results if (one.slots, one.attempts) == (slots, attempts) and one.seed in seeds]


def code_digest() -> str:
    """Returns a digest of the simulation and of the code that it runs."""
    own = [path for path in sorted(Path(__file__).parent.glob("*.py")) if not path.name.startswith("test_")]
    paths = [*own, *(Path(module.__file__) for module in SIMULATED)]
    return digest_bytes(b"".join(path.read_bytes() for path in paths))


def line(result: SimulationResult) -> str:
    """Returns a result as one line."""
    return (
        f"seed {result.seed}: {result.missing} missing, {result.twice} counted twice, {result.superseded} superseded "
        f"({result.not_stored} not stored), {result.rerun} run again, {result.lost_answers} lost answers, "
        f"{result.nodes_lost} nodes lost, {result.coordinators} coordinators, {result.rounds} rounds, "
        f"{result.virtual_s / 3600:.2f} virtual hours, {result.cpu_us_an_attempt:.0f} us CPU an attempt"
    )


def summarize(results: list[SimulationResult]) -> dict[str, Any]:
    """Returns the results of all seeds and whether they meet the bar."""
    cpu = [result.cpu_us_an_attempt for result in results]
    return {
        "what": "a simulation under virtual time in one process; no real node, network or object store took part",
        "code": code_digest(),
        "each attempt is decided once": all(result.problems == 0 for result in results),
        "cpu within bar": statistics.median(cpu) <= MOST_CPU_US,
        "cpu_us_of_one_virtual_sleep": round(reference_us(), 1),
        "cpu_us_an_attempt": {"median": round(statistics.median(cpu), 1), "highest": round(max(cpu), 1)},
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "seeds": [msgspec.to_builtins(result) for result in results],
    }


def reference_us() -> float:
    """Returns the CPU time of one `asyncio.sleep` under virtual time, in microseconds."""

    async def sleep_often() -> None:
        for _ in range(20_000):
            await asyncio.sleep(1.0)

    began = time.process_time()
    run_virtual(sleep_often())
    return (time.process_time() - began) / 20_000 * 1e6


if __name__ == "__main__":
    sys.exit(main())
