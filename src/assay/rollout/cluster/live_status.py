"""The states of a store's runs on nodes for pages that ask again and again: one reader a run, one reading at a time."""

from __future__ import annotations

import asyncio
import time

import msgspec

from assay.http.bearer import load_token
from assay.settings import Settings
from assay.store.objects import open_place

from .placed_run import find_label, local_token_file
from .run_status import ClusterStatus, StatusReader

FRESH_S = 1.0
"""A state that was read within this time is returned again."""
MOST_READERS = 16


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
            self._runs[run] = _OpenRun(StatusReader(open_place(label.url), run, self._find_token(run)))
        return await self._runs[run].read()

    def _find_token(self, run: str) -> str | None:
        private = local_token_file(self._settings, run)
        return load_token(private) if self._token is None and private.is_file() else self._token


class _OpenRun:
    def __init__(self, reader: StatusReader) -> None:
        self._reader, self._lock = reader, asyncio.Lock()
        self._status: ClusterStatus | None = None
        self._read_at = 0.0

    async def read(self) -> ClusterStatus:
        async with self._lock:
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
