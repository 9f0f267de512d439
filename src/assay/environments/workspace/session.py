"""Client of a sandbox's exec server (`launcher.init`): exec, files and processes over its socket.

For any backend that can start that server: `InitSession` needs a connected SEQPACKET socket and defaults. It
is independent of how the sandbox was created and stores no state of it. Everything the sandbox answers is untrusted:
output and lists are bounded, paths in downloads are checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Unpack

import msgspec

from assay.environments.interface import (
    Backend,
    CommandOptions,
    ExecOptions,
    ExecResult,
    Image,
    PipeOptions,
    ProcessInfo,
    Snapshot,
    SpillTarget,
    Workspace,
    WorkspaceSpec,
)
from assay.environments.workspace._channel import Answer, Channel
from assay.environments.workspace._entries import decode_name
from assay.environments.workspace._facts import descriptor_kind
from assay.environments.workspace._output import Output, write_all
from assay.environments.workspace._transfer import receive_path, send_path
from assay.errors import EnvironmentFailure
from assay.records import LoadFacts

PATH = "/opt/assay/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STDIN_BYTES = 16 * 1024 * 1024
KILL_S, STREAM_S = 15.0, 60.0
MOST_OBSERVED, OBSERVED_AT_A_TIME = 20_000, 400
"""Maximum number of observed files of an agent, and the number of the longest names that fit into one message."""


class ExecDefaults(msgspec.Struct, frozen=True):
    """Defaults of every exec."""

    env: dict[str, str]
    workdir: str
    output_mib: int = 64
    download_bytes: int = 16 * 1024 * 1024 * 1024
    """Maximum size of one download; sparse files claim more than they occupy."""


def command_environment(spec: WorkspaceSpec, image: Image) -> dict[str, str]:
    """Returns the environment variables of every command in a sandbox."""
    home, name = ("/home/agent", "agent") if spec.user == "agent" else ("/root", "root")
    basic = {"PATH": PATH, "HOME": home, "USER": name, "LOGNAME": name, "LANG": "C.UTF-8", "TERM": "dumb"}
    return {**basic, **image.env, **spec.env}


class InitSession:
    """Runs commands and moves bytes through an exec server; owns the socket. Create it on the running event loop.

    `killed_by` returns the limit that caused the signal that ended a command, if known.
    """

    def __init__(
        self, sock: socket.socket, defaults: ExecDefaults, killed_by: Callable[[int], str | None] | None = None
    ) -> None:
        self.channel = Channel(sock, "the sandbox's first process")
        self.running = 0
        self.handed_over: Counter[str] = Counter()
        """Number of descriptors exchanged with commands, by kind: evidence for a grade of separation."""
        self._paths_left_out = 0
        self._defaults = defaults
        self._killed_by = killed_by or (lambda _: None)

    def configure(self, defaults: ExecDefaults, killed_by: Callable[[int], str | None]) -> None:
        """Sets the defaults of later execs and the function that finds the limit behind a signal."""
        self._defaults = defaults
        self._killed_by = killed_by

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        source = _open_stdin(options.get("stdin", b""))
        try:
            return await self._run(command, (source, None, None), options, options.get("spill"))
        finally:
            os.close(source)

    async def exec_piped(
        self, command: Sequence[str], stdin: int, stdout: int, **options: Unpack[PipeOptions]
    ) -> ExecResult:
        pipes = (stdin, stdout, options.get("stderr"))
        self.handed_over.update(descriptor_kind(fd) for fd in pipes if fd is not None)
        return await self._run(command, pipes, options)

    async def _run(
        self,
        command: str | Sequence[str],
        pipes: tuple[int, int | None, int | None],
        options: CommandOptions,
        spill: SpillTarget | None = None,
    ) -> ExecResult:
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        if not argv or any("\0" in part for part in argv):
            raise ValueError("a command needs at least one word and no NUL")
        request: dict[str, Any] = {
            "op": "exec",
            "argv": argv,
            "cwd": options.get("cwd") or self._defaults.workdir,
            "env": {**self._defaults.env, **(options.get("env") or {})},
        }
        call = _RunningExec(self, options.get("show_bytes", 65_536), spill, self._defaults.output_mib * 1024 * 1024)
        self.running += 1
        try:
            return await call.run(request, pipes, options.get("timeout_s"))
        finally:
            self.running -= 1
            call.close()

    def find_killing_limit(self, signal_number: int) -> str | None:
        """Returns the limit that ended a command that died of a signal, if known."""
        return self._killed_by(signal_number)

    async def read(self, path: str, *, limit: int = 64 * 1024 * 1024) -> bytes:
        try:
            answer = await self.channel.ask({"op": "open", "path": path})
        except OSError as exc:
            _raise_contract_error(exc, path)
        with os.fdopen(answer.fds[0], "rb") as handle:
            data = await asyncio.to_thread(handle.read, limit + 1)
        if len(data) > limit:
            raise ValueError(f"{path} is longer than {limit} bytes")
        return data

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        try:
            answer = await self.channel.ask({"op": "open", "path": path, "write": True, "mode": mode})
        except OSError as exc:
            _raise_contract_error(exc, path)
        with os.fdopen(answer.fds[0], "wb", buffering=0) as handle:
            await asyncio.to_thread(write_all, handle.fileno(), data)

    async def upload(self, source: Path, target: str) -> None:
        read, write = os.pipe2(os.O_CLOEXEC)
        await self._stream(target, read, write, write=True, work=lambda: send_path(source, write))

    async def download(self, source: str, target: Path, *, limit: int | None = None) -> None:
        output_limit = self._defaults.download_bytes if limit is None else min(limit, self._defaults.download_bytes)
        read, write = os.pipe2(os.O_CLOEXEC)
        await self._stream(source, write, read, write=False, work=lambda: receive_path(read, target, output_limit))

    async def _stream(self, path: str, peer_end: int, own_end: int, *, write: bool, work: Callable[[], None]) -> None:
        """Runs the host half of a transfer in a thread; `peer_end` goes to the sandbox, `work` owns `own_end`."""
        try:
            future = self.channel.post({"op": "stream", "path": path, "write": write}, (peer_end,))
        except (OSError, EnvironmentFailure):
            os.close(own_end)
            raise
        finally:
            os.close(peer_end)
        try:
            await asyncio.to_thread(work)
        except BrokenPipeError:
            pass  # the sandbox reports the reason
        except EOFError as exc:
            raise OSError(5, f"the copy of {path} ended early") from exc
        answer = await require_answer(future, STREAM_S)
        number = answer.body.get("exit", answer.body.get("errno", 5))
        if number:
            code = abs(int(number))
            raise OSError(code, f"{path}: {os.strerror(code)}")

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """Implements `Session.processes`, for at most 512 processes."""
        answer = await self.channel.ask({"op": "ps"})
        rows = answer.body.get("processes", [])
        return msgspec.convert(rows, tuple[ProcessInfo, ...])

    async def is_quiet(self) -> bool:
        """Returns True if init reports no other process."""
        answer = await self.channel.ask({"op": "count"})
        return answer.body.get("count") == 0

    async def orphans(self) -> int:
        answer = await self.channel.ask({"op": "orphans"})
        return int(answer.body.get("count", 0))

    async def observe_loads(self, paths: Sequence[str], tree: str) -> None:
        self._paths_left_out = max(0, len(paths) - MOST_OBSERVED)
        names = [decode_name(path) for path in paths[:MOST_OBSERVED]]
        for start in range(0, max(1, len(names)), OBSERVED_AT_A_TIME):
            batch = names[start : start + OBSERVED_AT_A_TIME]
            await self.channel.ask({"op": "observe", "tree": tree, "paths": batch})

    async def loads(self) -> LoadFacts:
        answer = await self.channel.ask({"op": "observed"})
        try:
            facts = msgspec.convert(answer.body.get("observed"), LoadFacts)
        except msgspec.ValidationError as exc:
            facts = LoadFacts(problem=f"the sandbox sent a malformed record: {exc}"[:200])
        if self._paths_left_out:
            problem = f"{self._paths_left_out} files of the agent exceed the number that can be observed"
            return msgspec.structs.replace(facts, complete=False, problem=problem)
        return facts

    async def memory_bytes(self) -> int:
        """Returns the resident bytes of all processes, as counted by the sandbox's init."""
        answer = await self.channel.ask({"op": "usage"})
        return int(answer.body.get("bytes", 0))

    async def kill_all(self) -> None:
        answer = await self.channel.ask({"op": "kill"}, timeout_s=KILL_S)
        if answer.body.get("left"):
            raise EnvironmentFailure(f"{answer.body['left']} processes could not be killed")

    async def end_command(self, number: int) -> None:
        """Kills a running command and every process that descends from it; earlier processes continue."""
        answer = await self.channel.ask({"op": "end", "command": number}, timeout_s=KILL_S)
        if answer.body.get("left"):
            raise EnvironmentFailure(f"{answer.body['left']} processes could not be killed")

    async def listen(self, port: int = 0) -> socket.socket:
        self.handed_over["listener"] += 1
        return await self._listener({"op": "listen", "port": port}, socket.AF_INET)

    async def listen_local(self, path: str) -> socket.socket:
        self.handed_over["local_listener"] += 1
        return await self._listener({"op": "listen", "path": path}, socket.AF_UNIX)

    async def _listener(self, request: dict[str, Any], family: int) -> socket.socket:
        answer = await self.channel.ask(request)
        if len(answer.fds) != 1:
            answer.close()
            raise EnvironmentFailure("the sandbox's first process answered without a listener")
        listener = socket.socket(fileno=answer.fds[0])
        if listener.family != family or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            listener.close()
            raise EnvironmentFailure("the sandbox's first process sent a descriptor that is not a listener")
        listener.setblocking(False)
        return listener

    def close(self) -> None:
        """Closes the socket, which ends the exec server. Idempotent."""
        self.channel.close()


