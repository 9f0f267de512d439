"""Objects by which the commands of one run find each other: the published run, the announcements of agents, the end.

runs/RUN/run.json          how the run was made; a node needs nothing else
runs/RUN/agents/ID.json    the address of one agent, of one start of it
runs/RUN/ended.json        the run is complete and fetched: nodes leave

Objects are read as hostile input: size, types and the run's name are checked. Whoever can write to the place can name
the code that nodes run (`config.agent`), so the place needs the protection of the nodes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol, TypeVar

import msgspec

from assay.errors import StoreError, UserError
from assay.store.objects.collect import is_foreign
from assay.store.objects.interface import ObjectStore

from .commits import Name, Token
from .http_transport import HttpAgentLink
from .objects import create_or_read, list_pages, object_name, read_object, run_prefix
from .transport import BackoffLink

MOST_RECORD_BYTES = 1 << 26
MOST_AGENTS = 10_000
"""Announcements of one run that are read; one is made at each start of a node."""


class PublishedRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`run.json`."""

    schema: Literal[1]
    run: Name
    id: Token
    """Random: another run of the same name has another."""
    folder: Name
    """Working directory of the command; relative paths of the configuration start there, on each node."""
    manifest: dict[str, Any]
    """Manifest of the run, as in a store."""


class AgentAnnouncement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`agents/ID.json`."""

    schema: Literal[1]
    run: Name
    agent: Name
    """Unique for each start of a node."""
    url: Annotated[str, msgspec.Meta(pattern=r"\A(?:https?|ray)://[^/?#\s]+\Z", max_length=300)]
    """`http://HOST:PORT` or `https://HOST:PORT`; `ray://ACTOR` for a node that an actor of Ray started."""
    slots: Annotated[int, msgspec.Meta(ge=1)]
    isolation: tuple[str, ...] = ()
    """Names of the sandbox backends that work there."""
    certificate: Annotated[str, msgspec.Meta(max_length=1 << 16)] | None = None
    """PEM of the certificate of an `https` address."""


class EndRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ended.json`."""

    schema: Literal[1]
    run: Name


_Record = TypeVar("_Record", PublishedRun, AgentAnnouncement, EndRecord)


async def publish_run(objects: ObjectStore, record: PublishedRun) -> PublishedRun:
    """Publishes a run; repeating it changes nothing. Returns the record that is there from now on. Raises `UserError`
    if another run has its name there."""
    key = f"{run_prefix(record.run)}run.json"
    data = msgspec.json.encode(record)
    stored = await create_or_read(objects, key, data, limit=MOST_RECORD_BYTES)
    found = record if stored is data else _decode(stored, PublishedRun, record.run, key)
    if found.id != record.id:
        raise UserError(
            f"{objects} holds another run {record.run!r}: choose another name with --run, or go on with that run in a "
            f"store that does not know the name (`{_resume_command(objects, record.run)}`)"
        )
    return found


def require_unchanged(objects: ObjectStore, expected: PublishedRun, found: PublishedRun) -> None:
    """Raises `StoreError` if a run is published with another manifest: nodes would make other attempts."""
    if found.manifest != msgspec.json.decode(msgspec.json.encode(expected.manifest)):
        raise StoreError(
            f"{objects}: {run_prefix(found.run)}run.json was changed since the run began: restore it from a copy, or "
            "start a new run"
        )


def _resume_command(objects: ObjectStore, run: str) -> str:
    """Returns what goes on with a run in a store that does not know it, and so not its nodes either."""
    return f"assay resume {run} --place {objects} --nodes 2"


async def read_published(objects: ObjectStore, run: str) -> PublishedRun | None:
    """Returns a published run; None if it is absent. Raises `StoreError`."""
    return await _read(objects, f"{run_prefix(run)}run.json", PublishedRun, run)


async def require_unused(objects: ObjectStore, run: str) -> None:
    """Raises `UserError` if a place holds a run of this name, or attempts of one: they would be taken for the new
    run's."""
    if await read_published(objects, run) is not None:
        raise UserError(
            f"{objects} holds a run {run!r} already: go on with it (`{_resume_command(objects, run)}`, or "
            f"`assay admit --resume {run}` in its store), or choose another name with --run"
        )
    async for page in list_pages(objects, run_prefix(run)):
        left = next((one.key for one in page if is_foreign(one.key)), None)
        if left is not None:
            raise UserError(
                f"{objects} holds {left} of a run {run!r} whose run.json was removed: choose another name with --run, "
                "or remove the other objects of that run, too"
            )


async def read_published_name(objects: ObjectStore, segment: str, patience_s: float | None = None) -> str:
    """Returns the name of the run whose keys have this segment. Raises `StoreError` without its `run.json`."""
    key = f"runs/{segment}/run.json"
    data = await read_object(objects, key, limit=MOST_RECORD_BYTES, patience_s=patience_s)
    try:
        run = msgspec.json.decode(data, type=PublishedRun).run
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{key} is damaged: {exc}") from exc
    if object_name(run) != segment:
        raise StoreError(f"{key} is of run {run!r}: it was moved")
    return run


