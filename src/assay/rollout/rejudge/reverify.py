"""Judges the stored states of a run again, and writes what came of it beside the first verdicts, never over them.

Each attempt is rebuilt from the store (a sandbox's state from its manifest and blobs, a world by its recorded calls,
somebody else's from its patch or files) and judged by its task's checks some times. Invariants: what is finished is
committed a moment later, so that a killed process loses that moment; an attempt that the same checks have judged so
often before is left alone; no verdict that stands is changed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import msgspec

from assay.agents.null import NullAgent
from assay.errors import UserError
from assay.records import Body, Evidence, EvidenceAdded, Trajectory, Verdict, VerdictGiven, VerdictStatus, digest_record
from assay.rollout.rejudge.judging import judged_again
from assay.rollout.rejudge.recorded_task import PastTasks, Places, Version, past_config
from assay.rollout.runs import Means, opened_means
from assay.settings import Settings
from assay.store import AttemptRow, RunStore, annotate_all, later_events
from assay.tasks import LoadedTask
from assay.verdicts import Reverification
from assay.verify._evidence import code_digest
from assay.verify.again import CannotRebuildError, Reverdict, cannot

__all__ = ["Reverified", "ReverifyConfig", "ReverifyReport", "reverify"]

COMMIT_EVERY_S = 1.0
COMMIT_EVERY = 16
KIND = "reverification"


class ReverifyConfig(Places, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a run is judged again."""

    again: int = 0
    """Judge each stored state again, each check so many times; 0 judges nothing. Two more rounds tell a check that
    changes its mind from one that has changed."""
    check_version: Version = "recorded"
    """Whose checks: the task's as it was `recorded` (from the store's copy, or a folder with the same digest), or as
    it is `today`."""
    tasks: tuple[str, ...] = ()
    """Where today's tasks are, folders or families; default: where the run found them."""
    attempt: tuple[str, ...] = ()
    """Only this attempt, by its name or its beginning."""
    concurrency: int = 2
    """How many attempts are judged at once."""
    force: bool = False
    """Judge also what the same checks have judged as often before."""
    fresh: bool = False
    """Draw other inputs than the recorded ones, for checks that judge by calls."""

    def __post_init__(self) -> None:
        """Refuses what cannot work, before anything starts."""
        if self.again < 0 or self.concurrency < 1:
            raise UserError("again must be 0 or more, and concurrency at least 1")


class Reverified(msgspec.Struct, frozen=True):
    """What judging one attempt again by one check came to."""

    attempt: str
    chain: str
    task: str
    agent: str
    check: str
    mark: Reverification
    was: VerdictStatus
    now: VerdictStatus
    reason: str
    before: bool = False
    """It was judged again before, and is told as it was then."""


class ReverifyReport(msgspec.Struct, frozen=True):
    """What judging a run again came to."""

    run: str
    results: tuple[Reverified, ...]
    unjudged: tuple[str, ...] = ()
    """Attempts that were never judged, so that there is nothing to compare."""

    @property
    def counts(self) -> dict[str, int]:
        """How many results have each mark."""
        return {mark: sum(r.mark == mark for r in self.results) for mark in ("agree", "disagree", "flaky", "cannot")}


class _Work(NamedTuple):
    """An attempt that is to be judged again."""

    row: AttemptRow
    loaded: LoadedTask | None
    """None where it is not to be had."""
    basis: str | None
    """What stands for the checks: one basis judges one state alike."""
    known: list[Evidence]
    """What earlier re-verifications said of it."""


async def reverify(
    run: str, config: ReverifyConfig, settings: Settings, told: Callable[[int, int], None] = lambda _done, _all: None
) -> ReverifyReport:
    """Judges a run again.

    Args:
        run: Live or sealed; nobody may be writing it.
        config: How.
        settings: Where the store and the caches are.
        told: Hears how many attempts are done, of how many.

    Raises:
        UserError: A folder of tasks cannot be read, or an attempt is none of the run.
        StoreError: The run is being written, is damaged, or nothing can be added to it.
    """
    with RunStore.open(settings.store, run) as store, PastTasks(store, config.check_version, config.tasks) as tasks:
        again = _Reverifying(store, config, settings, tasks)
        await again.run(told)
        return again.report()