class SessionWorkspace(ABC):
    """Base of workspaces whose commands and files a session serves."""

    spec: WorkspaceSpec
    _backend: Backend

    @abstractmethod
    async def running_session(self) -> InitSession:
        """Returns the session of the running sandbox. Raises `EnvironmentFailure` once closed."""

    @abstractmethod
    async def snapshot(self) -> Snapshot: ...

    def _map_path(self, path: str, *, write: bool = False) -> str:
        return path

    async def orphans(self) -> int:
        return await (await self.running_session()).orphans()

    async def observe_loads(self, paths: Sequence[str], tree: str) -> None:
        session = await self.running_session()
        await session.observe_loads([self._map_path(path) for path in paths], self._map_path(tree))

    async def loads(self) -> LoadFacts:
        return await (await self.running_session()).loads()

    async def listen(self, port: int = 0) -> socket.socket:
        return await (await self.running_session()).listen(port)

    async def listen_local(self, path: str) -> socket.socket:
        return await (await self.running_session()).listen_local(self._map_path(path, write=True))

    async def read(self, path: str, *, limit: int = 64 * 1024 * 1024) -> bytes:
        return await (await self.running_session()).read(self._map_path(path), limit=limit)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await (await self.running_session()).write(self._map_path(path, write=True), data, mode=mode)

    async def upload(self, source: Path, target: str) -> None:
        await (await self.running_session()).upload(source, self._map_path(target, write=True))

    async def download(self, source: str, target: Path, *, limit: int | None = None) -> None:
        await (await self.running_session()).download(self._map_path(source), target, limit=limit)

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        snapshot = await self.snapshot()
        try:
            return await self._backend.open(spec or self.spec, state=snapshot)
        finally:
            await self._backend.release(snapshot)


