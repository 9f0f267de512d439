"""The node agent: runs many trials in one event loop, and commits each as its last act.

An agent takes leases up to 1.25 times its slots, so that a slot that falls free has work before the next poll; of
trials that are shorter than the time between polls it takes as many more as ended since the last one, and twice as many
if it ran out of work. It
bounds running trials (slots), sandboxes that are starting, concurrent uploads, and the bytes that wait for upload:
above that bound it starts no trial and takes no lease until the store accepts uploads again. It runs fewer trials at
once while a model server or the store is overloaded (`AttemptLimit`), also one that only answers more slowly
(`LatencyWatch`). Runs that share an agent get its free slots by
turns, by what they hold and what waits. After three trials in a
row that left no record (a full disk, no sandbox), it gives back its waiting leases and tries one lease at a time, with
growing waits, so that a broken node does not use up the trials of attempts that others can run.

Invariant: an end is reported after the store has the trial, and until a coordinator has received it. An agent that is
told to drain starts nothing, gives back its waiting leases, interrupts its running trials and uploads their chains as
`cut/`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

import msgspec

from assay.errors import AssayError, EnvironmentFailure, StoreError, boundary
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.limits.attempt_limit import AttemptLimit
from assay.rollout.limits.latency_watch import LatencyWatch, ServerLoad
from assay.rollout.limits.run_budget import ModelUse
from assay.rollout.telemetry.observer import RunObserver
from assay.store.objects.interface import ObjectStore

from .commits import TrialBody, commit_final, keep_cut, new_token, use_of_trial
from .patient_store import PatientStore
from .placement import NodeResources, RunDemand, divide_slots
from .transport import (
    NO_USE,
    AgentLoad,
    AgentReport,
    Ending,
    GrantReply,
    GrantRequest,
    Lease,
    LeaseRef,
    PollRequest,
    TrialEnd,
)

DEMAND_S = 30.0
"""Slots are kept for another run that asked for some within this time."""
LAG_S = 15.0
"""An upload that waits for so long is a sign that the store is overloaded."""
SLOW_SHARE = 0.25
"""Share of the slots that slow answers leave."""
MOST_AHEAD = 4096
"""Leases that wait at an agent at most, beyond its slots."""
CRASHES_IN_A_ROW = 3
"""Trials without a record after which an agent rests."""
FIRST_REST_S, LONGEST_REST_S = 5.0, 60.0

_log = logging.getLogger(__name__)


class TrialOutcome(NamedTuple):
    """A recorded trial."""

    ending: Literal["final", "retry", "interrupted"]
    body: TrialBody
    release: Callable[[], None] = lambda: None
    """Is called when the object store has the record: the node's own is not needed any more."""


