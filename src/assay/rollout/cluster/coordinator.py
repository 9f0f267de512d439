"""The coordinator: leases the attempts of its runs to node agents, from queues in memory alone.

A coordinator may die at any moment, and two may run at once. A new one takes the next epoch of each run, reads the
rounds, polls all agents (which from then on refuse the one before), and lists the finals: in this order, an attempt
whose result the old coordinator acknowledged is in the listing, and any other is held or reported by its agent.

Invariant: the coordinator decides where work is done, never what is true. A wrong suspicion costs work: the attempt is
leased twice, and the trial that commits second is superseded.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from assay.errors import UserError
from assay.rollout.progress import Progress
from assay.rollout.schedule.runner import retry_wait_s
from assay.store.objects.interface import ObjectStore

from .commits import list_finals, new_token, read_cuts, read_finals, use_of_trial
from .epochs import RoundRecord, publish_round, read_rounds, take_epoch
from .placement import NodeResources, RunDemand, divide_slots
from .run_state import ClusterRun, LeaseTimes, RunState
from .transport import (
    AgentDirectory,
    AgentLink,
    AgentReport,
    GrantRequest,
    Lease,
    LeaseRef,
    PollRequest,
    TrialEnd,
    UnreachableAgentError,
)

_log = logging.getLogger(__name__)

IDLE_POLLS = 3
"""An agent without leases is polled after so many times the usual wait. New work polls it at once."""
UNPLACED_WARNING_S = 20.0
"""A warning is given after attempts waited for so long that no agent can run: until then nodes may be starting."""
SILENCE_WARNING_S = 60.0
"""A warning is given after no agent answered for so long: starting nodes take half of it where machines are busy."""
RunEnd = Literal["complete", "out of budget", "taken over"]
"""`taken over`: another coordinator has a higher epoch and goes on with the run."""


class CoordinatorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times of a coordinator, in seconds."""

    poll_s: float = 10.0
    """From one poll of an agent to the next."""
    answer_s: float = 4.0
    """An agent that takes longer to answer missed the poll."""
    misses: int = 3
    """Missed polls in a row after which the leases of an agent are granted again."""
    start_within_s: float = 120.0
    """Agents give back leases that they did not start within this time."""
    grace_s: float = 60.0
    """Beyond the wall limit of an attempt, for its sandbox and its verification."""
    unplaced_s: float = 600.0
    """A run ends with an error after attempts waited for so long that no agent can run."""

    def __post_init__(self) -> None:
        """Rejects invalid values before anything starts."""
        if not 0 < self.answer_s < self.poll_s or self.misses < 1:
            raise UserError(
                f"poll_s is {self.poll_s}, answer_s {self.answer_s}, misses {self.misses}: answer_s must be positive "
                "and less than poll_s, misses at least 1"
            )


