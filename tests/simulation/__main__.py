"""`python -m tests.simulation --slots N --attempts N --seeds N --out JSON`: simulates runs on many nodes, seed by seed.

Exit code 0 where each seed has 0 attempts missing, 0 counted twice and every superseded trial stored, at 100
microseconds of CPU an attempt or less; else 1. This is a simulation under virtual time in one process.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import statistics
import sys
from pathlib import Path
from typing import Any

import msgspec

from .cluster import SimulationConfig, SimulationResult, simulate

MOST_CPU_US = 100.0


def main(arguments: list[str] | None = None) -> int:
    """Runs the simulations and prints a line for each; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slots", type=int, default=10_048)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="the result, a JSON file")
    given = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    results = []
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        result = simulate(SimulationConfig(slots=given.slots, attempts=given.attempts, seed=seed))
        results.append(result)
        sys.stdout.write(f"{line(result)}\n")
        sys.stdout.flush()
    found = summarize(results)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{'the bar is met' if found['met'] else 'THE BAR IS NOT MET'}\n")
    return 0 if found["met"] else 1


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
        "met": all(result.problems == 0 for result in results) and statistics.median(cpu) <= MOST_CPU_US,
        "cpu_us_an_attempt": {"median": round(statistics.median(cpu), 1), "highest": round(max(cpu), 1)},
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "seeds": [msgspec.to_builtins(result) for result in results],
    }


if __name__ == "__main__":
    sys.exit(main())
