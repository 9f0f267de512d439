"""Messages between the coordinator and node agents: plain data, a few hundred bytes a lease, never a trajectory.

The coordinator calls agents; an agent makes no calls, so it needs no address of a coordinator and outlives any.
Durations are sent, never times of day: the clocks of nodes differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec

from assay.errors import EnvironmentFailure
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.limits.run_budget import ModelUse

from .placement import NodeResources

Ending = Literal["final", "superseded", "retry", "crashed", "interrupted", "returned"]
NO_USE = ModelUse()
IGNORED_AFTER = 10
"""Failed calls in a row after which an agent is called less often."""
SKIPPED_CALLS = 10
"""Calls of an ignored agent that fail without a request, before the next that makes one."""


class UnreachableAgentError(EnvironmentFailure):
    """An agent did not answer. What was asked of it may have been done."""


class AgentRefusalError(UnreachableAgentError):
    """The agent answered that it does not serve this caller: a wrong token, or another version."""


class LeaseRef(NamedTuple):
    """Names a lease at an agent."""

    run: str
    attempt: str


class Lease(msgspec.Struct, frozen=True, gc=False):
    """Leave to run one trial of one attempt."""

    run: str
    epoch: int
    attempt: str
    task: str
    number: int
    seed: int
    round: int
    retry: int
    """Number of the trial, from 0."""
    may_retry: bool
    """True if an infrastructure failure allows another trial."""
    start_within_s: float
    """An agent gives back a lease that it could not start within this time."""
    lifetime_s: float
    """Seconds that the trial may take once it started; then it is interrupted."""

    @property
    def ref(self) -> LeaseRef:
        return LeaseRef(self.run, self.attempt)


class TrialEnd(msgspec.Struct, frozen=True, gc=False):
    """The end of a lease."""

    run: str
    attempt: str
    token: str
    """Of the trial; of nothing else where none began."""
    ending: Ending
    """`final`, `superseded`: the attempt has a final object. `retry`: an infrastructure failure was recorded.
    `crashed`: the trial ended without a record, or outlived its lease. `interrupted`: cut off by an agent that drains.
    `returned`: never started."""
    result: TrialResult | None = None
    """For `final` and `superseded`, the result of the attempt, whichever trial decided it."""
    use: ModelUse = NO_USE
    """Model use of this trial, as far as it is recorded."""


class PollRequest(msgspec.Struct, frozen=True, gc=False):
    """Asks an agent how it is."""

    epochs: dict[str, int]
    """The coordinator's epoch of each of its runs."""
    received: tuple[str, ...] = ()
    """Tokens of the ends that the coordinator has received; the agent forgets these."""
    all_leases: bool = False
    """True to get the leases that the agent holds."""
    waiting: dict[str, int] = {}
    """Attempts of each run that could be leased now, for agents that several runs share."""


class AgentLoad(NamedTuple):
    """The work of an agent at one moment."""

    running: int
    waiting: int
    uploading: int
    spool_bytes: int
    """Trials that wait for upload."""
    upload_wait_s: float
    """Seconds for which the oldest of them waits; 0 without one."""
    polled_s: float | None
    """Seconds since a coordinator polled the agent; None if none did."""
    allowed: int | None = None
    """Trials that may run at once now: fewer than its slots while a model server or the store is overloaded."""


class AgentReport(msgspec.Struct, frozen=True, gc=False):
    """The state of an agent."""

    agent: str
    session: str
    """Random, of this start of the agent: another session has lost all leases of the one before."""
    capacity: int
    """Leases that it takes now; 0 while it drains or its upload spool is full."""
    running: int
    waiting: int
    uploading: int
    resources: NodeResources
    stale: dict[str, int] = {}
    """The runs of the request of which the agent knows a higher epoch, and that epoch."""
    ends: tuple[TrialEnd, ...] = ()
    """Of the runs of the request; each is repeated until it is received."""
    leases: tuple[LeaseRef, ...] = ()
    """If they were asked for: of the runs of the request, those whose end is not among `ends`."""
    load: AgentLoad | None = None
    """For a request without runs, which is an observer's and not a coordinator's."""


class GrantRequest(msgspec.Struct, frozen=True, gc=False):
    """Grants leases to an agent."""

    leases: tuple[Lease, ...]
    received: tuple[str, ...] = ()


class GrantReply(msgspec.Struct, frozen=True, gc=False):
    """The leases of a request that the agent did not take."""

    refused: tuple[LeaseRef, ...] = ()


class AgentLink(Protocol):
    """Reaches one agent. Each method raises `UnreachableAgentError`, or does not answer at all."""

    async def poll(self, request: PollRequest) -> AgentReport:
        """Returns the state of the agent."""
        ...

    async def grant(self, request: GrantRequest) -> GrantReply:
        """Grants leases; repeating a request changes nothing."""
        ...


class AgentDirectory(Protocol):
    """Finds agents."""

    def agents(self) -> Mapping[str, AgentLink]:
        """Returns the agents that exist now, by name; must not block."""
        ...


Reply = TypeVar("Reply", AgentReport, GrantReply)


class BackoffLink(ABC):
    """An `AgentLink` that calls its agent less often after several calls in a row failed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._failures = self._skipped = 0
        self.problem: str | None = None
        """The error of the last call that failed; None after a good one."""
        self.is_refused = False
        """True if the agent answered the last call with a refusal."""

    async def poll(self, request: PollRequest) -> AgentReport:
        return await self._call(request, AgentReport)

    async def grant(self, request: GrantRequest) -> GrantReply:
        return await self._call(request, GrantReply)

    @abstractmethod
    async def close(self) -> None:
        """Closes the connections. Idempotent."""

    @abstractmethod
    async def _exchange(self, request: PollRequest | GrantRequest, kind: type[Reply]) -> Reply:
        """Makes one call. Raises `UnreachableAgentError`."""

    async def _call(self, request: PollRequest | GrantRequest, kind: type[Reply]) -> Reply:
        if self._failures >= IGNORED_AFTER and self._skipped < SKIPPED_CALLS:
            self._skipped += 1
            raise UnreachableAgentError(self.problem or f"agent {self.name} does not answer")
        self._skipped = 0
        self._failures += 1  # also where the call is cancelled because it takes too long
        try:
            reply = await self._exchange(request, kind)
            self._require_own(reply)
        except UnreachableAgentError as exc:
            self.problem, self.is_refused = str(exc), isinstance(exc, AgentRefusalError)
            raise
        self._failures, self.problem, self.is_refused = 0, None, False
        return reply

    def _require_own(self, reply: AgentReport | GrantReply) -> None:
        """Raises `UnreachableAgentError` for the report of another agent, which has the address of one that left: its
        trials would be counted twice, and it would be given leases twice."""
        if isinstance(reply, AgentReport) and reply.agent != self.name:
            raise UnreachableAgentError(f"agent {self.name} has left: {reply.agent[:200]} answers at its address")


def decode_reply(agent: str, status: int, body: bytes, kind: type[Reply]) -> Reply:
    """Returns an agent's reply to a call over HTTP. Raises `AgentRefusalError` for a refusal or an invalid one."""
    if status != 200:
        raise AgentRefusalError(f"{agent} refused a call ({status}): {body[:300].decode('utf-8', 'replace')}")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise AgentRefusalError(f"{agent} sent an invalid reply: {exc}") from exc
