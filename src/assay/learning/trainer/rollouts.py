"""The attempts that training learns from and is judged by: ordinary runs in the store, asked of the policy in training.

A run that was cut is finished, and one that is finished is not made again, so what a training has tried survives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.analysis.columns import measure_attempts
from assay.errors import AssayError
from assay.gateway.tokens import RenderedBackend
from assay.learning.reading import Reader, RowsConfig
from assay.learning.rows import TrainingRow
from assay.records import Separation, digest_bytes
from assay.rollout.config import RunConfig
from assay.rollout.progress import Tally
from assay.rollout.runs import resume_run, start_run
from assay.settings import Settings
from assay.statistics import TaskCount, count_by_task
from assay.store import AttemptRow, RunStore, deciding, list_runs, standing
from assay.tasks import LoadedTask, find_tasks
from assay.verdicts import meets

from .options import Keep
from .policy import Policy
from .sft import drawn

__all__ = ["Lost", "Tasks", "TrainingStoppedError", "finished_run", "kept", "longest_loss", "lost", "require_moving",
           "rows_of", "tasks_of_step", "tries_of"]  # fmt: skip

HUNG = "wall_s"
UNMOVED = 3
"""Steps in a row whose replies came from the same weights although the trainer's moved, before training stops."""


class TrainingStoppedError(AssayError):
    """Training cannot go on in good faith; what was done so far stays, and the message says what to look at."""


class Lost(NamedTuple):
    """An attempt that says nothing about the policy."""

    attempt: str
    reason: str


async def finished_run(
    config: RunConfig,
    settings: Settings,
    backend: RenderedBackend | None = None,
    tasks: Sequence[LoadedTask] | None = None,
) -> list[AttemptRow]:
    """The attempts of a run that is now complete, whether it was made before, is finished here or made here.

    Args:
        config: With its name in `run`.
        settings: Where the store is.
        backend: The policy; None for agents without a model.
        tasks: The tasks themselves; None: those that `config` names.
    """
    run, store = config.run or "", settings.store
    if run not in list_runs(store):
        await start_run(config, settings, Tally(), tasks=tasks, backend=backend)
    else:
        with RunStore.open(store, run) as opened:
            found = deciding(opened.attempts())
        planned = len(tasks if tasks is not None else find_tasks(config.tasks)) * config.attempts
        if len(found) < planned:
            await resume_run(run, settings, Tally(), tasks=tasks, backend=backend)
    with RunStore.open(store, run) as opened:
        return deciding(opened.attempts())


class Tasks(NamedTuple):
    """Tasks, and the names under which they are found again."""

    names: tuple[str, ...]
    loaded: tuple[LoadedTask, ...]


def tasks_of_step(sources: Sequence[str], groups: int, step: int, seed: int) -> Tasks:
    """The tasks of one step: new ones of families that leave `n` and `seed` open, others in turn."""
    if all(source.startswith("family:") and ",n=" not in source and ",seed=" not in source for source in sources):
        counts = [len(range(place, groups, len(sources))) for place in range(len(sources))]
        number = int(digest_bytes(f"{seed}/{step}".encode()).removeprefix("blake3:")[:8], 16)
        named = tuple(f"{s},n={n},seed={number}" for s, n in zip(sources, counts, strict=True) if n)
        return Tasks(named, find_tasks(named))
    every = find_tasks(sources)
    chosen = drawn(len(every), min(groups, len(every)), step, seed)
    return Tasks(tuple(sources), tuple(every[place] for place in sorted(set(chosen))))


def lost(rows: Sequence[AttemptRow]) -> list[Lost]:
    """Attempts that hung or broke, in the order in which attempts ended."""
    found: list[Lost] = []
    for row in sorted(rows, key=lambda row: row.finished or 0.0):
        reason = _why_lost(row)
        if reason is not None:
            found.append(Lost(row.attempt, reason))
    return found


def longest_loss(rows: Sequence[AttemptRow]) -> list[Lost]:
    """The longest line of attempts, in the order in which they ended, that were all lost."""
    longest: list[Lost] = []
    line: list[Lost] = []
    for row in sorted(rows, key=lambda row: row.finished or 0.0):
        reason = _why_lost(row)
        line = [] if reason is None else [*line, Lost(row.attempt, reason)]
        longest = max(longest, line, key=len)
    return longest


def require_moving(answered: Sequence[str], history: Sequence[str]) -> None:
    """Stops where the weights behind the replies never move although the trainer's do.

    Args:
        answered: The newest version behind each step's replies, oldest first.
        history: The trainer's versions, oldest first.

    Raises:
        TrainingStoppedError: The last steps' replies all came from one version, while the trainer had others.
    """
    last, ours = answered[-UNMOVED:], history[-UNMOVED:]
    if len(last) == UNMOVED and len(set(last)) == 1 and len(set(ours)) == len(ours) == UNMOVED:
        raise TrainingStoppedError(
            f"the replies of {UNMOVED} steps came from the same weights ({last[-1]}) while the trainer's moved on to "
            f"{ours[-1]}: the model that is asked is not the one that is trained"
        )


def _why_lost(row: AttemptRow) -> str | None:
    if row.broke is not None:
        return f"broke: {row.broke}"
    return "hung" if row.stopped == HUNG else None


def rows_of(
    settings: Settings,
    run: str,
    policy: Policy,
    *,
    rendered: bool = False,
    roles: bool = False,
    system: str | None = None,
) -> list[TrainingRow]:
    """The training rows of a run, its chains checked.

    Args:
        settings: Where the store is.
        run: Its name.
        policy: Whose tokens they are.
        rendered: Whether attempts without tokens are rendered.
        roles: Whether each token's role is needed.
        system: The system prompt told to rendered attempts.
    """
    options = policy.options
    config = RowsConfig(
        model=str(policy.folder) if rendered or roles else None,
        renderer=options.renderer,
        thinking=options.thinking,
        rendered=rendered,
        system=system,
    )
    with Reader.opened(settings.store, run, config) as reader:
        return [row for trajectory in reader.trajectories() for row in reader.rows(trajectory)]


def kept(rows: Sequence[TrainingRow], keep: Keep) -> list[TrainingRow]:
    """The rows that are learned from. See `Keep`."""
    if keep == "passed":
        return [row for row in rows if row.outcome == "pass"]
    if keep == "card":
        return [row for row in rows if row.verified_pass]
    return [row for row in rows if row.outcome in ("pass", "fail")]


def meets_requirement(row: TrainingRow, require: Separation) -> bool:
    """Returns whether a row may be learned from: it is no pass, or a pass of at least the required grade."""
    return row.outcome != "pass" or meets(row.separation, require)


def tries_of(settings: Settings, run: str) -> list[TaskCount]:
    """How often each task was passed, and how often it was judged; a pass that something speaks against is none."""
    stands = standing(settings.store, run)
    with RunStore.open(settings.store, run) as opened:
        found = measure_attempts(deciding(opened.attempts()), stands)
    return list(count_by_task(one.outcome for one in found))
