"""The state of a run on nodes, from the place and from its agents. Changes nothing, and needs no command that runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Literal

import msgspec

from assay.errors import StoreError, UserError
from assay.rollout.run_manifest import parse_manifest
from assay.store.objects.interface import ObjectStore, ObjectStoreError

from .commits import TrialRecord, list_finals, read_record
from .epochs import count_epochs
from .http_transport import HttpAgentLink
from .objects import list_pages, run_prefix
from .place_records import AgentAnnouncement, AnnouncedAgents, has_ended, read_published
from .transport import AgentReport, PollRequest, UnreachableAgentError

PATIENCE_S = 30.0
ANSWER_S = 5.0
READ_AT_ONCE = 32


class NodeStatus(msgspec.Struct, frozen=True):
    """The state of one node."""

    agent: str
    url: str
    slots: int
    state: Literal["answers", "silent", "not asked"]
    """`silent`: it has left, or cannot be reached. `not asked`: the run has ended, or there is no token."""
    running: int | None = None
    waiting: int | None = None
    uploading: int | None = None
    problem: str | None = None


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


async def read_status(place: ObjectStore, run: str, token: str | None) -> ClusterStatus:
    """Returns the state of a run; reads all its trials. `token` is that of its nodes; None asks none.

    Raises:
        UserError: The place holds no such run.
        ObjectStoreError: The place does not answer.
    """
    finals = await list_finals(place, run, PATIENCE_S)
    published = await read_published(place, run)
    if published is None:
        raise UserError(f"{place} holds no run {run!r}: start it with `assay run ... --run {run} --place {place}`")
    config, tasks = parse_manifest(published.manifest)
    problems: list[str] = []
    decided = await _read_all(place, run, "finals", problems)
    cut = await _read_all(place, run, "cut", problems)
    ended = await has_ended(place, run)
    nodes = await _ask_nodes(place, run, None if ended else token, problems)
    kinds = Counter(record.kind for record in cut)
    results = [record.body.result for record in (*decided, *cut) if record.kind != "superseded"]
    return ClusterStatus(
        run=run,
        place=str(place),
        attempts=config.total(len(tasks)),
        finals=len(finals),
        outcomes=_count(r.body.result.outcome or "broke" for r in decided if r.body.result is not None),
        errors=_count(result.broke for result in results if result is not None and result.broke is not None),
        superseded=kinds["superseded"],
        retried=kinds["retried"],
        interrupted=kinds["interrupted"],
        running=sum(node.running or 0 for node in nodes),
        leases=sum((node.running or 0) + (node.waiting or 0) + (node.uploading or 0) for node in nodes),
        coordinators=await count_epochs(place, run),
        ended=ended,
        nodes=tuple(nodes),
        problems=tuple(sorted(problems)),
    )


def _count(values: Any) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


async def _read_all(place: ObjectStore, run: str, kind: str, problems: list[str]) -> list[TrialRecord]:
    """Returns the records under a prefix, without their events; a damaged one becomes a problem."""
    found: list[TrialRecord] = []
    keys = [entry.key async for page in list_pages(place, f"{run_prefix(run)}{kind}/") for entry in page]
    left = iter(keys)

    async def work() -> None:
        for key in left:
            try:
                record = await read_record(place, key, run, None)
            except ObjectStoreError:
                raise
            except StoreError as exc:
                problems.append(str(exc))
            else:
                body = msgspec.structs.replace(record.body, events=b"")
                found.append(msgspec.structs.replace(record, body=body))

    async with asyncio.TaskGroup() as group:
        for _ in range(READ_AT_ONCE):
            group.create_task(work())
    return found


async def _ask_nodes(place: ObjectStore, run: str, token: str | None, problems: list[str]) -> list[NodeStatus]:
    directory = AnnouncedAgents(place, run, token or "", problems.append)
    await directory.refresh()
    try:
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(_ask_node(one, None if token is None else directory.links[one.agent]))
                for one in directory.announced.values()
            ]
    finally:
        await directory.aclose()
    return sorted((task.result() for task in asked), key=lambda node: node.agent)


async def _ask_node(announced: AgentAnnouncement, link: HttpAgentLink | None) -> NodeStatus:
    status = NodeStatus(announced.agent, announced.url, announced.slots, "not asked")
    if link is None:
        return status
    try:
        async with asyncio.timeout(ANSWER_S):
            report: AgentReport = await link.poll(PollRequest({}))
    except (UnreachableAgentError, TimeoutError):
        return msgspec.structs.replace(status, state="silent", problem=link.problem)
    return msgspec.structs.replace(
        status, state="answers", running=report.running, waiting=report.waiting, uploading=report.uploading
    )
