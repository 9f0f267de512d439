"""Runs agents on tasks from Python: `assay.run`, and `assay.arun` on an event loop."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import Any

from assay.agents.building import AgentSource
from assay.errors import OptionError
from assay.gateway.interface import ModelBackend
from assay.rollout import PlannedAttempt, Progress, RunParts, Tally, TrialResult, plan_grid, run_grid
from assay.rollout.limits.run_budget import BudgetLimits
from assay.threads import run_coroutine
from assay.verify import CheckSource, build_checks

from .results import RunResult
from .sources import TaskSource, find_task_sources, make_config, settings_of

ModelSource = str | ModelBackend
_LOG = logging.getLogger(__name__)


def run(
    tasks: TaskSource | Iterable[TaskSource],
    *,
    agent: AgentSource | PathLike[str] | Sequence[AgentSource | PathLike[str]],
    model: ModelSource | Sequence[ModelSource] | None = None,
    attempts: int = 1,
    checks: CheckSource | Iterable[CheckSource] = (),
    store: str | PathLike[str] | None = None,
    run: str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> RunResult:
    """Runs an agent on tasks, each attempt in a fresh sandbox, and returns the judged attempts.

    It also works where an event loop runs already (a notebook). Lists of agents or models make a grid: one run for each
    combination.

    Args:
        tasks: Task folders, folders of them, `family:NAME,n=20`, families, or tasks; one or several.
        agent: A name (`oracle`, `codex`, `module:Class`, `path/to/file.py`), a class, an object with `run`, or a
            function of the attempt, `async def` or plain; or a list of these.
        model: For agents that ask one: a name (`openai:NAME`, `scripted:PATH`) or an open backend; or a list of these.
        attempts: Attempts per task, each with its own seed.
        checks: Further checks, beside those of the tasks; all must pass. A function of `files`, `transcript`, `state`
            or `task` that returns a bool, a score in [0, 1] or a `Verdict`.
        store: Folder of runs; default `.assay`, or `$ASSAY_STORE`.
        run: Name of the run; default: from agent, date and time.
        resume: Completes the run of that name. Arguments must be those that it was started with; only a budget may be
            another one, and replaces it.
        progress: Receives progress; default: the logger `assay.api.running`, at level INFO.
        options: Any other field of `RunConfig` (`concurrency`, `seed`, `limits`, ...), and limits as `max_turns=30`.

    Raises:
        AgentDefinitionError: The agent cannot act.
        CheckDefinitionError: A check cannot judge.
        TaskSourceError: `tasks` names no tasks.
        OptionError: An option does not exist.
        MissingModelError: The agent asks a model, and none is named.
        UserError: The configuration cannot work otherwise; nothing was started.
        StoreError: The record cannot be written.
    """
    return run_coroutine(
        lambda: arun(
            tasks,
            agent=agent,
            model=model,
            attempts=attempts,
            checks=checks,
            store=store,
            run=run,
            resume=resume,
            progress=progress,
            **options,
        )
    )


async def arun(
    tasks: TaskSource | Iterable[TaskSource],
    *,
    agent: AgentSource | PathLike[str] | Sequence[AgentSource | PathLike[str]],
    model: ModelSource | Sequence[ModelSource] | None = None,
    attempts: int = 1,
    checks: CheckSource | Iterable[CheckSource] = (),
    store: str | PathLike[str] | None = None,
    run: str | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> RunResult:
    """Runs an agent on tasks, on the running event loop; arguments and exceptions are those of `run`."""
    if progress is not None and not callable(getattr(progress, "begin", None)):
        raise OptionError(f"{progress!r:.100} shows no progress: give an object as assay.rollout.Progress describes it")
    settings = settings_of(store)
    found = find_task_sources(tasks)
    if resume and run is None:
        raise OptionError("resume=True completes a run by its name: give it as run=...")
    config = make_config(found.names, {"attempts": attempts, "run": run, **options})
    run_checks = build_checks(checks)
    objects = ("tasks",) * found.has_objects + ("checks",) * bool(run_checks.checks)
    parts = RunParts(checks=run_checks, objects=objects)
    cells = plan_grid(config, _listed_agents(agent), _listed_models(model), parts)
    given = resume and (config.budget_usd is not None or config.budget_calls is not None)
    budget = BudgetLimits(config.budget_usd, config.budget_calls) if given else None
    progress = progress or _LoggedProgress()
    summaries = await run_grid(cells, settings, progress, tasks=found.tasks, resume=resume, budget=budget)
    return RunResult(settings.store, [summary.run for summary in summaries])


class _LoggedProgress(Tally):
    """Logs the end of each attempt."""

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        super().finished(attempt, result)
        _LOG.info("%d of %d attempts ended: %s %s", self.done, self.total, attempt.id, result.outcome or "broke")


def _listed_agents(source: Any) -> list[AgentSource]:
    agents = _listed(source)
    if not agents:
        raise OptionError("no agent: give a name, a class, an object with `run`, or a function as agent=...")
    return [fspath(one) if isinstance(one, PathLike) else one for one in agents]


def _listed_models(source: Any) -> list[ModelSource]:
    models = _listed(source)
    for model in models:
        if not isinstance(model, str | ModelBackend):
            raise OptionError(f"{model!r:.100} is not a model: give a name (openai:NAME) or an open backend")
    return models


def _listed(given: Any) -> list[Any]:
    """Returns the values of a list or tuple, or the one value."""
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]
