"""Runs batches: an ordinary run each, whose groups are written as soon as they are whole.

Batches without a step run one after the other, in the order of their requests. Batches with a step run as soon as the
policy's version admits them, several at a time. All share the service's attempt slots. After a kill they resume: a run
continues without loss or repetition, and groups that are written stay as they are.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import AssayError, EnvironmentFailure, StoreError, UserError, boundary, innermost_exception
from assay.http.metrics import MetricsRegistry
from assay.learning.credit.compose import whole_batch_methods
from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.limits.run_controls import RunControls
from assay.rollout.plan import PlannedAttempt
from assay.rollout.progress import Tally
from assay.rollout.runs import RunParts, resume_run, start_run
from assay.rollout.telemetry.run_metrics import RunMetrics
from assay.settings import Settings
from assay.store import AttemptRow, RunStore, list_runs

from .config import VERSION, BatchRequest, run_config
from .engines import PolicyEngines
from .groups import GroupBuilder, GroupFile, count_groups
from .ledger import Ledger, LedgerBatch
from .policies import PolicyBook
from .service_config import RolloutServiceConfig

_log = logging.getLogger(__name__)
MAX_ERROR_CHARS = 2000
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_UNWRITABLE_SQLITE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY})


class BatchWorker:
    """Runs batches."""

    def __init__(self, config: RolloutServiceConfig, settings: Settings, ledger: Ledger, policies: PolicyBook) -> None:
        self._config, self._settings, self._ledger, self._policies = config, settings, ledger, policies
        self.engines = PolicyEngines(config, settings, policies)
        self.controls = RunControls(config.concurrency)
        """Pauses all attempts, and ends single ones."""
        self.metrics = RunMetrics(MetricsRegistry())
        """Of the attempts of all batches."""
        if policies.is_paused:
            self.controls.pause()
        self._wake_event = asyncio.Event()
        self._changed = asyncio.Condition()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.tallies: dict[str, GroupTally] = {}
        """Progress of the running batches."""

    async def run(self) -> None:
        """Runs batches until cancelled."""
        try:
            while True:
                self._wake_event.clear()
                for batch in self._startable():
                    self._start(batch)
                await self._wake_event.wait()
                for name, task in list(self._tasks.items()):
                    if task.done():
                        del self._tasks[name], self.tallies[name]
                        if not task.cancelled():
                            task.result()
                await self._notify()
        finally:  # where the service ends, batches stay as they are
            for task in self._tasks.values():
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks.values())
            await self.engines.close()

    def _startable(self) -> list[LedgerBatch]:
        """Returns the batches that may begin now, in order."""
        found: list[LedgerBatch] = []
        running = [self._ledger.find(name) for name in self._tasks]
        is_taken = any(batch is not None and batch.request.step is None for batch in running)
        for batch in self._ledger.all():
            if batch.is_over or batch.request.id in self._tasks or not self.is_served(batch):
                continue
            if batch.request.step is not None:
                if self._policies.admits(batch.request):
                    found.append(batch)
            elif not is_taken:
                found.append(batch)
                is_taken = True
        return found

    def _start(self, batch: LedgerBatch) -> None:
        tally = self.tallies[batch.request.id] = GroupTally(batch.request)
        task = self._tasks[batch.request.id] = asyncio.create_task(self._work(batch, tally))
        task.add_done_callback(lambda _: self._wake_event.set())

    def wake(self) -> None:
        """Wakes the worker."""
        self._wake_event.set()

    async def wait_for_change(self, batch: str, patience_s: float) -> None:
        """Waits until the batch is over, a batch changes, or the timeout passes."""
        known = self._ledger.find(batch)
        if known is None or known.is_over:
            return
        try:
            async with asyncio.timeout(patience_s), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return

    async def cancel(self, batch: LedgerBatch) -> LedgerBatch:
        """Cancels a batch; recorded attempts stay in the store."""
        batch = self._ledger.find(batch.request.id) or batch
        if batch.is_over:
            return batch
        cancelled = self._ledger.save(msgspec.structs.replace(batch, state="cancelled"))
        if self.is_running(batch):
            self._tasks[batch.request.id].cancel()
        await self._notify()
        return cancelled

    def is_running(self, batch: LedgerBatch) -> bool:
        """Returns whether a batch is running."""
        return batch.request.id in self._tasks

    def is_served(self, batch: LedgerBatch) -> bool:
        """Returns whether the service has the policy of a batch; it may have been started without it."""
        return batch.request.policy.name in self._config.policies

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _work(self, batch: LedgerBatch, tally: GroupTally) -> None:
        batch = self._ledger.find(batch.request.id) or batch  # a client may have acknowledged meanwhile
        batch = self._ledger.save(msgspec.structs.replace(batch, state="running"))
        try:
            with boundary(EnvironmentFailure, f"batch {batch.request.id}"):
                fields = await self._execute(batch, tally)
        except AssayError as exc:
            if isinstance(exc, StoreError) and _is_unwritable(exc.__cause__):
                raise  # a disk that cannot be written to ends the service, and the batch goes on at its next start
            # Bad input is explained by its message alone.
            _log.warning("batch %s failed: %s", batch.request.id, exc, exc_info=not isinstance(exc, UserError))
            fields = {"state": "failed", "error": str(exc)[:MAX_ERROR_CHARS]}
        current = self._ledger.find(batch.request.id)  # a client may have acknowledged or cancelled meanwhile
        if current is not None and current.state == "running":
            self._ledger.save(msgspec.structs.replace(current, **fields))

    async def _execute(self, batch: LedgerBatch, tally: GroupTally) -> dict[str, Any]:
        """Runs a batch and writes its groups; returns the fields of a batch that is done."""
        folder = partial(self._folder, batch.request)
        path = self._ledger.groups_path(batch)
        writer = await asyncio.to_thread(_GroupWriter, self._settings, batch, path, folder)
        try:
            if batch.run in list_runs(self._settings.store):
                await writer.call(writer.write_whole)
            try:
                async with asyncio.TaskGroup() as group:
                    streaming = group.create_task(self._stream(writer, tally))
                    await self._attempt(batch, tally)
                    tally.whole.put_nowait(None)
                    await streaming
            except ExceptionGroup as failed:
                inner = innermost_exception(failed)
                raise inner from inner.__cause__
            await writer.call(writer.write_rest)
        finally:
            await asyncio.to_thread(writer.close)
        return await self._summarise(batch)

    async def _attempt(self, batch: LedgerBatch, tally: GroupTally) -> None:
        newest = self._policies.find(batch.request.policy.name).newest if batch.request.step is not None else None
        parts = RunParts(controls=self.controls, metrics=self.metrics)
        engine = None if newest is None else await self.engines.open(batch.request.policy.name)
        if batch.run in list_runs(self._settings.store):
            await resume_run(batch.run, self._settings, tally, backend=engine, parts=parts)
            return
        version = None if newest is None else newest.version
        config = run_config(self._config, batch.request, batch.run, version)
        await start_run(config, self._settings, tally, backend=engine, parts=parts)

    async def _stream(self, writer: _GroupWriter, tally: GroupTally) -> None:
        """Writes groups as they become whole, until the run is over."""
        while (task := await tally.whole.get()) is not None:
            await writer.call(writer.write, task)
            await self._notify()

    async def _summarise(self, batch: LedgerBatch) -> dict[str, Any]:
        """Returns the fields of a batch that is done. Raises `UserError` if no attempt gives a row."""
        totals = await asyncio.to_thread(count_groups, self._ledger.groups_path(batch))
        warnings = self._warnings(batch, totals.versions)
        return {"state": "done", "warnings": warnings, **totals._asdict()}

    def _warnings(self, batch: LedgerBatch, versions: dict[str, int]) -> tuple[str, ...]:
        requested, policy = batch.request.policy.version, batch.request.policy.name
        named = set(versions) - {"unknown"}
        found = []
        if "unknown" in versions:
            found.append("some replies named no version of their weights: whether they moved is not known")
        if batch.request.step is not None:
            return tuple(found)  # its weights may move, and the age of its groups is checked
        before = [b for b in self._ledger.all() if b.order < batch.order and b.request.policy.name == policy]
        last = next((b for b in reversed(before) if b.state == "done"), None)
        previous_version = None if last is None else last.request.policy.version
        same = last is not None and bool(named) and named == set(last.versions) - {"unknown"}
        if same and requested is not None and previous_version not in (None, requested):
            found.append(
                f"version {requested} was asked for, and the weights are those of {previous_version}: they did not move"
            )
        if len(named) > 1:
            found.append("the weights moved while the batch was running")
        return tuple(found)

    def _folder(self, request: BatchRequest) -> str | None:
        """Returns the folder with the policy's tokenizer, for token roles; None if it is not known."""
        name = request.policy.name
        if name in self._config.renderers:
            return self._config.renderers[name]
        newest = self._policies.find(name).newest if request.step is not None else None
        version = newest.version if newest is not None else request.policy.version
        model = self._config.policies[name].replace(VERSION, version or "")
        return model.removeprefix("local:").partition("?")[0] if model.startswith("local:") else None


