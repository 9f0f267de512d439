"""The gateway without a run: in front of a model for agents that Assay did not start, and around one command.

Each session is a trajectory of its own, with no task and no verdict. Nothing is sandboxed, and the record says so.
Every call is committed as it ends, so that whatever ends this process loses at most the calls under way.

Not covered: what an agent does besides its model calls. The state of a folder is what its files are just before each
call; nobody keeps others from changing them.
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
from assay.records import AttemptEnded, AttemptStarted, Isolation, Limits, digest_record
from assay.rollout.attempt.endpoint import GatewayDoor, Observe, Served, Traffic, WatchedModel, attach
from assay.rollout.attempt.models import open_model, settled_model
from assay.rollout.attempt.recorded_attempt import ModelAccess
from assay.rollout.exchange.folder_state import FolderState
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.redaction import Redactor
from assay.rollout.runs import new_run_name
from assay.settings import Settings
from assay.store import RunStore

__all__ = ["RecordConfig", "Recorded", "ServeConfig", "listening", "record_command", "serve_alone"]

MODEL_CONCURRENCY = 256
UNSEEN = Isolation(
    "none", network="host", notes=("Assay did not start this agent: nothing is known of how it is isolated",)
)
UNBOUNDED = Isolation("none", network="host", notes=("the command ran as an ordinary program of the user's",))
_KEPT_FROM_COMMANDS = ("ANTHROPIC_AUTH_TOKEN", "CODEX_API_KEY", "GOOGLE_API_KEY")
"""Other places where clients look for a credential before those that are set."""


class ServeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A gateway in front of a model, for agents that something else starts."""

    model: str
    """What answers: `openai:NAME`, `anthropic:NAME`, `http://host/v1#NAME`, `scripted:PATH`, `replay:ATTEMPT`, ..."""
    port: int = 0
    """The port on 127.0.0.1; 0 lets the system pick one."""
    sessions: int = 1
    """How many sessions are opened, each with its own address and key, and each a trajectory of its own."""
    limits: Limits = Limits()
    """Limits of each session."""
    run: str | None = None
    """Name of the run that is recorded; default: made from date and time."""


class RecordConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A command that is recorded where it stands."""

    command: tuple[str, ...]
    """The command and its arguments, after `--`."""
    model: str | None = None
    """What answers the command's model calls, whatever API it speaks; without it nothing is served, and the folder's
    state and the exit code are recorded alone."""
    limits: Limits = Limits()
    """Limits of the command's model calls and of its time; a command that goes beyond is ended."""
    run: str | None = None
    """Name of the run that is recorded; default: made from date and time."""


class Recorded(NamedTuple):
    """What was recorded."""

    run: str
    store: Path
    attempts: tuple[str, ...]
    exit_code: int | None = None
    """Of a command; negative for a signal."""


class _Session:
    """One trajectory without a task."""

    def __init__(self, recorder: Recorder, meter: Meter, access: ModelAccess | None, observe: Observe) -> None:
        self.recorder = recorder
        self.stopped = asyncio.Event()
        self.endpoint: Endpoint | None = None
        self._meter = meter
        self._served: Served | None = None
        self._traffic = Traffic(recorder, meter, observe, lambda _: self.stopped.set())
        self._model = WatchedModel(access.open(), access.places, meter) if access is not None else None

    async def serve(self, access: ModelAccess, port: int) -> Endpoint:
        """Opens the session on a port where the gateway listens."""
        assert self._model is not None
        self._served = attach(await access.door.open(), self._model, self._traffic, port, None)
        self.endpoint = self._served.endpoint
        return self.endpoint

    async def end(self, words: str, cause: AssayError | None = None) -> None:
        """Closes the trajectory."""
        if self._served is not None and self._model is not None:
            cause = await self._served.finish(self._traffic, self._model) or cause
        limit = cause.limit if isinstance(cause, LimitReached) else None
        broke = cause.name if isinstance(cause, BoundaryError) else None
        ended = words if limit is None and broke is None else None
        error = str(cause) if broke is not None else None
        self.recorder.add(AttemptEnded(ended, limit, broke, error, self._meter.metrics(), at=time.time()))
        self.recorder.flush()


OnOpen = Callable[[str, tuple[Endpoint, ...]], None]


async def serve_alone(config: ServeConfig, settings: Settings, on_open: OnOpen, until: Awaitable[object]) -> Recorded:
    """Serves until told to end.

    Args:
        config: What to serve.
        settings: Where the store and the credentials are.
        on_open: Told the run's name and where the sessions are, once they are open.
        until: Done when it is to end.

    Raises:
        UserError: The model or the port is not to be had; nothing was recorded.
        StoreError: The record cannot be written; what is committed stays.
    """
    if config.sessions < 1:
        raise UserError(f"sessions is {config.sessions}: it must be at least 1")
    with listening(config.port) as listener:
        port = listener.getsockname()[1]
        async with _access(config.model, settings) as access:
            assert access is not None
            with RunStore.create(settings.store, config.run or new_run_name("gateway"), _manifest(config)) as store:
                sessions = [
                    _begin(store, n, access, _Asked("external", UNSEEN, config.limits, settings.secrets()))
                    for n in range(config.sessions)
                ]
                stop = await (await access.door.open()).listen(listener)
                try:
                    on_open(store.run, tuple([await session.serve(access, port) for session in sessions]))
                    await until
                finally:
                    for session in sessions:
                        await asyncio.shield(session.end("the gateway was stopped"))
                    stop()
                return Recorded(store.run, settings.store, tuple(row.attempt for row in store.attempts()))


