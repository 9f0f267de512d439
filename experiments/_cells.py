"""What the experiments have in common: the shared base of a seed, cells that are run once, and paired comparisons."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from assay.learning.improve import improve
from assay.learning.trainer.improve_report import ImproveReport
from assay.learning.trainer.options import ModelOptions, OptimiserOptions, SftOptions
from assay.learning.trainer.recipe import (
    DemonstrationOptions,
    EvaluationOptions,
    GateOptions,
    ImproveRecipe,
    RolloutOptions,
)
from assay.settings import Settings
from assay.statistics import hierarchical_bootstrap, holm

from ._running import make_parser

__all__ = ["AGENT", "MODEL", "SEEDS", "Cell", "Difference", "Place", "arguments", "base", "compared", "run_cells",
           "told_differences", "write_results"]  # fmt: skip

SEEDS = (1, 2, 3, 4, 5)
AGENT: dict[str, Any] = {"system": "", "nudges": 0, "max_tokens": 24, "seeded": True}
MODEL = ModelOptions(thinking=False, threads=2)
CONCURRENCY = 128
TEACH_STEPS = 120
_MARKS = "<!-- results: {name} -->\n", "<!-- end of results: {name} -->"


class Cell(msgspec.Struct, frozen=True):
    """What one arm came to in one seed. `passed` is the share of passed attempts of each held-out task, in the order of
    their names; what else was measured is in `more`."""

    arm: str
    seed: int
    passed: tuple[float, ...]
    seconds: float
    more: dict[str, float] = {}

    @property
    def success(self) -> float:
        """Mean over tasks."""
        return float(np.mean(self.passed))


class Place(NamedTuple):
    """Where an experiment keeps everything."""

    folder: Path
    settings: Settings

    @classmethod
    def at(cls, folder: Path) -> Place:
        """A folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, Settings(cache=folder / "cache", store=folder / "store"))

    def cell(self, arm: str, seed: int) -> Cell | None:
        """A cell that was run to its end."""
        path = self._path(arm, seed)
        return msgspec.json.decode(path.read_bytes(), type=Cell) if path.is_file() else None

    def keep(self, cell: Cell) -> None:
        """Writes a cell; it is there when it is whole."""
        path = self._path(cell.arm, cell.seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(cell))
        fresh.replace(path)

    def _path(self, arm: str, seed: int) -> Path:
        return self.folder / "cells" / f"{arm}-{seed}.json"


def arguments(doc: str | None, name: str, arms: Sequence[str]) -> argparse.Namespace:
    """Parses the command line that both scripts have."""
    parser = make_parser(doc, seeds=SEEDS, store=False, record=False)
    parser.add_argument("--out", type=Path, default=Path(".experiments") / name, help="where everything is kept")
    parser.add_argument("--arms", nargs="+", default=list(arms), choices=arms, help="run only these")
    parser.add_argument("--report", action="store_true", help="run nothing: analyse what was run")
    parser.add_argument("--document", type=Path, help="with --report: write the results into this page, at their marks")
    return parser.parse_args()


def run_cells(
    place: Place, wanted: Sequence[tuple[str, int]], run_one: Callable[[str, int], Coroutine[Any, Any, Cell]]
) -> None:
    """Runs the cells that are missing, one after the other; killed, it goes on where it was."""
    for number, (arm, seed) in enumerate(wanted, 1):
        if place.cell(arm, seed) is not None:
            continue
        tell(f"[{number}/{len(wanted)}] {arm}, seed {seed}")
        began = time.monotonic()
        cell = asyncio.run(run_one(arm, seed))
        place.keep(msgspec.structs.replace(cell, seconds=round(time.monotonic() - began, 1)))
        tell(f"    took {time.monotonic() - began:.0f} s")


