"""The state of a run on nodes, from the place and from its agents. Changes nothing, and needs no command that runs.

Times of decisions are those of the place, so that the clocks of nodes do not matter.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from assay.errors import StoreError, UserError
from assay.rollout.run_manifest import parse_manifest
from assay.store.objects.interface import ObjectEntry, ObjectStore, ObjectStoreError

from .commits import TrialRecord, read_record
from .epochs import count_epochs
from .objects import list_pages, run_prefix
from .place_records import AgentAnnouncement, AnnouncedAgents, Connect, connect_http, has_ended, read_published
from .transport import AgentReport, BackoffLink, PollRequest, UnreachableAgentError
from .workloads import WORKLOAD

PATIENCE_S = 30.0
ANSWER_S = 5.0
READ_AT_ONCE = 32
MOST_BUCKETS = 60
BUCKETS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
"""Widths of the intervals of a throughput, in seconds."""


class NodeStatus(msgspec.Struct, frozen=True):
    """The state of one node."""

    agent: str
    url: str
    slots: int
    state: Literal["answers", "silent", "not asked"]
    """`silent`: it has left, or cannot be reached. `not asked`: the run has ended, or this process cannot call the
    node, because a token or the connection to Ray is missing."""
    running: int | None = None
    waiting: int | None = None
    uploading: int | None = None
    allowed: int | None = None
    """Trials that may run at once now; fewer than the slots while a model server or the place is overloaded."""
    problem: str | None = None
    spool_bytes: int | None = None
    """Bytes of trials that wait for upload."""
    upload_wait_s: float | None = None
    """Seconds for which the oldest of them waits: how far the place lags behind the node."""
    polled_s: float | None = None
    """Seconds since a command polled the node."""
    last_sign_s: float | None = None
    """Seconds since the node answered this reader; None if it never did."""


class Throughput(msgspec.Struct, frozen=True):
    """Decided attempts over time."""

    interval_s: float
    starts: tuple[float, ...]
    """Unix times at which the intervals start, by the clock of the place."""
    counts: tuple[int, ...]
    """Attempts that were decided in each."""


class ClusterStatus(msgspec.Struct, frozen=True):
    """The state of a run on nodes."""

    run: str
    place: str
    attempts: int
    """Attempts that the run was given; 0 if it cannot be told."""
    finals: int
    """Attempts that are decided."""
    outcomes: dict[str, int]
    """Number of finals by outcome; `broke` for those without one."""
    errors: dict[str, int]
    """Number of trials that an error ended, by the boundary that failed; retried ones count too."""
    superseded: int
    retried: int
    interrupted: int
    running: int
    """Trials that the nodes run now."""
    leases: int
    """Leases that the nodes hold, running or not."""
    coordinators: int
    """Number of commands that have coordinated the run."""
    ended: bool
    """True if the run is complete and fetched."""
    nodes: tuple[NodeStatus, ...]
    problems: tuple[str, ...]
    """Damaged objects, by key."""
    throughput: Throughput | None = None
    """None before the first decision."""
    last_final: float | None = None
    """Unix time of the last decision, by the clock of the place."""
    work: str | None = None
    """Kind of the work that a command other than `assay run` delegates to nodes; None for a run."""


class _ReadTrial(NamedTuple):
    """Facts of a record that was read; objects of a run never change."""

    kind: str
    modified: float
    outcome: str | None
    """`broke` for a result without one; None without a result."""
    broke: str | None


async def read_status(place: ObjectStore, run: str, connect: Connect | None = None) -> ClusterStatus:
    """Returns the state of a run; reads all its trials. See `StatusReader.read`."""
    return await StatusReader(place, run, connect).read()


class StatusReader:
    """Reads the state of a run, repeatedly; a trial that was read is not read again."""

    def __init__(self, place: ObjectStore, run: str, connect: Connect | None = None) -> None:
        """Creates a reader. `connect` reaches the run's nodes; None asks none."""
        self._place, self._run, self._connect = place, run, connect or connect_http(None)
        self._trials: dict[str, _ReadTrial] = {}
        """By key."""
        self._answered: dict[str, float] = {}
        """Monotonic time of each node's last answer."""

    async def read(self) -> ClusterStatus:
        """Returns the state of the run.

        Raises:
            UserError: The place holds no such run.
            ObjectStoreError: The place does not answer.
        """
        place, run = self._place, self._run
        finals = await self._list("finals")
        published = await read_published(place, run)
        if published is None:
            raise UserError(f"{place} holds no run {run!r}: start it with `assay run ... --run {run} --place {place}`")
        attempts = count_attempts(published.manifest)
        problems: list[str] = []
        decided = await self._read_all(finals, problems)
        cut = await self._read_all(await self._list("cut"), problems)
        ended = await has_ended(place, run)
        nodes = await self._ask_nodes(problems, ended=ended)
        kinds = Counter(trial.kind for trial in cut)
        counted = [trial for trial in (*decided, *cut) if trial.kind != "superseded"]
        return ClusterStatus(
            run=run,
            place=str(place),
            attempts=attempts,
            finals=len(finals),
            outcomes=_count(trial.outcome for trial in decided if trial.outcome is not None),
            errors=_count(trial.broke for trial in counted if trial.broke is not None),
            superseded=kinds["superseded"],
            retried=kinds["retried"],
            interrupted=kinds["interrupted"],
            running=sum(node.running or 0 for node in nodes),
            leases=sum((node.running or 0) + (node.waiting or 0) + (node.uploading or 0) for node in nodes),
            coordinators=await count_epochs(place, run),
            ended=ended,
            nodes=tuple(nodes),
            problems=tuple(sorted(problems)),
            throughput=count_throughput([trial.modified for trial in decided]),
            last_final=max((trial.modified for trial in decided), default=None),
            work=None if WORKLOAD not in published.manifest else str(published.manifest[WORKLOAD]),
        )

    async def _list(self, kind: str) -> list[ObjectEntry]:
        prefix = f"{run_prefix(self._run)}{kind}/"
        return [entry async for page in list_pages(self._place, prefix, PATIENCE_S) for entry in page]

    async def _read_all(self, entries: Sequence[ObjectEntry], problems: list[str]) -> list[_ReadTrial]:
        """Returns the trials that were listed; a damaged one becomes a problem."""
        left = iter([entry for entry in entries if entry.key not in self._trials])

        async def work() -> None:
            for entry in left:
                try:
                    record = await read_record(self._place, entry.key, self._run, None)
                except ObjectStoreError:
                    raise
                except StoreError as exc:
                    problems.append(str(exc))
                else:
                    self._trials[entry.key] = _summary(record, entry.modified)

        async with asyncio.TaskGroup() as group:
            for _ in range(READ_AT_ONCE):
                group.create_task(work())
        return [self._trials[entry.key] for entry in entries if entry.key in self._trials]

    async def _ask_nodes(self, problems: list[str], *, ended: bool) -> list[NodeStatus]:
        connect = connect_http(None) if ended else self._connect
        directory = AnnouncedAgents(self._place, self._run, connect, problems.append)
        await directory.refresh()
        try:
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(_ask_node(one, directory.links.get(one.agent)))
                    for one in directory.announced.values()
                ]
        finally:
            await directory.aclose()
        return sorted((self._date_sign(task.result()) for task in asked), key=lambda node: node.agent)

    def _date_sign(self, node: NodeStatus) -> NodeStatus:
        """Adds the time since a node's last answer."""
        now = time.monotonic()
        if node.state == "answers":
            self._answered[node.agent] = now
        answered = self._answered.get(node.agent)
        return node if answered is None else msgspec.structs.replace(node, last_sign_s=round(now - answered, 3))


