"""The states of a store's runs on nodes for pages that ask again and again: one reader a run, one reading at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

import msgspec

from assay.errors import EnvironmentFailure, MissingLibraryError
from assay.http.bearer import load_token
from assay.settings import Settings
from assay.store.objects import open_place

from .node_session import local_token_file, ray_address_file
from .place_records import Connect, connect_http
from .placed_run import find_label
from .ray_nodes import PREFIX, RayConnection, connect_ray
from .run_status import ClusterStatus, StatusReader

FRESH_S = 1.0
"""A state that was read within this time is returned again."""
MOST_READERS = 16
CONNECT_S = 20.0
CLIENT_CONNECT_S = 60.0
"""Ray Client starts a process on the head for each connection, which takes 13 s on a busy machine."""

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def open_links(
    run: str, settings: Settings, token: str | None = None, nodes: str | None = None
) -> AsyncIterator[Connect]:
    """Yields what reaches the nodes of a run from a process that did not start them.

    Args:
        run: The run.
        settings: Where its store is, if this machine has one.
        token: Token of nodes elsewhere; None: that of local nodes, if there are some.
        nodes: `ray:...`; None: the cluster that the store knows. One that cannot be reached is logged.

    Raises:
        UserError: The address is invalid.
    """
    private, address = local_token_file(settings, run), ray_address_file(settings, run)
    token = load_token(private) if token is None and private.is_file() else token
    if nodes is None and address.is_file():
        nodes = address.read_text(encoding="utf-8")
    elif nodes is None:
        label = find_label(run, settings)
        nodes = label.nodes if label is not None and isinstance(label.nodes, str) else None
    if nodes is None or not nodes.startswith(PREFIX) or nodes == "ray:local":
        yield connect_http(token)
        return
    async with contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(CLIENT_CONNECT_S if nodes.startswith("ray://") else CONNECT_S):
                await stack.enter_async_context(RayConnection(nodes))
        except (EnvironmentFailure, MissingLibraryError, TimeoutError) as exc:
            _log.warning("the nodes of run %s are not asked: %s", run, str(exc) or f"{nodes} does not answer")
            yield connect_http(token)
        else:
            yield connect_ray(token)


class LiveStatus:
    """Reads the states of runs on nodes."""

    def __init__(self, settings: Settings, token: str | None = None) -> None:
        """Creates a reader; `token` is that of nodes elsewhere, None for those of this machine alone."""
        self._settings, self._token = settings, token
        self._runs: dict[str, _OpenRun] = {}

    async def read(self, run: str) -> ClusterStatus | None:
        """Returns the state of a run of the store; None if it is unknown or was not done by nodes.

        Raises:
            UserError: The place holds no such run, or cannot be opened.
            StoreError: The place does not answer, or the run's manifest is damaged.
        """
        if run not in self._runs:
            label = find_label(run, self._settings)
            if label is None:
                return None
            if len(self._runs) >= MOST_READERS:
                del self._runs[next(iter(self._runs))]
            self._runs[run] = _OpenRun(label.url, run, self._settings, self._token)
        return await self._runs[run].read()


class _OpenRun:
    def __init__(self, url: str, run: str, settings: Settings, token: str | None) -> None:
        self._place, self._run, self._settings, self._token = open_place(url), run, settings, token
        self._reader: StatusReader | None = None
        self._links = contextlib.AsyncExitStack()
        """Keeps the connection to Ray, of which a process has one, for the pages that ask next."""
        self._lock = asyncio.Lock()
        self._status: ClusterStatus | None = None
        self._read_at = 0.0

    async def read(self) -> ClusterStatus:
        async with self._lock:
            if self._reader is None:
                self._reader = await self._open()
            now = time.monotonic()
            if self._status is None or now - self._read_at > FRESH_S:
                self._status, self._read_at = await self._reader.read(), now
            since = round(now - self._read_at, 3)
            nodes = tuple(
                msgspec.structs.replace(
                    node, last_sign_s=None if node.last_sign_s is None else node.last_sign_s + since
                )
                for node in self._status.nodes
            )
            return msgspec.structs.replace(self._status, nodes=nodes)

    async def _open(self) -> StatusReader:
        connect = await self._links.enter_async_context(open_links(self._run, self._settings, self._token))
        return StatusReader(self._place, self._run, connect)