class _Reverifying:
    """One re-verification under way."""

    def __init__(self, store: RunStore, config: ReverifyConfig, settings: Settings, tasks: PastTasks) -> None:
        self._store, self._config, self._settings, self._tasks = store, config, settings, tasks
        self._results: dict[str, list[Reverified]] = {}
        self._unjudged: list[str] = []
        self._pending: dict[str, Sequence[Body]] = {}
        self._since = time.monotonic()
        self._rows = self._chosen()

    def _chosen(self) -> list[AttemptRow]:
        if self._config.attempt:
            named = {name: self._store.find(name) for name in self._config.attempt}
            return list({row.chain: row for row in named.values()}.values())
        return [row for row in self._store.attempts() if row.final]

    def report(self) -> ReverifyReport:
        """What was found, in the order of the run."""
        results = [one for row in self._rows for one in self._results.get(row.chain, ())]
        return ReverifyReport(self._store.run, tuple(results), tuple(self._unjudged))

    async def run(self, told: Callable[[int, int], None]) -> None:
        """Judges what is to be judged; what is finished is kept, however it ends."""
        if not self._store.is_sealed:  # else what is judged could not be added
            RunStore.open(self._settings.store, self._store.run, write=True).close()
        before = later_events(self._settings.store, self._store.run)
        work = deque(self._planned(before))
        total, done = len(self._rows), len(self._rows) - len(work)
        told(done, total)
        try:
            async with AsyncExitStack() as stack:
                means, problem = await self._opened(stack, work)

                async def worker() -> None:
                    nonlocal done
                    while work:
                        await self._judge(work.popleft(), means, problem)
                        done += 1
                        told(done, total)

                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._config.concurrency, len(work))):
                        group.create_task(worker())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            self._commit()

    async def _opened(self, stack: AsyncExitStack, work: Sequence[_Work]) -> tuple[Means | None, str]:
        """What judging needs; where it is not to be had, why."""
        if not work:
            return None, ""
        try:
            config = past_config(self._store, self._config)
            means = opened_means(config, self._settings, [one.loaded for one in work if one.loaded], NullAgent())
            return await stack.enter_async_context(means), ""
        except UserError as exc:
            return None, f"isolation not available: {exc}"

    def _planned(self, before: Mapping[str, Sequence[Body]]) -> list[_Work]:
        planned = []
        for row in self._rows:
            if row.outcome is None:
                self._unjudged.append(row.attempt)
                continue
            known = _known(before.get(row.chain, ()))
            trajectory = self._store.trajectory(row.chain)
            try:
                loaded = self._tasks.of(trajectory)
            except CannotRebuildError as exc:
                was = _first(trajectory)
                self._keep(_Work(row, None, None, known), [(was, cannot(was.check, exc))])
                continue
            fresh = ("fresh",) if self._config.fresh else ()
            basis = digest_record([loaded.task, self._config.check_version, code_digest(), *fresh])
            same = [one for one in known if one.data["basis"] == basis and one.data["rounds"] >= self._config.again]
            if same and not (self._config.force or self._config.fresh):
                told = msgspec.convert(same[-1].data["results"], list[Reverified])
                self._results[row.chain] = [msgspec.structs.replace(one, before=True) for one in told]
                continue
            planned.append(_Work(row, loaded, basis, known))
        return planned

    async def _judge(self, work: _Work, means: Means | None, problem: str) -> None:
        trajectory = self._store.trajectory(work.row.chain)
        if means is None or work.loaded is None:
            found = [(_first(trajectory), cannot(_first(trajectory).check, problem))]
        else:
            found = await judged_again(
                trajectory, work.loaded, means, self._store.blobs, self._config.again, fresh=self._config.fresh
            )
        self._keep(work, found)

    def _keep(self, work: _Work, found: Sequence[tuple[Verdict, Reverdict]]) -> None:
        """Makes a judgement part of the report, and of what is committed next."""
        row = work.row
        results = [_told(row, was, now) for was, now in found]
        self._results[row.chain] = results
        open_question = any(one.mark == "cannot" for one in results)
        if open_question and work.known and work.known[-1].data["results"] == msgspec.to_builtins(results):
            return  # nothing is learnt by saying the same again
        data: dict[str, Any] = {
            # What could not be judged is tried again the next time.
            "basis": None if open_question else work.basis,
            "version": self._config.check_version,
            "rounds": self._config.again,
            "results": msgspec.to_builtins(results),
        }
        self._pending[row.chain] = _bodies([now for _, now in found], data, len(work.known))
        if len(self._pending) >= COMMIT_EVERY or time.monotonic() - self._since > COMMIT_EVERY_S:
            self._commit()

    def _commit(self) -> None:
        if self._pending:
            annotate_all(self._settings.store, self._store.run, self._pending)
        self._pending, self._since = {}, time.monotonic()


def _known(bodies: Sequence[Body]) -> list[Evidence]:
    """What was said of an attempt by earlier re-verifications."""
    found = [body.evidence for body in bodies if isinstance(body, EvidenceAdded) and body.evidence.kind == KIND]
    return [one for one in found if {"basis", "rounds", "results"} <= set(one.data)]


def _first(trajectory: Trajectory) -> Verdict:
    """The verdict that decided the attempt."""
    return next(v for v in trajectory.verdicts if v.kind == "outcome")


def _told(row: AttemptRow, was: Verdict, now: Reverdict) -> Reverified:
    return Reverified(
        attempt=row.attempt,
        chain=row.chain,
        task=row.task,
        agent=row.agent,
        check=was.check,
        mark=now.mark,
        was=was.status,
        now=now.verdict.status,
        reason=now.verdict.reason,
    )


def _bodies(found: Sequence[Reverdict], data: dict[str, Any], times: int) -> list[Body]:
    """Evidence and verdicts, with ids that no earlier re-verification has."""
    prefix = f"r{times + 1}."
    bodies: list[Body] = []
    for one in found:
        names = {e.id: f"{prefix}{e.id}" for e in one.evidence}
        bodies += [EvidenceAdded(msgspec.structs.replace(e, id=names[e.id])) for e in one.evidence]
        cited = (*(names[e] for e in one.verdict.evidence if e in names), f"{prefix}0")
        bodies.append(VerdictGiven(msgspec.structs.replace(one.verdict, evidence=cited)))
    return [EvidenceAdded(Evidence(f"{prefix}0", "audit", KIND, data, at=time.time())), *bodies]
