"""Writes what happens in one try to its chain, in small batches.

Invariant: everything is committed a moment after it was recorded, all of it before the agent is given a model's answer,
and when the try ends; a killed runner loses at most that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

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
from assay.rollout.recording.model_calls import CallKeeper
from assay.rollout.recording.redaction import Redactor
from assay.store import RunStore

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
        self.patience_s = PATIENCE_S
        """How long an event waits for others; the seconds that a killed runner may lose."""
        self.steps = 0
        self.executions = 0
        """Commands that were run, also those that were cut."""
        self.on_step: Callable[[Step], None] | None = None
        """Told of each step of the agent, once it is recorded."""
        self._evidence = 0
        self._calls = 0
        self._pending: list[Body] = []
        self._since = 0.0
        """When the oldest pending event was recorded."""
        self._begun: dict[str, Body] = {}
        """Of the calls under way, the note that says so."""

    def add(self, body: Body, *, clean: bool = False) -> None:
        """Adds an event; commits when a batch is full, or when one has waited long enough. Called on the event loop.

        With `clean` it is known to hold no secret.
        """
        self._hold(body if clean else self._clean(body))
        if len(self._pending) >= BATCH or time.monotonic() - self._since > self.patience_s:
            self.flush()
        else:
            self.store.group_commit.schedule(self, self.patience_s)

    def _hold(self, body: Body) -> None:
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append(body)

    def _clean(self, body: Body) -> Body:
        """The event without known secrets; a note before it says which were taken out."""
        if not self.redactor.knows:
            return body
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
            await self.store.group_commit.commit(self)

    def pending(self) -> Sequence[Body]:
        return self._pending

    def committed(self) -> None:
        self._pending = []

    def step(self, step: Step, *, clean: bool = False) -> None:
        """Adds a step of the agent; its index is the next one. `clean` as in `add`."""
        self.steps += 1
        self.add(StepTaken(step), clean=clean)
        if self.on_step is not None:
            self.on_step(step)

    def evidence(self, channel: Channel, kind: str, data: dict[str, object], blobs: tuple[str, ...] = ()) -> str:
        """Adds a fact and returns its id."""
        self.executions += kind in ("execution", "execution_cut")
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

    def begin_noted_call(self, parent: str | None, state: str | None) -> str:
        """The id of one of many calls that may be under way at once.

        A chain that was cut says by a note which were: those that are noted and not recorded. A call that ends before
        its note was committed needs none.
        """
        self._calls += 1
        call_id = f"c{self._calls}"
        data: dict[str, object] = {"call": call_id, "parent": parent, "state": state}
        known = {name: value for name, value in data.items() if value is not None}
        note = self._begun[call_id] = Noted(CALL_BEGUN, known, time.time())
        self._hold(note)
        self.store.group_commit.schedule(self, self.patience_s)
        return call_id

    async def end_call(self, exchange: Exchange, state: str | None = None) -> ModelCall:
        """Adds a model call that has ended, without secrets and without what its parent has, and commits."""
        call = self._keeper.keep(exchange, state)
        begun = self._begun.pop(exchange.id, None)
        self._pending = [one for one in self._pending if one is not begun]
        self._hold(ModelCalled(call))
        await self.commit()
        return call

    def verdict(self, verdict: Verdict) -> None:
        """Adds a judgement."""
        self.add(VerdictGiven(verdict))

    def note(self, name: str, data: dict[str, object]) -> None:
        """Adds a note about the record itself."""
        self.add(Noted(name, data, time.time()))
