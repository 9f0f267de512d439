"""Does a search over an agent's options find what is better, and does its gate hold? `docs/experiments/evolution.md`.

Three parts, each an ordinary `assay evolve` for several seeds: options of `best-first` in a small budget of acts
against the hand-set ones; a learnt value among its options; and null twins, whose options change the draws and nothing
else.

    python -m experiments.evolution options --record
    python -m experiments.evolution value --record
    python -m experiments.evolution null --record
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from assay.agents.interface import Attempt
from assay.learning.evolution.evolve import EvolveReport, evolve
from assay.learning.evolution.recipe import EvolveRecipe
from assay.learning.trainer.rollouts import complete_run
from assay.learning.values import learn_value
from assay.rollout import RunConfig
from assay.settings import Settings
from experiments._results import Table
from experiments._running import make_parser, open_recording, open_store

WORLD = "family:adventure,rooms=5,locks=1"
ACTS = 60


class CoinAgent:
    """Solves a world or gives up by a coin; its option `draw` changes the coin, not its odds."""

    name = "coin"
    needs_model = False
    takes_advice = True

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
    await complete_run(RunConfig(tasks=tasks, agent="best-first", run=run, seed=seed), settings)
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


def decision_cells(found: EvolveReport) -> list[str]:
    """Returns what the search claimed of the present configuration and the winner, as `0.167 to 0.800`, what the gate
    measured on held-out tasks, and its decision."""
    rates = ("-" if one is None else f"{one[0]:.3f} to {one[1]:.3f}" for one in (found.claimed, found.held_out))
    return [*rates, "accepted" if found.accepted else "refused"]


def _winner(found: EvolveReport) -> str:
    changed = {name: value for name, value in found.winner.items() if found.base.get(name) != value}
    if not changed:
        return "the base"
    return ", ".join("the learnt value" if name == "value" else f"{name}={one}" for name, one in changed.items())


def make_table(seeds: Sequence[int], found: Sequence[EvolveReport]) -> Table:
    """Returns the searches, a row each."""
    rows = [[str(seed), _winner(one), *decision_cells(one)] for seed, one in zip(seeds, found, strict=True)]
    return Table(["seed", "winner", "claimed by the search", "on held-out tasks", "decision"], rows)


def sum_searches(found: Sequence[EvolveReport]) -> Table:
    """Returns what the searches came to together."""
    claims = [one.claimed[1] - one.claimed[0] for one in found]
    gates = [one.held_out[1] - one.held_out[0] for one in found if one.held_out is not None]
    rows = [
        ["searches", str(len(found))],
        ["claimed gain, mean", f"{fmean(claims):+.3f}"],
        ["gates", str(len(gates))],
        ["gain on held-out tasks, mean over the gates", f"{fmean(gates):+.3f}" if gates else "-"],
        ["refused", str(sum(not one.accepted for one in found))],
    ]
    return Table(["all searches", "measured"], rows)


PARTS = {"options": (_options, range(1, 6)), "value": (_value, range(1, 6)), "null": (_null, range(1, 41))}
"""Parts with their seeds."""


def main() -> None:
    """Runs one part for each seed."""
    given = make_parser(__doc__, list(PARTS), ()).parse_args()
    run, seeds = PARTS[given.part]
    recording = open_recording(f"evolution-{given.part}", f"evolution {given.part}", given, __doc__, seeds)
    found = []
    with open_store(given.store) as settings:
        for seed in recording.seeds:
            found.append(asyncio.run(run(seed, settings)))
            print(f"seed {seed}: {_winner(found[-1])}, {found[-1].accepted}", flush=True)
    recording.write({"searches": make_table(recording.seeds, found), "together": sum_searches(found)})


if __name__ == "__main__":
    main()
