"""Runs a plan: bounded concurrency, retries for infrastructure failures only, everything recorded.

A killed run is completed by `resume`: ended chains stay, an interrupted chain is marked and kept, and its attempt gets
a new chain.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext

from assay.errors import BudgetExceededError
from assay.gc_tuning import raised_thresholds
from assay.rollout.attempt.trial import Services, TrialResult, run_trial
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress
from assay.store import RunStore

BACKOFF_S = 0.5
"""First wait before a retry; doubles each time, up to a minute, with jitter."""
GC_THRESHOLD = 10_000
"""Garbage-collector threshold: events and requests are many small objects without cycles. With the default of 700
(Python 3.11) collection took 5% of the CPU of a recorded turn."""


async def run_plan(services: Services, planned: Sequence[PlannedAttempt], progress: Progress) -> None:
    """Runs every attempt of `planned` without a finished chain in the store.

    Raises:
        StoreError: The record cannot be written; committed events stay and the run can be resumed.
        BudgetExceededError: The run's budget is used up; the attempts that it cut are interrupted.
    """
    budget = services.budget
    done, tries = survey(services.store)
    queue = deque(p for p in planned if p.id not in done)
    progress.begin(total=len(planned), done=len(planned) - len(queue))

    async def work() -> None:
        while queue and (budget is None or budget.exceeded is None):
            attempt = queue.popleft()
            try:
                async with nullcontext() if services.controls is None else services.controls.slot():
                    progress.started(attempt)
                    result = await _run_abortable(services, attempt, tries.get(attempt.id, 0), progress)
            except BudgetExceededError:
                return  # the others may need no further call
            progress.finished(attempt, result)

    try:
        with raised_thresholds(GC_THRESHOLD):
            async with asyncio.TaskGroup() as group:
                for _ in range(min(services.config.concurrency, len(queue))):
                    group.create_task(work())
    except ExceptionGroup as failed:  # not `except*`: early releases of Python 3.11 wrap what it raises
        raise failed.exceptions[0] from failed.exceptions[0].__cause__
    if budget is not None and budget.exceeded is not None:
        raise budget.exceeded


def survey(store: RunStore) -> tuple[set[str], dict[str, int]]:
    """Returns the ended attempts and the number of trials of each attempt. Marks interrupted chains."""
    done: set[str] = set()
    tries: dict[str, int] = {}
    for chain in store.interrupted():
        store.mark_interrupted(chain)
    for row in store.attempts():
        tries[row.attempt] = max(tries.get(row.attempt, 0), row.retry + 1)
        if row.final:
            done.add(row.attempt)
    return done, tries


async def _run_abortable(services: Services, attempt: PlannedAttempt, first: int, progress: Progress) -> TrialResult:
    """Runs an attempt to its end; another trial follows each one that is aborted from outside."""
    controls = services.controls
    if controls is None:
        return await _with_retries(services, attempt, first, progress)
    while True:
        trial = asyncio.create_task(_with_retries(services, attempt, first, progress))
        try:
            with controls.trial(services.run, attempt.id, trial):
                return await trial
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not controls.is_aborted(services.run, attempt.id) or (task is not None and task.cancelling()):
                raise
        finally:
            controls.clear_abort(services.run, attempt.id)
        rows = services.store.attempts_at(attempt.loaded.task.id)
        first = 1 + max((row.retry for row in rows if row.attempt == attempt.id), default=first - 1)


async def _with_retries(services: Services, attempt: PlannedAttempt, first: int, progress: Progress) -> TrialResult:
    jitter: random.Random | None = None
    last = first + services.config.retries
    retry = first
    while True:
        result = await run_trial(services, attempt, retry, may_retry=retry < last)
        if not result.retry:
            return result
        progress.retrying(attempt, result)
        jitter = jitter or random.Random(attempt.seed)
        await asyncio.sleep(retry_wait_s(retry - first, jitter, result.retry_after_s))
        retry += 1


def retry_wait_s(earlier: int, jitter: random.Random, retry_after_s: float | None) -> float:
    """Returns the seconds to wait before a trial after `earlier` retries and one more failure."""
    wait = BACKOFF_S * 2.0**earlier * (0.5 + jitter.random())
    return min(60.0, max(wait, retry_after_s or 0.0))
