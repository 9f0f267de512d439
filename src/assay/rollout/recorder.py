"""Writes what happens in one try to its chain, in small batches.

Invariant: everything recorded before a model call is committed before the call is made, everything is committed a
moment after it was recorded, and all of it when the try ends; a killed runner loses at most that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from assay.errors import StoreError
from assay.records import (
    Body,
    Channel,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Noted,
    Step,
    StepTaken,
    Verdict,
    VerdictGiven,
)
from assay.store import RunStore

__all__ = ["Recorder"]

BATCH = 16
"""Events a transaction, at most."""
PATIENCE_S = 0.02
"""How long an event waits for others, whatever the agent does meanwhile: a killed runner loses no more than this."""


class Recorder:
    """The record of one try."""

    def __init__(self, store: RunStore, chain: str) -> None:
        self.store = store
        self.chain = chain
        self.steps = 0
        self._evidence = 0
        self._calls = 0
        self._pending: list[Body] = []
        self._flushed = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, body: Body) -> None:
        """Adds an event; commits when a batch is full. Called on the event loop."""
        self._pending.append(body)
        if len(self._pending) >= BATCH or time.monotonic() - self._flushed > PATIENCE_S:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        with contextlib.suppress(StoreError):  # it stays pending, and the next to add or flush is told
            self.flush()

    def flush(self) -> None:
        """Commits what is pending. Raises `StoreError`; what was pending stays pending then."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            self.store.append(self.chain, self._pending)
            self._pending = []
            self._flushed = time.monotonic()

    def step(self, step: Step) -> None:
        """Adds a step of the agent; its index is the next one."""
        self.steps += 1
        self.add(StepTaken(step))

    def evidence(self, channel: Channel, kind: str, data: dict[str, object], blobs: tuple[str, ...] = ()) -> str:
        """Adds a fact and returns its id."""
        found = Evidence(self.evidence_id(), channel, kind, data, blobs, time.time())
        self.add(EvidenceAdded(found))
        return found.id

    def evidence_id(self) -> str:
        """A fresh id of evidence, unique in the chain."""
        self._evidence += 1
        return f"e{self._evidence}"

    def call_id(self) -> str:
        """A fresh id of a model call, unique in the chain."""
        self._calls += 1
        return f"c{self._calls}"

    def call(self, call: ModelCall) -> None:
        """Adds a model call and commits."""
        self.add(ModelCalled(call))
        self.flush()

    def verdict(self, verdict: Verdict) -> None:
        """Adds a judgement."""
        self.add(VerdictGiven(verdict))

    def note(self, name: str, data: dict[str, object]) -> None:
        """Adds a note about the record itself."""
        self.add(Noted(name, data, time.time()))
