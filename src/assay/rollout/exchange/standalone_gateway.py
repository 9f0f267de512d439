"""Runs the gateway without a run: for agents started elsewhere (`serve`) and around one command (`record`).

Each session is a trajectory of its own, without task and verdict. Nothing is sandboxed, and the record says so. Every
call is committed as it ends, so a killed process loses at most the calls under way.

Not covered: acts other than model calls. A folder's state is read just before each call; other processes may change it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay import __version__
from assay.agents.harnesses.command import environment_of
from assay.agents.interface import Endpoint
from assay.errors import AssayError, BoundaryError, LimitReached, UserError
from assay.gateway.metrics import declare_gateway_metrics
from assay.http.metrics import MetricsRegistry
from assay.records import AttemptEnded, AttemptStarted, Isolation, Limits, digest_record
from assay.rollout.attempt.endpoint import (
    GatewayHandle,
    LimitedModel,
    Observe,
    OpenEndpoint,
    SessionRecorder,
    open_session,
)
from assay.rollout.attempt.models import open_model, resolve_model_name
from assay.rollout.attempt.recorded_attempt import ModelAccess
from assay.rollout.exchange.config import RecordConfig, ServeConfig
from assay.rollout.exchange.folder_state import FolderState
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.redaction import Redactor
from assay.rollout.run_manifest import new_run_name
from assay.rollout.telemetry.run_metrics import RunMetrics
from assay.settings import Settings
from assay.store import RunStore

MODEL_CONCURRENCY = 256
UNSEEN = Isolation(
    "none", network="host", notes=("Assay did not start this agent: nothing is known of how it is isolated",)
)
UNBOUNDED = Isolation("none", network="host", notes=("the command ran as an ordinary program of the user's",))
_KEPT_FROM_COMMANDS = ("ANTHROPIC_AUTH_TOKEN", "CODEX_API_KEY", "GOOGLE_API_KEY")
"""Credential variables that clients consult before those set here."""


class RecordingResult(NamedTuple):
    """The recorded run."""

    run: str
    store: Path
    attempts: tuple[str, ...]
    exit_code: int | None = None
    """Exit code of a recorded command; negative for a signal."""


class _Session:
    """One trajectory without a task."""

    def __init__(self, recorder: Recorder, meter: Meter, access: ModelAccess | None, observe: Observe) -> None:
        self.recorder = recorder
        self.stopped = asyncio.Event()
        self.endpoint: Endpoint | None = None
        self._meter = meter
        self._endpoint_handle: OpenEndpoint | None = None
        self._traffic = SessionRecorder(recorder, meter, observe, lambda _: self.stopped.set())
        self._model = LimitedModel(access.open(), access.slots, meter) if access is not None else None

    async def serve(self, access: ModelAccess, port: int) -> Endpoint:
        assert self._model is not None
        self._endpoint_handle = open_session(await access.gateway_handle.open(), self._model, self._traffic, port, None)
        self.endpoint = self._endpoint_handle.endpoint
        return self.endpoint

    async def end(self, words: str, cause: AssayError | None = None) -> None:
        if self._endpoint_handle is not None and self._model is not None:
            cause = await self._endpoint_handle.finish(self._traffic, self._model) or cause
        limit = cause.limit if isinstance(cause, LimitReached) else None
        broke = cause.name if isinstance(cause, BoundaryError) else None
        ended = words if limit is None and broke is None else None
        error = str(cause) if broke is not None else None
        self.recorder.add(AttemptEnded(ended, limit, broke, error, self._meter.metrics(), at=time.time()))
        self.recorder.flush()


OnOpen = Callable[[str, tuple[Endpoint, ...]], None]


async def serve_gateway(
    config: ServeConfig, settings: Settings, on_open: OnOpen, until: Awaitable[object]
) -> RecordingResult:
    """Serves until `until` completes; `on_open` gets the run's name and the endpoints of the sessions once they are
    open.

    Raises:
        UserError: The model or the port is unavailable; nothing was recorded.
        StoreError: The record cannot be written; committed events stay.
    """
    if config.sessions < 1:
        raise UserError(f"sessions is {config.sessions}: it must be at least 1")
    with listening(config.port) as listener:
        port = listener.getsockname()[1]
        metrics = RunMetrics(MetricsRegistry())
        async with _access(config.model, settings, metrics.registry) as access:
            assert access is not None
            declare_gateway_metrics(metrics.registry, access.gateway_handle.load)
            with RunStore.create(settings.store, config.run or new_run_name("gateway"), _manifest(config)) as store:
                sessions = [
                    _begin(store, n, access, _SessionOptions("external", UNSEEN, config.limits, settings.secrets()))
                    for n in range(config.sessions)
                ]
                for session in sessions:
                    session.recorder.observer = metrics.observe_session()
                stop = await (await access.gateway_handle.open()).listen(listener)
                try:
                    on_open(store.run, tuple([await session.serve(access, port) for session in sessions]))
                    await until
                finally:
                    for session in sessions:
                        await asyncio.shield(session.end("the gateway was stopped"))
                    stop()
                return RecordingResult(store.run, settings.store, tuple(row.attempt for row in store.attempts()))


async def record_command(config: RecordConfig, settings: Settings, folder: Path) -> RecordingResult:
    """Runs a command in `folder` on this process's terminal and records it.

    Raises:
        UserError: The command or the model does not exist; nothing was recorded.
        StoreError: The record cannot be written; committed events stay.
    """
    if not config.command:
        raise UserError(
            "no command: name it after --, for example: assay record --model openai:NAME -- claude -p 'fix it'"
        )
    if shutil.which(config.command[0], path=os.environ.get("PATH")) is None:
        raise UserError(f"program {config.command[0]!r} not found: check its name, or give its path")
    state = FolderState(folder, settings.store)
    with listening(0) as listener:  # the gateway, which has it then, ends before
        async with _access(config.model, settings) as access:
            with RunStore.create(settings.store, config.run or new_run_name("record"), _manifest(config)) as store:
                asked = _SessionOptions("external", UNBOUNDED, config.limits, settings.secrets(), config.command)
                session = _begin(store, 0, access, asked, state.digest)
                environment = dict(os.environ)
                if access is not None:
                    await (await access.gateway_handle.open()).listen(listener)
                    environment = _environment(await session.serve(access, listener.getsockname()[1]))
                code = await _run_recorded(config, environment, folder, _Watched(session, state))
                return RecordingResult(store.run, settings.store, tuple(row.attempt for row in store.attempts()), code)


class _Watched(NamedTuple):
    session: _Session
    state: FolderState


async def _run_recorded(config: RecordConfig, environment: Mapping[str, str], folder: Path, watched: _Watched) -> int:
    """Runs the command and records its folder's state before and after."""
    session, code, cause = watched.session, None, None
    try:
        await _record_folder_state(session, watched.state, "before")
        code, cause = await _run(config, environment, folder, session)
        await _record_folder_state(session, watched.state, "after")
    finally:
        words = "the command was cut" if code is None else f"exit code {code}"
        await asyncio.shield(session.end(words, cause))
    return code


