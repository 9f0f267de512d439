"""The same attempt under other circumstances: a backend whose sandboxes differ in one thing from what was asked for.

Not for isolation: a variation only adds variables, a program that starts each command, mounts, or takes the network
away. Invariant: it holds for the agent's sandbox and for the verifier's alike, and nothing else of either changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from assay.environments.interface import (
    Backend,
    Change,
    ExecResult,
    Image,
    MeasuresMemory,
    Mount,
    PackedState,
    PacksStates,
    PipedExec,
    Snapshot,
    SpillTarget,
    Workspace,
    WorkspaceSpec,
)
from assay.errors import EnvironmentFailure

from .capabilities import capable_class
from .passing import PassingWorkspace

__all__ = ["Usage", "Variation", "VariedBackend", "other_clock"]

MEASURE_EVERY_S = 0.02
FAKETIME = "/opt/assay-admission/libfaketime.so.1"


class Variation(msgspec.Struct, frozen=True):
    """What differs. The empty one is no variation."""

    name: str = ""
    env: dict[str, str] = {}
    """Set for every command, over what the sandbox and the command itself set."""
    prefix: tuple[str, ...] = ()
    """Words before every command; they must end in running what follows them."""
    mounts: tuple[Mount, ...] = ()
    no_network: bool = False
    measured: bool = False
    """Note what judging took: seconds, and the most memory that was seen in use."""
    counted: bool = False
    """Note the processor seconds of all that runs in the attempt's sandboxes. Nothing differs for what runs."""


def other_clock(name: str, time: str) -> Variation | None:
    """Every program sees another clock; None where the library for it is not installed on this machine.

    Args:
        name: Of the variation.
        time: As libfaketime takes it: `+365d` is a year ahead, `2026-11-22 01:35:00` stands still there.
    """
    places = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime", "/usr/lib64/faketime")
    found = (p for place in places for p in Path("/").glob(f"{place.lstrip('/')}/libfaketime.so.1"))
    library = next((path.resolve() for path in found), None)
    if library is None:
        return None
    env = {"LD_PRELOAD": FAKETIME, "FAKETIME": time, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return Variation(name, env=env, mounts=(Mount(str(library), FAKETIME),))


class Usage:
    """What the sandboxes used."""

    def __init__(self) -> None:
        self.peak_bytes: int | None = None
        """The most that was resident in the verifier's at a moment that was looked at; None where the backend cannot
        say."""
        self.busy_s = 0.0
        """Seconds that commands of the verifier's took."""
        self.cpu_s: float | None = 0.0
        """Processor seconds of all commands; None once one of them is not known."""

    def seen(self, resident: int) -> None:
        """Takes a look into account."""
        self.peak_bytes = max(self.peak_bytes or 0, resident)

    def ran(self, cpu_s: float | None) -> None:
        """Takes a command into account."""
        self.cpu_s = None if cpu_s is None or self.cpu_s is None else self.cpu_s + cpu_s


class VariedBackend:
    """Opens workspaces of `inner`, each varied. Closing it closes nothing: `inner` belongs to who made it."""

    def __init__(self, inner: Backend, variation: Variation) -> None:
        self.name = inner.name
        self.usage = Usage()
        self._inner = inner
        self._variation = variation

    async def open(self, spec: WorkspaceSpec, *, state: Snapshot | None = None) -> Workspace:
        """See `Backend.open`."""
        given = self._variation
        network = "none" if given.no_network else spec.network
        varied = msgspec.structs.replace(spec, mounts=(*spec.mounts, *given.mounts), network=network)
        watched = given.measured and spec.user == "verifier"
        return _varied(await self._inner.open(varied, state=state), given, self.usage, watched=watched)

    async def release(self, snapshot: Snapshot) -> None:
        """See `Backend.release`."""
        await self._inner.release(snapshot)

    async def close(self) -> None:
        """See `Backend.close`."""

    async def pack(self, snapshot: Snapshot) -> PackedState:
        """See `PacksStates.pack`."""
        return await self._packing().pack(snapshot)

    async def unpack(
        self, manifest: Iterable[Change], read_blob: Callable[[str], bytes], *, image: Image | None = None
    ) -> Snapshot:
        """See `PacksStates.unpack`."""
        return await self._packing().unpack(manifest, read_blob, image=image)

    def _packing(self) -> PacksStates:
        if not isinstance(self._inner, PacksStates):
            message = f"the backend {self.name!r} cannot hand its states out"
            raise EnvironmentFailure(message)
        return self._inner


class _VariedWorkspace(PassingWorkspace):
    """Passes everything on; what runs, runs varied."""

    def __init__(self, inner: Workspace, variation: Variation, usage: Usage, *, watched: bool) -> None:
        super().__init__(inner)
        self._variation = variation
        self._usage = usage
        self._watched = watched

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        show_bytes: int = 65_536,
        spill: SpillTarget | None = None,
    ) -> ExecResult:
        """See `Session.exec`."""
        given = self._variation
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        async with self._counting() as count:
            result = await self._inner.exec(
                [*given.prefix, *words] if given.prefix else command,
                cwd=cwd,
                env={**(env or {}), **given.env},
                stdin=stdin,
                timeout_s=timeout_s,
                show_bytes=show_bytes,
                spill=spill,
            )
            count(result)
        return result

    @contextlib.asynccontextmanager
    async def _counting(self) -> AsyncIterator[Callable[[ExecResult], None]]:
        """Measures one command; its result is handed to the function that this gives."""
        started = time.monotonic()
        results: list[ExecResult] = []
        async with self._measuring():
            yield results.append
        if self._watched:
            self._usage.busy_s += time.monotonic() - started
        for result in results:
            self._usage.ran(result.cpu_s)

    @contextlib.asynccontextmanager
    async def _measuring(self) -> AsyncIterator[None]:
        inner, usage = self._inner, self._usage
        if not self._watched or not isinstance(inner, MeasuresMemory):
            yield
            return
        enough = asyncio.Event()
        looking = asyncio.get_running_loop().create_task(_look(inner, usage, enough))
        try:
            yield
        finally:
            enough.set()  # not cancelled: on Python 3.11 `wait_for` loses a cancellation that meets its answer
            await looking

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """See `State.fork`."""
        return _varied(await self._inner.fork(spec), self._variation, self._usage, watched=self._watched)


