"""Attempts under changed conditions: a backend whose sandboxes differ in one property.

Not for isolation: a variation only adds variables, a command prefix or mounts, or removes the network. Invariant: it
applies to the agent's and the verifier's sandbox alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Unpack

import msgspec

from assay.environments.interface import (
    Backend,
    Change,
    ExecOptions,
    ExecResult,
    Image,
    MeasuresMemory,
    Mount,
    PackedState,
    PacksStates,
    PipedExec,
    PipeOptions,
    Snapshot,
    Workspace,
    WorkspaceSpec,
)
from assay.errors import EnvironmentFailure
from assay.rollout.recording.capabilities import capable_class
from assay.rollout.recording.workspace_wrapper import WorkspaceWrapper

MEASURE_EVERY_S = 0.02
FAKETIME = "/opt/assay-admission/libfaketime.so.1"


class Variation(msgspec.Struct, frozen=True):
    """A change of conditions; the default instance changes nothing."""

    name: str = ""
    env: dict[str, str] = {}
    """Variables set for every command; they override all others."""
    prefix: tuple[str, ...] = ()
    """Words before every command; they must execute the words that follow."""
    mounts: tuple[Mount, ...] = ()
    no_network: bool = False
    measured: bool = False
    """Record the verifier's wall time and peak memory."""
    counted: bool = False
    """Record the CPU seconds of all commands in the attempt's sandboxes."""

    @property
    def is_plain(self) -> bool:
        """True if the sandboxes are those of an attempt without a variation, and the verifier's are not measured."""
        return self == Variation(self.name, counted=self.counted)


def clock_variation(name: str, time: str) -> Variation | None:
    """Returns a variation in which every program sees another clock; None if libfaketime is not installed.

    `time` is in libfaketime's syntax: `+365d` is a year ahead, `2026-11-22 01:35:00` stands still there.
    """
    places = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime", "/usr/lib64/faketime")
    found = (p for place in places for p in Path("/").glob(f"{place.lstrip('/')}/libfaketime.so.1"))
    library = next((path.resolve() for path in found), None)
    if library is None:
        return None
    env = {"LD_PRELOAD": FAKETIME, "FAKETIME": time, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return Variation(name, env=env, mounts=(Mount(str(library), FAKETIME),))


class SandboxUsage:
    """Resources used by an attempt's sandboxes."""

    def __init__(self) -> None:
        self.peak_bytes: int | None = None
        """Peak sampled resident memory of the verifier's sandboxes; None if the backend cannot measure it."""
        self.busy_s = 0.0
        """Wall seconds of the verifier's commands."""
        self.cpu_s: float | None = 0.0
        """CPU seconds of all commands; None once one is unknown."""

    def add_memory_sample(self, resident: int) -> None:
        self.peak_bytes = max(self.peak_bytes or 0, resident)

    def add_command(self, cpu_s: float | None) -> None:
        self.cpu_s = None if cpu_s is None or self.cpu_s is None else self.cpu_s + cpu_s


class VariedBackend:
    """Opens workspaces of `inner` with a variation. Closing it leaves `inner` open."""

    def __init__(self, inner: Backend, variation: Variation) -> None:
        self.name = inner.name
        self.usage = SandboxUsage()
        self._inner = inner
        self._variation = variation

    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> Workspace:
        given = self._variation
        network = "none" if given.no_network else spec.network
        varied = msgspec.structs.replace(spec, mounts=(*spec.mounts, *given.mounts), network=network)
        watched = given.measured and spec.user == "verifier"
        return _vary_workspace(await self._inner.open(varied, state=state), given, self.usage, watched=watched)

    async def release(self, snapshot: Snapshot) -> None:
        await self._inner.release(snapshot)

    async def close(self) -> None:
        """Does nothing: the creator of `inner` closes it."""

    async def pack(self, snapshot: Snapshot) -> PackedState:
        return await self._packing().pack(snapshot)

    async def unpack(
        self, manifest: Iterable[Change], read_blob: Callable[[str], bytes], *, image: Image | None = None
    ) -> Snapshot:
        return await self._packing().unpack(manifest, read_blob, image=image)

    def _packing(self) -> PacksStates:
        if not isinstance(self._inner, PacksStates):
            raise EnvironmentFailure(f"the backend {self.name!r} cannot hand its states out")
        return self._inner


class _VariedWorkspace(WorkspaceWrapper):
    def __init__(self, inner: Workspace, variation: Variation, usage: SandboxUsage, *, watched: bool) -> None:
        super().__init__(inner)
        self._variation = variation
        self._usage = usage
        self._watched = watched

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        given = self._variation
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        options["env"] = {**(options.get("env") or {}), **given.env}
        async with self._counting() as count:
            result = await self._inner.exec([*given.prefix, *words] if given.prefix else command, **options)
            count(result)
        return result

    @contextlib.asynccontextmanager
    async def _counting(self) -> AsyncIterator[Callable[[ExecResult], None]]:
        """Measures one command, whose result the caller passes to the yielded function."""
        started = time.monotonic()
        results: list[ExecResult] = []
        async with self._measuring():
            yield results.append
        if self._watched:
            self._usage.busy_s += time.monotonic() - started
        for result in results:
            self._usage.add_command(result.cpu_s)

    @contextlib.asynccontextmanager
    async def _measuring(self) -> AsyncIterator[None]:
        inner, usage = self._inner, self._usage
        if not self._watched or not isinstance(inner, MeasuresMemory):
            yield
            return
        enough = asyncio.Event()
        looking = asyncio.get_running_loop().create_task(_sample_memory(inner, usage, enough))
        try:
            yield
        finally:
            enough.set()  # not cancelled: on Python 3.11 `wait_for` loses a cancellation that meets its answer
            await looking

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        return _vary_workspace(await self._inner.fork(spec), self._variation, self._usage, watched=self._watched)


class _PipedWorkspace(_VariedWorkspace):
    """Varies commands that are joined to another process, too."""

    async def exec_piped(
        self, command: Sequence[str], stdin: int, stdout: int, **options: Unpack[PipeOptions]
    ) -> ExecResult:
        given, inner = self._variation, self._inner
        assert isinstance(inner, PipedExec)
        options["env"] = {**(options.get("env") or {}), **given.env}
        async with self._counting() as count:
            result = await inner.exec_piped([*given.prefix, *command], stdin, stdout, **options)
            count(result)
        return result


def _vary_workspace(inner: Workspace, variation: Variation, usage: SandboxUsage, *, watched: bool) -> _VariedWorkspace:
    """Returns a varied workspace with the capabilities of `inner`."""
    kind = _PipedWorkspace if isinstance(inner, PipedExec) else _VariedWorkspace
    return capable_class(kind, inner)(inner, variation, usage, watched=watched)


async def _sample_memory(workspace: MeasuresMemory, usage: SandboxUsage, enough: asyncio.Event) -> None:
    """Samples memory until `enough` is set or the sandbox stops answering."""
    with contextlib.suppress(EnvironmentFailure, OSError):
        while not enough.is_set():
            usage.add_memory_sample(await workspace.memory_bytes())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MEASURE_EVERY_S):
                    await enough.wait()
