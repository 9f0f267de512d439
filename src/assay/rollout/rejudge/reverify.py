"""Judges the stored states of a run again and appends the results to the first verdicts.

Each attempt is rebuilt from the store (a sandbox from manifest and blobs, a world from its calls, an import from its
patch or files) and judged repeatedly. Attempts at a task that ended in the same state are judged once, unless a check
reads more of an attempt than its state; their record names the attempt with which they were judged. Invariants: results
are committed within a second; attempts that the same checks have judged as often before are skipped if it was this user
who judged them (`own_results`); existing verdicts are never changed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import msgspec

from assay.agents.null import NullAgent
from assay.environments.task_digest import name_task_by_content
from assay.errors import StoreError, UserError
from assay.records import Body, Evidence, EvidenceAdded, Trajectory, Verdict, VerdictAdded, VerdictStatus, digest_record
from assay.rollout.rejudge.config import ReverifyConfig
from assay.rollout.rejudge.judging import SharedState, judge_again
from assay.rollout.rejudge.own_results import CODE, OwnResults, compute_head
from assay.rollout.rejudge.recorded_task import RecordedTasks, recorded_config
from assay.rollout.rejudge.shared_results import SharedResults
from assay.rollout.runs import RunResources, open_resources
from assay.settings import Settings
from assay.store import AttemptRow, RunStore, annotate_all, later_events
from assay.tasks import LoadedTask
from assay.verdicts import Reverification
from assay.verify.cited_evidence import code_digest
from assay.verify.reverification import CannotRebuildError, VerdictComparison, make_cannot_result

COMMIT_EVERY_S = 1.0
COMMIT_EVERY = 256
"""Attempts of one commit, at most: each opens the run again, and of a sealed one adds a segment file."""
KIND = "reverification"


class ReverificationResult(msgspec.Struct, frozen=True):
    """The result of judging one attempt again by one check."""

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
    """True if the result is from an earlier re-verification."""


class ReverifyReport(msgspec.Struct, frozen=True):
    """The result of a re-verification."""

    run: str
    results: tuple[ReverificationResult, ...]
    unjudged: tuple[str, ...] = ()
    """Attempts without a first verdict to compare with."""

    @property
    def counts(self) -> dict[str, int]:
        """Number of results by mark."""
        return {mark: sum(r.mark == mark for r in self.results) for mark in ("agree", "disagree", "flaky", "cannot")}


class ReverificationWork(NamedTuple):
    """An attempt that is to be judged again."""

    row: AttemptRow
    loaded: LoadedTask | None
    """None if the task is unavailable."""
    basis: str | None
    """Digest of the checks: one basis judges one state alike."""
    known: list[Evidence]
    """Evidence of earlier re-verifications."""


class JudgedAttempt(msgspec.Struct, frozen=True):
    """The results of judging one attempt again."""

    chain: str
    found: tuple[tuple[str, VerdictComparison], ...]
    """The recorded verdicts' checks, each with what it is now."""
    judged_with: str | None = None
    """The attempt in the same state whose results were taken; None if it was judged itself."""


class JudgeJob(NamedTuple):
    """Attempts that are to be judged elsewhere."""

    store: RunStore
    config: ReverifyConfig
    work: Sequence[ReverificationWork]
    take: Callable[[JudgedAttempt], None]
    """Takes one result."""
    on_progress: Callable[[int], None]
    """Takes the number of attempts that are judged so far."""


JudgeElsewhere = Callable[[JudgeJob], Awaitable[None]]


async def reverify(
    run: str,
    config: ReverifyConfig,
    settings: Settings,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
    elsewhere: JudgeElsewhere | None = None,
) -> ReverifyReport:
    """Judges a live or sealed run without a writer again; `on_progress` gets the number of judged attempts and the
    total. With `elsewhere`, nodes judge.

    Raises:
        UserError: A task folder cannot be read, or an attempt does not exist.
        StoreError: The run is being written, is damaged, or cannot be extended.
    """
    with RunStore.open(settings.store, run) as store, RecordedTasks.chosen(store, config) as tasks:
        again = _Reverification(store, config, settings, tasks)
        await again.run(on_progress, elsewhere)
        return again.report()


