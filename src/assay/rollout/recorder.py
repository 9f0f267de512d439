"""Writes what happens in one try to its chain, in small batches.

Invariant: everything recorded before a model call is committed before the call is made, everything is committed a
moment after it was recorded, and all of it when the try ends; a killed runner loses at most that moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import msgspec

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
        self._since = 0.0
        """When the oldest pending event was recorded."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, body: Body) -> None:
        """Adds an event; commits when a batch is full, or when one has waited long enough. Called on the event loop."""
        self._hold(body)
        if len(self._pending) >= BATCH or time.monotonic() - self._since > PATIENCE_S:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._on_time)

    def _hold(self, body: Body) -> None:
        if self.redactor.knows and not isinstance(body, ModelCalled):
            body = self._clean(body)
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append(body)

    def _on_time(self) -> None:
        self._timer = None
        with contextlib.suppress(StoreError):  # it stays pending, and the next to add or flush is told
            self.flush()

    def _clean(self, body: Body) -> Body:
        """The event without known secrets; a note before it says which were taken out."""
        names = self.redactor.names_in(body, shapes=False)
        if not names:
            return body
        self._pending.append(Noted("redacted", {"names": list(names)}, time.time()))
        plain = self.redactor.value(msgspec.to_builtins(body), shapes=False)
        return msgspec.convert(plain, type(body))

    def flush(self) -> None:
        """Commits what is pending. Raises `StoreError`; what was pending stays pending then."""
        if self._pending:
            self.store.append(self.chain, self._pending)
        self.committed()

    async def commit(self) -> None:
        """Commits what is pending together with what other tries of the run commit now. Raises as `flush`."""
        if self._pending:
            await self.store.joint.commit(self)

    def pending(self) -> Sequence[Body]:
        """See `store.Pending`."""
        return self._pending

    def committed(self) -> None:
        """See `store.Pending`."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pending = []

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

    async def begin_call(self) -> str:
        """Commits everything up to a call that is about to be made, and returns its id, unique in the chain."""
        self._calls += 1
        call_id = f"c{self._calls}"
        await self.commit()
        return call_id

    async def begin_noted_call(self, parent: str | None, state: str | None) -> str:
        """The same for one of many that may be under way at once.

        A chain that was cut says by its note which were: those that are noted and not recorded.
        """
        call_id = f"c{self._calls + 1}"
        data: dict[str, object] = {"call": call_id, "parent": parent, "state": state}
        known = {name: value for name, value in data.items() if value is not None}
        self._hold(Noted(CALL_BEGUN, known, time.time()))
        return await self.begin_call()

    async def end_call(self, exchange: Exchange, state: str | None = None) -> ModelCall:
        """Adds a model call that has ended, without secrets and without what its parent has, and commits."""
        call = self._keeper.keep(exchange, state)
        self._hold(ModelCalled(call))
        await self.commit()
        return call

    def verdict(self, verdict: Verdict) -> None:
        """Adds a judgement."""
        self.add(VerdictGiven(verdict))

    def note(self, name: str, data: dict[str, object]) -> None:
        """Adds a note about the record itself."""
        self.add(Noted(name, data, time.time()))