def _is_unwritable(cause: BaseException | None) -> bool:
    """Returns whether a disk could not be written to. A record that is missing, damaged or in use is of its batch
    alone."""
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _UNWRITABLE_SQLITE  # the rest tells more
    return isinstance(cause, OSError) and cause.errno in _UNWRITABLE


class GroupTally(Tally):
    """Progress of a batch, and its tasks whose attempts have all ended, as `whole` gives them; None ends them."""

    def __init__(self, request: BatchRequest) -> None:
        super().__init__()
        self.whole: asyncio.Queue[str | None] = asyncio.Queue()
        self._size = group_size(request)
        self._ended: Counter[str] = Counter()

    def opened(self, run: str, rows: Sequence[AttemptRow]) -> None:
        super().opened(run, rows)
        self._ended.update(row.task for row in rows if row.final)

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        super().finished(attempt, result)
        task = attempt.loaded.task.id
        self._ended[task] += 1
        if self._ended[task] == self._size:
            self.whole.put_nowait(task)


def group_size(request: BatchRequest) -> int | None:
    """Returns the number of attempts with which a group is whole; None if only the end of the run makes it so."""
    adaptive = request.allocate != "uniform" or bool(request.allocate_options)
    if adaptive or request.budget is not None or request.early_stop is not None:
        return None
    if request.credit is not None and whole_batch_methods(request.credit):
        return None
    return request.attempts


