"""The attempt as an agent sees it: every act is a recorded step under the limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.agents.interface import FORK_SHELL, Attempt
from assay.environments.interface import ExecResult, Tools, Workspace
from assay.errors import ProviderError, UserError
from assay.gateway.interface import ModelBackend, ModelReply, ModelRequest
from assay.records import (
    Evidence,
    EvidenceAdded,
    ModelCall,
    Observation,
    Step,
    Task,
    ToolCall,
    Truncation,
    canonical_bytes,
)

from .meter import Meter
from .recorder import Recorder

__all__ = ["LiveAttempt", "ModelAccess"]


class ModelAccess(NamedTuple):
    """A model and the places for calls to it that the whole run shares."""

    backend: ModelBackend
    places: asyncio.Semaphore


class Moment(NamedTuple):
    """When a step began, what the world was after it, and which model call it came from."""

    started: float
    state: str | None = None
    call: str | None = None


class LiveAttempt(Attempt):
    """One try under way."""

    def __init__(self, task: Task, seed: int, recorder: Recorder, meter: Meter, model: ModelAccess | None) -> None:
        self.task = task
        self.seed = seed
        self.workspace: Workspace | None = None
        self.tools: Tools = _NoTools()
        self.solution: Path | None = None
        self.prior: tuple[Step, ...] = ()
        self.ended: str | None = None
        self._recorder = recorder
        self._meter = meter
        self._model = model
        self._last_call: str | None = None

    async def shell(
        self,
        command: str | Sequence[str],
        *,
        message: str | None = None,
        timeout_s: float | None = None,
        fork: Workspace | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """See `Attempt.shell`."""
        if self.workspace is None:
            text = f"the environment {self.task.environment.kind!r} has no shell"
            raise UserError(text)
        self._meter.turn()
        started = time.time()
        arguments = {"command": command if isinstance(command, str) else list(command)}
        name = "shell" if fork is None else FORK_SHELL
        call = ToolCall(f"t{self._recorder.steps}", name, canonical_bytes(arguments).decode(), arguments)
        try:
            result = await (fork or self.workspace).exec(command, timeout_s=timeout_s, env=env)
        except BaseException:
            # Cut by a limit, or the sandbox broke: what was begun stays on record.
            self._record(message, None, (call,), (), Moment(started))
            raise
        seen = Observation(
            content=result.stdout,
            call_id=call.id,
            exit_code=result.exit_code,
            error=result.exit_code != 0,
            stderr=result.stderr,
            truncated=_cut(result.stdout_bytes, result.stdout_digest, result),
            stderr_truncated=_cut(result.stderr_bytes, result.stderr_digest, result),
            timed_out=result.timed_out,
            duration_s=round(result.duration_s, 6),
        )
        state = await self.workspace.digest()
        self._record(message, None, (call,), (seen,), Moment(started, state))
        return result

    async def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        """See `Attempt.act`."""
        self._meter.turn()
        started = time.time()
        seen: list[Observation] = []
        try:
            for tool_call in calls:
                seen.append(await self._observe(tool_call))
        finally:
            # A limit or a cancellation in the middle leaves what was observed so far on record.
            state = await self.tools.digest() if len(seen) == len(calls) else None
            self._record(message, reasoning, tuple(calls), tuple(seen), Moment(started, state, call))
        return tuple(seen)

    async def _observe(self, call: ToolCall) -> Observation:
        if call.error is not None or call.parsed is None:
            return Observation(call.error or "the arguments did not parse", call.id, error=True)
        found = await self.tools.call(call.name, call.parsed)
        if found.call_id == call.id:
            return found
        return Observation(
            found.content,
            call.id,
            found.exit_code,
            found.error,
            found.stderr,
            found.truncated,
            found.stderr_truncated,
            found.timed_out,
            found.duration_s,
        )

    def _record(
        self,
        message: str | None,
        reasoning: str | None,
        calls: tuple[ToolCall, ...],
        seen: tuple[Observation, ...],
        moment: Moment,
    ) -> None:
        index, now = self._recorder.steps, time.time()
        self._recorder.step(
            Step(index, "agent", message, reasoning, calls, seen, moment.call, moment.state, moment.started, now)
        )

    def say(self, message: str, *, reasoning: str | None = None, call: str | None = None) -> None:
        """See `Attempt.say`."""
        self._meter.turn()
        self._record(message, reasoning, (), (), Moment(time.time(), None, call))

    def note(self, evidence: Evidence) -> None:
        """See `Attempt.note`. The id is replaced by a fresh one of this chain."""
        renamed = Evidence(
            self._recorder.evidence_id(), evidence.channel, evidence.kind, evidence.data, evidence.blobs, time.time()
        )
        self._recorder.add(EvidenceAdded(renamed))

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        """See `Attempt.ask`."""
        if self._model is None:
            text = "this agent asks a model, and the run names none: add --model (for example openai:NAME)"
            raise UserError(text)
        self._meter.check_time()
        self._recorder.flush()
        call_id, started = self._recorder.call_id(), time.time()
        with self._meter.waiting():
            async with self._model.places:
                try:
                    reply = await self._model.backend.complete(request)
                except ProviderError as exc:
                    self._recorder.call(self._failed_call(call_id, request, exc, started))
                    raise
        self._recorder.call(self._call(call_id, request, reply, started))
        self._last_call = call_id
        self._meter.charge(reply.usage, reply.cost_usd)
        return call_id, reply

    def _call(self, call_id: str, request: ModelRequest, reply: ModelReply, started: float) -> ModelCall:
        return ModelCall(
            id=call_id,
            dialect="openai-chat",
            model=reply.model,
            request=reply.request,
            response=reply.raw,
            usage=reply.usage,
            cost_usd=reply.cost_usd,
            prompt_token_ids=reply.prompt_token_ids,
            completion_token_ids=reply.completion_token_ids,
            logprobs=reply.logprobs,
            sampling=request.sampling,
            tries=reply.tries,
            started=started,
            ended=time.time(),
        )

    def _failed_call(self, call_id: str, request: ModelRequest, exc: ProviderError, started: float) -> ModelCall:
        name = self._model.backend.name if self._model is not None else "none"
        body = {"messages": request.messages, "tools": request.tools, **request.sampling}
        return ModelCall(call_id, "openai-chat", name, body, None, error=str(exc), started=started, ended=time.time())

    def finish(self, message: str) -> None:
        """See `Attempt.finish`."""
        self.ended = message


def _cut(length: int, digest: str | None, result: ExecResult) -> Truncation | None:
    return None if digest is None else Truncation(length, digest, complete=not result.output_limited)


class _NoTools:
    def specs(self) -> tuple[()]:
        return ()

    async def call(self, name: str, arguments: dict[str, object]) -> Observation:
        return Observation(f"no tool is called {name!r}", error=True)

    async def digest(self) -> None:
        return None
