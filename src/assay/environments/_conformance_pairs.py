"""Properties of two sandboxes at once, and the helpers of all properties in `conformance`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from assay.environments.capabilities import DescribesSeparation
from assay.environments.interface import Backend, PipedExec, Workspace, WorkspaceSpec


def expect(condition: object, claim: str, actual: object = "") -> None:
    """Raises `AssertionError` with what was seen, unless the property holds."""
    if not condition:
        raise AssertionError(f"{claim}; seen: {actual!r}" if actual != "" else claim)


class OpenedWorkspace:
    """A workspace for a `with` block."""

    def __init__(self, backend: Backend, spec: WorkspaceSpec) -> None:
        self._backend, self._spec = backend, spec

    async def __aenter__(self) -> Workspace:
        self._workspace = await self._backend.open(self._spec)
        return self._workspace

    async def __aexit__(self, *_: object) -> None:
        await self._workspace.close()


class MemorySpill:
    """Spill target in memory."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put_file(self, path: Path) -> str:
        """Reads and deletes a file; returns its name in `contents`."""
        data = path.read_bytes()
        path.unlink()
        name = f"kept-{len(self.contents)}"
        self.contents[name] = data
        return name


async def facts_tell_two_sandboxes_apart(backend: Backend, spec: WorkspaceSpec) -> None:
    """Checks that an isolating backend describes its sandboxes: complete lists, and namespaces of their own."""
    async with OpenedWorkspace(backend, spec) as first, OpenedWorkspace(backend, spec) as second:
        if not (isinstance(first, DescribesSeparation) and isinstance(second, DescribesSeparation)):
            return
        one, two = await first.facts(), await second.facts()
        expect(one.tier == first.isolation.name, "the tier is that of the isolation record", one.tier)
        expect(one.mount_total == len(one.mounts) and one.layer_total == len(one.layers), "lists are whole", one)
        expect(one.image == first.spec.image.digest and not one.state_layers, "it stands on the image alone", one)
        if first.isolation.name != "none":
            for name in ("pid", "mnt", "ipc"):  # an engine that runs as root shares its user namespace, and says so
                expect(one.namespaces[name] != two.namespaces[name], f"each has its own {name} namespace", one)


async def two_sandboxes_are_joined_by_pipes(backend: Backend, spec: WorkspaceSpec) -> None:
    """Checks that a command in one sandbox reads what a command in another writes, in both directions at once."""
    async with OpenedWorkspace(backend, spec) as asking, OpenedWorkspace(backend, spec) as answering:
        if not (isinstance(asking, PipedExec) and isinstance(answering, PipedExec)):
            return
        (there_out, there_in), (back_out, back_in) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        try:
            ask = asking.exec_piped(
                ["/bin/sh", "-c", "echo ping; read line; echo $line >&2"], back_out, there_in, timeout_s=20
            )
            answer = answering.exec_piped(
                ["/bin/sh", "-c", "read line; echo $line-pong; exit 7"], there_out, back_in, timeout_s=20
            )
            request_result, answer_result = await asyncio.gather(ask, answer)
        finally:
            for fd in (there_out, there_in, back_out, back_in):
                os.close(fd)
        expect(
            request_result.stderr == "ping-pong\n" and request_result.stdout == "", "the answer arrives", request_result
        )
        expect(answer_result.exit_code == 7, "the exit code is that of the command", answer_result)
