"""Attempts for training and evaluation: ordinary runs in the store that use the trained policy.

Interrupted runs are resumed and finished runs are reused, so a training's attempts survive it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from assay.analysis.columns import measure_attempts
from assay.errors import AssayError, BudgetExceededError
from assay.gateway.backends.tiny import write_domain_tokenizer
from assay.gateway.tokens import RenderedBackend
from assay.gateway.tokens.library import open_renderer
from assay.learning.reading import OnLeftOut, RunReader, require_whole
from assay.learning.rows import TrainingRow
from assay.learning.rows_config import RowsConfig
from assay.records import Separation, digest_bytes
from assay.rollout.config import RunConfig
from assay.rollout.limits.run_budget import BudgetLimits, use_of
from assay.rollout.progress import Tally
from assay.rollout.run_inputs import resolve_models
from assay.rollout.run_manifest import match_tasks, read_manifest, require_same_arguments
from assay.rollout.runs import resume_run, start_run
from assay.settings import Settings
from assay.statistics import TaskCount, count_by_task, without_redrawn
from assay.store import AttemptRow, RunStore, final_rows, list_runs, load_current_verdicts, redrawn_chains
from assay.tasks import LoadedTask, find_tasks
from assay.verdicts import meets

from .options import Keep
from .policy import TrainedPolicy
from .recipe import ImproveRecipe, is_open_family
from .sft import draw_batch

HUNG_LIMIT = "wall_s"
STUCK_STEPS = 3
"""Consecutive steps with replies from unchanged weights after which training stops."""


class TrainingStoppedError(AssayError):
    """Training must stop; the message says why. Completed steps are kept."""


class EndedAttempt(Protocol):
    """Facts of an attempt that ended by which it counts as lost."""

    @property
    def attempt(self) -> str: ...
    @property
    def finished(self) -> float | None: ...
    @property
    def stopped(self) -> str | None: ...
    @property
    def broke(self) -> str | None: ...


class LostAttempt(NamedTuple):
    """An attempt without information about the policy."""

    attempt: str
    reason: str


class RecipeBudget:
    """Budget of model calls over all runs of a recipe, and what they have used.

    Args:
        recipe: Name and seed of the recipe, with which the names of its runs begin.
        calls: None is unlimited.
    """

    def __init__(self, recipe: str, calls: int | None) -> None:
        self.calls = calls
        self._runs = re.compile(re.escape(recipe) + r"-(demonstrations|(step|evaluation)-[0-9]{4,})")
        self._completed: dict[str, int] = {}

    def limits_for(self, root: Path, run: str) -> BudgetLimits:
        """Returns the budget of one run: what the others left. Raises `BudgetExceededError` where they left nothing."""
        if self.calls is None:
            return BudgetLimits()
        used = self.used(root, but=run)
        if used >= self.calls:
            raise BudgetExceededError(f"the budget of {self.calls} model calls is used up before run {run}")
        return BudgetLimits(calls=self.calls - used)

    def used(self, root: Path, *, but: str | None = None) -> int:
        """Returns the model calls of the recipe's runs in the store, except those of the run `but`."""
        runs = [run for run in list_runs(root) if run != but and self._runs.fullmatch(run)]
        return sum(self._completed[run] if run in self._completed else _calls_of(root, run) for run in runs)

    def complete(self, run: str, store: RunStore) -> None:
        """Notes the calls of a complete run, which is not read again."""
        self._completed[run] = use_of(store).calls

    def describe(self, root: Path) -> str:
        """Returns the calls so far, and the budget, as in `120 of 400 model calls`."""
        whole = "" if self.calls is None else f" of {self.calls:,}"
        return f"{self.used(root):,}{whole} model calls"


def _calls_of(root: Path, run: str) -> int:
    with RunStore.open(root, run) as store:
        return use_of(store).calls


async def complete_run(
    config: RunConfig,
    settings: Settings,
    backend: RenderedBackend | None = None,
    tasks: Sequence[LoadedTask] | None = None,
    *,
    budget: RecipeBudget | None = None,
) -> list[AttemptRow]:
    """Returns the attempts of the run `config.run`, after starting or resuming it; agents may need no `backend`.

    Raises:
        UserError: There is a run of this name that was started in another way, or on other tasks.
    """
    run, store = config.run or "", settings.store
    if run not in list_runs(store):
        limits = None if budget is None else budget.limits_for(store, run)
        if limits is not None:
            config = msgspec.structs.replace(config, budget_calls=limits.calls)
        await start_run(config, settings, Tally(), tasks=tasks, backend=backend)
    else:
        with RunStore.open(store, run) as store_run:
            _require_same_run(store_run, resolve_models(config, settings), tasks)
            found = final_rows(store_run.attempts())
        planned = len(tasks if tasks is not None else find_tasks(config.tasks)) * config.attempts
        if len(found) < planned:
            limits = None if budget is None else budget.limits_for(store, run)
            await resume_run(run, settings, Tally(), tasks=tasks, backend=backend, budget=limits)
    with RunStore.open(store, run) as store_run:
        if budget is not None:
            budget.complete(run, store_run)
        return final_rows(store_run.attempts())


def _require_same_run(store: RunStore, config: RunConfig, tasks: Sequence[LoadedTask] | None) -> None:
    """Raises `UserError` where a run only has the name: who knows the name could have made it with another agent."""
    require_same_arguments(store, config, tasks, but=("concurrency", "model_concurrency"))
    if tasks is not None:
        match_tasks(read_manifest(store)[1], tasks, config.disturb)