def count_attempts(manifest: Mapping[str, Any]) -> int:
    """Returns how many attempts a published run was given; 0 if its manifest does not say."""
    try:
        if WORKLOAD in manifest:
            return msgspec.convert(manifest.get("attempts", 0), int)
        config, tasks = parse_manifest(manifest)
    except (KeyError, msgspec.ValidationError):
        return 0
    return config.total(len(tasks))


def _summary(record: TrialRecord, modified: float) -> _ReadTrial:
    result = record.body.result
    if result is None:
        return _ReadTrial(record.kind, modified, None, None)
    return _ReadTrial(record.kind, modified, result.outcome or "broke", result.broke)


def count_throughput(times: Sequence[float]) -> Throughput | None:
    """Returns how many of these Unix times are in each interval, at most `MOST_BUCKETS`; None without times."""
    if not times:
        return None
    first, last = min(times), max(times)
    widths = (width for width in BUCKETS_S if (last // width - first // width) < MOST_BUCKETS)
    width = next(widths, math.ceil((last - first) / (MOST_BUCKETS - 1)))
    counts = Counter(int(one // width) for one in times)
    buckets = range(int(first // width), int(last // width) + 1)
    return Throughput(width, tuple(one * width for one in buckets), tuple(counts[one] for one in buckets))


def _count(values: Iterable[Any]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


async def _ask_node(announced: AgentAnnouncement, link: BackoffLink | None) -> NodeStatus:
    status = NodeStatus(announced.agent, announced.url, announced.slots, "not asked")
    if link is None:
        return status
    try:
        async with asyncio.timeout(ANSWER_S):
            report: AgentReport = await link.poll(PollRequest({}))
    except (UnreachableAgentError, TimeoutError):
        return msgspec.structs.replace(status, state="silent", problem=link.problem)
    answered = msgspec.structs.replace(
        status, state="answers", running=report.running, waiting=report.waiting, uploading=report.uploading
    )
    load = report.load
    if load is None:
        return answered
    return msgspec.structs.replace(
        answered,
        spool_bytes=load.spool_bytes,
        upload_wait_s=load.upload_wait_s,
        polled_s=load.polled_s,
        allowed=load.allowed,
    )
