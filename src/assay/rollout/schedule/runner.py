"""Runs a plan: a bounded number of attempts at once, each retried for infrastructure causes alone, all recorded.

Killed at any moment, a run is completed by `resume`: chains that have ended stay as they are, a chain that was cut is
marked as interrupted and kept, and its attempt gets a new chain.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence

from assay.rollout.attempt.trial import Services, TryResult, run_try
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Progress
from assay.store import RunStore

__all__ = ["run_plan"]

BACKOFF_S = 0.5
"""The first wait before another try; doubles each time, up to a minute, with jitter."""


async def run_plan(services: Services, planned: Sequence[PlannedAttempt], progress: Progress) -> None:
    """Runs every attempt of `planned` that has no finished chain in the store.

    Raises:
        StoreError: The record cannot be written; what is committed stays and the run can be resumed.
    """
    done, tries = survey(services.store)
    queue = deque(p for p in planned if p.id not in done)
    progress.begin(total=len(planned), done=len(planned) - len(queue))

    async def work() -> None:
        while queue:
            attempt = queue.popleft()
            progress.started(attempt)
            result = await _with_retries(services, attempt, tries.get(attempt.id, 0), progress)
            progress.finished(attempt, result)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(services.config.concurrency, len(queue))):
                group.create_task(work())
    except ExceptionGroup as failed:  # not `except*`: early releases of Python 3.11 wrap what it raises
        raise failed.exceptions[0] from None


def survey(store: RunStore) -> tuple[set[str], dict[str, int]]:
    """Which attempts have ended, and how many tries each has had. Cut chains are marked on the way."""
    done: set[str] = set()
    tries: dict[str, int] = {}
    for chain in store.interrupted():
        store.mark_interrupted(chain)
    for row in store.attempts():
        tries[row.attempt] = max(tries.get(row.attempt, 0), row.retry + 1)
        if row.final:
            done.add(row.attempt)
    return done, tries


async def _with_retries(services: Services, attempt: PlannedAttempt, first: int, progress: Progress) -> TryResult:
    jitter = random.Random(attempt.seed)
    last = first + services.config.retries
    retry = first
    while True:
        result = await run_try(services, attempt, retry, may_retry=retry < last)
        if not result.retry:
            return result
        progress.retrying(attempt, result)
        wait = BACKOFF_S * 2 ** (retry - first) * (0.5 + jitter.random())
        await asyncio.sleep(min(60.0, max(wait, result.retry_after_s or 0.0)))
        retry += 1