class _Agent:
    """An agent as the coordinator knows it."""

    __slots__ = (
        "ask_leases",
        "capacity",
        "deadlines",
        "misses",
        "name",
        "received",
        "resources",
        "scan_at",
        "session",
        "timer",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.session = ""
        self.misses = 0
        self.capacity = 0
        """Leases that it could take after the last grant."""
        self.resources: NodeResources | None = None
        """As in its last report."""
        self.ask_leases = True
        """True until its leases are known: at first contact, and after an answer was lost."""
        self.received: tuple[str, ...] = ()
        """Tokens of the ends in its last report."""
        self.deadlines: dict[LeaseRef, float] = {}
        """The leases granted to it, and when each has ended at the latest."""
        self.scan_at = 0.0
        """When the deadlines are looked at next."""
        self.timer: asyncio.Future[None] | None = None
        """The wait for its next poll."""


class Coordinator:
    """Runs several runs on all agents of a directory."""

    def __init__(
        self,
        objects: ObjectStore,
        runs: Sequence[ClusterRun],
        directory: AgentDirectory,
        config: CoordinatorConfig | None = None,
        *,
        progress: Progress | None = None,
        make_token: Callable[[], str] = new_token,
    ) -> None:
        """Creates a coordinator, which does nothing before `serve`. Raises `UserError` if two runs share a name.

        `progress` is told of all runs together; an attempt counts as started when it is leased.
        """
        if len({run.name for run in runs}) != len(runs):
            raise UserError(f"two runs have one name: {', '.join(sorted(run.name for run in runs))}")
        self._objects, self._runs, self._directory = objects, runs, directory
        self._config = config or CoordinatorConfig()
        self._progress = progress
        self._token = make_token()
        self._jitter = random.Random(self._token)
        self._agents: dict[str, _Agent] = {}
        self._states: dict[str, RunState] = {}
        self._epochs: dict[str, int] = {}
        self._ends: dict[str, RunEnd] = {}
        self._advancing: set[str] = set()
        self._listed: dict[str, set[str]] = {}
        """Names of the final objects that a run with further rounds had at the beginning."""
        self._unplaced_since: float | None = None
        self._is_unplaced_told = False
        self._silent_since: float | None = None
        """When the last agent became silent; infinity once that was told."""
        self._finished = asyncio.Event()

    async def serve(self) -> dict[str, RunEnd]:
        """Runs all runs to their ends, and returns these by name.

        Raises:
            StoreError: A record in the store is damaged, or an attempt's trials leave no record.
            UserError: An attempt waits that no agent can run. What is under way goes on.
        """
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self._take_over()
                for state in list(self._states.values()):
                    self._go_on(state)
                tasks = [group.create_task(self._attend(agent)) for agent in self._agents.values()]
                tasks.append(group.create_task(self._watch_directory(tasks)))
                await self._finished.wait()
                for task in tasks:
                    task.cancel()
        except ExceptionGroup as failed:  # not `except*`: early releases of Python 3.11 wrap what it raises
            raise failed.exceptions[0] from None
        return dict(self._ends)

    async def _take_over(self) -> None:
        """Rebuilds the states of all runs. The order of the steps matters: see the module."""
        for run in self._runs:
            self._epochs[run.name] = await take_epoch(self._objects, run.name, self._token)
        reports = await self._ask_all()
        times = LeaseTimes(self._config.start_within_s, self._config.grace_s)
        for run in self._runs:
            state = RunState(run, self._epochs[run.name], times)
            finals = await list_finals(self._objects, run.name)
            if run.attempts is None:
                state.restore(await read_rounds(self._objects, run.name), finals)
            else:
                state.open_listed(run.attempts, finals)
            if not run.budget.is_unlimited:
                await self._restore_use(state)
            self._states[run.name] = state
            if state.left:
                self._listed[run.name] = finals
        if self._progress is not None:
            done = sum(len(state.finals()) for state in self._states.values())
            self._progress.begin(total=sum(run.total for run in self._runs), done=done)
        for agent, (request, report) in reports.items():
            self._read_report(agent, request, report)

    async def _ask_all(self) -> dict[_Agent, tuple[PollRequest, AgentReport]]:
        """Polls all agents once, and returns the reports of those that answer."""
        self._agents = {name: _Agent(name) for name in self._directory.agents()}
        reports = {}

        async def ask(agent: _Agent) -> None:
            request = PollRequest(dict(self._epochs), (), all_leases=True)
            report = await self._ask(agent, request)
            if report is not None:
                reports[agent] = (request, report)

        async with asyncio.TaskGroup() as group:
            for agent in self._agents.values():
                group.create_task(ask(agent))
        return reports

    async def _restore_use(self, state: RunState) -> None:
        """Sums up the model use of all trials that are in the store."""
        run = state.run.name
        finals = await read_finals(self._objects, run, state.finals())
        for record in (*finals.values(), *await read_cuts(self._objects, run)):
            state.add_use(record.token, use_of_trial(record.body))

    def _go_on(self, state: RunState) -> None:
        """Begins the next round of a run whose round is finished, or ends the run."""
        run = state.run.name
        if run in self._advancing or run not in self._states:
            return
        if state.is_complete:
            self._end_run(run, "complete")
        elif state.is_round_finished:
            self._advancing.add(run)
            self._group.create_task(self._advance(state))
        elif state.is_out_of_budget:
            self._end_run(run, "out of budget")

    def _end_run(self, run: str, end: RunEnd) -> None:
        if self._states.pop(run, None) is not None:
            self._ends[run] = end
        if not self._states:
            self._finished.set()

    async def _advance(self, state: RunState) -> None:
        run = state.run.name
        records = await read_finals(self._objects, run, state.unread_finals())
        for attempt, record in records.items():
            state.add_score(attempt, record.body.result)
        decided = RoundRecord(1, run, state.rounds, state.epoch, tuple(state.decide()), state.scores())
        published = await publish_round(self._objects, decided)
        # Of another coordinator's round, attempts may have been run, and of a round whose record was removed.
        is_own = published.epoch == state.epoch
        finals = self._listed.get(run, set()) if is_own else await list_finals(self._objects, run)
        state.begin_round(published, finals)
        self._advancing.discard(run)
        self._wake_idle(len(state.queue))
        self._go_on(state)

    async def _watch_directory(self, tasks: list[asyncio.Task[None]]) -> None:
        while True:
            await asyncio.sleep(self._config.poll_s)
            for name in self._directory.agents():
                if name not in self._agents:
                    agent = self._agents[name] = _Agent(name)
                    tasks.append(self._group.create_task(self._attend(agent)))
            answering = {
                name: agent.resources
                for name, agent in self._agents.items()
                if agent.resources is not None and agent.misses < self._config.misses
            }
            self._warn_of_silence(any_answers=bool(answering))
            self._require_placeable(answering)

    def _warn_of_silence(self, *, any_answers: bool) -> None:
        """Warns once of each time in which no agent answers for long."""
        now = self._loop.time()
        if any_answers or not self._states:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        elif now - self._silent_since >= SILENCE_WARNING_S and self._progress is not None:
            self._silent_since = math.inf
            run = next(iter(self._states))
            self._progress.warn(
                f"no node has answered for {SILENCE_WARNING_S:g} s, and nothing is run until one does: "
                f"`assay status {run}` shows what is known of each"
            )

    def _require_placeable(self, nodes: Mapping[str, NodeResources]) -> None:
        """Raises `UserError` if attempts have waited for long that none of the agents that answer can run."""
        now = self._loop.time()
        for state in self._states.values() if nodes else ():
            unplaceable = state.queue.unplaceable(list(nodes.values()))
            if unplaceable is None:
                continue
            self._unplaced_since = now if self._unplaced_since is None else self._unplaced_since
            waited_s, (attempt, needs) = now - self._unplaced_since, unplaceable
            have = "; ".join(f"{name}: {', '.join(one.isolation)}, {one.gpus} GPU(s)" for name, one in nodes.items())
            problem = f"{attempt} of run {state.run.name!r} needs {needs}, which no node has ({have})"
            if waited_s >= self._config.unplaced_s:
                raise UserError(f"{problem}: start a node that has it, and resume the run")
            if waited_s >= UNPLACED_WARNING_S and self._progress is not None and not self._is_unplaced_told:
                self._is_unplaced_told = True
                self._progress.warn(f"{problem}: it waits {self._config.unplaced_s:g} s for another node")
            return
        self._unplaced_since = None

    async def _attend(self, agent: _Agent) -> None:
        """Polls one agent for ever, and grants it leases."""
        while True:
            began, wait_s = self._loop.time(), self._config.poll_s
            report = await self._poll(agent)
            if report is not None:
                leases = self._choose(agent, report)
                agent.capacity = report.capacity - len(leases)
                if leases:
                    await self._grant(agent, leases)
                elif agent.capacity and not (agent.deadlines or agent.received or agent.ask_leases):
                    wait_s *= IDLE_POLLS
            await self._pause(agent, began + wait_s)

    async def _pause(self, agent: _Agent, due: float) -> None:
        timer = agent.timer = self._loop.create_future()
        handle = self._loop.call_at(due, _resolve, timer)
        try:
            await timer
        finally:
            handle.cancel()
            agent.timer = None

    def _wake_idle(self, count: int) -> None:
        """Polls agents with free capacity for `count` leases now."""
        for agent in self._agents.values():
            if count <= 0:
                return
            if agent.capacity > 0 and agent.timer is not None:
                _resolve(agent.timer)
                count -= agent.capacity
                agent.capacity = 0

    async def _poll(self, agent: _Agent) -> AgentReport | None:
        """Returns an agent's report, after it was taken in; None if the agent missed the poll."""
        request = PollRequest(dict(self._epochs), agent.received, agent.ask_leases, self._demand())
        report = await self._ask(agent, request)
        if report is not None:
            self._read_report(agent, request, report)
        return report

    def _demand(self) -> dict[str, int]:
        return {name: state.waiting() for name, state in self._states.items()}

    async def _ask(self, agent: _Agent, request: PollRequest) -> AgentReport | None:
        try:
            async with asyncio.timeout(self._config.answer_s):
                report = await self._link(agent).poll(request)
        except (UnreachableAgentError, TimeoutError):
            self._miss_poll(agent)
            return None
        agent.misses = 0
        return report

    def _link(self, agent: _Agent) -> AgentLink:
        link = self._directory.agents().get(agent.name)
        if link is None:
            raise UnreachableAgentError(f"agent {agent.name} is not in the directory")
        return link

    def _miss_poll(self, agent: _Agent) -> None:
        agent.misses += 1
        agent.capacity = 0
        if agent.misses == self._config.misses and agent.deadlines:
            _log.warning("agent %s missed %d polls: %d leases again", agent.name, agent.misses, len(agent.deadlines))
            self._release_all(agent)
        self._wake_idle(sum(state.waiting() for state in self._states.values()))  # it may have been woken for these

    def _release_all(self, agent: _Agent) -> None:
        refs = list(agent.deadlines)
        agent.deadlines.clear()
        agent.ask_leases = True
        self._release(agent, refs)

    def _release(self, agent: _Agent, refs: Sequence[LeaseRef]) -> None:
        for ref in refs:
            if ref.run in self._states:
                self._states[ref.run].release(ref.attempt, agent.name)
        self._wake_idle(len(refs))

    def _read_report(self, agent: _Agent, request: PollRequest, report: AgentReport) -> None:
        agent.resources = report.resources
        if report.session != agent.session:
            self._release_all(agent)
            agent.session = report.session
        for run, epoch in report.stale.items():
            _log.warning("run %s: a coordinator with epoch %d has taken over", run, epoch)
            self._epochs.pop(run, None)
            self._end_run(run, "taken over")
        if report.ends or agent.received:
            self._read_ends(agent, report.ends)
        if request.all_leases:
            self._reconcile(agent, report.leases)
        self._release_late(agent)
        if report.ends:
            for run in {end.run for end in report.ends} & self._states.keys():
                self._go_on(self._states[run])

    def _read_ends(self, agent: _Agent, ends: Sequence[TrialEnd]) -> None:
        known = set(agent.received)
        agent.received = tuple([end.token for end in ends])
        for end in ends:
            agent.deadlines.pop(LeaseRef(end.run, end.attempt), None)
            if end.token not in known and end.run in self._states:
                self._read_end(agent, self._states[end.run], end)

    def _read_end(self, agent: _Agent, state: RunState, end: TrialEnd) -> None:
        planned = None if self._progress is None else state.planned(end.attempt)
        earlier = state.add_end(end, agent.name)
        if planned is not None and self._progress is not None and end.result is not None:
            if end.ending == "retry":
                self._progress.retrying(planned, end.result)
            elif end.ending in ("final", "superseded"):
                self._progress.finished(planned, end.result)
        if earlier is not None:
            after_s = None if end.result is None else end.result.retry_after_s
            wait_s = retry_wait_s(earlier - 1, self._jitter, after_s)
            self._loop.call_later(wait_s, self._resume, state, end.attempt)

    def _resume(self, state: RunState, attempt: str) -> None:
        state.resume(attempt)
        self._wake_idle(1)

    def _reconcile(self, agent: _Agent, leases: Sequence[LeaseRef]) -> None:
        """Adopts the leases that an agent holds, and releases those that it never got."""
        agent.ask_leases = False
        unknown = set(agent.deadlines) - set(leases)
        for ref in unknown:
            del agent.deadlines[ref]
        self._release(agent, sorted(unknown))
        latest = self._loop.time() + self._config.start_within_s + self._config.grace_s
        for ref in leases:
            state = self._states.get(ref.run)
            if state is not None and ref not in agent.deadlines:
                state.adopt(ref.attempt, agent.name)
                agent.deadlines[ref] = latest + state.run.wall_s

    def _release_late(self, agent: _Agent) -> None:
        now = self._loop.time()
        if now < agent.scan_at:
            return
        agent.scan_at = now + self._config.grace_s
        late = [ref for ref, deadline in agent.deadlines.items() if deadline < now]
        for ref in late:
            _log.warning("agent %s: the lease of %s is over", agent.name, ref.attempt)
            del agent.deadlines[ref]
        self._release(agent, late)

    def _choose(self, agent: _Agent, report: AgentReport) -> list[Lease]:
        """Leases waiting attempts to an agent with free capacity."""
        if not report.capacity or agent.ask_leases:
            return []
        demands = [
            RunDemand(name, state.run.weight, state.leased, waiting)
            for name, state in self._states.items()
            if name not in self._advancing and (waiting := state.waiting())
        ]
        if not demands:
            return []
        leases: list[Lease] = []
        for run, share in divide_slots(report.capacity, demands).items():
            leases += self._states[run].take(agent.name, report.resources, share)
        slack = self._loop.time() + self._config.misses * self._config.poll_s
        for lease in leases:
            agent.deadlines[lease.ref] = slack + lease.start_within_s + lease.lifetime_s
            planned = None if self._progress is None else self._states[lease.run].planned(lease.attempt)
            if self._progress is not None and planned is not None:
                self._progress.started(planned)
        return leases

    async def _grant(self, agent: _Agent, leases: Sequence[Lease]) -> None:
        request = GrantRequest(tuple(leases), agent.received)
        try:
            async with asyncio.timeout(self._config.answer_s):
                reply = await self._link(agent).grant(request)
        except (UnreachableAgentError, TimeoutError):
            agent.ask_leases = True  # it may have taken them
            return
        for ref in reply.refused:
            agent.deadlines.pop(ref, None)
        self._release(agent, reply.refused)


def _resolve(timer: asyncio.Future[None]) -> None:
    if not timer.done():
        timer.set_result(None)
