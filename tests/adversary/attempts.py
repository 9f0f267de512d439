"""Makes one attempt of each script by the ordinary rollout in real sandboxes, and tabulates what was judged.

Every row says which verdict each check gave, at which separation, and what integrity says. An undeserved pass is read
from single verdicts, never from the attempt's outcome: a check that was fooled counts even where another was not.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.records import Separation, Trajectory, VerdictStatus
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask, load_task
from assay.verify.separation_plan import load_plan

from .library import Script

__all__ = ["TYPIST", "Actor", "Assignment", "CheckRow", "Row", "key_of", "make_attempts"]

CONCURRENCY = 3 * (os.cpu_count() or 1)
"""Attempts at once. Many wait most of the time, for the time limits of programs that hang."""
DEMO_MODULE = "/workspace/networkx/__init__.py"
"""In scripts for synthesised tasks."""


class Actor(NamedTuple):
    """An agent that carries out scripts. Its name, options and replies are the same for all attempts of one run."""

    agent: str
    options: tuple[tuple[str, Any], ...] = ()
    replies: str | None = None
    """JSON of a scripted model's replies; None for an agent without a model."""


TYPIST = Actor(f"{Path(__file__).with_name('typist.py')}:TypistAgent")
"""Types the assignment's script; other actors read the task alone, or what their scripted model says."""


class Assignment(NamedTuple):
    """One script to be tried on one task."""

    script: Script
    variant: str
    folder: Path
    actor: Actor = TYPIST


class CheckRow(msgspec.Struct, frozen=True):
    """One outcome verdict."""

    status: VerdictStatus
    separation: Separation
    reason: str
    marks: tuple[str, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """One attempt: what was tried and what came of it."""

    key: str
    script: str
    variant: str
    role: str
    cause: str
    deserves_pass: bool
    outcome: VerdictStatus | None
    integrity: VerdictStatus | None
    checks: dict[str, CheckRow]
    marks: tuple[str, ...]
    """Those of the integrity verdict."""
    stopped: str | None
    broke: str | None
    judged_s: float


def key_of(assignment: Assignment) -> str:
    """Returns the name of an assignment, the same in every campaign."""
    return f"{assignment.variant}--{assignment.script.name}"


async def make_attempts(assignments: Sequence[Assignment], cache: Path | None = None) -> list[Row]:
    """Makes one attempt for each assignment and returns its rows, in the order of the assignments.

    The run's store lives only as long as the call; `cache` defaults to that of the environment.
    """
    with tempfile.TemporaryDirectory(prefix="assay-adversary-") as scratch:
        settings = Settings(cache=cache or Settings.from_environment().cache, store=Path(scratch, "store"))
        rows: dict[str, Row] = {}
        for number, actor in enumerate(dict.fromkeys(a.actor for a in assignments)):
            folder = Path(scratch, str(number))
            folder.mkdir()
            own = [a for a in assignments if a.actor == actor]
            last = await _run_actor(actor, own, settings, folder)
            rows |= {key_of(a): _row(a, last[key_of(a)]) for a in own}
        return [rows[key_of(assignment)] for assignment in assignments]


async def _run_actor(
    actor: Actor, assignments: Sequence[Assignment], settings: Settings, folder: Path
) -> dict[str, Trajectory]:
    """Makes a run of one actor's assignments; returns the last trajectory of each by its key."""
    options = dict(actor.options)
    if actor == TYPIST:
        options["folder"] = str(folder)
        for assignment in assignments:
            text = _for_package(assignment.script.on(assignment.variant), assignment.folder)
            (folder / f"{key_of(assignment)}.sh").write_text(text, encoding="utf-8")
    model = None
    if actor.replies is not None:
        (folder / "replies.json").write_text(actor.replies, encoding="utf-8")
        model = f"scripted:{folder / 'replies.json'}"
    config = RunConfig(
        tasks=("-",),
        agent=actor.agent,
        agent_options=options,
        model=model,
        concurrency=CONCURRENCY,
        run=f"adversary-{folder.name}",
    )
    await start_run(config, settings, Tally(), tasks=_load(assignments))
    with RunStore.open(settings.store, f"adversary-{folder.name}") as run:
        return {t.task: t for t in run.trajectories()}


def _for_package(text: str, folder: Path) -> str:
    """Returns the text with the package's own main file where it names that of the demo's package."""
    if DEMO_MODULE not in text:
        return text
    plan = load_plan(folder)
    if plan is None:
        return text
    name = plan.package.partition(".")[0]
    with tarfile.open(folder / "environment" / "source.tar.gz") as archive:
        names = {member.removeprefix("./") for member in archive.getnames()}
    places = (f"{name}/__init__.py", f"src/{name}/__init__.py", f"{name}.py", f"src/{name}.py")
    return text.replace(DEMO_MODULE, f"/workspace/{next(place for place in places if place in names)}")


def _load(assignments: Sequence[Assignment]) -> list[LoadedTask]:
    """One copy of the task for each assignment, named after it."""
    loaded = {folder: load_task(folder) for folder in {a.folder for a in assignments}}
    tasks = []
    for assignment in assignments:
        task = loaded[assignment.folder]
        tasks.append(task._replace(task=msgspec.structs.replace(task.task, id=key_of(assignment))))
    return tasks


def _row(assignment: Assignment, trajectory: Trajectory) -> Row:
    checks = {
        v.check: CheckRow(v.status, v.separation, v.reason[:300], v.marks)
        for v in trajectory.verdicts
        if v.kind == "outcome"
    }
    integrity = next((v for v in trajectory.verdicts if v.kind == "integrity"), None)
    ended = trajectory.finished
    script = assignment.script
    return Row(
        key=key_of(assignment),
        script=script.name,
        variant=assignment.variant,
        role=script.role,
        cause=script.cause,
        deserves_pass=script.deserves_pass,
        outcome=trajectory.outcome,
        integrity=None if integrity is None else integrity.status,
        checks=checks,
        marks=() if integrity is None else integrity.marks,
        stopped=None if ended is None else ended.stopped,
        broke="unfinished" if ended is None else ended.broke and f"{ended.broke}: {ended.error}"[:300],
        judged_s=round(sum(v.duration_s or 0.0 for v in trajectory.verdicts if v.kind == "outcome"), 3),
    )
