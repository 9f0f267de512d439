"""Watchdog for memory and disk limits that the kernel does not enforce; checks every 200 ms while processes run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Protocol

from assay.environments.interface import ResourceLimits
from assay.environments.workspace._sandbox import disk_usage
from assay.environments.workspace.session import InitSession
from assay.errors import EnvironmentFailure

WATCH_S = 0.2
DISK_EVERY = 2
_MIB = 1024 * 1024


class _HasSession(Protocol):
    def require_session(self) -> InitSession: ...


class Watchdog:
    """Kills everything in a workspace when the sum of its memory, or its folder, exceeds the limit."""

    def __init__(self, workspace: _HasSession, folder: Path, limits: ResourceLimits) -> None:
        self._workspace, self._folder = workspace, folder
        self._memory = limits.memory_mib * _MIB if limits.memory_mib is not None else None
        self._disk = limits.disk_mib * _MIB if limits.disk_mib is not None else None
        self._task: asyncio.Task[None] | None = None
        self._limit_hit: str | None = None

    def start(self) -> None:
        """Starts watching, before a command runs."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stops watching, when the workspace closes."""
        if self._task is not None:
            self._task.cancel()

    def killed_by(self, signal_number: int) -> str | None:
        """Returns the limit that ended a command that died of a signal; None if unknown."""
        if self._limit_hit is not None:
            limit, self._limit_hit = self._limit_hit, None
            return limit
        return "disk" if signal_number == signal.SIGXFSZ else None

    async def _run(self) -> None:
        idle = turn = 0
        with contextlib.suppress(EnvironmentFailure):
            session = self._workspace.require_session()
            while idle < 2:
                await asyncio.sleep(WATCH_S)
                turn += 1
                with contextlib.suppress(OSError):
                    self._limit_hit = await self._exceeded_limit(session, turn) or self._limit_hit
                    if self._limit_hit is not None:
                        await session.kill_all()
                    busy = session.running or await session.processes()
                    idle = 0 if busy else idle + 1

    async def _exceeded_limit(self, session: InitSession, turn: int) -> str | None:
        if self._memory is not None and await session.memory_bytes() > self._memory:
            return "memory"
        if self._disk is not None and turn % DISK_EVERY == 0:
            usage = await asyncio.to_thread(self._disk_usage)
            return "disk" if usage > self._disk else None
        return None

    def _disk_usage(self) -> int:
        top = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return disk_usage(top)
        finally:
            os.close(top)
