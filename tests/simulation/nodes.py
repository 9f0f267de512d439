"""A simulated node: a real agent whose trials are waits, behind a link that can be cut."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Literal, NamedTuple

from assay.records import GENESIS
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.cluster.agent import AgentConfig, NodeAgent, TrialOutcome
from assay.rollout.cluster.commits import TrialBody, pack_trial
from assay.rollout.cluster.placement import NodeResources
from assay.rollout.cluster.transport import (
    AgentReport,
    Ending,
    GrantReply,
    GrantRequest,
    Lease,
    PollRequest,
    UnreachableAgentError,
)
from assay.store.chain import link_digest

from .bucket import Bucket, BucketView
from .decoding import Costs, Decoding, ModelServer, speculation_named
from .virtual_time import pause

UNANSWERED_S = 3600.0
ACCEPTANCE = (0.5, 0.9)
"""Range of the share of drafted tokens that a node's model accepts."""


Mistake = Literal["none", "session token", "refused create wins"]
"""A known mistake of the protocol. `session token`: all commits of an agent's session have one token. `refused create
wins`: a trial whose create was refused takes the object for its own, unread."""


class Tally:
    """What all nodes did, dead ones included."""

    def __init__(self) -> None:
        self.trials = 0
        self.retried = 0
        self.interrupted = 0
        self.wins: Counter[tuple[str, str]] = Counter()
        """Trials of each attempt whose node holds that it decided the attempt."""
        self.superseded: list[tuple[str, str, str]] = []
        """Run, attempt and token of each trial that its node holds to be superseded."""


class NodeSettings(NamedTuple):
    """What nodes have in common."""

    slots: int
    median_s: float
    spread: float
    """Standard deviation of the logarithm of a trial's duration."""
    wall_s: float
    retried: float
    """Share of trials that an infrastructure failure ends."""
    lost_messages: float
    mistake: Mistake = "none"
    scores: Callable[[str], float] = lambda _: 0.5
    """Success rate of a task."""
    decoding: Decoding | None = None
    """How the model server of a node decodes; None where trials take their drawn time at any load."""


