"""Does a search over an agent's options find what is better, and does its gate hold? `docs/experiments/evolution.md`.

Three parts, each an ordinary `assay evolve` for several seeds: options of `best-first` in a small budget of acts
against the hand-set ones; a learnt value among its options; and null twins, whose options change the draws and nothing
else.

    python -m experiments.evolution options
    python -m experiments.evolution value
    python -m experiments.evolution null --seeds 1 2 3 ...
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from assay.agents.interface import Attempt
from assay.learning.evolution.evolve import EvolveReport, evolve
from assay.learning.evolution.recipe import EvolveRecipe
from assay.learning.values import learn_value
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings

WORLD = "family:adventure,rooms=5,locks=1"
ACTS = 60


class CoinAgent:
    """Solves a world or gives up by a coin; its option `draw` changes the coin, not its odds."""

    name = "coin"
    needs_model = False

    def __init__(self, draw: int = 0) -> None:
        self._draw = draw

    async def run(self, attempt: Attempt) -> None:
        """Follows the world's advice on heads."""
        if random.Random(f"{attempt.seed}/{self._draw}").random() < 0.5:
            while attempt.ended is None:
                await attempt.act([attempt.tools.advice()])  # type: ignore[attr-defined]
        else:
            attempt.finish("tails")


def _recipe(part: str, seed: int, **fields: Any) -> EvolveRecipe:
    base = {
        "name": f"{part}-{seed}",
        "agent": "best-first",
        "search": {"tasks": [f"{WORLD},n=60,seed={seed * 10 + 1}"], "seed": seed},
        "gate": {"tasks": [f"{WORLD},n=200,seed={seed * 10 + 2}"], "seed": seed},
    }
    return msgspec.convert({**base, **fields}, EvolveRecipe)


async def _options(seed: int, settings: Settings) -> EvolveReport:
    base = {"value": "novelty", "acts": ACTS, "open_nodes": 500}
    space = {"open_nodes": [1, 3, 10, 30, 100, 500]}
    return await evolve(_recipe("options", seed, base=base, space=space), settings)


async def _value(seed: int, settings: Settings) -> EvolveReport:
    run, file = f"explored-{seed}", settings.store / f"value-{seed}.json"
    tasks = (f"{WORLD},n=100,seed={seed * 10 + 3}",)
    await start_run(RunConfig(tasks=tasks, agent="best-first", run=run, seed=seed), settings, Tally())
    file.write_bytes(msgspec.json.encode(learn_value([run], settings, 0.9).value))
    base = {"value": "novelty", "acts": ACTS, "open_nodes": 500}
    space = {"value": ["novelty", str(file)], "open_nodes": [3, 30, 500]}
    return await evolve(_recipe("value", seed, base=base, space=space), settings)


async def _null(seed: int, settings: Settings) -> EvolveReport:
    grid = "family:grid,size=4"
    fields = {
        "agent": f"{Path(__file__).resolve()}:CoinAgent",
        "search": {"tasks": [f"{grid},n=20,seed={seed * 10 + 1}"], "seed": seed},
        "gate": {"tasks": [f"{grid},n=40,seed={seed * 10 + 2}"], "seed": seed},
    }
    return await evolve(_recipe("null", seed, base={"draw": 0}, space={"draw": list(range(10))}, **fields), settings)


def main() -> None:
    """Runs one part for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"options": _options, "value": _value, "null": _null}
    parser.add_argument("part", choices=list(parts))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    given = parser.parse_args()
    print(
        "| seed | winner | claimed by the search | on held-out tasks | decision |\n|---:|---|---:|---:|---|", flush=True
    )
    accepted = 0
    with tempfile.TemporaryDirectory() as scratch:
        settings = msgspec.structs.replace(Settings.from_environment(), store=Path(scratch))
        for seed in given.seeds:
            found = asyncio.run(parts[given.part](seed, settings))
            accepted += found.accepted
            changed = {k: Path(str(v)).stem for k, v in found.winner.items() if found.base.get(k) != v}
            winner = ", ".join(f"{name}={value}" for name, value in changed.items()) or "the base"
            held = "-" if found.held_out is None else f"{found.held_out[0]:.3f} to {found.held_out[1]:.3f}"
            claim = f"{found.claimed[0]:.3f} to {found.claimed[1]:.3f}"
            print(f"| {seed} | {winner} | {claim} | {held} | {_decision(found)} |", flush=True)
    print(f"\n{accepted} of {len(given.seeds)} accepted")


def _decision(found: EvolveReport) -> str:
    return "accepted" if found.accepted else "refused"


if __name__ == "__main__":
    main()
