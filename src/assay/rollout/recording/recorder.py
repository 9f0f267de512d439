"""Writes the events of one trial to its chain, in small batches.

Invariant: events are committed within `PATIENCE_S`, always before a model's answer reaches the agent, and at the end of
the trial; a killed runner loses at most that interval. In a spool (`RunStore.create`), whose trials are run again
after a kill, they are committed before they are read and at the end, and at most `SPOOL_BATCH` wait for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from assay.analysis.judged_path import BRANCH
from assay.errors import escape_surrogates
from assay.gateway.interface import Exchange
from assay.records import (
    Actor,
    Body,
    Channel,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Noted,
    Step,
    StepAdded,
    Verdict,
    VerdictAdded,
    canonical_bytes,
)
from assay.rollout.recording.model_calls import CallRecordBuilder
from assay.rollout.recording.redaction import Redactor
from assay.rollout.telemetry.observer import SILENT, TrialObserver
from assay.store import RunStore
from assay.store.encoding import EncodedBody

BATCH = 16
"""Largest number of events in a transaction."""
SPOOL_BATCH = 64
"""The same in a spool."""
CALL_BEGUN = "call begun"
PATIENCE_S = 0.02
"""Seconds that an event waits for others before it is committed."""


class BranchPath:
    """Steps of one branch of an attempt, from the start to its present state.

    Steps of several branches are recorded one after the other. Where a step does not follow the one before it in the
    record, evidence of kind `branch` precedes it: `branch` is the number, `at` the index of the next step, and `after`
    that of the step whose state it acts in (absent: the start).
    """

    def __init__(self, number: int, steps: Sequence[Step] = ()) -> None:
        self.number = number
        self.steps = list(steps)

    @property
    def last(self) -> int:
        """Returns the index of the latest step; -1 at the start."""
        return self.steps[-1].index if self.steps else -1


class Recorder:
    """The record of one trial; the default redactor finds key-shaped text in model requests and replies."""

    def __init__(self, store: RunStore, chain: str, redactor: Redactor | None = None) -> None:
        self.store = store
        self.chain = chain
        self.redactor = redactor or Redactor()
        self._keeper = CallRecordBuilder(store.blobs, self.redactor)
        self.patience_s = PATIENCE_S
        """Seconds that an event waits for others."""
        self._is_lazy = store.is_spool
        self.steps = 0
        self.executions = 0
        """Executed commands, including interrupted ones."""
        self.on_step: Callable[[Step], None] | None = None
        """Called with each recorded step of the agent."""
        self.observer: TrialObserver = SILENT
        self.path: BranchPath | None = None
        """The branch that acts; None in an attempt without branches."""
        self._evidence = 0
        self._calls = 0
        self._pending: list[Body | EncodedBody] = []
        self._since = 0.0
        """Time at which the oldest pending event was recorded."""
        self._call_notes: dict[str, Body] = {}
        """Note of each call under way."""

    def add(self, body: Body, *, clean: bool = False) -> None:
        """Adds an event; commits a full or old batch. Called on the event loop.

        `clean` skips redaction of known secrets.
        """
        self._enqueue(_encode_escaped(body if clean else self._clean(body)))
        if self._is_lazy:
            self._bound_pending()
        elif len(self._pending) >= BATCH or time.monotonic() - self._since > self.patience_s:
            self.flush()
        else:
            self.store.group_commit.schedule(self, self.patience_s)

    def _bound_pending(self) -> None:
        if len(self._pending) >= SPOOL_BATCH:
            self.flush()

    def _enqueue(self, body: Body | EncodedBody) -> None:
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append(body)

    def _clean(self, body: Body) -> Body:
        """Redacts known secrets from an event and notes their names before it."""
        if not self.redactor.has_secrets:
            return body
        names = self.redactor.names_in(body, shapes=False)
        if not names:
            return body
        self._pending.append(Noted("redacted", {"names": list(names)}, time.time()))
        plain = self.redactor.value(msgspec.to_builtins(body), shapes=False)
        return msgspec.convert(plain, type(body))

    def flush(self) -> None:
        """Commits pending events. Raises `StoreError`; they stay pending then."""
        if self._pending:
            self.store.append(self.chain, self._pending)
        self.committed()

    async def commit(self) -> None:
        """Commits pending events together with those of other trials of the run. Raises as `flush`."""
        if self._pending:
            await self.store.group_commit.commit(self)

    async def checkpoint(self) -> None:
        """Commits as `commit`, so that a killed runner does not lose what comes before; in a spool it need not."""
        if self._is_lazy:
            self._bound_pending()
        else:
            await self.commit()

    def pending(self) -> Sequence[Body | EncodedBody]:
        return self._pending

    def committed(self) -> None:
        self._pending = []

    def step(self, step: Step, *, clean: bool = False) -> None:
        """Adds a step of the agent. `clean` as in `add`."""
        self.steps += 1
        self.add(StepAdded(step), clean=clean)
        if self.path is not None:
            self.path.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)
        self.observer.on_step(step)

    def follow(self, path: BranchPath) -> None:
        """Records the next steps as those of a branch."""
        if self.path is path:
            return
        self.path = path
        if path.last != self.steps - 1:
            self.evidence("audit", BRANCH, branch_data(path, self.steps))

    def evidence(self, channel: Channel, kind: str, data: dict[str, object], blobs: tuple[str, ...] = ()) -> str:
        """Adds evidence and returns its id."""
        self.executions += kind in ("execution", "execution_cut")
        found = Evidence(self.evidence_id(), channel, kind, data, blobs, time.time())
        self.add(EvidenceAdded(found))
        if kind == "execution":
            self.observer.on_execution(data)
        return found.id

    def evidence_id(self) -> str:
        """Returns a fresh evidence id, unique in the chain."""
        self._evidence += 1
        return f"e{self._evidence}"

    @property
    def acts(self) -> int:
        """Returns the number of steps, executions and model calls that have begun or ended."""
        return self.steps + self.executions + self._calls

    def begin_call(self) -> str:
        """Returns the id of a call, unique in the chain. Events before it that are not yet old enough to be committed
        are committed with its answer."""
        self._calls += 1
        return f"c{self._calls}"

    def begin_noted_call(self, parent: str | None, state: str | None) -> str:
        """Returns the id of a call that may run concurrently with others.

        A note marks the call as under way, so that an interrupted chain shows it. A call that ends before its note is
        committed needs none.
        """
        self._calls += 1
        call_id = f"c{self._calls}"
        data: dict[str, object] = {"call": call_id, "parent": parent, "state": state}
        known = {name: value for name, value in data.items() if value is not None}
        note = self._call_notes[call_id] = Noted(CALL_BEGUN, known, time.time())
        self._enqueue(note)
        if not self._is_lazy:
            self.store.group_commit.schedule(self, self.patience_s)
        return call_id

    async def end_call(
        self,
        exchange: Exchange,
        state: str | None = None,
        actor: Actor = "agent",
        actor_name: str | None = None,
    ) -> ModelCall:
        """Adds an ended model call, redacted and without its parent's content, and commits it before the agent gets the
        answer. `actor_name` is that of an actor of a team."""
        call = self._keeper.keep(exchange, state, actor)
        if actor_name is not None:
            call = msgspec.structs.replace(call, actor_name=actor_name)
        begun = self._call_notes.pop(exchange.id, None)
        if begun is not None:
            self._pending = [one for one in self._pending if one is not begun]
        self._enqueue(ModelCalled(call))
        self.observer.on_call(call)
        await self.checkpoint()
        return call

    def verdict(self, verdict: Verdict) -> None:
        self.add(VerdictAdded(verdict))

    def note(self, name: str, data: dict[str, object]) -> None:
        """Adds a note about the record itself."""
        self.add(Noted(name, data, time.time()))


def branch_data(path: BranchPath, at: int) -> dict[str, object]:
    """Returns the data of evidence about a branch at a place of the record."""
    data: dict[str, object] = {"branch": path.number, "at": at}
    return data | ({"after": path.last} if path.steps else {})


def _encode_escaped(body: Body) -> Body | EncodedBody:
    """Returns the event encoded, with lone surrogates escaped: an agent's or a check's text may hold one, and the store
    refuses it. Of a model call the gateway parsed every text."""
    if isinstance(body, ModelCalled):
        return body
    try:
        return EncodedBody(canonical_bytes(body), body)
    except UnicodeEncodeError:
        escaped: Body = msgspec.convert(escape_texts(msgspec.to_builtins(body)), type(body))
        return escaped


def escape_texts(value: Any) -> Any:
    """Returns plain data with the lone surrogates of its texts escaped, as they are recorded."""
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {escape_texts(key): escape_texts(item) for key, item in value.items()}
    return [escape_texts(item) for item in value] if isinstance(value, list | tuple) else value