class _SessionOptions(NamedTuple):
    agent: str
    isolation: Isolation
    limits: Limits
    secrets: Mapping[str, str]
    command: tuple[str, ...] = ()


async def _no_state() -> None:
    return None


def _begin(
    store: RunStore, number: int, access: ModelAccess | None, asked: _SessionOptions, observe: Observe = _no_state
) -> _Session:
    task = "record" if asked.command else "gateway"
    attempt = f"{task}@{number}"
    recorder = Recorder(store, f"{attempt}.0", Redactor(asked.secrets))
    recorder.add(
        AttemptStarted(
            run=store.run,
            attempt=attempt,
            task=task,
            task_digest=digest_record([task, asked.command]),
            agent=asked.agent,
            model=access.backend.name if access is not None else None,
            seed=0,
            number=number,
            isolation=asked.isolation,
            config={"command": list(asked.command)} if asked.command else {},
            at=time.time(),
            assay_version=__version__,
        )
    )
    recorder.flush()
    return _Session(recorder, Meter(asked.limits), access, observe)


def _manifest(config: ServeConfig | RecordConfig) -> dict[str, object]:
    kind = "gateway" if isinstance(config, ServeConfig) else "record"
    plain = {name: value for name, value in msgspec.to_builtins(config).items() if name != "command"}
    return {"kind": kind, "config": plain, "assay_version": __version__}


@asynccontextmanager
async def _access(
    model: str | None, settings: Settings, metrics: MetricsRegistry | None = None
) -> AsyncIterator[ModelAccess | None]:
    if model is None:
        yield None
        return
    backend = open_model(resolve_model_name(model, settings) or model, settings)
    gateway_handle = GatewayHandle(metrics=metrics)
    try:
        yield ModelAccess(backend, asyncio.Semaphore(MODEL_CONCURRENCY), gateway_handle)
    finally:
        await gateway_handle.close()
        await backend.close()


@contextmanager
def listening(port: int, host: str = "127.0.0.1") -> Iterator[socket.socket]:
    """Opens a listener, by default on loopback. Raises `UserError` if the port is unavailable."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise UserError(
            f"port {port} on {host} is not available: {reason}; choose another with --port, or leave it away"
        ) from exc
    listener.setblocking(False)
    with listener:
        yield listener


def _environment(endpoint: Endpoint) -> dict[str, str]:
    """Returns this process's environment with clients pointed at the gateway and without our credentials."""
    kept = {name: value for name, value in os.environ.items() if name not in _KEPT_FROM_COMMANDS}
    return kept | environment_of(endpoint)


async def _record_folder_state(session: _Session, state: FolderState, when: str) -> None:
    digest = await state.digest()
    seen: dict[str, object] = {"when": when, "digest": digest}
    session.recorder.evidence("state", "folder", seen if digest is not None else {**seen, "not_seen": state.problem})
    session.recorder.flush()


async def _run(
    config: RecordConfig, environment: Mapping[str, str], folder: Path, session: _Session
) -> tuple[int, AssayError | None]:
    try:
        process = await asyncio.create_subprocess_exec(*config.command, env=dict(environment), cwd=folder)
    except OSError as exc:
        raise UserError(f"cannot run {config.command[0]!r}: {exc.strerror or exc}") from exc
    began, wall_s, cause = time.monotonic(), config.limits.wall_s, None
    with _signals_passed_on(process):
        waiting = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(session.stopped.wait())
        await asyncio.wait({waiting, stopping}, timeout=wall_s, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not waiting.done():
            if not session.stopped.is_set():
                cause = LimitReached("wall_s", wall_s or 0.0, wall_s or 0.0)
            await _terminate(process)
        code = await waiting
    duration_s = round(time.monotonic() - began, 6)
    data: dict[str, object] = {"argv": list(config.command), "exit_code": code, "duration_s": duration_s}
    session.recorder.evidence("audit", "execution", data)
    return code, cause


async def _terminate(process: asyncio.subprocess.Process) -> None:
    for send in (process.terminate, process.kill):
        try:
            send()
            await asyncio.wait_for(process.wait(), 5.0)
        except ProcessLookupError:
            return
        except TimeoutError:
            continue
        return


@contextmanager
def _signals_passed_on(process: asyncio.subprocess.Process) -> Iterator[None]:
    """Ignores Ctrl-C here, since the terminal sends it to the command too; SIGTERM is forwarded."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, process.terminate)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
