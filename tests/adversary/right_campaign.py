"""Other right solutions of synthesised tasks: those that the tests pass in process must pass judged from outside.

Each is tried first on a copy of the task without its separation plan. What passes there is right by the tests, and is
then judged with the plan: anything but a pass at `separate` is a refusal. The result is written anew after every batch.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from assay.verify.separation_plan import PLAN_PATH

from .attempts import Assignment, Row
from .bar import summarize_right
from .campaign import BATCH, Campaign, make_rows, write_result
from .library import Script
from .releases import download_releases, solutions_from_release
from .rewriting import Rewritten, rewrite_task
from .synthesised import RepairTask, script_of_edits
from .written import written_solutions, written_tasks

__all__ = ["RightCampaign", "right_solutions", "run_right_campaign"]

RELEASED_EACH = 4
"""Solutions from other releases for each task, at most."""


class RightCampaign(NamedTuple):
    """The attempts to make and the file for the result."""

    seed: int
    folders: tuple[Path, ...]
    each: int
    """Rewrites for each task, at most."""
    out: Path
    cache: Path
    """Where other releases are kept."""
    only: str = ""
    """Text that the names of solutions hold."""


def right_solutions(
    task: RepairTask, chance: random.Random, each: int, releases: dict[str, dict[str, str]]
) -> tuple[Rewritten, ...]:
    """Returns the solutions of one task that differ: written ones, from other releases, and a draw of rewrites."""
    released = [s for version, files in releases.items() for s in solutions_from_release(task, version, files)]
    chance.shuffle(released)
    seen = {_key(task.repaired)}
    chosen: list[Rewritten] = []
    sources = ((written_solutions(task), 1000), (released, RELEASED_EACH), (rewrite_task(task, chance), each))
    for solutions, most in sources:
        left = most
        for solution in solutions:
            if not left:
                break
            if _key(solution.files) not in seen:
                seen.add(_key(solution.files))
                chosen.append(solution)
                left -= 1
    return tuple(chosen)


def _key(files: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(files.items()))


def run_right_campaign(campaign: RightCampaign, say: Callable[[str], None]) -> dict[str, Any]:
    """Tries every solution in process, and with the plan where it passes; writes the result and returns it."""
    absent = sorted(written_tasks() - {folder.name for folder in campaign.folders})
    if absent:
        say(f"solutions were written for tasks that were not handed in: {', '.join(absent)}")
    copies = campaign.out.parent / f"{campaign.out.stem}.tasks"
    folders = {folder.name: folder for folder in campaign.folders}
    tried: list[Row] = []
    judged: list[Row] = []
    result: dict[str, Any] = {}
    try:
        for batch in _batches(_plain_assignments(campaign, copies, say)):
            made = make_rows(Campaign(campaign.seed, batch, campaign.out), say)
            right = [a for a, row in zip(batch, made, strict=True) if row.outcome == "pass"]
            planned = tuple(a._replace(variant=a.folder.name, folder=folders[a.folder.name]) for a in right)
            whole = Campaign(campaign.seed, planned, campaign.out)
            tried += made
            judged += make_rows(whole, say)
            result = write_result(whole, judged, partial(summarize_right, tried))
    finally:
        shutil.rmtree(copies, ignore_errors=True)
    return result or {"breaches": [], "honest_breaches": ["no solution was tried"]}


def _batches(assignments: Iterator[Assignment]) -> Iterator[tuple[Assignment, ...]]:
    while batch := tuple(itertools.islice(assignments, BATCH)):
        yield batch


def _plain_assignments(campaign: RightCampaign, copies: Path, say: Callable[[str], None]) -> Iterator[Assignment]:
    """Yields an attempt for each solution, on copies of the tasks without separation plans."""
    packages: dict[str, dict[str, dict[str, str]]] = {}
    for folder in _with_plans(campaign.folders, say):
        task = RepairTask(folder)
        package = task.plan.package
        if package not in packages:
            packages[package] = download_releases(package, campaign.cache, say)
        copy = copies / folder.name
        shutil.rmtree(copy, ignore_errors=True)  # of a campaign that was stopped
        shutil.copytree(folder, copy)
        (copy / PLAN_PATH).unlink()
        chance = random.Random(f"{campaign.seed}-{folder.name}")
        for solution in right_solutions(task, chance, campaign.each, packages[package]):
            if campaign.only not in solution.name:
                continue
            text = script_of_edits(task.broken, solution.files)
            source = solution.name.partition("-")[0]
            cause = source if source in ("written", "release") else "rewrite"
            variant = f"plain-{folder.name}"
            yield Assignment(Script(solution.name, "right", (variant,), text, "", cause), variant, copy)


def _with_plans(folders: Sequence[Path], say: Callable[[str], None]) -> Iterator[Path]:
    for folder in folders:
        if (folder / PLAN_PATH).is_file() and (folder / "solution" / "fix.json").is_file():
            yield folder
        else:
            say(f"{folder.name} has no separation plan or no repair by spans, and is left out")
