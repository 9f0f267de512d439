"""The attempt as an agent sees it: every act is a recorded step under the limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.agents.interface import FORK_SHELL, Attempt, Endpoint, Prior
from assay.environments.interface import Episodic, ExecResult, Tools, Workspace
from assay.errors import AssayError, LimitReached, ProviderError, UserError
from assay.gateway.interface import Exchange, ModelBackend, ModelReply, ModelRequest
from assay.gateway.model import Model, ModelAnswer, PlainModel, discard_deltas, open_session_model
from assay.records import (
    Evidence,
    EvidenceAdded,
    Observation,
    Step,
    Task,
    ToolCall,
    Truncation,
    canonical_bytes,
)
from assay.rollout.attempt.endpoint import GRACE_S, GatewayDoor, Served, Traffic, WatchedModel, serve
from assay.rollout.limits.contract_guards import Guard, GuardedWorkspace, refusal_of_exec
from assay.rollout.limits.guarded_model import GuardedModel
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.model_calls import Conversation, Standing
from assay.rollout.recording.recorder import Recorder

__all__ = ["LiveAttempt", "ModelAccess"]


class ModelAccess(NamedTuple):
    """A model and the places for calls to it that the whole run shares."""

    backend: ModelBackend
    places: asyncio.Semaphore
    door: GatewayDoor

    def open(self) -> Model:
        """What one conversation asks; it remembers the conversation where the model needs that."""
        return open_session_model(self.backend)


class Moment(NamedTuple):
    """When a step began, what the world was after it, and which model call it came from."""

    started: float
    state: str | None = None
    call: str | None = None


class _Serving(NamedTuple):
    served: Served
    traffic: Traffic
    model: WatchedModel


class _Ended(NamedTuple):
    """A call that has ended."""

    id: str
    standing: Standing
    started: float
    answered: ModelAnswer | None = None
    error: str | None = None


class LiveAttempt(Attempt):
    """One try under way."""

    def __init__(self, task: Task, seed: int, recorder: Recorder, meter: Meter, model: ModelAccess | None) -> None:
        self.task = task
        self.seed = seed
        self.workspace: Workspace | None = None
        self.acting: Workspace | None = None
        """The same sandbox, for what is done as a step; what is done through `workspace` is done beside steps."""
        self.tools: Tools = _NoTools()
        self.episode: Episodic | None = None
        """The same place, where it is a world that may end by itself."""
        self.solution: Path | None = None
        self.prior: Prior | None = None
        self.guard: Guard | None = None
        """The contracts that hold; None where there are none."""
        self.ended: str | None = None
        self._recorder = recorder
        self._meter = meter
        self._model = model
        self._asked: Model | None = None
        self._conversation = Conversation()
        self._serving: _Serving | None = None
        self._leash: asyncio.Timeout | None = None

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
            raise UserError(f"the environment {self.task.environment.kind!r} has no shell")
        self._meter.turn()
        started = time.time()
        arguments: dict[str, Any] = {"command": command if isinstance(command, str) else list(command)}
        name = "shell" if fork is None else FORK_SHELL
        call = ToolCall(f"t{self._recorder.steps}", name, canonical_bytes(arguments).decode(), arguments)
        try:
            reason = await self._refusal(message, (call,))
            if reason is None:
                result = await (fork or self.acting or self.workspace).exec(command, timeout_s=timeout_s, env=env)
            else:
                result = refusal_of_exec(reason)
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
        self._meter.turn()
        started = time.time()
        seen: list[Observation] = []
        if self.episode is not None:
            self.episode.step = self._recorder.steps
        try:
            for tool_call in calls:
                reason = await self._refusal(message, calls, seen)
                refused = None if reason is None else Observation(reason, tool_call.id, error=True)
                seen.append(refused or await self._observe(tool_call))
        finally:
            # A limit or a cancellation in the middle leaves what was observed so far on record.
            state = await self.tools.digest() if len(seen) == len(calls) else None
            self._record(message, reasoning, tuple(calls), tuple(seen), Moment(started, state, call))
        if self.episode is not None:
            self._look_at_end(self.episode)
        return tuple(seen)

    def _look_at_end(self, episode: Episodic) -> None:
        """Says that the world is over. Raises `LimitReached` where its own budget of acts is what ended it."""
        if episode.terminated and self.ended is None:
            self.ended = "the world came to its end"
        elif episode.truncated:
            raise _spent(self._recorder.steps)

    async def _refusal(
        self, message: str | None, calls: Sequence[ToolCall], seen: Sequence[Observation] = ()
    ) -> str | None:
        """Why the next of these calls must not be made; None where it may be. `seen` is what those before it gave."""
        if self.guard is None:
            return None
        made = len(seen)
        step = Step(self._recorder.steps, "agent", message, None, tuple(calls[: made + 1]), tuple(seen))
        return (await self.guard.judge(step, made)).get(made)

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
        step = Step(index, "agent", message, reasoning, calls, seen, moment.call, moment.state, moment.started, now)
        self._recorder.step(step)
        if self.guard is not None:
            self.guard.took(step)

    def say(self, message: str, *, reasoning: str | None = None, call: str | None = None) -> None:
        self._meter.turn()
        self._record(message, reasoning, (), (), Moment(time.time(), None, call))

    def note(self, evidence: Evidence) -> None:
        """See `Attempt.note`. The id is replaced by a fresh one of this chain."""
        renamed = Evidence(
            self._recorder.evidence_id(), evidence.channel, evidence.kind, evidence.data, evidence.blobs, time.time()
        )
        self._recorder.add(EvidenceAdded(renamed))

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        model = self._need_model()
        if self._asked is None:
            self._asked = model.open()
        self._meter.begin_call()
        standing = self._conversation.place(request)
        call_id, started = await self._recorder.begin_call(), time.time()
        with self._meter.waiting():
            async with model.places:
                try:
                    answered = await self._answer(call_id, request, standing)
                except ProviderError as exc:
                    await self._record_call(_Ended(call_id, standing, started, error=str(exc)))
                    raise
        await self._record_call(_Ended(call_id, standing, started, answered))
        self._meter.charge(answered.reply.usage, answered.reply.cost_usd)
        return call_id, answered.reply

    async def _answer(self, call_id: str, request: ModelRequest, standing: Standing) -> ModelAnswer:
        """A plain model is not asked to stream: nobody here would see the pieces."""
        if self._asked is None or isinstance(self._asked, PlainModel):
            reply = await self._need_model().backend.complete(request)
            return ModelAnswer(reply, standing.cause, standing.differs_at)
        placement = self._conversation.placement(standing)
        return await self._asked.ask(call_id, request, placement, discard_deltas)

    async def _record_call(self, ended: _Ended) -> None:
        answered, standing = ended.answered, ended.standing
        reply = answered.reply if answered else None
        await self._recorder.end_call(
            Exchange(
                id=ended.id,
                request=standing.request,
                reply=reply,
                error=ended.error,
                model=self._need_model().backend.name,
                raw_request=b"",
                raw_response=b"",
                started=ended.started,
                ended=time.time(),
                delivered=True,
                parent=standing.parent,
                branch=self._conversation.add(ended.id, standing, reply),
                cause=answered.cause if answered else standing.cause,
                differs_at=answered.differs_at if answered else standing.differs_at,
                shared_messages=standing.shared,
                shared_tokens=answered.shared_tokens if answered else 0,
                certificate=answered.certificate if answered else None,
                lineage={},
            )
        )

    def _need_model(self) -> ModelAccess:
        if self._model is None:
            raise UserError("this agent asks a model, and the run names none: add --model (for example openai:NAME)")
        return self._model

    async def endpoint(self) -> Endpoint:
        if self._serving is None:
            access = self._need_model()
            if self.workspace is None:
                raise UserError(
                    f"the environment {self.task.environment.kind!r} has no sandbox that programs could run in"
                )
            opened, guard = access.open(), self.guard
            if guard is not None:
                opened = GuardedModel(opened, guard, self._recorder, self._meter)
            model = WatchedModel(opened, access.places, self._meter)
            on_step = None if guard is None else guard.saw
            traffic = Traffic(self._recorder, self._meter, self.workspace.digest, self._stop, on_step)
            gateway = await access.door.open()
            served = await serve(gateway, model, traffic, await self.workspace.listen(0))
            self._serving = _Serving(served, traffic, model)
        return self._serving.served.endpoint

    def guarded(self, guard: Guard) -> None:
        """From now on what is done here is under contracts."""
        self.guard = guard
        if self.workspace is not None:
            self.workspace = GuardedWorkspace(self.workspace, guard)

    def hold(self, leash: asyncio.Timeout) -> None:
        """The agent acts under this; it is pulled where what the agent's programs ask must end the attempt."""
        self._leash = leash

    def _stop(self, cause: AssayError) -> None:
        """A program that was told of a spent limit gets a moment to end by itself."""
        if self._leash is not None and not self._leash.expired():
            grace_s = GRACE_S if isinstance(cause, LimitReached) else 0.0
            self._leash.reschedule(asyncio.get_running_loop().time() + grace_s)

    async def leave(self) -> AssayError | None:
        """Ends the endpoint, if there is one. What ended the attempt from there, whatever the agent made of it."""
        serving, self._serving = self._serving, None
        self._leash = None
        return None if serving is None else await serving.served.finish(serving.traffic, serving.model)

    def finish(self, message: str) -> None:
        self.ended = message


def _spent(steps: int) -> LimitReached:
    limit = "turns"
    return LimitReached(limit, steps, steps)


def _cut(length: int, digest: str | None, result: ExecResult) -> Truncation | None:
    return None if digest is None else Truncation(length, digest, complete=not result.output_limited)


class _NoTools:
    def specs(self) -> tuple[()]:
        return ()

    async def call(self, name: str, arguments: dict[str, object]) -> Observation:
        return Observation(f"no tool is called {name!r}", error=True)

    async def digest(self) -> None:
        return None