class _Reverification:
    def __init__(self, store: RunStore, config: ReverifyConfig, settings: Settings, tasks: RecordedTasks) -> None:
        self._store, self._config, self._settings, self._tasks = store, config, settings, tasks
        self._results: dict[str, list[ReverificationResult]] = {}
        self._unjudged: list[str] = []
        self._bases: dict[int, str] = {}
        self._shared = SharedResults()
        self._own, self._ended = OwnResults(settings.cache), store.ended_at()
        self._pending: dict[str, Sequence[Body]] = {}
        self._since = asyncio.get_running_loop().time()
        self._rows = self._select_rows()

    def _select_rows(self) -> list[AttemptRow]:
        if self._config.attempt:
            named = {name: self._store.find(name) for name in self._config.attempt}
            return list({row.chain: row for row in named.values()}.values())
        return [row for row in self._store.attempts() if row.final]

    def report(self) -> ReverifyReport:
        results = [one for row in self._rows for one in self._results.get(row.chain, ())]
        return ReverifyReport(self._store.run, tuple(results), tuple(self._unjudged))

    async def run(self, on_progress: Callable[[int, int], None], elsewhere: JudgeElsewhere | None) -> None:
        """Judges all work; finished results are stored even if it is interrupted."""
        if not self._store.is_sealed:  # else what is judged could not be added
            RunStore.open(self._settings.store, self._store.run, write=True).close()
        before = later_events(self._settings.store, self._store.run)
        work = deque(self._plan_work(before))
        total, done = len(self._rows), len(self._rows) - len(work)
        on_progress(done, total)

        def count_judged() -> None:
            nonlocal done
            done += 1
            on_progress(done, total)

        try:
            if elsewhere is None:
                await self._judge_all(work, count_judged)
            elif work:
                judged = {one.row.chain: one for one in work}
                job = JudgeJob(
                    self._store,
                    self._config,
                    tuple(work),
                    lambda one: self._take(judged[one.chain], one),
                    lambda count: on_progress(done + count, total),
                )
                await elsewhere(job)
                on_progress(total, total)
        finally:
            self._commit()

    async def _judge_all(self, work: deque[ReverificationWork], on_judged: Callable[[], None]) -> None:
        """Judges in this process, and empties `work`."""
        try:
            async with AsyncExitStack() as stack:
                resources, problem = await self._open_resources(stack, work)

                async def worker() -> None:
                    while work:
                        await self._judge(work.popleft(), resources, problem)
                        on_judged()

                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._config.concurrency, len(work))):
                        group.create_task(worker())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    def _take(self, work: ReverificationWork, judged: JudgedAttempt) -> None:
        """Takes the results of an attempt that was judged elsewhere. Raises `StoreError` if they are of no verdict."""
        recorded = {one.check: one for one in reversed(self._store.trajectory(work.row.chain).verdicts)}
        if not recorded.keys() >= {check for check, _ in judged.found}:
            raise StoreError(f"what was judged again of {work.row.attempt!r} is not a verdict of it: it was changed")
        self._keep(work, [(recorded[check], now) for check, now in judged.found], judged.judged_with)

    async def _open_resources(
        self, stack: AsyncExitStack, work: Sequence[ReverificationWork]
    ) -> tuple[RunResources | None, str]:
        if not work:
            return None, ""
        try:
            config = recorded_config(self._store, self._config)
            resources = open_resources(config, self._settings, [one.loaded for one in work if one.loaded], NullAgent())
            return await stack.enter_async_context(resources), ""
        except UserError as exc:
            return None, f"isolation not available: {exc}"

    def _plan_work(self, before: Mapping[str, Sequence[Body]]) -> list[ReverificationWork]:
        planned = []
        for row in self._rows:
            if row.outcome is None:
                self._unjudged.append(row.attempt)
                continue
            known = _earlier_reverifications(before.get(row.chain, ()))
            try:
                loaded = self._tasks.of_chain(row.chain)
            except CannotRebuildError as exc:
                was = _deciding_verdict(self._store.trajectory(row.chain))
                self._keep(ReverificationWork(row, None, None, known), [(was, make_cannot_result(was.check, exc))])
                continue
            basis = self._basis_of(loaded)
            same = [] if self._config.force or self._config.fresh else self._own_results(row, known, basis)
            if same:
                earlier = msgspec.convert(same[-1].data["results"], list[ReverificationResult])
                self._results[row.chain] = [msgspec.structs.replace(one, before=True) for one in earlier]
                continue
            planned.append(ReverificationWork(row, loaded, basis, known))
        return sorted(planned, key=lambda work: work.basis or "")  # equal states of a task one after the other

    def _own_results(self, row: AttemptRow, known: Sequence[Evidence], basis: str) -> list[Evidence]:
        """Returns the earlier results that make another judgement needless."""
        same = [one for one in known if one.data["basis"] == basis and one.data["rounds"] >= self._config.again]
        end = self._ended.get(row.chain)
        if not same or end is None:
            return []
        head = compute_head(row.chain, self._store.part(row.chain, 0, end + 1))
        return [one for one in same if self._own.is_own(row.chain, head, one.data)]

    def _head_of(self, row: AttemptRow) -> str:
        """Returns the digest of the event that ended an attempt."""
        end = self._ended.get(row.chain, row.length - 1)
        if row.length == end + 1:
            return row.head
        return next(link.digest for link in self._store.part(row.chain, end, end + 1))

    def _basis_of(self, loaded: LoadedTask) -> str:
        """Returns `basis_of` a task; computed once for each, which `RecordedTasks` holds."""
        if id(loaded) not in self._bases:
            self._bases[id(loaded)] = basis_of(loaded, self._config)
        return self._bases[id(loaded)]

    async def _judge(self, work: ReverificationWork, resources: RunResources | None, problem: str) -> None:
        trajectory = self._tasks.mark_import(self._store.trajectory(work.row.chain))
        if resources is None or work.loaded is None:
            found = [(_deciding_verdict(trajectory), make_cannot_result(_deciding_verdict(trajectory).check, problem))]
        else:
            shared = None if self._config.fresh or work.basis is None else SharedState(self._shared, work.basis)
            rounds, fresh = self._config.again, self._config.fresh
            found = await judge_again(
                trajectory, work.loaded, resources, self._store.blobs, rounds, fresh=fresh, shared=shared
            )
        self._keep(work, found, self._shared.judged_with(work.row.chain))

    def _keep(
        self,
        work: ReverificationWork,
        found: Sequence[tuple[Verdict, VerdictComparison]],
        judged_with: str | None = None,
    ) -> None:
        row = work.row
        results = [_result_of(row, was, now) for was, now in found]
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
        if judged_with is not None:
            data["judged_with"] = judged_with
        if (code := self._own.code(row.chain, self._head_of(row), data)) is not None:
            data[CODE] = code
        self._pending[row.chain] = _bodies([now for _, now in found], data, len(work.known))
        if len(self._pending) >= COMMIT_EVERY or asyncio.get_running_loop().time() - self._since > COMMIT_EVERY_S:
            self._commit()

    def _commit(self) -> None:
        if self._pending:
            annotate_all(self._settings.store, self._store.run, self._pending)
        self._pending, self._since = {}, asyncio.get_running_loop().time()