class TallyingAgent(NodeAgent):
    """An agent that tallies what its commits say."""

    def __init__(self, tally: Tally, mistake: Mistake, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._tally, self._mistake = tally, mistake

    async def _commit(self, lease: Lease, token: str, outcome: TrialOutcome) -> tuple[Ending, TrialResult | None]:
        if self._mistake == "session token":
            token = self._session
        ending, result = await super()._commit(lease, token, outcome)
        if ending == "superseded" and self._mistake == "refused create wins":
            ending = "final"
        if ending == "final":
            self._tally.wins[lease.run, lease.attempt] += 1
        elif ending == "superseded":
            self._tally.superseded.append((lease.run, lease.attempt, token))
        return ending, result


class SimulatedNode:
    """A node; the link to whichever agent runs on it."""

    def __init__(self, name: str, bucket: Bucket, settings: NodeSettings, tally: Tally, rng: random.Random) -> None:
        self.name, self._bucket, self._settings, self._tally, self._rng = name, bucket, settings, tally, rng
        self.agent: NodeAgent | None = None
        self.is_cut = self.is_failing = False
        self.isolation: tuple[str, ...] = ("namespaces",)
        self._task: asyncio.Task[None] | None = None
        self._view = BucketView(bucket)
        self._clock_offset = rng.uniform(-600.0, 600.0)
        self._layers = frozenset(f"layer-{rng.randrange(12)}" for _ in range(4))

    def start(self) -> None:
        """Starts a new agent, which knows nothing of the one before."""
        loop = asyncio.get_running_loop()
        view = self._view = BucketView(self._bucket)
        resources = NodeResources(self.isolation, 0, self._layers)
        server = self._make_server()
        now, offset = loop.time, self._clock_offset

        def make_token() -> str:
            return f"{self._rng.getrandbits(128):032x}"

        agent = self.agent = TallyingAgent(
            self._tally,
            self._settings.mistake,
            AgentConfig(self.name, slots=self._settings.slots, starting=16),
            view,
            partial(self._run_trial, view, server),
            lambda: resources,
            clock=lambda: now() + offset,
            make_token=make_token,
        )
        self._task = loop.create_task(agent.serve())

    def _make_server(self) -> ModelServer | None:
        if self._settings.decoding is None:
            return None
        costs = Costs()
        speculation = speculation_named(self._settings.decoding, costs)
        return ModelServer(costs, speculation, self._rng.uniform(*ACCEPTANCE), self._rng)

    def kill(self) -> None:
        """Ends the node at once, as the loss of its power does."""
        self._view.is_dead = True
        if self._task is not None:
            self._task.cancel()
        self.agent, self._task = None, None

    async def preempt(self) -> None:
        """Drains the agent, as SIGTERM does, and ends the node."""
        agent = self.agent
        if agent is not None:
            await agent.drain(20.0)
        if self.agent is agent:
            await pause(self._rng.uniform(0.0, 10.0))
            self.kill()

    async def poll(self, request: PollRequest) -> AgentReport:
        agent = await self._reach()
        report = await agent.poll(request)
        await self._answer()
        return report

    async def grant(self, request: GrantRequest) -> GrantReply:
        agent = await self._reach()
        reply = await agent.grant(request)
        await self._answer()
        return reply

    async def _reach(self) -> NodeAgent:
        if self.agent is None or self.is_cut or self._rng.random() < self._settings.lost_messages:
            if not self.is_cut and self._rng.random() < 0.5:
                raise UnreachableAgentError("connection refused")
            await pause(UNANSWERED_S)
        if self.agent is None:
            raise UnreachableAgentError("connection refused")
        return self.agent

    async def _answer(self) -> None:
        await pause(0.005 + 0.02 * self._rng.random())
        if self.is_cut or self._rng.random() < self._settings.lost_messages:
            await pause(UNANSWERED_S)

    async def _run_trial(
        self, view: BucketView, server: ModelServer | None, lease: Lease, starting: asyncio.Semaphore
    ) -> TrialOutcome:
        settings, rng = self._settings, self._rng
        self._tally.trials += 1
        if rng.random() < 0.1:
            async with starting:
                await pause(rng.uniform(0.0, 10.0))
        alone_s = settings.median_s * rng.lognormvariate(0.0, settings.spread)
        ending: Literal["final", "retry", "interrupted"] = "final"
        try:
            if server is None:
                await pause(min(alone_s, settings.wall_s))
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(settings.wall_s):
                        await server.generate(alone_s)
        except asyncio.CancelledError:
            if view.is_dead:
                raise
            ending = "interrupted"
            self._tally.interrupted += 1
        if ending == "final" and lease.may_retry and rng.random() < settings.retried:
            ending = "retry"
            self._tally.retried += 1
        result = None
        if ending != "interrupted":
            broke = "environment" if ending == "retry" else None
            score = float(rng.random() < settings.scores(lease.task))
            outcome: Literal["pass", "fail"] | None = None if broke else ("pass" if score else "fail")
            result = TrialResult(outcome, score, "agent", None, broke, None, {"model_calls": 3.0}, ending == "retry")
        return TrialOutcome(ending, _body(lease, result))


def _body(lease: Lease, result: TrialResult | None) -> TrialBody:
    """Returns a trial of one event. The recorder's work is not simulated, so all trials have the same event."""
    body = _packed_event()
    chain, events = body.chain, body.events
    return TrialBody(chain, lease.retry, body.length, body.head, result, body.size, events)


@cache
def _packed_event() -> TrialBody:
    event = b'{"type":"attempt_started","attempt":"simulated","seed":1}'
    return pack_trial("simulated.0", 0, link_digest("simulated.0", 0, GENESIS, event), (event,), None)
