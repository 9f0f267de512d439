"""Writes what happens in one try to its chain, in small batches.

Invariant: everything recorded before a model call is committed before the call is made, everything is committed a
moment after it was recorded, and all of it when the try ends; a killed runner loses at most that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from assay.errors import StoreError
from assay.gateway.interface import Exchange
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

from .calls import CallKeeper
from .redact import Redactor

__all__ = ["CALL_BEGUN", "Recorder"]

BATCH = 16
"""Events a transaction, at most."""
CALL_BEGUN = "call begun"
PATIENCE_S = 0.02
"""How long an event waits for others, whatever the agent does meanwhile: a killed runner loses no more than this."""


class Recorder:
    """The record of one try.

    Args:
        store: The run.
        chain: The try's chain.
        redactor: Takes out what must not be stored; default: what has the shape of a key, in what models say and are
            told.
    """

    def __init__(self, store: RunStore, chain: str, redactor: Redactor | None = None) -> None:
        self.store = store
        self.chain = chain
        self.redactor = redactor or Redactor()
        self._keeper = CallKeeper(store.blobs, self.redactor)
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

    def begin_call(self, parent: str | None = None, state: str | None = None) -> str:
        """Notes that a call is about to be made, commits everything up to it, and returns its id.

        A chain that was cut says by this which calls were under way: those that are noted and not recorded.
        """
        self._calls += 1
        call_id = f"c{self._calls}"
        data: dict[str, object] = {"call": call_id, "parent": parent, "state": state}
        self.note(CALL_BEGUN, {name: value for name, value in data.items() if value is not None})
        self.flush()
        return call_id

    def end_call(self, exchange: Exchange, state: str | None = None) -> ModelCall:
        """Adds a model call that has ended, without secrets and without what its parent has, and commits."""
        call = self._keeper.keep(exchange, state)
        self.add(ModelCalled(call))
        self.flush()
        return call

    def verdict(self, verdict: Verdict) -> None:
        """Adds a judgement."""
        self.add(VerdictGiven(verdict))

    def note(self, name: str, data: dict[str, object]) -> None:
        """Adds a note about the record itself."""
        self.add(Noted(name, data, time.time()))
