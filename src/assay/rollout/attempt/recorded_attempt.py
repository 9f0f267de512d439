"""The agent's view of an attempt; every act is recorded as a step, under the limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.agents.branches import Branches
from assay.agents.interface import FORK_SHELL, Attempt, Endpoint, Prior, Toolbox
from assay.agents.teams.interface import TeamSeats
from assay.environments.interface import Episodic, ExecResult, Tools, Workspace
from assay.errors import AssayError, LimitReached, ProviderError, UserError
from assay.gateway.interface import Exchange, MessageLog, ModelBackend, ModelReply, ModelRequest, retains_requests
from assay.gateway.model import Model, ModelAnswer, PlainModel, discard_deltas, open_session_model, reads_pictures
from assay.gateway.pictures import has_pictures
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
from assay.rollout.attempt.agent_input import accept_tool_calls, require_evidence, require_text
from assay.rollout.attempt.endpoint import (
    GRACE_S,
    GatewayHandle,
    LimitedModel,
    Observe,
    OpenEndpoint,
    SessionRecorder,
    open_endpoint,
)
from assay.rollout.limits.contract_guards import ContractGuard, GuardedWorkspace, refusal_of_exec
from assay.rollout.limits.guarded_model import GuardedModel
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.model_calls import CallPosition, Conversation
from assay.rollout.recording.recorder import BranchPath, Recorder


class ModelAccess(NamedTuple):
    """A model and the call slots shared by the whole run."""

    backend: ModelBackend
    slots: asyncio.Semaphore
    gateway_handle: GatewayHandle

    def open(self) -> Model:
        """Returns a model for one conversation; it keeps the conversation where the backend needs that."""
        return open_session_model(self.backend)


class StepContext(msgspec.Struct, frozen=True, gc=False):
    """A step's start time, the environment's digest after it, and the id of its model call."""

    started: float
    state: str | None = None
    call: str | None = None


class _OpenSession(NamedTuple):
    endpoint_handle: OpenEndpoint
    recording: SessionRecorder
    model: LimitedModel


class _EndedCall(msgspec.Struct, frozen=True, gc=False):
    id: str
    position: CallPosition
    started: float
    answered: ModelAnswer | None = None
    error: str | None = None


class LiveAttempt(Attempt):
    """One trial under way."""

    def __init__(self, task: Task, seed: int, recorder: Recorder, meter: Meter, model: ModelAccess | None) -> None:
        self.task = task
        self.limits = task.limits
        """Of the task as it was planned; an agent may replace `task` for a branch, and lifts no limit so."""
        self.seed = seed
        self.workspace: Workspace | None = None
        self.acting: Workspace | None = None
        """The same sandbox, for acts within a step; acts through `workspace` are outside steps."""
        self.tools: Tools = _NoTools()
        self.toolbox = Toolbox()
        self.observe: Observe | None = None
        """Returns the digest of the judged state where that is not the sandbox's; None: it is the sandbox's."""
        self.knows_verifier = False
        """True for an agent that declares that it may ask its world what the verifier knows."""
        self.episode: Episodic | None = None
        """The same environment, if it is a world that may end by itself."""
        self.solution: Path | None = None
        self.prior: Prior | None = None
        self.branches: Branches | None = None
        self.team: TeamSeats | None = None
        self.actor_name: str | None = None
        """Name of the actor of a team that this view of the attempt is of; None outside teams."""
        self.is_sub_agent = False
        """True for an actor that another one handed a task to: its model calls are a sub-agent's."""
        self.path: BranchPath | None = None
        """The branch that this view of the attempt is of; None in an attempt without branches."""
        self._is_out_of_turns = False
        self.guard: ContractGuard | None = None
        """The active contracts, or None."""
        self.ended: str | None = None
        self.meter = meter
        self._recorder = recorder
        self.user_steps: list[Step] = []
        """Steps of the simulated person within the agent's step under way."""
        self._model = model
        self._conversation_model: Model | None = None
        self._conversation = Conversation()
        self._serving: _OpenSession | None = None
        self._act_timeout: asyncio.Timeout | None = None
        self._service_failure: AssayError | None = None

    async def shell(
        self,
        command: str | Sequence[str],
        *,
        message: str | None = None,
        timeout_s: float | None = None,
        fork: Workspace | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        workspace = self.acting or self.workspace
        if workspace is None:
            raise UserError(f"the environment {self.task.environment.kind!r} has no shell")
        require_text("the message of shell()", message, optional=True)
        self._begin_turn()
        started = time.time()
        arguments: dict[str, Any] = {"command": command if isinstance(command, str) else list(command)}
        name = "shell" if fork is None else FORK_SHELL
        call = ToolCall(f"t{self._recorder.steps}", name, canonical_bytes(arguments).decode(), arguments)
        try:
            step = Step(self._recorder.steps, "agent", message, None, (call,), started=started)
            reason = await self._refusal(self._stamped(step))
            if reason is None:
                result = await (fork or workspace).exec(command, timeout_s=timeout_s, env=env)
            else:
                result = refusal_of_exec(reason)
        except BaseException:
            # Cut by a limit, or the sandbox broke: what was begun stays on record.
            self._record(message, None, (call,), (), StepContext(started))
            raise
        observations = Observation(
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
        state = await self.judged_state()
        self._record(message, None, (call,), (observations,), StepContext(started, state))
        return result

    async def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        calls = accept_tool_calls(calls)
        require_text("the message of act()", message, optional=True)
        require_text("the reasoning of act()", reasoning, optional=True)
        self._begin_turn()
        return await self._act(calls, message=message, reasoning=reasoning, call=call)

    def _begin_turn(self) -> None:
        """Charges a turn. Raises `LimitReached`."""
        if self.path is not None:
            most, made = self.limits.turns, len(self.path.steps)
            if most is not None and made >= most:
                self._is_out_of_turns = True
                raise LimitReached("turns", made, most)
            self._recorder.follow(self.path)
        self.meter.turn()

    async def serve(self, name: str, arguments: dict[str, Any]) -> Observation:
        """Executes a call of a program in the sandbox as one recorded step of the agent.

        Where the program's model calls are recorded, they are its turns; else each call is one.

        Raises:
            LimitReached: A limit is met, or the world ended without an outcome.
        """
        if self._serving is None:
            self.meter.turn()
        else:
            self.meter.check_time()
        index = self._recorder.steps
        call = ToolCall(f"s{index}", name, canonical_bytes(arguments).decode(), arguments)
        (observation,) = await self._act((call,))
        return observation

    def fail_service(self, cause: AssayError) -> None:
        """Ends acting for a cause that a served call met; the first is kept."""
        if self._service_failure is None:
            self._service_failure = cause
            self._stop(cause)

    async def _act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        started = time.time()
        observations: list[Observation] = []
        if self.episode is not None:
            self.episode.step = self._recorder.steps
        try:
            for tool_call in calls:
                reason = None
                if self.guard is not None or self.actor_name is not None:
                    known, made = tuple(calls[: len(observations) + 1]), tuple(observations)
                    step = Step(self._recorder.steps, "agent", message, reasoning, known, made, started=started)
                    reason = await self._refusal(self._stamped(step))
                refused = None if reason is None else Observation(reason, tool_call.id, error=True)
                observations.append(refused or await self._observe(tool_call))
        finally:
            # A limit or a cancellation in the middle leaves what was observed so far on record.
            state = await self.tools.digest() if len(observations) == len(calls) else None
            self._record(message, reasoning, tuple(calls), tuple(observations), StepContext(started, state, call))
            if self.user_steps:
                self._record_user_steps()
        if self.episode is not None:
            self._check_world_end(self.episode)
        return tuple(observations)

    def add_user_step(self, step: Step) -> None:
        """Records a step of the simulated person after the agent's step under way, which its index follows."""
        self.user_steps.append(step)

    def _record_user_steps(self) -> None:
        steps = [*self.user_steps]
        self.user_steps.clear()
        for step in steps:
            self._recorder.step(replace(step, index=self._recorder.steps))

    def _check_world_end(self, episode: Episodic) -> None:
        """Notes that the world ended. Raises `LimitReached` if its own act budget ended it."""
        if episode.terminated and self.ended is None:
            self.ended = "the world came to its end"
        elif episode.truncated:
            steps = self._recorder.steps
            raise LimitReached("turns", steps, steps)

    @property
    def is_try_over(self) -> bool:
        """Returns whether the world's own budget of acts, or the task's limit of turns for one try, is used up."""
        return self._is_out_of_turns or (self.episode is not None and self.episode.truncated)

    async def _refusal(self, step: Step) -> str | None:
        """Returns why the last call of a step under way is refused; None if it is allowed. The calls before it have
        their observations."""
        if self.guard is None:
            return None
        made = len(step.observations)
        return (await self.guard.judge(step, made)).get(made)

    async def _observe(self, call: ToolCall) -> Observation:
        if call.error is not None or call.parsed is None:
            return Observation(call.error or "the arguments did not parse", call.id, error=True)
        observation = await self.tools.call(call.name, call.parsed)
        return observation if observation.call_id == call.id else replace(observation, call_id=call.id)

    def _record(
        self,
        message: str | None,
        reasoning: str | None,
        calls: tuple[ToolCall, ...],
        observations: tuple[Observation, ...],
        context: StepContext,
    ) -> None:
        index, now = self._recorder.steps, time.time()
        step = Step(
            index, "agent", message, reasoning, calls, observations, context.call, context.state, context.started, now
        )
        step = self._stamped(step)
        self._recorder.step(step)
        if self.guard is not None:
            self.guard.record_step(step)

    def _stamped(self, step: Step) -> Step:
        """Returns a step with the name of the actor whose view of the attempt this is."""
        return step if self.actor_name is None else replace(step, actor_name=self.actor_name)

    def say(self, message: str, *, reasoning: str | None = None, call: str | None = None) -> None:
        require_text("the message of say()", message)
        require_text("the reasoning of say()", reasoning, optional=True)
        self._begin_turn()
        self._record(message, reasoning, (), (), StepContext(time.time(), None, call))

    def note(self, evidence: Evidence) -> None:
        """Implements `Attempt.note`. The evidence gets a fresh id of this chain."""
        require_evidence(evidence)
        renamed = Evidence(
            self._recorder.evidence_id(), evidence.channel, evidence.kind, evidence.data, evidence.blobs, time.time()
        )
        self._recorder.add(EvidenceAdded(renamed))

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        model = self._need_model()
        if self._conversation_model is None:
            self._conversation_model = model.open()
        # A picture is in one of the newest messages when it is first shown.
        if not reads_pictures(self._conversation_model) and has_pictures(request.messages[-3:]):
            raise UserError(
                f"the model {model.backend.name} is sent text alone, and the agent shows it a picture: leave "
                "out the option pictures, or take a model that is sent messages (openai:, anthropic:, or http://host/v1#NAME)"
            )
        self.meter.begin_call()
        position = self._conversation.locate(request)
        call_id, started = self._recorder.begin_call(), time.time()
        self.meter.begin_wait()
        try:
            async with model.slots:
                try:
                    answered = await self._answer(call_id, request, position)
                except ProviderError as exc:
                    exc.request = position.request
                    await self._record_call(_EndedCall(call_id, position, started, error=str(exc)))
                    raise
        finally:
            self.meter.end_wait()
        await self._record_call(_EndedCall(call_id, position, started, answered))
        self.meter.charge(answered.reply.usage, answered.reply.cost_usd)
        return call_id, answered.reply

    async def _answer(self, call_id: str, request: ModelRequest, position: CallPosition) -> ModelAnswer:
        """Asks the model. A plain model is not streamed, since no caller here uses the deltas."""
        if self._conversation_model is None or isinstance(self._conversation_model, PlainModel):
            reply = await self._complete(request, position)
            return ModelAnswer(reply, position.cause, position.differs_at)
        placement = self._conversation.placement(position)
        return await self._conversation_model.ask(call_id, request, placement, discard_deltas)

    async def _complete(self, request: ModelRequest, position: CallPosition) -> ModelReply:
        """Asks the backend; one that may keep requests gets no log that grows later."""
        backend = self._need_model().backend
        if not retains_requests(backend):
            return await backend.complete(position.request)
        if isinstance(request.messages, MessageLog):
            request = replace(request, messages=[*request.messages])
        return await backend.complete(request)

    async def _record_call(self, ended: _EndedCall) -> None:
        answered, position = ended.answered, ended.position
        reply = answered.reply if answered else None
        cause = answered.cause if answered else position.cause
        if self.is_sub_agent and cause == "root":
            cause = "sub_agent"
        await self._recorder.end_call(
            Exchange(
                id=ended.id,
                request=position.request,
                reply=reply,
                error=ended.error,
                model=self._need_model().backend.name,
                raw_request=b"",
                raw_response=b"",
                started=ended.started,
                ended=time.time(),
                delivered=True,
                parent=position.parent,
                branch=self._conversation.add(ended.id, position, reply),
                cause=cause,
                differs_at=answered.differs_at if answered else position.differs_at,
                shared_messages=position.shared,
                shared_tokens=answered.shared_tokens if answered else 0,
                certificate=answered.certificate if answered else None,
                lineage={},
            ),
            actor_name=self.actor_name,
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
                opened = GuardedModel(opened, guard, self._recorder, self.meter)
            model = LimitedModel(opened, access.slots, self.meter)
            on_step = None if guard is None else guard.observe_step
            recording = SessionRecorder(self._recorder, self.meter, self.judged_state, self._stop, on_step)
            gateway = await access.gateway_handle.open()
            endpoint_handle = await open_endpoint(gateway, model, recording, await self.workspace.listen(0))
            self._serving = _OpenSession(endpoint_handle, recording, model)
        return self._serving.endpoint_handle.endpoint

    @property
    def acts(self) -> int:
        """Returns the number of steps, executions and model calls so far, of the whole trial."""
        return self._recorder.acts

    async def judged_state(self) -> str | None:
        """Returns the digest of the judged state; None if it cannot be observed."""
        if self.observe is not None:
            return await self.observe()
        return None if self.workspace is None else await self.workspace.digest()

    def attach_guard(self, guard: ContractGuard) -> None:
        """Puts all further acts under contracts."""
        self.guard = guard
        if self.workspace is not None:
            self.workspace = GuardedWorkspace(self.workspace, guard)

    def set_act_timeout(self, act_timeout: asyncio.Timeout) -> None:
        """Sets the timeout that ends acting when a program's model call must end the attempt."""
        self._act_timeout = act_timeout

    def _stop(self, cause: AssayError) -> None:
        """Ends acting; a program that reached a limit gets `GRACE_S` to exit."""
        if self._act_timeout is not None and not self._act_timeout.expired():
            grace_s = GRACE_S if isinstance(cause, LimitReached) else 0.0
            self._act_timeout.reschedule(asyncio.get_running_loop().time() + grace_s)

    async def close_endpoint(self) -> AssayError | None:
        """Closes the endpoint, if open. Returns the failure that ended the attempt there or at a served world."""
        serving, self._serving = self._serving, None
        failed, self._service_failure = self._service_failure, None
        self._act_timeout = None
        met = None if serving is None else await serving.endpoint_handle.finish(serving.recording, serving.model)
        return failed or met

    def finish(self, message: str) -> None:
        require_text("the message of finish()", message)
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
