"""Works off the batches, one after the other: an ordinary run each, then its rows.

Killed at any moment, it goes on where it was: a run is resumed with nothing lost and nothing run twice, rows that were
half written are written again.
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

from .config import VERSION, BatchRequest, RolloutServiceConfig, run_config
from .ledger import Batch, Ledger
from .rows import write_batch

__all__ = ["Worker"]

_log = logging.getLogger(__name__)
MOST_ERROR = 2000


class Worker:
    """The one who runs batches."""

    def __init__(self, config: RolloutServiceConfig, settings: Settings, ledger: Ledger) -> None:
        self._config, self._settings, self._ledger = config, settings, ledger
        self._news = asyncio.Event()
        self._moved = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._running: Batch | None = None
        self.tally = Tally()
        """Of the batch that is running."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            batch = next((one for one in self._ledger.all() if not one.over), None)
            if batch is None:
                self._news.clear()
                await self._news.wait()
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
                await self._tell()

    def wake(self) -> None:
        """There is something new to do."""
        self._news.set()

    async def moved(self, batch: str, patience_s: float) -> None:
        """Returns once the batch is over, or something ended, or patience did."""
        known = self._ledger.find(batch)
        if known is None or known.over:
            return
        try:
            async with asyncio.timeout(patience_s), self._moved:
                await self._moved.wait()
        except TimeoutError:
            return

    async def cancel(self, batch: Batch) -> Batch:
        """Ends a batch; what its run has recorded stays in the store."""
        if batch.over:
            return batch
        cancelled = self._ledger.put(msgspec.structs.replace(batch, state="cancelled"))
        if self._running is not None and self._running.request.id == batch.request.id and self._task is not None:
            self._task.cancel()
        await self._tell()
        return cancelled

    def is_running(self, batch: Batch) -> bool:
        """Whether it is the one that is worked at."""
        return self._running is not None and self._running.request.id == batch.request.id

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    async def _work(self, batch: Batch) -> None:
        batch = self._ledger.put(msgspec.structs.replace(batch, state="running"))
        try:
            with boundary(EnvironmentFailure, f"batch {batch.request.id}"):
                done = await self._made(batch)
        except AssayError as exc:
            _log.warning("batch %s failed", batch.request.id, exc_info=exc)
            done = msgspec.structs.replace(batch, state="failed", error=str(exc)[:MOST_ERROR])
        current = self._ledger.find(batch.request.id)
        if current is not None and current.state == "running":
            self._ledger.put(done)

    async def _made(self, batch: Batch) -> Batch:
        store = self._settings.store
        if batch.run in list_runs(store):
            await resume_run(batch.run, self._settings, self.tally)
        else:
            await start_run(run_config(self._config, batch.request, batch.run), self._settings, self.tally)
        target, folder = self._ledger.rows_path(batch), _folder(self._config, batch.request)
        written = await asyncio.to_thread(write_batch, store, batch, target, folder)
        told: dict[str, Any] = written._asdict()
        return msgspec.structs.replace(batch, state="done", warnings=self._warnings(batch, written.versions), **told)

    def _warnings(self, batch: Batch, versions: dict[str, int]) -> tuple[str, ...]:
        """What is wrong with the weights that answered, as far as the replies tell."""
        asked, policy = batch.request.policy.version, batch.request.policy.name
        named = set(versions) - {"unknown"}
        found = []
        if "unknown" in versions:
            found.append("some replies named no version of their weights: whether they moved is not known")
        before = [b for b in self._ledger.all() if b.order < batch.order and b.request.policy.name == policy]
        last = next((b for b in reversed(before) if b.state == "done"), None)
        before_it = None if last is None else last.request.policy.version
        same = last is not None and bool(named) and named == set(last.versions) - {"unknown"}
        if same and asked is not None and before_it not in (None, asked):
            found.append(f"version {asked} was asked for, and the weights are those of {before_it}: they did not move")
        if len(named) > 1:
            found.append("the weights moved while the batch was running")
        return tuple(found)


def _folder(config: RolloutServiceConfig, asked: BatchRequest) -> str | None:
    """Where the tokenizer of a policy lies, as far as is known."""
    if asked.policy.name in config.renderers:
        return config.renderers[asked.policy.name]
    model = config.policies[asked.policy.name].replace(VERSION, asked.policy.version or "")
    return model.removeprefix("local:").partition("?")[0] if model.startswith("local:") else None
