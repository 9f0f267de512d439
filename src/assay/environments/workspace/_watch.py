"""The watchdog of sandboxes whose memory and disk no kernel limit holds: looks every 200 ms while something runs."""

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

__all__ = ["DISK_EVERY", "WATCH_S", "Watch"]

WATCH_S = 0.2
DISK_EVERY = 2
_MIB = 1024 * 1024


class _Watched(Protocol):
    def live(self) -> InitSession: ...


class Watch:
    """Kills everything in a workspace when the sum of its memory, or its folder, is over the limit."""

    def __init__(self, workspace: _Watched, folder: Path, limits: ResourceLimits) -> None:
        self._workspace, self._folder = workspace, folder
        self._memory = limits.memory_mib * _MIB if limits.memory_mib is not None else None
        self._disk = limits.disk_mib * _MIB if limits.disk_mib is not None else None
        self._task: asyncio.Task[None] | None = None
        self._hit: str | None = None

    def wake(self) -> None:
        """Something is about to run."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._keep())

    def stop(self) -> None:
        """The workspace closes."""
        if self._task is not None:
            self._task.cancel()

    def killed_by(self, signal_number: int) -> str | None:
        """Which limit ended a command that died of a signal."""
        if self._hit is not None:
            hit, self._hit = self._hit, None
            return hit
        return "disk" if signal_number == signal.SIGXFSZ else None

    async def _keep(self) -> None:
        idle = turn = 0
        with contextlib.suppress(EnvironmentFailure):
            session = self._workspace.live()
            while idle < 2:
                await asyncio.sleep(WATCH_S)
                turn += 1
                with contextlib.suppress(OSError):
                    self._hit = await self._over(session, turn) or self._hit
                    if self._hit is not None:
                        await session.kill_all()
                    busy = session.running or await session.processes()
                    idle = 0 if busy else idle + 1

    async def _over(self, session: InitSession, turn: int) -> str | None:
        if self._memory is not None and await session.memory_bytes() > self._memory:
            return "memory"
        if self._disk is not None and turn % DISK_EVERY == 0:
            used = await asyncio.to_thread(self._used)
            return "disk" if used > self._disk else None
        return None

    def _used(self) -> int:
        top = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return disk_usage(top)
        finally:
            os.close(top)
