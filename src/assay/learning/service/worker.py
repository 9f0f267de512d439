"""Runs batches one at a time: an ordinary run each, then its rows.

After a kill it resumes: a run continues without loss or repetition, and partly written rows are rewritten.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from assay.errors import AssayError, EnvironmentFailure, boundary
from assay.rollout.progress import Tally
from assay.rollout.runs import resume_run, start_run
from assay.settings import Settings
from assay.store import list_runs

from .config import VERSION, BatchRequest, run_config
from .ledger import Ledger, LedgerBatch
from .rows import write_batch
from .service_config import RolloutServiceConfig

_log = logging.getLogger(__name__)
MAX_ERROR_CHARS = 2000


class BatchWorker:
    """Runs batches."""

    def __init__(self, config: RolloutServiceConfig, settings: Settings, ledger: Ledger) -> None:
        self._config, self._settings, self._ledger = config, settings, ledger
        self._wake_event = asyncio.Event()
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._running: LedgerBatch | None = None
        self.tally = Tally()
        """Progress of the running batch."""

    async def run(self) -> None:
        """Runs batches until cancelled."""
        while True:
            batch = next((one for one in self._ledger.all() if not one.is_over), None)
            if batch is None:
                self._wake_event.clear()
                await self._wake_event.wait()
                continue
            self._running, self.tally = batch, Tally()
            self._task = asyncio.create_task(self._work(batch))
            try:
                await asyncio.wait([self._task])
                if not self._task.cancelled():
                    self._task.result()
            except asyncio.CancelledError:  # the service ends: the batch stays as it is
                self._task.cancel()
                await asyncio.wait([self._task])
                raise
            finally:
                self._running = self._task = None
                await self._notify()

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
        if batch.is_over:
            return batch
        cancelled = self._ledger.save(msgspec.structs.replace(batch, state="cancelled"))
        if self._running is not None and self._running.request.id == batch.request.id and self._task is not None:
            self._task.cancel()
        await self._notify()
        return cancelled

    def is_running(self, batch: LedgerBatch) -> bool:
        """Returns whether a batch is running."""
        return self._running is not None and self._running.request.id == batch.request.id

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _work(self, batch: LedgerBatch) -> None:
        batch = self._ledger.save(msgspec.structs.replace(batch, state="running"))
        try:
            with boundary(EnvironmentFailure, f"batch {batch.request.id}"):
                done = await self._execute(batch)
        except AssayError as exc:
            _log.warning("batch %s failed", batch.request.id, exc_info=exc)
            done = msgspec.structs.replace(batch, state="failed", error=str(exc)[:MAX_ERROR_CHARS])
        current = self._ledger.find(batch.request.id)
        if current is not None and current.state == "running":
            self._ledger.save(done)

    async def _execute(self, batch: LedgerBatch) -> LedgerBatch:
        store = self._settings.store
        if batch.run in list_runs(store):
            await resume_run(batch.run, self._settings, self.tally)
        else:
            await start_run(run_config(self._config, batch.request, batch.run), self._settings, self.tally)
        target, folder = self._ledger.rows_path(batch), _folder(self._config, batch.request)
        written = await asyncio.to_thread(write_batch, self._settings, batch, target, folder)
        row_fields: dict[str, Any] = written._asdict()
        return msgspec.structs.replace(
            batch, state="done", warnings=self._warnings(batch, written.versions), **row_fields
        )

    def _warnings(self, batch: LedgerBatch, versions: dict[str, int]) -> tuple[str, ...]:
        requested, policy = batch.request.policy.version, batch.request.policy.name
        named = set(versions) - {"unknown"}
        found = []
        if "unknown" in versions:
            found.append("some replies named no version of their weights: whether they moved is not known")
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


def _folder(config: RolloutServiceConfig, requested: BatchRequest) -> str | None:
    if requested.policy.name in config.renderers:
        return config.renderers[requested.policy.name]
    model = config.policies[requested.policy.name].replace(VERSION, requested.policy.version or "")
    return model.removeprefix("local:").partition("?")[0] if model.startswith("local:") else None
