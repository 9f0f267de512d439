"""In-memory fakes for tests of agents, without sandbox and store.

`FakeAttempt` keeps the promises of `Attempt` (steps, limits on turns, tokens and cost, malformed calls answered and not
executed) and exposes the record as plain lists. Statements about isolation or the record need the real ones.

    attempt = FakeAttempt(backend=ScriptedBackend([...]), tools=FakeTools({"add": lambda a: str(a["x"] + a["y"])}))
    await LoopAgent().run(attempt)
    assert attempt.ended == "done"
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Unpack

import msgspec

from assay.environments.interface import (
    Change,
    Episodic,
    ExecOptions,
    ExecResult,
    ProcessInfo,
    Snapshot,
    Tools,
    ToolSpec,
    Workspace,
    WorkspaceSpec,
)
from assay.errors import LimitReached, ProviderError, UserError
from assay.gateway.interface import ModelBackend, ModelReply, ModelRequest
from assay.records import (
    EnvironmentSpec,
    Evidence,
    Isolation,
    ModelCall,
    Observation,
    Step,
    Task,
    ToolCall,
    canonical_bytes,
    digest_bytes,
    digest_record,
)

from .branches import Branches
from .interface import FORK_SHELL, Attempt, Endpoint, Prior, Toolbox
from .teams.interface import TeamSeats

ToolFunction = Callable[[dict[str, Any]], "str | Observation"]


def fake_task(instruction: str = "do it", **fields: Any) -> Task:
    """Returns a task without requirements; `fields` are those of `Task`."""
    given: dict[str, Any] = {"id": "fake", "environment": EnvironmentSpec(kind="fake"), "checks": (), "digest": "fake"}
    return Task(instruction=instruction, **{**given, **fields})


class FakeTools:
    """Tools from functions of the arguments, whose exceptions become error observations; records its `calls`."""

    def __init__(self, functions: dict[str, ToolFunction], schemas: dict[str, dict[str, Any]] | None = None) -> None:
        self._functions = functions
        self._specs = tuple(
            ToolSpec(name, f"the tool {name}", (schemas or {}).get(name, {"type": "object"})) for name in functions
        )
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        self.calls.append((name, arguments))
        function = self._functions.get(name)
        if function is None:
            return Observation(f"no tool is called {name!r}", error=True)
        try:
            found = function(arguments)
        except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as exc:
            return Observation(f"{type(exc).__name__}: {exc}", error=True)
        return Observation(found) if isinstance(found, str) else found

    async def digest(self) -> str | None:
        return None


Answer = Callable[[str | Sequence[str], dict[str, bytes]], ExecResult]


def _nothing(_command: str | Sequence[str], _files: dict[str, bytes]) -> ExecResult:
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


@dataclass
class FakeAttempt(Attempt):
    """In-memory attempt."""

    task: Task = field(default_factory=fake_task)
    seed: int = 0
    backend: ModelBackend | None = None
    tools: Tools = field(default_factory=lambda: FakeTools({}))
    workspace: Workspace | None = None
    toolbox: Toolbox = field(default_factory=Toolbox)
    solution: Path | None = None
    prior: Prior | None = None
    branches: Branches | None = None
    team: TeamSeats | None = None
    steps: list[Step] = field(default_factory=list)
    """Recorded steps in order."""
    calls: list[ModelCall] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    served: Endpoint | None = None
    """Endpoint returned by `endpoint`, opened by the test."""
    ended: str | None = None
    """Reason given to `finish`, or the world's end."""

    def __post_init__(self) -> None:
        self._tokens = 0
        self._cost_usd = 0.0

    async def shell(
        self,
        command: str | Sequence[str],
        *,
        message: str | None = None,
        timeout_s: float | None = None,
        fork: Workspace | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        if self.workspace is None:
            raise UserError("this attempt has no shell: give FakeAttempt a workspace")
        self._turn()
        result = await (fork or self.workspace).exec(command, timeout_s=timeout_s, env=env)
        arguments = {"command": command if isinstance(command, str) else list(command)}
        name = "shell" if fork is None else FORK_SHELL
        call = ToolCall(f"t{len(self.steps)}", name, canonical_bytes(arguments).decode(), arguments)
        seen = Observation(
            content=result.stdout,
            call_id=call.id,
            exit_code=result.exit_code,
            error=result.exit_code != 0,
            stderr=result.stderr,
            timed_out=result.timed_out,
        )
        self._step(message=message, tool_calls=(call,), observations=(seen,), state=await self.workspace.digest())
        return result

    async def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        self._turn()
        seen = tuple([await self._observe(one) for one in calls])
        self._step(
            message=message,
            reasoning=reasoning,
            tool_calls=tuple(calls),
            observations=seen,
            call=call,
            state=await self.tools.digest(),
        )
        if isinstance(self.tools, Episodic):
            if self.tools.truncated:
                _hold("turns", len(self.steps), len(self.steps))
            if self.tools.terminated and self.ended is None:
                self.ended = "the world came to its end"
        return seen

    async def _observe(self, call: ToolCall) -> Observation:
        if call.error is not None or call.parsed is None:
            return Observation(call.error or "the arguments did not parse", call.id, error=True)
        return msgspec.structs.replace(await self.tools.call(call.name, call.parsed), call_id=call.id)

    def say(self, message: str, *, reasoning: str | None = None, call: str | None = None) -> None:
        self._turn()
        self._step(message=message, reasoning=reasoning, call=call)

    def note(self, evidence: Evidence) -> None:
        self.evidence.append(evidence)

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        if self.backend is None:
            raise UserError("this attempt has no model: give FakeAttempt a backend")
        name = f"m{len(self.calls)}"
        request = msgspec.structs.replace(request, messages=[*request.messages])  # the agent's own list may grow
        try:
            reply = await self.backend.complete(request)
        except ProviderError as exc:
            sent = {"messages": request.messages}
            self.calls.append(ModelCall(name, "openai-chat", self.backend.name, sent, None, error=str(exc)))
            raise
        self.calls.append(
            ModelCall(name, "openai-chat", reply.model, reply.request, reply.raw, reply.usage, reply.cost_usd)
        )
        self._charge(reply)
        return name, reply

    async def endpoint(self) -> Endpoint:
        if self.served is None:
            raise UserError("this attempt serves no model: give FakeAttempt `served`, where a gateway listens")
        return self.served

    def finish(self, message: str) -> None:
        self.ended = message

    def _step(self, **fields: Any) -> None:
        self.steps.append(Step(index=len(self.steps), actor="agent", **fields))

    def _turn(self) -> None:
        _hold("turns", len(self.steps), self.task.limits.turns)

    def _charge(self, reply: ModelReply) -> None:
        self._tokens += (reply.usage.prompt_tokens or 0) + (reply.usage.completion_tokens or 0)
        _hold("tokens", self._tokens, self.task.limits.tokens)
        if reply.cost_usd is None and self.task.limits.cost_usd is not None:
            limit = "cost_usd"
            raise LimitReached(limit, -1.0, self.task.limits.cost_usd)
        self._cost_usd += reply.cost_usd or 0.0
        _hold("cost_usd", self._cost_usd, self.task.limits.cost_usd)


def _hold(limit: str, used: float, allowed: float | None) -> None:
    if allowed is not None and used >= allowed:
        raise LimitReached(limit, used, allowed)