async def announce_agent(objects: ObjectStore, record: AgentAnnouncement) -> None:
    """Announces an agent. Raises `StoreError`."""
    key = f"{run_prefix(record.run)}agents/{object_name(record.agent)}.json"
    data = msgspec.json.encode(record)
    await create_or_read(objects, key, data, limit=MOST_RECORD_BYTES)


async def publish_end(objects: ObjectStore, run: str) -> None:
    """Lets the nodes of a run leave. Raises `StoreError`."""
    data = msgspec.json.encode(EndRecord(1, run))
    await create_or_read(objects, f"{run_prefix(run)}ended.json", data, limit=MOST_RECORD_BYTES)


async def has_ended(objects: ObjectStore, run: str) -> bool:
    """Returns whether a run is complete and fetched. Raises `StoreError`."""
    return await _read(objects, f"{run_prefix(run)}ended.json", EndRecord, run) is not None


async def read_announcements(
    objects: ObjectStore, run: str, known: Mapping[str, AgentAnnouncement]
) -> dict[str, AgentAnnouncement | StoreError]:
    """Returns the announcements of a run by key, without reading known ones again; an error for a damaged one."""
    prefix = f"{run_prefix(run)}agents/"
    found: dict[str, AgentAnnouncement | StoreError] = {}
    async for page in list_pages(objects, prefix):
        for entry in page:
            if len(found) >= MOST_AGENTS:
                return found
            if entry.key in known:
                found[entry.key] = known[entry.key]
                continue
            try:
                record = await _read(objects, entry.key, AgentAnnouncement, run)
            except StoreError as exc:
                found[entry.key] = exc
            else:
                if record is not None:
                    found[entry.key] = record
    return found


async def _read(objects: ObjectStore, key: str, kind: type[_Record], run: str) -> _Record | None:
    try:
        data = await read_object(objects, key, limit=MOST_RECORD_BYTES)
    except StoreError as exc:
        if isinstance(exc.__cause__, FileNotFoundError):
            return None
        raise
    return _decode(data, kind, run, key)


def _decode(data: bytes, kind: type[_Record], run: str, key: str) -> _Record:
    try:
        record = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{key} is damaged: {exc}") from exc
    if record.run != run:
        raise StoreError(f"{key} is of run {record.run!r}: it was moved")
    return record


def new_run_id() -> str:
    """Returns an id for a published run."""
    return secrets.token_hex(16)


class Connect(Protocol):
    """Makes links to announced agents."""

    def __call__(self, agent: AgentAnnouncement) -> BackoffLink | None:
        """Returns a link; None for an agent that this process cannot call. Raises `ValueError` for a bad address."""
        ...


def connect_http(token: str | None) -> Connect:
    """Returns what makes links over HTTP, for agents that have this token; None calls no agent."""

    def connect(agent: AgentAnnouncement) -> BackoffLink | None:
        if token is None or agent.url.startswith("ray:"):
            return None
        return HttpAgentLink(agent.agent, agent.url, token, agent.certificate)

    return connect


class AnnouncedAgents:
    """The directory of a run's announced agents."""

    def __init__(
        self, objects: ObjectStore, run: str, connect: Connect, warn: Callable[[str], None] = lambda _: None
    ) -> None:
        self._objects, self._run, self._connect, self._warn = objects, run, connect, warn
        self.announced: dict[str, AgentAnnouncement] = {}
        """By key."""
        self.links: dict[str, BackoffLink] = {}
        """By the agent's name; of those that this process can call."""
        self._ignored: set[str] = set()

    def agents(self) -> Mapping[str, BackoffLink]:
        return self.links

    async def refresh(self) -> None:
        """Reads the announcements that are new. Raises `StoreError` if they cannot be listed."""
        for key, record in (await read_announcements(self._objects, self._run, self.announced)).items():
            if key in self.announced or key in self._ignored:
                continue
            try:
                if isinstance(record, StoreError):
                    raise record
                link = self._connect(record)
            except (StoreError, ValueError) as exc:
                self._ignored.add(key)
                self._warn(f"a node is ignored: {key}: {exc}")
            else:
                self.announced[key] = record
                if link is not None:
                    self.links[record.agent] = link

    async def watch(self, every_s: float) -> None:
        """Reads new announcements for ever, and reports each agent that refuses calls once."""
        warned: set[str] = set()
        while True:
            await self.refresh()
            for link in self.links.values():
                if link.is_refused and link.name not in warned:
                    warned.add(link.name)
                    self._warn(f"{link.problem} (do node and command have the same token?)")
            await asyncio.sleep(every_s)

    async def aclose(self) -> None:
        """Closes all connections."""
        for link in self.links.values():
            await link.close()
