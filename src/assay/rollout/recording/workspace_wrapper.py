"""Base of workspaces that delegate to another workspace."""

from __future__ import annotations

import socket
from pathlib import Path

from assay.environments.interface import Change, ProcessInfo, Snapshot, Workspace, WorkspaceSpec
from assay.records import Isolation


class WorkspaceWrapper:
    """Delegates all of `Workspace` except `exec` and `fork`, which subclasses implement."""

    def __init__(self, inner: Workspace) -> None:
        self._inner = inner
        self.spec: WorkspaceSpec = inner.spec
        self.isolation: Isolation = inner.isolation

    async def processes(self) -> tuple[ProcessInfo, ...]:
        return await self._inner.processes()

    async def kill_all(self) -> None:
        await self._inner.kill_all()

    async def listen(self, port: int = 0) -> socket.socket:
        return await self._inner.listen(port)

    async def close(self) -> None:
        await self._inner.close()

    async def read(self, path: str, *, limit: int = 64 * 1024 * 1024) -> bytes:
        return await self._inner.read(path, limit=limit)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await self._inner.write(path, data, mode=mode)

    async def upload(self, source: Path, target: str) -> None:
        await self._inner.upload(source, target)

    async def download(self, source: str, target: Path, *, limit: int | None = None) -> None:
        await self._inner.download(source, target, limit=limit)

    async def digest(self) -> str:
        return await self._inner.digest()

    async def diff(self, since: Snapshot | None = None) -> tuple[Change, ...]:
        return await self._inner.diff(since)

    async def snapshot(self) -> Snapshot:
        return await self._inner.snapshot()