class _GroupWriter:
    """Reads the groups of a batch and writes them to its file, on a thread of its own (`call`).

    `folder` returns the folder with the policy's tokenizer once the first group is read: older versions may be gone.
    """

    def __init__(self, settings: Settings, batch: LedgerBatch, path: Path, folder: Callable[[], str | None]) -> None:
        self._settings, self._batch, self._folder = settings, batch, folder
        self._size = group_size(batch.request)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-groups")
        self._stack = ExitStack()
        self._file = GroupFile(path)
        self._stack.callback(self._file.close)
        self._builder: GroupBuilder | None = None

    async def call(self, method: Any, *arguments: Any) -> None:
        """Calls a method of the writer on its thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, method, *arguments)

    def close(self) -> None:
        """Waits for the call under way and closes the files."""
        self._thread.shutdown(wait=True)
        self._stack.close()

    def write(self, task: str) -> None:
        """Writes the group of a task. Raises as `GroupBuilder.build`."""
        if task not in self._file.tasks:
            self._file.append(self._opened().build(task))

    def write_whole(self) -> None:
        """Writes the groups that are whole and were not written before a kill."""
        for task, rows in self._rows_by_task().items():
            if self._size is not None and sum(row.final for row in rows) >= self._size:
                self.write(task)

    def write_rest(self) -> None:
        """Writes all remaining groups, once the run is over."""
        tasks = [task for task in sorted(self._rows_by_task()) if task not in self._file.tasks]
        if self._batch.request.credit is not None and whole_batch_methods(self._batch.request.credit):
            every = sorted(self._rows_by_task())
            for group in self._opened().build_all(every):
                self._file.append(group)
            return
        for task in tasks:
            self.write(task)

    def _rows_by_task(self) -> dict[str, list[AttemptRow]]:
        found: dict[str, list[AttemptRow]] = {}
        with RunStore.open(self._settings.store, self._batch.run) as store:
            for row in store.attempts():
                found.setdefault(row.task, []).append(row)
        return found

    def _opened(self) -> GroupBuilder:
        if self._builder is None:
            unproved = self._batch.request.unproved
            config = RowsConfig(model=self._folder(), uncertified="mask" if unproved else "refuse")
            reader = self._stack.enter_context(RunReader.open_live(self._settings, self._batch.run, config))
            self._builder = GroupBuilder(self._batch, reader)
        return self._builder