class TaskSelection(NamedTuple):
    """Tasks and their source names."""

    names: tuple[str, ...]
    loaded: tuple[LoadedTask, ...]


def tasks_of_step(sources: Sequence[str], groups: int, step: int, seed: int) -> TaskSelection:
    """Returns the tasks of one step: new ones of families without `n` and `seed`, others in turn."""
    if all(map(is_open_family, sources)):
        counts = [len(range(position, groups, len(sources))) for position in range(len(sources))]
        number = int(digest_bytes(f"{seed}/{step}".encode()).removeprefix("blake3:")[:8], 16)
        named = tuple(f"{s},n={n},seed={number}" for s, n in zip(sources, counts, strict=True) if n)
        return TaskSelection(named, find_tasks(named))
    every = find_tasks(sources)
    chosen = draw_batch(len(every), min(groups, len(every)), step, seed)
    return TaskSelection(tuple(sources), tuple(every[position] for position in sorted(set(chosen))))


def find_lost(rows: Sequence[EndedAttempt]) -> list[LostAttempt]:
    """Returns attempts that hung or broke, in the order in which they ended."""
    found: list[LostAttempt] = []
    for row in sorted(rows, key=lambda row: row.finished or 0.0):
        reason = _loss_reason(row)
        if reason is not None:
            found.append(LostAttempt(row.attempt, reason))
    return found


def longest_lost_streak(rows: Sequence[EndedAttempt]) -> list[LostAttempt]:
    """Returns the longest streak of lost attempts, in the order in which they ended."""
    longest: list[LostAttempt] = []
    line: list[LostAttempt] = []
    for row in sorted(rows, key=lambda row: row.finished or 0.0):
        reason = _loss_reason(row)
        line = [] if reason is None else [*line, LostAttempt(row.attempt, reason)]
        longest = max(longest, line, key=len)
    return longest


def require_moving(answered: Sequence[str], history: Sequence[str]) -> None:
    """Raises if the replies' weights stay the same while the trainer's change; both are versions, oldest first.

    Raises:
        TrainingStoppedError: The last steps' replies all came from one version, while the trainer had others.
    """
    last, ours = answered[-STUCK_STEPS:], history[-STUCK_STEPS:]
    if len(last) == STUCK_STEPS and len(set(last)) == 1 and len(set(ours)) == len(ours) == STUCK_STEPS:
        raise TrainingStoppedError(
            f"the replies of {STUCK_STEPS} steps came from the same weights ({last[-1]}) while the trainer's moved on "
            f"to {ours[-1]}: the model that is asked is not the one that is trained"
        )


def _loss_reason(row: EndedAttempt) -> str | None:
    if row.broke is not None:
        return f"broke: {row.broke}"
    return "hung" if row.stopped == HUNG_LIMIT else None


def read_training_rows(
    settings: Settings,
    run: str,
    policy: TrainedPolicy,
    *,
    rendered: bool = False,
    roles: bool = False,
    system: str | None = None,
    on_left_out: OnLeftOut | None = None,
) -> list[TrainingRow]:
    """Returns the training rows of a run after verifying its chains; attempts with secrets are left out."""
    options = policy.options
    config = RowsConfig(
        model=str(policy.folder) if rendered or roles else None,
        renderer=options.renderer,
        thinking=options.thinking,
        rendered=rendered,
        system=system,
        allow_task_code=True,  # the run is this training's own, of tasks that its recipe names
    )
    with RunReader.open(settings, run, config, on_left_out) as reader:
        return [row for trajectory in reader.trajectories() for row in reader.rows(trajectory)]


def read_texts(settings: Settings, run: str, recipe: ImproveRecipe, folder: Path) -> list[str]:
    """Returns the texts of a run's attempts, as a template renders them; writes a tokenizer of bytes into `folder`."""
    write_domain_tokenizer(folder, [], 300)
    plain = _Letters(folder, recipe)
    system = recipe.rollout.agent_options.get("system")
    rows = read_training_rows(settings, run, plain, rendered=True, system=system)  # type: ignore[arg-type]
    return [plain.renderer.text(row.token_ids.tolist()) for row in rows]


class _Letters:
    """A policy without a model and with byte tokens, to render text."""

    def __init__(self, folder: Path, recipe: ImproveRecipe) -> None:
        self.folder = folder
        self.options = recipe.model
        self.renderer = open_renderer(folder, recipe.model.renderer, thinking=recipe.model.thinking)


def filter_rows(rows: Sequence[TrainingRow], keep: Keep) -> list[TrainingRow]:
    """Returns the rows to train on. See `Keep`."""
    if keep == "passed":
        return [row for row in rows if row.outcome == "pass"]
    if keep == "card":
        return [row for row in rows if row.verified_pass]
    return [row for row in rows if row.outcome in ("pass", "fail")]


def meets_requirement(row: TrainingRow, require: Separation) -> bool:
    """Returns whether a row is not a pass, or a pass of at least the required grade."""
    return row.outcome != "pass" or meets(row.separation, require)


def count_outcomes(settings: Settings, run: str) -> list[TaskCount]:
    """Returns outcome counts by task; a doubted pass does not count as passed, and an attempt that had more than one
    draw counts as one without a verdict (`redrawn`).

    Raises:
        StoreError: The run is not what was recorded.
    """
    require_whole(settings.store, run)
    current = load_current_verdicts(settings.store, run)
    with RunStore.open(settings.store, run) as store_run:
        rows = store_run.attempts()
        measured = measure_attempts(final_rows(rows), current, redrawn=redrawn_chains(store_run, rows))
    return list(count_by_task(without_redrawn(one.outcome for one in measured)))