async def record_command(config: RecordConfig, settings: Settings, folder: Path) -> Recorded:
    """Runs a command in `folder`, with the terminal that this process has, and records it.

    Raises:
        UserError: There is no such command, or no such model; nothing was recorded.
        StoreError: The record cannot be written; what is committed stays.
    """
    if not config.command:
        raise UserError(
            "no command: name it after --, for example: assay record --model openai:NAME -- claude -p 'fix it'"
        )
    if shutil.which(config.command[0], path=os.environ.get("PATH")) is None:
        raise UserError(f"there is no program {config.command[0]!r} here: check its name, or give its path")
    state = FolderState(folder, settings.store)
    with listening(0) as listener:  # the gateway, which has it then, ends before
        async with _access(config.model, settings) as access:
            with RunStore.create(settings.store, config.run or new_run_name("record"), _manifest(config)) as store:
                asked = _Asked("external", UNBOUNDED, config.limits, settings.secrets(), config.command)
                session = _begin(store, 0, access, asked, state.digest)
                environment = dict(os.environ)
                if access is not None:
                    await (await access.door.open()).listen(listener)
                    environment = _environment(await session.serve(access, listener.getsockname()[1]))
                code = await _recorded(config, environment, folder, _Watched(session, state))
                return Recorded(store.run, settings.store, tuple(row.attempt for row in store.attempts()), code)


class _Watched(NamedTuple):
    session: _Session
    state: FolderState


async def _recorded(config: RecordConfig, environment: Mapping[str, str], folder: Path, watched: _Watched) -> int:
    """The command between two looks at its folder."""
    session, code, cause = watched.session, None, None
    try:
        await _look(session, watched.state, "before")
        code, cause = await _run(config, environment, folder, session)
        await _look(session, watched.state, "after")
    finally:
        words = "the command was cut" if code is None else f"exit code {code}"
        await asyncio.shield(session.end(words, cause))
    return code


class _Asked(NamedTuple):
    """What a trajectory begins with."""

    agent: str
    isolation: Isolation
    limits: Limits
    secrets: Mapping[str, str]
    command: tuple[str, ...] = ()


async def _unseen() -> None:
    return None


def _begin(
    store: RunStore, number: int, access: ModelAccess | None, asked: _Asked, observe: Observe = _unseen
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
async def _access(model: str | None, settings: Settings) -> AsyncIterator[ModelAccess | None]:
    if model is None:
        yield None
        return
    backend = open_model(settled_model(model, settings) or model, settings)
    door = GatewayDoor()
    try:
        yield ModelAccess(backend, asyncio.Semaphore(MODEL_CONCURRENCY), door)
    finally:
        await door.close()
        await backend.close()


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """A listener on loopback. Raises `UserError` where the port is not to be had."""
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise UserError(
            f"port {port} on 127.0.0.1 is not to be had: {reason}; choose another with --port, or leave it away"
        ) from exc
    listener.setblocking(False)
    with listener:
        yield listener


def _environment(endpoint: Endpoint) -> dict[str, str]:
    """The command's environment: this process's, with every client pointed at the gateway and no credential of ours."""
    kept = {name: value for name, value in os.environ.items() if name not in _KEPT_FROM_COMMANDS}
    return kept | environment_of(endpoint)


async def _look(session: _Session, state: FolderState, when: str) -> None:
    digest = await state.digest()
    seen: dict[str, object] = {"when": when, "digest": digest}
    session.recorder.evidence("state", "folder", seen if digest is not None else {**seen, "not_seen": state.problem})
    session.recorder.flush()


async def _run(
    config: RecordConfig, environment: Mapping[str, str], folder: Path, session: _Session
) -> tuple[int, AssayError | None]:
    """Runs the command to its end, which a spent limit brings about."""
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
                limit, spent = "wall_s", wall_s or 0.0
                cause = LimitReached(limit, spent, spent)
            await _ended(process)
        code = await waiting
    duration_s = round(time.monotonic() - began, 6)
    data: dict[str, object] = {"argv": list(config.command), "exit_code": code, "duration_s": duration_s}
    session.recorder.evidence("audit", "execution", data)
    return code, cause


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Asks the command to end, and makes it."""
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
    """The terminal gives Ctrl-C to the command too; whether to end is the command's to say."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, process.terminate)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