RunTrial = Callable[[Lease, asyncio.Semaphore], Awaitable[TrialOutcome]]
"""Runs and records one trial. Holds the semaphore while its sandbox starts. If it is cancelled, it returns its record
so far as `interrupted`, and raises `CancelledError` only without one."""


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of one agent."""

    name: str
    """Unique among the agents of a cluster, stable over restarts."""
    slots: int = 64
    """Trials that run at once."""
    starting: int = 16
    """Sandboxes that start at once."""
    uploads: int = 32
    """Trials that are uploaded at once."""
    spool_bytes: int = 256 << 20
    """Trials that wait for upload may take this much; above it nothing starts."""


class _LeaseState:
    """A lease and its phase. The task is that of its trial, once that runs."""

    __slots__ = ("ended_at", "is_cut", "lease", "phase", "received_at", "ref", "started_at", "task")

    def __init__(self, lease: Lease, ref: LeaseRef, received_at: float) -> None:
        self.lease, self.ref, self.received_at, self.started_at, self.ended_at = lease, ref, received_at, 0.0, 0.0
        self.is_cut = False
        self.phase: Literal["waiting", "starting", "running", "uploading"] = "waiting"
        self.task: asyncio.Task[None] | None = None


class NodeAgent:
    """The agent of one node. Its `poll` and `grant` are the link that a coordinator uses."""

    def __init__(
        self,
        config: AgentConfig,
        objects: ObjectStore,
        run_trial: RunTrial,
        resources: Callable[[], NodeResources] = NodeResources,
        *,
        clock: Callable[[], float] | None = None,
        make_token: Callable[[], str] = new_token,
        observers: Callable[[str], RunObserver | None] = lambda _: None,
    ) -> None:
        """Creates an agent, which starts nothing before `serve` runs.

        Args:
            config: Its bounds.
            objects: Where it commits.
            run_trial: Runs one trial.
            resources: Says what the node can run now.
            clock: A monotonic clock in seconds; None is that of the event loop.
            make_token: Makes the token of a trial.
            observers: Returns what is told of the uploads of a run; None: nothing is.
        """
        self.config, self._objects = config, PatientStore(objects, self.on_overload)
        self._run_trial, self._resources = run_trial, resources
        self.clock = clock or (lambda: asyncio.get_running_loop().time())
        self._make_token, self._observers = make_token, observers
        self._session = make_token()
        self._epochs: dict[str, int] = {}
        self._leases: dict[LeaseRef, _LeaseState] = {}
        self._waiting: deque[_LeaseState] = deque()
        self._running = 0
        self._spooled_bytes = 0
        self._ends: dict[str, TrialEnd] = {}
        self.limit = AttemptLimit(config.slots, self.clock)
        self._demands: dict[str, tuple[float, int | None]] = {}
        """When each run was polled for last, and how many of its attempts waited then; None if that was not said."""
        self._ahead = 0
        """Leases beyond the slots that are used up before the next poll."""
        self._ended_before: dict[str, int] = {}
        """Leases that had ended when a run was polled for last."""
        self._starting = asyncio.Semaphore(config.starting)
        self._uploads = asyncio.Semaphore(config.uploads)
        self._group: asyncio.TaskGroup | None = None
        self._draining = False
        self._left_runs: set[str] = set()
        """Runs whose leases the agent takes no more."""
        self._crashes = 0
        """Trials since the last one with a record."""
        self._rest_until = -math.inf
        self._polled_at: float | None = None
        self.endings: Counter[Ending] = Counter()
        """Number of leases that ended, by ending."""
        self._late_at = math.inf
        """Earliest time at which a running trial outlives its lease."""
        self._stopped = asyncio.Event()
        self._idle = asyncio.Event()
        self._received = asyncio.Event()

    async def serve(self) -> None:
        """Runs trials until `drain` has ended. Cancelling it ends the agent at once, as a kill does."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._start_trials()
            try:
                await self._stopped.wait()
            finally:
                self._group = None  # nothing starts while the others are cancelled

    async def wait_received(self) -> None:
        """Waits until a coordinator has received all ends."""
        while self._ends:
            self._received.clear()
            await self._received.wait()

    @property
    def leases(self) -> int:
        """Number of leases whose trials are not in the store yet."""
        return len(self._leases)

    def leases_of(self, run: str) -> int:
        """Returns how many of these are of one run."""
        return sum(ref.run == run for ref in self._leases)

    def load(self) -> AgentLoad:
        """Returns what the agent does now."""
        now = self.clock()
        uploading = [one.ended_at for one in self._leases.values() if one.phase == "uploading"]
        return AgentLoad(
            self._running,
            len(self._waiting),
            len(uploading),
            self._spooled_bytes,
            max(0.0, now - min(uploading, default=now)),
            None if self._polled_at is None else now - self._polled_at,
            self.limit.allowed,
        )

    def on_overload(self) -> None:
        """Takes a sign that a model server or the store is overloaded."""
        self.limit.cut(self._running)

    def on_reply(self) -> None:
        """Takes an answer in time of a model server or the store."""
        if self.limit.grow():
            self._start_trials()

    def on_slowness(self) -> None:
        """Takes a sign that a model server answers more slowly and does no more: weaker than a refusal, so that it
        leaves a share of the slots."""
        self.limit.cut(self._running, math.ceil(SLOW_SHARE * self.config.slots))

    def listen(self) -> ServerLoad:
        """Returns a listener for one model server."""
        return ServerLoad(LatencyWatch(self.clock), self.on_overload, self.on_reply, self.on_slowness)

    async def drain(self, within_s: float = 20.0) -> None:
        """Gives back all leases, uploads what is recorded, and stops the agent after at most `within_s` seconds."""
        self._draining = True
        await self._drain(lambda _: True, within_s)
        self._stopped.set()

    async def drain_run(self, run: str, within_s: float = 20.0) -> None:
        """Gives back the leases of one run, uploads what is recorded of it, and takes no more of them."""
        self._left_runs.add(run)
        self._demands.pop(run, None)
        self._ended_before.pop(run, None)
        await self._drain(lambda one: one.lease.run == run, within_s)

    async def _drain(self, chosen: Callable[[_LeaseState], bool], within_s: float) -> None:
        self._return_waiting(chosen)
        self._cut_trials(late_only=False, chosen=chosen)
        try:
            async with asyncio.timeout(within_s):
                while any(map(chosen, self._leases.values())):
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            left = [one for one in self._leases.values() if chosen(one)]
            _log.warning("agent %s: %d trials were not uploaded in time", self.config.name, len(left))
            for one in left:
                if one.task is not None:
                    one.task.cancel()

    def _is_draining(self, lease: Lease) -> bool:
        return self._draining or lease.run in self._left_runs

    async def poll(self, request: PollRequest) -> AgentReport:
        """Returns the state of the agent. Leases that waited too long are among its ends, as `returned`."""
        stale = self._learn_epochs(request.epochs)
        if request.epochs:
            self._polled_at = self.clock()
        self._forget_ends(request.received)
        self._end_late_leases()
        self._look_ahead(request)
        epochs = request.epochs
        leases: tuple[LeaseRef, ...] = ()
        if request.all_leases:
            leases = tuple(ref for ref in self._leases if ref.run in epochs and ref.run not in stale)
        return AgentReport(
            self.config.name,
            self._session,
            self._share(request),
            self._running,
            len(self._waiting),
            len(self._leases) - self._running - len(self._waiting),
            self._resources(),
            stale,
            tuple([end for end in self._ends.values() if end.run in epochs and end.run not in stale]),
            leases,
            None if request.epochs else self.load(),
        )

    async def grant(self, request: GrantRequest) -> GrantReply:
        """Takes leases up to its capacity, and starts what has a free slot."""
        self._forget_ends(request.received)
        capacity, now, refused = self._capacity(), self.clock(), []
        for lease in request.leases:
            ref = lease.ref
            if lease.epoch < self._epochs.get(lease.run, 0) or lease.run in self._left_runs:
                refused.append(ref)
            elif ref in self._leases:
                continue  # repeated: the answer to the first request was lost
            elif capacity <= 0:
                refused.append(ref)
            else:
                self._epochs[lease.run] = lease.epoch
                capacity -= 1
                one = self._leases[ref] = _LeaseState(lease, ref, now)
                self._waiting.append(one)
        self._start_trials()
        return GrantReply(tuple(refused))

    def _learn_epochs(self, epochs: dict[str, int]) -> dict[str, int]:
        """Returns the runs of which a higher epoch is known."""
        stale = {}
        for run, epoch in epochs.items():
            highest = self._epochs.get(run, 0)
            if epoch < highest:
                stale[run] = highest
            else:
                self._epochs[run] = epoch
        return stale

    def _forget_ends(self, tokens: tuple[str, ...]) -> None:
        for token in tokens:
            self._ends.pop(token, None)
        self._received.set()

    def _capacity(self) -> int:
        if self._draining or self._spooled_bytes > self.config.spool_bytes:
            return 0
        if self._crashes >= CRASHES_IN_A_ROW:
            return int(self.clock() >= self._rest_until and not self._running and not self._waiting)
        ahead = max(math.ceil(0.25 * self.limit.allowed), self._ahead)
        return max(0, self.limit.allowed + ahead - self._running - len(self._waiting))

    def _look_ahead(self, request: PollRequest) -> None:
        """Estimates the leases that end before the next poll of the same coordinator."""
        total = self.endings["final"] + self.endings["superseded"] + self.endings["retry"]
        for run in request.epochs:
            ended = total - self._ended_before.get(run, total)
            self._ended_before[run] = total
            is_idle = not self._waiting and self._running < self.limit.allowed
            self._ahead = min(MOST_AHEAD, 2 * ended if is_idle else ended)

    def _share(self, request: PollRequest) -> int:
        """Returns how many leases a coordinator may grant: its share, while other runs wait for slots, too."""
        now, capacity = self.clock(), self._capacity()
        for run in request.epochs:
            self._demands[run] = (now, request.waiting.get(run))
        self._demands = {run: one for run, one in self._demands.items() if now - one[0] < DEMAND_S}
        others = [run for run, (_, waiting) in self._demands.items() if run not in request.epochs and waiting]
        if not capacity or not others or not request.epochs:
            return capacity
        leased = Counter(ref.run for ref in self._leases)
        demands = []
        for run in (*request.epochs, *others):
            waiting = self._demands[run][1]
            demands.append(RunDemand(run, 1.0, leased[run], capacity if waiting is None else waiting))
        shares = divide_slots(capacity, demands)
        return sum(shares[run] for run in request.epochs)

    def _end_late_leases(self) -> None:
        """Gives back leases that waited too long, and cuts trials that outlived theirs."""
        now = self.clock()
        if self._spooled_bytes and any(
            one.phase == "uploading" and now - one.ended_at > LAG_S for one in self._leases.values()
        ):
            self.on_overload()
        if now > self._late_at:
            self._cut_trials(late_only=True)
            left = [one for one in self._leases.values() if one.phase in ("starting", "running") and not one.is_cut]
            self._late_at = min((one.started_at + one.lease.lifetime_s for one in left), default=math.inf)
        while self._waiting and now - self._waiting[0].received_at > self._waiting[0].lease.start_within_s:
            self._report_end(self._waiting.popleft(), self._make_token(), "returned")

    def _start_trials(self) -> None:
        if self._draining or self._group is None or self._spooled_bytes > self.config.spool_bytes:
            return
        if not self._waiting:
            return
        now, allowed = self.clock(), self.limit.allowed
        while self._waiting and self._running < allowed:
            one = self._waiting.popleft()
            one.phase, one.started_at = "starting", now
            self._late_at = min(self._late_at, now + one.lease.lifetime_s)
            self._running += 1
            one.task = self._group.create_task(self._run_and_upload(one))

    async def _run_and_upload(self, one: _LeaseState) -> None:
        token = self._make_token()
        if self._is_draining(one.lease):
            self._running -= 1
            self._report_end(one, token, "returned")
            return
        one.phase = "running"
        outcome = None
        try:
            with boundary(EnvironmentFailure, f"running {one.lease.attempt}"):
                outcome = await self._run_trial(one.lease, self._starting)
        except AssayError as exc:
            _log.warning("agent %s: a trial of %s ended without a record: %s", self.config.name, one.lease.attempt, exc)
        except asyncio.CancelledError:
            if not one.is_cut:
                raise
        finally:
            one.phase, one.ended_at = "uploading", self.clock()
            self._running -= 1
            self._start_trials()
        if one.task is not None and one.task.cancelling():
            if not one.is_cut:
                raise asyncio.CancelledError
            one.task.uncancel()  # the trial is over; its upload goes on
        if outcome is None:
            if self._is_draining(one.lease):
                self._report_end(one, token, "interrupted")
            else:
                self._report_end(one, token, "crashed")
                self._rest_after_crashes()
        else:
            self._crashes = 0
            await self._upload(one, token, outcome)

    def _rest_after_crashes(self) -> None:
        """Gives back the waiting leases and takes none for a while, if too many trials in a row left no record."""
        self._crashes += 1
        excess = self._crashes - CRASHES_IN_A_ROW
        if excess < 0:
            return
        self._rest_until = self.clock() + min(LONGEST_REST_S, FIRST_REST_S * 2.0 ** min(excess, 8))
        _log.warning("agent %s: %d trials in a row left no record: it rests", self.config.name, self._crashes)
        self._return_waiting()

    def _return_waiting(self, chosen: Callable[[_LeaseState], bool] = lambda _: True) -> None:
        waiting = list(self._waiting)
        self._waiting = deque(one for one in waiting if not chosen(one))
        for one in filter(chosen, waiting):
            self._report_end(one, self._make_token(), "returned")

    def _cut_trials(self, *, late_only: bool, chosen: Callable[[_LeaseState], bool] = lambda _: True) -> None:
        """Cancels running trials, whose records so far are uploaded.

        A task that has not begun is left alone: if it were cancelled, it would never report its end.
        """
        now = self.clock()
        for one in self._leases.values():
            if one.phase != "running" or one.task is None or one.is_cut or not chosen(one):
                continue
            if not late_only or now - one.started_at > one.lease.lifetime_s:
                one.is_cut = True
                one.task.cancel()

    async def _upload(self, one: _LeaseState, token: str, outcome: TrialOutcome) -> None:
        """Commits a trial, or stores it as cut, however long the store does not answer."""
        lease, size, started = one.lease, len(outcome.body.events), time.time()
        self._spooled_bytes += size
        try:
            async with self._uploads:
                ending, result = await self._commit(lease, token, outcome)
            self.on_reply()
            outcome.release()
        finally:
            was_full = self._spooled_bytes > self.config.spool_bytes
            self._spooled_bytes -= size
            if was_full:
                self._start_trials()
        observer = self._observers(lease.run)
        if observer is not None:
            observer.on_upload(outcome.body.chain, started, ending)
        self._report_end(one, token, ending, result, use_of_trial(outcome.body))

    async def _commit(self, lease: Lease, token: str, outcome: TrialOutcome) -> tuple[Ending, TrialResult | None]:
        run, attempt, body = lease.run, lease.attempt, outcome.body
        if outcome.ending == "final":
            try:
                commit = await commit_final(self._objects, run, attempt, token, body)
            except StoreError:
                _log.exception("agent %s: the final record of %s is damaged", self.config.name, attempt)
                return "superseded", None
            return ("final" if commit.outcome == "won" else "superseded"), commit.result
        reason: Literal["retried", "interrupted"] = "retried" if outcome.ending == "retry" else "interrupted"
        await keep_cut(self._objects, run, attempt, token, body, reason)
        if outcome.ending == "interrupted" and not self._is_draining(lease):
            return "crashed", None  # it outlived its lease
        return outcome.ending, body.result

    def _report_end(
        self,
        one: _LeaseState,
        token: str,
        ending: Ending,
        result: TrialResult | None = None,
        use: ModelUse = NO_USE,
    ) -> None:
        lease = one.lease
        del self._leases[one.ref]
        self.endings[ending] += 1
        self._ends[token] = TrialEnd(lease.run, lease.attempt, token, ending, result, use)
        if self._draining or self._left_runs or not self._leases:
            self._idle.set()
