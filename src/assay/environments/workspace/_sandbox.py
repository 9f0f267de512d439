"""One sandbox of the `namespaces` backend, and the workspace that outlives it.

A `Sandbox` is one set of namespaces over one writable layer. A `NamespacesWorkspace` has one at a time: a snapshot
ends it and seals its layer; the next sandbox above it is started at the next command, read or write.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from assay.environments.interface import (
    Change,
    ExecOptions,
    ExecResult,
    Image,
    PipeOptions,
    ProcessInfo,
    Snapshot,
    WorkspaceSpec,
)
from assay.environments.workspace._change_set import ChangeSet
from assay.environments.workspace._entries import Opener, open_below
from assay.environments.workspace._facts import FactsFromHost, sandbox_facts
from assay.environments.workspace._launch import Launcher, has_exited
from assay.environments.workspace._limits import WATCHDOG_S, Budget
from assay.environments.workspace.session import ExecDefaults, InitSession, SessionWorkspace, command_environment
from assay.environments.workspace.state import (
    OverlayState,
    StackedImage,
    changes_between,
    identify_paths,
    state_digest,
)
from assay.errors import EnvironmentFailure, HostFailure
from assay.records import Isolation, SandboxFacts

if TYPE_CHECKING:
    from assay.environments.workspace.namespaces import NamespacesBackend

START_S, END_S = 30.0, 15.0


class SandboxLayers(NamedTuple):
    image: Image
    sealed: tuple[str, ...]
    """Highest first."""
    image_paths: tuple[str, ...]
    """Highest first."""
    view: StackedImage


class SandboxRequest(NamedTuple):
    """Request to the launcher, with the enforcement of its limits."""

    message: dict[str, Any]
    budget: Budget
    isolation: Isolation


class Sandbox:
    """A live set of namespaces."""

    def __init__(self, launcher: Launcher, session: InitSession, body: dict[str, Any], fds: list[int]) -> None:
        self.session = session
        self.upper, self._pidfd = fds
        self.layer_path: str = body["place"]
        self.pid: int = body["pid"]
        self.made = frozenset(str(path) for path in body.get("made", ()))
        self.facts = body.get("facts")
        """Facts that its first process sent before it served."""
        self._oom_file: str | None = body["oom"]
        self._launcher = launcher
        self._ooms = self.count_ooms()
        self.on_end: Callable[[], None] | None = None
        """Called once, when all its processes have ended."""

    def count_ooms(self) -> int:
        """Returns the number of processes that the kernel killed for memory so far, if a cgroup counts them."""
        if self._oom_file is None:
            return 0
        with contextlib.suppress(OSError, ValueError):
            for line in Path(self._oom_file).read_text(encoding="utf-8").splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def memory_killed(self) -> bool:
        """Returns True if the kernel killed for memory since the last call."""
        before, self._ooms = self._ooms, self.count_ooms()
        return self._ooms > before

    async def end(self) -> None:
        """Ends all its processes and waits for their end. The writable layer stays. Idempotent."""
        self.session.close()
        if self._pidfd < 0:
            return
        pidfd, self._pidfd = self._pidfd, -1
        try:
            if not await has_exited(pidfd, END_S):
                await self._launcher.ask({"op": "kill", "pid": self.pid})
                if not await has_exited(pidfd, END_S):
                    raise EnvironmentFailure(f"sandbox process {self.pid} cannot be killed")
        finally:
            os.close(pidfd)
            if self.on_end is not None:
                self.on_end()


async def start_sandbox(launcher: Launcher, request: SandboxRequest) -> Sandbox:
    """Creates a sandbox and waits until it serves. Cleans up on cancellation."""
    task = asyncio.get_running_loop().create_task(_start(launcher, request))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(EnvironmentFailure):
            sandbox = await task
            await sandbox.end()
            os.close(sandbox.upper)
            await launcher.ask({"op": "drop", "places": [sandbox.layer_path]})
        raise


async def _start(launcher: Launcher, request: SandboxRequest) -> Sandbox:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    session = InitSession(ours, ExecDefaults({}, "/"))
    ready = asyncio.ensure_future(session.channel.receive_greeting(START_S))
    await asyncio.sleep(0)
    try:
        answer = await launcher.ask(request.message, (theirs.fileno(),))
    except BaseException:
        ready.cancel()
        session.close()
        raise
    finally:
        theirs.close()
    try:
        first = _require_ready((await ready).body)
    except EnvironmentFailure:
        session.close()
        answer.close()
        await launcher.ask({"op": "kill", "pid": answer.body["pid"]})
        await launcher.ask({"op": "drop", "places": [answer.body["place"]]})
        raise
    return Sandbox(launcher, session, {**answer.body, **first}, answer.fds)


def _require_ready(body: dict[str, Any]) -> dict[str, Any]:
    if not body.get("ready"):
        raise EnvironmentFailure(f"the sandbox could not be set up: {str(body.get('error'))[:500]}")
    return body


class NamespacesWorkspace(SessionWorkspace):
    """Workspace in namespaces, opened by `NamespacesBackend.open`."""

    def __init__(
        self, backend: NamespacesBackend, spec: WorkspaceSpec, layers: SandboxLayers, before: Snapshot | None
    ) -> None:
        self.spec = spec
        self._backend: NamespacesBackend = backend
        self._layers = layers
        self._start_changes = ChangeSet(before.changes if before is not None else ())
        self._sealed_changes = self._start_changes
        self._closed = False
        self._is_sealed = False
        """True after a snapshot has sealed the sandbox's layer, until the next sandbox above it is needed."""
        self._closing: asyncio.Task[None] | None = None
        self._state_lock = asyncio.Lock()
        self._watchdog_task: asyncio.Task[None] | None = None
        self._limit_hit: str | None = None

    async def start(self, layer_path: str | None = None) -> None:
        """Starts a sandbox over the current layers, with a new writable layer or the one at `layer_path`."""
        launcher = self._current_launcher = await self._backend.launcher()
        request = await self._backend.request_for(self.spec, self._layers)
        request.message["place"] = layer_path
        release_slot = await self._backend.reserve()
        try:
            sandbox = await start_sandbox(launcher, request)
        except BaseException:
            release_slot()
            raise
        sandbox.on_end = release_slot
        self.isolation = request.isolation
        self._budget = request.budget
        self._sandbox, self._session, self._is_sealed = sandbox, sandbox.session, False
        defaults = ExecDefaults(
            command_environment(self.spec, self._layers.image), self.spec.workdir, self.spec.limits.output_mib
        )
        self._session.configure(defaults, self._killed_by)
        covered = [*(mount.target for mount in self.spec.mounts), *self.spec.tmpfs]
        self._state = OverlayState(self._layers.view, self._sealed_changes, sandbox.upper)
        self._state.hidden = identify_paths(sandbox.upper, (path.rstrip("/") for path in covered))
        self._state.made = identify_paths(sandbox.upper, sandbox.made)
        self._state.fallback = _make_opener(launcher, sandbox.layer_path)

    @property
    def sealed_paths(self) -> tuple[str, ...]:
        return self._layers.sealed

    @property
    def image_paths(self) -> tuple[str, ...]:
        return self._layers.image_paths

    def _require_session(self) -> InitSession:
        if self._closed:
            raise EnvironmentFailure("the workspace is closed")
        if self._current_launcher.has_exited:
            raise HostFailure("the sandbox launcher is gone, with all layers of the sandbox")
        return self._session

    async def running_session(self) -> InitSession:
        """Returns the session of a running sandbox; starts one after a snapshot, since many sealed states are never
        used again."""
        if self._is_sealed:
            async with self._state_lock:
                await self._start_if_sealed()
        return self._require_session()

    async def _start_if_sealed(self) -> None:
        if self._is_sealed and not self._closed:
            self._require_session()
            await self.start()

    # Session

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        session = await self.running_session()
        self._start_watchdog()
        started = time.monotonic()
        try:
            return await session.exec(command, **options)
        except EnvironmentFailure:
            if not await self._restart_after_oom(session):
                raise
            note = "the sandbox ran out of memory, init included; it was started again on the same files\n"
            return ExecResult(-signal.SIGKILL, "", note, time.monotonic() - started, killed_by="memory")

    async def exec_piped(
        self, command: Sequence[str], stdin: int, stdout: int, **options: Unpack[PipeOptions]
    ) -> ExecResult:
        session = await self.running_session()
        self._start_watchdog()
        return await session.exec_piped(command, stdin, stdout, **options)

    def host_pid(self) -> int:
        return self._sandbox.pid

    async def facts(self) -> SandboxFacts:
        session = await self.running_session()
        layers, image = self._layers.sealed, self._layers.image.digest
        host_facts = FactsFromHost("namespaces", image, (), layers, self._sandbox.layer_path, session.handed_over)
        return sandbox_facts(self._sandbox.facts, host_facts)

    async def _restart_after_oom(self, session: InitSession) -> bool:
        """Restarts a sandbox that died of its memory limit, which is a command's failure; returns False for others."""
        async with self._state_lock:
            if self._closed or self._is_sealed or self._current_launcher.has_exited or not session.channel.ended:
                return False
            if session is not self._session:
                return True
            previous = self._sandbox
            await previous.end()
            launcher = await self._backend.launcher()
            fate = await launcher.ask({"op": "fate", "pid": previous.pid})
            if not fate.body.get("ooms"):
                return False
            await self.start(previous.layer_path)
            os.close(previous.upper)
            return True

    async def processes(self) -> tuple[ProcessInfo, ...]:
        session = self._require_session()
        return () if self._is_sealed else await session.processes()

    async def memory_bytes(self) -> int:
        session = self._require_session()
        return 0 if self._is_sealed else await session.memory_bytes()

    async def kill_all(self) -> None:
        session = self._require_session()
        if not self._is_sealed:
            await session.kill_all()

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        async with self._state_lock:
            self._closed = True
        if self._watchdog_task is not None:
            self._watchdog_task.cancel()
        self._backend.remove_workspace(self)
        if not self._is_sealed:  # otherwise its layer belongs to a snapshot
            try:
                await self._sandbox.end()
            finally:
                os.close(self._sandbox.upper)
            if not self._current_launcher.has_exited:
                await self._current_launcher.ask({"op": "drop", "places": [self._sandbox.layer_path]})
        await self._backend.drop_unused_layers()

    # State

    async def _changes(self) -> ChangeSet:
        if self._is_sealed:
            return self._sealed_changes
        settled = await self._session.is_quiet()
        return await asyncio.to_thread(self._state.changes, settled=settled)

    async def digest(self) -> str:
        self._require_session()
        return state_digest(self._layers.image.digest, await self._changes())

    async def diff(self, since: Snapshot | None = None) -> tuple[Change, ...]:
        self._require_session()
        base = self._start_changes if since is None else since.changes
        return changes_between(self._layers.view, base, await self._changes())

    async def snapshot(self) -> Snapshot:
        """Implements `StateAccess.snapshot`; completes in the background if cancelled, so that no partial snapshot is
        left."""
        return await asyncio.shield(asyncio.get_running_loop().create_task(self._seal()))

    async def _seal(self) -> Snapshot:
        async with self._state_lock:
            self._require_session()
            await self._start_if_sealed()
            await self._sandbox.end()
            changes = await asyncio.to_thread(self._state.changes, settled=True, final=True)
            snapshot = self._backend.seal(self._sandbox, self._layers, changes)
            if len(snapshot.layers) > self._backend.max_sealed_layers:
                snapshot = await self._backend.squash(snapshot)
            self._layers = self._layers._replace(sealed=tuple(reversed(snapshot.layers)))
            self._sealed_changes = changes
            self._is_sealed = True
            return snapshot

    # Limits that the kernel does not enforce

    def _killed_by(self, signal_number: int) -> str | None:
        if self._limit_hit is not None:
            limit, self._limit_hit = self._limit_hit, None
            return limit
        if signal_number == signal.SIGKILL and self._sandbox.memory_killed():
            return "memory"
        return "disk" if signal_number == signal.SIGXFSZ else None

    def _start_watchdog(self) -> None:
        if not self._session.running:
            self._limit_hit = None
        is_needed = self._budget.memory_watch is not None or self._budget.disk_watch is not None
        if is_needed and (self._watchdog_task is None or self._watchdog_task.done()):
            self._watchdog_task = asyncio.get_running_loop().create_task(self._run_watchdog())

    async def _run_watchdog(self) -> None:
        """Kills everything when a soft limit is exceeded; ends when no process is running."""
        idle = 0
        while idle < 2:
            await asyncio.sleep(WATCHDOG_S)
            with contextlib.suppress(EnvironmentFailure, OSError):
                self._limit_hit = await self._over_limit() or self._limit_hit
                if self._limit_hit is not None:
                    await self._session.kill_all()
                busy = self._session.running or await self._session.processes()
                idle = 0 if busy else idle + 1
            if self._session.channel.ended:
                return

    async def _over_limit(self) -> str | None:
        memory, disk = self._budget.memory_watch, self._budget.disk_watch
        if memory is not None and await self._session.memory_bytes() > memory:
            return "memory"
        if disk is not None and await asyncio.to_thread(disk_usage, self._sandbox.upper) > disk:
            return "disk"
        return None


def _make_opener(launcher: Launcher, layer_path: str) -> Opener:
    """Returns a function that opens a path of a writable layer through the launcher, which has more permissions."""
    loop = asyncio.get_running_loop()

    def open_path(path: str) -> int:
        request = launcher.ask({"op": "peek", "place": layer_path, "path": path})
        try:
            return asyncio.run_coroutine_threadsafe(request, loop).result(30).fds[0]
        except EnvironmentFailure as exc:
            raise FileNotFoundError(errno.ENOENT, str(exc), path) from exc

    return open_path


def disk_usage(top: int) -> int:
    """Returns the bytes allocated below an open folder. Blocking."""
    total = 0
    todo = [""]
    while todo:
        path = todo.pop()
        try:
            folder = open_below(top, path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            for name in os.listdir(folder):  # noqa: PTH208, an open folder
                with contextlib.suppress(OSError):
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    total += status.st_blocks * 512
                    if stat.S_ISDIR(status.st_mode):
                        todo.append(f"{path}/{name}" if path else name)
        finally:
            os.close(folder)
    return total