def basis_of(loaded: LoadedTask, config: ReverifyConfig) -> str:
    """Returns the digest of a task's checks and of what judges by them."""
    fresh = ("fresh",) if config.fresh else ()
    return digest_record([name_task_by_content(loaded.task), config.check_version, code_digest(), *fresh])


def _earlier_reverifications(bodies: Sequence[Body]) -> list[Evidence]:
    found = [body.evidence for body in bodies if isinstance(body, EvidenceAdded) and body.evidence.kind == KIND]
    return [one for one in found if {"basis", "rounds", "results"} <= set(one.data)]


def _deciding_verdict(trajectory: Trajectory) -> Verdict:
    return next(v for v in trajectory.verdicts if v.kind == "outcome")


def _result_of(row: AttemptRow, was: Verdict, now: VerdictComparison) -> ReverificationResult:
    return ReverificationResult(
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


def _bodies(found: Sequence[VerdictComparison], data: dict[str, Any], times: int) -> list[Body]:
    prefix = f"r{times + 1}."
    bodies: list[Body] = []
    for one in found:
        names = {e.id: f"{prefix}{e.id}" for e in one.evidence}
        bodies += [EvidenceAdded(msgspec.structs.replace(e, id=names[e.id])) for e in one.evidence]
        cited = (*(names[e] for e in one.verdict.evidence if e in names), f"{prefix}0")
        bodies.append(VerdictAdded(msgspec.structs.replace(one.verdict, evidence=cited)))
    return [EvidenceAdded(Evidence(f"{prefix}0", "audit", KIND, data, at=time.time())), *bodies]
