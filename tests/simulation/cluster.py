"""Simulates runs on many nodes with faults drawn from a seed, and checks what the object store holds in the end.

The coordinator, the agents, the commit protocol and the allocation policies are the real code; nodes, trials, network
and store are simulated, under virtual time. Not covered: sockets, memory and limits of real machines, engines, and
throttling of real object stores.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.gc_tuning import raised_thresholds
from assay.records import EnvironmentSpec, Limits, Task, digest_bytes
from assay.rollout.cluster.commits import decode_record, unpack_events
from assay.rollout.cluster.coordinator import Coordinator, CoordinatorConfig, RunEnd
from assay.rollout.cluster.epochs import RoundRecord
from assay.rollout.cluster.objects import cut_key, final_key, run_prefix
from assay.rollout.cluster.placement import Requirements
from assay.rollout.cluster.run_state import ClusterRun
from assay.rollout.cluster.transport import AgentLink, PollRequest
from assay.rollout.plan import PlannedAttempt, attempt_id, attempt_seed
from assay.rollout.schedule.policies import policy_named
from assay.tasks import LoadedTask

from .bucket import Bucket, BucketFaults, BucketView
from .decoding import Decoding
from .nodes import Mistake, NodeSettings, SimulatedNode, Tally
from .virtual_time import run_virtual


class SimulationConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One simulation. Times are virtual seconds; a fault's time is the mean wait for the next one, 0 for none."""

    slots: int = 10_048
    slots_per_node: int = 64
    attempts: int = 100_000
    seed: int = 0
    median_s: float = 100.0
    """Median duration of a trial; durations are lognormal."""
    spread: float = 0.6
    wall_s: float = 600.0
    retried: float = 0.02
    node_lost_s: float = 20.0
    zombies: float = 0.3
    """Share of lost nodes that go on, unreachable, and commit."""
    preempted: float = 0.2
    """Share of lost nodes that are told before."""
    coordinator_dead_s: float = 600.0
    second_coordinator_s: float = 900.0
    """Wait for the start of another coordinator while one is alive."""
    outage_s: float = 1_200.0
    """Wait for the next minute in which the store answers 503."""
    failed: float = 0.002
    lost: float = 0.002
    lost_messages: float = 0.002
    mistake: Mistake = "none"
    decoding: Decoding | None = None
    """Attempts wait for model servers, one a node, which decode so; None: each takes the time that is drawn for it."""

    @property
    def nodes(self) -> int:
        return max(1, self.slots // self.slots_per_node)


class SimulationResult(msgspec.Struct, frozen=True):
    """The result of one simulation."""

    seed: int
    slots: int
    attempts: int
    missing: int
    """Attempts without a final object, or with one that does not verify."""
    twice: int
    """Attempts that more than one trial holds to have decided."""
    rerun: int
    """Trials beyond one an attempt that no infrastructure failure asked for."""
    retried: int
    superseded: int
    not_stored: int
    """Superseded trials whose record is not in the store; the bar is 0."""
    interrupted: int
    lost_answers: int
    failed_creates: int
    nodes_lost: int
    coordinators: int
    rounds: int
    virtual_s: float
    cpu_s: float

    @property
    def cpu_us_an_attempt(self) -> float:
        return self.cpu_s / self.attempts * 1e6

    @property
    def problems(self) -> int:
        return self.missing + self.twice + self.not_stored


class _Share(NamedTuple):
    """One run of the simulation, as a share of all attempts."""

    name: str
    policy: str
    options: dict[str, Any]
    share: float
    weight: float


SHARES = (
    _Share("fixed", "uniform", {}, 0.6, 1.0),
    _Share("halving", "halving", {"first": 5}, 0.25, 1.0),
    _Share("uncertainty", "uncertainty", {"step": 16}, 0.15, 2.0),
)


def make_runs(attempts: int, seed: int, wall_s: float, shares: Sequence[_Share] = SHARES) -> list[ClusterRun]:
    """Returns the runs of a simulation."""
    runs, left, limits = [], attempts, Limits(wall_s=wall_s)
    for place, share in enumerate(shares):
        total = left if place == len(shares) - 1 else round(attempts * share.share)
        left -= total
        tasks = [_make_task(share.name, number) for number in range(max(1, total // 20))]

        def plan(loaded: LoadedTask, number: int, _: int) -> PlannedAttempt:
            task = loaded.task
            return PlannedAttempt(
                attempt_id(task.id, number),
                loaded,
                number,
                attempt_seed(seed, task.digest, "simulated", number),
                limits,
            )

        policy = policy_named(share.policy, share.options)
        runs.append(ClusterRun(share.name, tasks, total, policy, plan, require=_require, weight=share.weight))
    return runs


def _make_task(run: str, number: int) -> LoadedTask:
    spec = EnvironmentSpec("workspace", {"layer": number % 12})
    name = f"{run}/task-{number}"
    digest = digest_bytes(name.encode())
    return LoadedTask(Task(id=name, instruction="", environment=spec, checks=(), digest=digest), None)


def _require(loaded: LoadedTask) -> Requirements:
    layer = loaded.task.environment.parameters["layer"]
    return Requirements("namespaces", 0, frozenset((f"layer-{layer}",)))


def success_rate(task: str) -> float:
    """Returns the success rate of a task, between 0.05 and 0.95."""
    return 0.05 + 0.9 * (int(task.rpartition("-")[2]) % 10) / 9


class SimulatedCluster:
    """Nodes, a store and coordinators; inside a virtual loop."""

    def __init__(self, config: SimulationConfig, shares: Sequence[_Share] = SHARES) -> None:
        self.config = config
        self.rng = random.Random(config.seed)
        self.runs = make_runs(config.attempts, config.seed, config.wall_s, shares)
        self.bucket = Bucket(BucketFaults(config.failed, config.lost), self.rng)
        self.tally = Tally()
        settings = NodeSettings(
            config.slots_per_node,
            config.median_s,
            config.spread,
            config.wall_s,
            config.retried,
            config.lost_messages,
            config.mistake,
            success_rate,
            config.decoding,
        )
        names = [f"node-{number}" for number in range(config.nodes)]
        self.nodes = {name: SimulatedNode(name, self.bucket, settings, self.tally, self.rng) for name in names}
        self.coordinators: list[asyncio.Task[dict[str, RunEnd]]] = []
        self.started = 0
        self.nodes_lost = 0

    def start_nodes(self) -> None:
        for node in self.nodes.values():
            node.start()

    def start_coordinator(self) -> asyncio.Task[dict[str, RunEnd]]:
        """Starts a coordinator beside those that are alive."""
        self.started += 1
        coordinator = Coordinator(
            BucketView(self.bucket),
            self.runs,
            InProcessAgents(self.nodes),
            CoordinatorConfig(),
            make_token=lambda: f"{self.rng.getrandbits(128):032x}",
        )
        task = asyncio.get_running_loop().create_task(coordinator.serve())
        self.coordinators.append(task)
        return task

    def is_complete(self) -> bool:
        """Returns whether a coordinator has completed all runs. Raises what a coordinator raised."""
        for task in self.coordinators:
            if task.done() and not task.cancelled() and set(task.result().values()) == {"complete"}:
                return True
        self.coordinators = [task for task in self.coordinators if not task.done()]
        return False

    async def until_complete(self, patience_s: float) -> bool:
        """Waits until all runs are complete, with a coordinator alive; returns False when the patience is used up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        while not self.is_complete():
            if loop.time() > end:
                return False
            if not self.coordinators:
                await asyncio.sleep(self.rng.uniform(2.0, 10.0))
                self.start_coordinator()
            await asyncio.wait(self.coordinators, timeout=10.0, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def until_idle(self) -> None:
        """Waits until no agent holds a lease, so that late trials have committed."""
        agents = [node.agent for node in self.nodes.values() if node.agent is not None]
        for _ in range(1_000):
            reports = [await agent.poll(PollRequest({})) for agent in agents]
            if not any(one.running + one.waiting + one.uploading for one in reports):
                return
            await asyncio.sleep(10.0)

    def result(self, cpu_s: float, virtual_s: float) -> SimulationResult:
        """Checks every object of the store, and counts."""
        objects, tally = self.bucket.objects, self.tally
        missing, attempts, rounds = 0, 0, 0
        for run in self.runs:
            records = _read_rounds(objects, run.name)
            rounds += len(records)
            planned = planned_attempts(run, records)
            attempts += run.total
            missing += run.total - sum(_is_final(objects, run.name, attempt) for attempt in planned)
        not_stored = sum(not _is_cut(objects, *one) for one in tally.superseded)
        return SimulationResult(
            seed=self.config.seed,
            slots=self.config.slots,
            attempts=attempts,
            missing=missing,
            twice=sum(wins > 1 for wins in tally.wins.values()),
            rerun=tally.trials - attempts - tally.retried,
            retried=tally.retried,
            superseded=len(tally.superseded),
            not_stored=not_stored,
            interrupted=tally.interrupted,
            lost_answers=self.bucket.lost,
            failed_creates=self.bucket.failed + self.bucket.unavailable,
            nodes_lost=self.nodes_lost,
            coordinators=self.started,
            rounds=rounds,
            virtual_s=virtual_s,
            cpu_s=cpu_s,
        )


def planned_attempts(run: ClusterRun, records: Sequence[RoundRecord]) -> list[str]:
    """Returns the attempts that the rounds of a run grant."""
    numbers = [0] * len(run.tasks)
    for record in records:
        for grant in record.grants:
            numbers[grant.task] += grant.attempts
    return [attempt_id(run.tasks[task].task.id, n) for task, total in enumerate(numbers) for n in range(total)]


def _read_rounds(objects: dict[str, bytes], run: str) -> list[RoundRecord]:
    keys = sorted(key for key in objects if key.startswith(f"{run_prefix(run)}rounds/"))
    return [msgspec.json.decode(objects[key], type=RoundRecord) for key in keys]


def _is_final(objects: dict[str, bytes], run: str, attempt: str) -> bool:
    data = objects.get(final_key(run, attempt))
    if data is None:
        return False
    record = decode_record(data, run, attempt)
    return record.kind == "final" and len(unpack_events(record.body)) == record.body.length


def _is_cut(objects: dict[str, bytes], run: str, attempt: str, token: str) -> bool:
    data = objects.get(cut_key(run, attempt, token))
    return data is not None and decode_record(data, run, attempt).token == token


async def _lose_nodes(cluster: SimulatedCluster) -> None:
    rng, config = cluster.rng, cluster.config
    names = list(cluster.nodes)
    async with asyncio.TaskGroup() as group:
        while config.node_lost_s:
            await asyncio.sleep(rng.expovariate(1.0 / config.node_lost_s))
            node = cluster.nodes[rng.choice(names)]
            if not node.is_failing:
                node.is_failing = True
                cluster.nodes_lost += 1
                group.create_task(_lose_node(cluster, node))


async def _lose_node(cluster: SimulatedCluster, node: SimulatedNode) -> None:
    rng, config = cluster.rng, cluster.config
    draw = rng.random()
    if draw < config.zombies:
        node.is_cut = True
        await asyncio.sleep(rng.uniform(20.0, 300.0))
        node.is_cut = node.is_failing = False
        return
    if draw < config.zombies + config.preempted:
        await node.preempt()
    else:
        node.kill()
    await asyncio.sleep(rng.uniform(60.0, 180.0))
    node.start()
    node.is_failing = False


async def _disturb_coordinators(cluster: SimulatedCluster, every_s: float, *, kill: bool) -> None:
    while every_s:
        await asyncio.sleep(cluster.rng.expovariate(1.0 / every_s))
        alive = [task for task in cluster.coordinators if not task.done()]
        if alive and kill:
            cluster.rng.choice(alive).cancel()
        elif alive:
            cluster.start_coordinator()


async def _interrupt_store(cluster: SimulatedCluster) -> None:
    while cluster.config.outage_s:
        await asyncio.sleep(cluster.rng.expovariate(1.0 / cluster.config.outage_s))
        cluster.bucket.outage_until = asyncio.get_running_loop().time() + 60.0


async def _simulate(cluster: SimulatedCluster) -> float:
    config, loop = cluster.config, asyncio.get_running_loop()
    cluster.start_nodes()
    cluster.start_coordinator()
    faults = [
        loop.create_task(_lose_nodes(cluster)),
        loop.create_task(_disturb_coordinators(cluster, config.coordinator_dead_s, kill=True)),
        loop.create_task(_disturb_coordinators(cluster, config.second_coordinator_s, kill=False)),
        loop.create_task(_interrupt_store(cluster)),
    ]
    await cluster.until_complete(7 * 24 * 3600.0)
    ended = loop.time()
    for task in faults:
        task.cancel()
    for node in cluster.nodes.values():
        node.is_cut = False
    await cluster.until_idle()
    return ended


def simulate(config: SimulationConfig) -> SimulationResult:
    """Runs one simulation."""
    random.seed(config.seed)
    cluster = SimulatedCluster(config)
    began = time.process_time()
    with raised_thresholds(200_000, 50, 50):
        virtual_s = run_virtual(_simulate(cluster))
    cpu_s = time.process_time() - began
    return cluster.result(cpu_s, virtual_s)


class InProcessAgents:
    """Agents of the same process; their own methods are the link."""

    def __init__(self, agents: Mapping[str, AgentLink]) -> None:
        self._agents = agents

    def agents(self) -> Mapping[str, AgentLink]:
        return self._agents
