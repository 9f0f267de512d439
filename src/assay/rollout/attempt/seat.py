"""The view that one actor of a team has of its attempt.

Covered: the runner stamps the actor's name on steps, model calls and evidence; a call of a tool that the role lacks is
refused and recorded; an actor acts only in its own turn; it gets neither the sandbox, the solution, the world's
parameters nor the other actors' views. Not covered: actors are Python objects in the runner's process, as trusted as
the runner: one that reaches into the runner's own objects is not held back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from assay.agents.interface import FORK_SHELL, Endpoint
from assay.agents.teams.spec import may_use
from assay.environments.interface import ExecResult, Tools, ToolSpec, Workspace
from assay.errors import UserError
from assay.gateway.interface import ModelReply, ModelRequest
from assay.records import TEAM_TOOLS, EnvironmentSpec, Evidence, Observation, Step, Task, ToolCall
from assay.rollout.attempt.recorded_attempt import LiveAttempt

if TYPE_CHECKING:
    from assay.rollout.attempt.team import LiveTeam, Seat

_NOT_BY_ACT = "call it through act(): a team's actor uses tools in its recorded turns alone"


class SeatTools:
    """The tools of an actor: those of the environment that its role may use, and the team's."""

    def __init__(self, inner: Tools, own: tuple[ToolSpec, ...], seat: Seat) -> None:
        self._inner, self._own, self._seat = inner, own, seat

    def specs(self) -> tuple[ToolSpec, ...]:
        return (*(spec for spec in self._inner.specs() if may_use(self._seat.role, spec.name)), *self._own)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        return Observation(_NOT_BY_ACT, error=True)

    async def digest(self) -> str | None:
        return await self._inner.digest()


class SeatAttempt(LiveAttempt):
    """One actor's attempt; everything but its own turns is the team's."""

    def __init__(self, team: LiveTeam, seat: Seat, whole: LiveAttempt, task: Task, seed: int) -> None:
        self._end: str | None = None
        self._team, self._seat, self._whole = team, seat, whole
        plain = replace(task, environment=EnvironmentSpec(task.environment.kind), oracle=None, metadata={})
        super().__init__(plain, seed, team.recorder, whole.meter, team.model)
        self.actor_name = seat.name
        self.tools = SeatTools(whole.tools, team.tools_of(seat), seat)
        self.acting = whole.acting or whole.workspace
        self.observe = whole.judged_state
        self.episode = whole.episode
        self.guard = whole.guard
        self.user_steps = whole.user_steps

    @property
    def ended(self) -> str | None:
        """Returns why this actor ended, else why the whole attempt did."""
        return self._end if self._end is not None else self._whole.ended

    @ended.setter
    def ended(self, reason: str | None) -> None:
        self._end = reason

    @property
    def own_end(self) -> str | None:
        """Returns what the actor ended with; None if it returned without a word."""
        return self._end

    def _begin_turn(self) -> None:
        self._team.require_turn(self._seat, self)
        super()._begin_turn()

    async def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        observations = await super().act(calls, message=message, reasoning=reasoning, call=call)
        await self._team.end_turn(self._seat)
        return observations

    async def shell(
        self,
        command: str | Sequence[str],
        *,
        message: str | None = None,
        timeout_s: float | None = None,
        fork: Workspace | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        if fork is not None:
            raise UserError("a team's actor has no fork of the sandbox: its commands run in the team's")
        result = await super().shell(command, message=message, timeout_s=timeout_s, env=env)
        await self._team.end_turn(self._seat)
        return result

    async def _refusal(self, step: Step) -> str | None:
        """Refuses what the role may not do, before any contract is asked."""
        at = len(step.observations)
        call = step.tool_calls[at]
        name = "shell" if call.name == FORK_SHELL else call.name
        reason = self._team.refusal(self._seat, name)
        if reason is None:
            return await super()._refusal(step)
        self._team.record_refusal(self._seat, call, at, reason)
        if self.guard is not None:
            self.guard.record_refusal(at)
        return reason

    async def _observe(self, call: ToolCall) -> Observation:
        if call.error is not None or call.parsed is None:
            return await super()._observe(call)
        if call.name in TEAM_TOOLS:
            return replace(self._team.execute(self._seat, call), call_id=call.id)
        return replace(await self._whole.tools.call(call.name, call.parsed), call_id=call.id)

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        self._team.require_turn(self._seat, self)
        return await super().ask(request)

    def note(self, evidence: Evidence) -> None:
        """Implements `Attempt.note`; the data name the actor."""
        super().note(replace(evidence, data={**evidence.data, "actor": self._seat.name}))

    async def endpoint(self) -> Endpoint:
        raise UserError(
            f"actor {self._seat.name!r}: a team's actors have no model endpoint in the sandbox, where one could use "
            "another's: ask through attempt.ask()"
        )