def tell(text: str) -> None:
    """A line for whoever waits."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


async def base(place: Place, seed: int, world: str, *, noise: float) -> ImproveReport:
    """The weights that all arms of a seed begin with: made and taught here, or found as they were left."""
    optimise = OptimiserOptions(learning_rate=2e-3, warmup=5, schedule="cosine")
    recipe = ImproveRecipe(
        name="base",
        seed=seed,
        folder=str(place.folder / "trained"),
        model=MODEL,
        teach=DemonstrationOptions(
            tasks=(f"{world},part=train,n=300,seed={1000 + seed}",),
            agent_options={"noise": noise},
            sft=SftOptions(steps=TEACH_STEPS, batch=16, optimise=optimise),
        ),
        steps=0,
        rollout=RolloutOptions(tasks=(f"{world},part=train",), agent_options=AGENT, concurrency=CONCURRENCY),
        evaluate=EvaluationOptions(tasks=(f"{world},part=test,n=10,seed=5",)),
        gate=GateOptions(better=False),
    )
    return await improve(recipe, place.settings)


class Spread(NamedTuple):
    """A mean and its interval."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """Two arms over the same seeds and tasks."""

    arms: tuple[str, str]
    each: tuple[float, ...]
    """First minus second, seed by seed."""
    mean: Spread
    """Student's interval over the seeds."""
    p: float
    """Of the two-sided paired t-test over seeds; 1 where all differences are 0."""
    bootstrap: tuple[float, float] | None
    """Seeds drawn, then tasks."""


def compared(cells: Mapping[tuple[str, int], Cell], first: str, second: str, confidence: float = 0.95) -> Difference:
    """The paired difference of two arms."""
    from scipy.special import stdtr, stdtrit

    seeds = sorted({seed for arm, seed in cells if arm == first} & {seed for arm, seed in cells if arm == second})
    columns = [np.subtract(cells[first, seed].passed, cells[second, seed].passed).tolist() for seed in seeds]
    each = np.array([np.mean(column) for column in columns])
    mean, error = float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))
    half = float(stdtrit(len(each) - 1, 0.5 + confidence / 2)) * error
    p = 2 * float(stdtr(len(each) - 1, -abs(mean) / error)) if error else float(mean == 0)
    drawn = hierarchical_bootstrap(columns, confidence)
    return Difference(
        (first, second),
        tuple(float(one) for one in each),
        Spread(mean, mean - half, mean + half),
        p,
        None if drawn is None else (drawn.low, drawn.high),
    )


def told_differences(differences: Sequence[Difference], *, tested: bool) -> str:
    """A table; with Holm's correction over its rows where they are tests."""
    adjusted = holm([one.p for one in differences]) if tested else [None] * len(differences)
    head = "| difference | mean | 95% over seeds | 95% bootstrap | each seed |"
    lines = [head + (" p | Holm |" if tested else ""), "|---" * (7 if tested else 5) + "|"]
    for one, corrected in zip(differences, adjusted, strict=True):
        drawn = "-" if one.bootstrap is None else f"{one.bootstrap[0]:+.3f} to {one.bootstrap[1]:+.3f}"
        each = ", ".join(f"{value:+.3f}" for value in one.each)
        line = f"| `{one.arms[0]}` - `{one.arms[1]}` | {one.mean.value:+.3f} "
        line += f"| {one.mean.low:+.3f} to {one.mean.high:+.3f} | {drawn} | {each} |"
        lines.append(line + (f" {one.p:.4f} | {corrected:.4f} |" if tested else ""))
    return "\n".join(lines) + "\n"


def write_results(place: Place, name: str, text: str, cells: Sequence[Cell], document: Path | None) -> None:
    """Writes the analysis beside the cells, and into a page between its marks."""
    (place.folder / "results.md").write_text(text, encoding="utf-8")
    (place.folder / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(list(cells))))
    sys.stdout.write(text)
    if document is not None:
        begin, end = (mark.format(name=name) for mark in _MARKS)
        page = document.read_text(encoding="utf-8")
        found = re.sub(
            f"({re.escape(begin)}).*?({re.escape(end)})", lambda m: m[1] + text + m[2], page, flags=re.DOTALL
        )
        if begin not in page:
            message = f"{document} has no place for the results of {name}: {begin.strip()}"
            raise SystemExit(message)
        fresh = document.with_suffix(".new")
        fresh.write_text(found, encoding="utf-8")
        Path(fresh).replace(document)