class _PipedWorkspace(_VariedWorkspace):
    """Does the same for commands that are joined to another process."""

    async def exec_piped(
        self,
        command: Sequence[str],
        stdin: int,
        stdout: int,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stderr: int | None = None,
        timeout_s: float | None = None,
        show_bytes: int = 65_536,
    ) -> ExecResult:
        """Runs the command as the variation asks, joined to another process (`PipedExec.exec_piped`)."""
        given, inner = self._variation, self._inner
        assert isinstance(inner, PipedExec)
        async with self._counting() as count:
            result = await inner.exec_piped(
                [*given.prefix, *command],
                stdin,
                stdout,
                cwd=cwd,
                env={**(env or {}), **given.env},
                stderr=stderr,
                timeout_s=timeout_s,
                show_bytes=show_bytes,
            )
            count(result)
        return result


def _varied(inner: Workspace, variation: Variation, usage: Usage, *, watched: bool) -> Workspace:
    """Returns a varied workspace that can do what `inner` can."""
    kind = _PipedWorkspace if isinstance(inner, PipedExec) else _VariedWorkspace
    return capable_class(kind, inner)(inner, variation, usage, watched=watched)


async def _look(workspace: MeasuresMemory, usage: Usage, enough: asyncio.Event) -> None:
    """Looks until it is told that it is enough, or the sandbox no longer answers."""
    with contextlib.suppress(EnvironmentFailure, OSError):
        while not enough.is_set():
            usage.seen(await workspace.memory_bytes())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MEASURE_EVERY_S):
                    await enough.wait()
