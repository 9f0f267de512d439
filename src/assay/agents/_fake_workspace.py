"""In-memory workspace for tests: files are dictionary entries, a function answers commands. Provides no isolation."""

# ruff: noqa: ARG001 (a fake has the whole signature of what it stands for, and needs little of it)

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Unpack

from assay.environments.interface import (
    Change,
    ExecOptions,
    ExecResult,
    ProcessInfo,
    Snapshot,
    Workspace,
    WorkspaceSpec,
)
from assay.records import Isolation, digest_bytes, digest_record

Answer = Callable[[str | Sequence[str], dict[str, bytes]], ExecResult]


def _nothing(command: str | Sequence[str], files: dict[str, bytes]) -> ExecResult:
    return ExecResult(0, "", "", 0.0)


class FakeWorkspace(Workspace):
    """Files in a dictionary by absolute path; `answer` returns the result of a command and may change the files."""

    def __init__(self, answer: Answer = _nothing, files: Mapping[str, bytes] | None = None) -> None:
        self.spec = WorkspaceSpec()
        self.isolation = Isolation(name="not needed")
        self.files = dict(files or {})
        self.commands: list[str | Sequence[str]] = []
        self._answer = answer
        self._initial = dict(self.files)

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        self.commands.append(command)
        return self._answer(command, self.files)

    async def processes(self) -> tuple[ProcessInfo, ...]:
        return ()

    async def kill_all(self) -> None:
        """Does nothing."""

    async def listen(self, port: int = 0) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        listener.setblocking(False)
        return listener

    async def close(self) -> None:
        """Does nothing."""

    async def read(self, path: str, *, limit: int = 64 * 1024 * 1024) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        data = self.files[path]
        if len(data) > limit:
            raise ValueError(f"{path}: longer than {limit} bytes")
        return data

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self.files[path] = data

    async def upload(self, source: Path, target: str) -> None:
        if source.is_file():
            self.files[target] = source.read_bytes()
            return
        for file in sorted(source.rglob("*")):
            if file.is_file():
                self.files[str(PurePosixPath(target) / file.relative_to(source).as_posix())] = file.read_bytes()

    async def download(self, source: str, target: Path, *, limit: int | None = None) -> None:
        """Copies a file; `limit` is not enforced."""
        for path, data in self.files.items():
            inside = PurePosixPath(path)
            if path == source:
                target.write_bytes(data)
            elif inside.is_relative_to(source) and ".." not in inside.parts:
                place = target / inside.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)

    async def digest(self) -> str:
        return digest_record([(change.path, change.kind, change.digest) for change in await self.diff()])

    async def diff(self, since: Snapshot | None = None) -> tuple[Change, ...]:
        """Lists the files; `since` is ignored."""
        changes = [
            Change(path, "changed" if path in self._initial else "added", digest=digest_bytes(data), size=len(data))
            for path, data in self.files.items()
            if self._initial.get(path) != data
        ]
        changes += [Change(path, "removed") for path in self._initial if path not in self.files]
        return tuple(sorted(changes, key=lambda change: change.path))

    async def snapshot(self) -> Snapshot:
        return Snapshot(await self.digest(), self.spec.image, backend="fake", changes=await self.diff())

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        return FakeWorkspace(self._answer, self.files)