class _RunningExec:
    def __init__(self, session: InitSession, show_bytes: int, spill: SpillTarget | None, output_limit: int) -> None:
        self._session = session
        self._spill = spill
        self._remaining = output_limit
        self._limited = asyncio.Event()
        is_spilled = spill is not None
        self._out = Output(show_bytes, spill=is_spilled, on_bytes=self._on_bytes)
        self._err = Output(show_bytes, spill=is_spilled, on_bytes=self._on_bytes)

    def _on_bytes(self, size: int) -> None:
        self._remaining -= size
        if self._remaining < 0:
            self._limited.set()
            self._out.pause()
            self._err.pause()

    async def run(
        self, request: dict[str, Any], pipes: tuple[int, int | None, int | None], timeout_s: float | None
    ) -> ExecResult:
        source, target, errors = pipes
        out = self._out.write_end if target is None else target
        err = self._err.write_end if errors is None else errors
        started = time.monotonic()
        try:
            future = self._session.channel.post(request, (source, out, err))
        except OSError as exc:
            return ExecResult(126, "", f"cannot run: {exc.strerror}\n", 0.0)
        finally:
            self._out.close_write_end()
            self._err.close_write_end()
        number = self._session.channel.last_id
        reason = await self._wait(future, number, timeout_s)
        answer = await require_answer(future, KILL_S)
        duration = time.monotonic() - started
        self._out.drain()
        self._err.drain()
        body = answer.body
        if "exit" not in body:
            number = int(body.get("errno", 5))
            text = f"cannot run {_program_name(request)}: {body.get('error')}\n"
            return ExecResult(127 if number == 2 else 126, "", text[:2000], duration)
        result = self._result(int(body["exit"]), reason, duration)
        return msgspec.structs.replace(result, cpu_s=_parse_seconds(body.get("cpu_s")))

    async def _wait(self, future: asyncio.Future[Answer], number: int, timeout_s: float | None) -> str | None:
        """Waits for the end, the time limit or too much output, and kills the command in the last two cases; returns
        which."""
        if timeout_s is None and self._remaining > 1 << 40:
            await asyncio.shield(future)
            return None
        limited = asyncio.ensure_future(self._limited.wait())
        pending: set[asyncio.Future[Any]] = {future, limited}
        try:
            done, _ = await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            limited.cancel()
        if future in done:
            return None
        await self._session.end_command(number)
        return "output" if limited in done else "timeout"

    def _result(self, code: int, reason: str | None, duration: float) -> ExecResult:
        dead_of_signal = code < 0 or code > 128
        killed_by = reason
        if reason is None and dead_of_signal:
            killed_by = self._session.find_killing_limit(-code if code < 0 else code - 128)
        out, err = self._out, self._err
        return ExecResult(
            exit_code=code,
            stdout=out.text(),
            stderr=err.text(),
            duration_s=duration,
            timed_out=reason == "timeout",
            output_limited=reason == "output",
            stdout_bytes=out.total,
            stderr_bytes=err.total,
            stdout_digest=out.store(self._spill),
            stderr_digest=err.store(self._spill),
            killed_by=killed_by,
        )

    def close(self) -> None:
        self._out.discard()
        self._err.discard()


async def require_answer(future: asyncio.Future[Answer], timeout_s: float) -> Answer:
    """Returns the pending answer. Raises `EnvironmentFailure` on timeout, because the sandbox is stuck."""
    try:
        return await asyncio.wait_for(future, timeout_s)
    except TimeoutError as exc:
        raise EnvironmentFailure(f"the sandbox's first process did not answer within {timeout_s:g} s") from exc


def _parse_seconds(value: object) -> float | None:
    """Returns a number of seconds reported by a sandbox; None if it is implausible."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else None


def _program_name(request: dict[str, Any]) -> str:
    argv = request["argv"]
    return repr(argv[0])[:200] if isinstance(argv, list) else "?"


def _open_stdin(data: bytes) -> int:
    """Returns a descriptor from which `data` can be read."""
    if not data:
        return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    if len(data) > STDIN_BYTES:
        raise ValueError(f"stdin of {len(data)} bytes; at most {STDIN_BYTES}")
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        write_all(fd, data)
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(fd)


def _raise_contract_error(exc: OSError, path: str) -> NoReturn:
    if exc.errno == 22:
        raise ValueError(f"{path} is not a regular file") from exc
    with contextlib.suppress(TypeError):
        raise OSError(exc.errno, exc.strerror, path) from exc
    raise exc
