"""The seats of a team in one trial: turn order, channels, hand-offs and permissions, enforced here.

All actors act on the trial's one environment and are recorded in its one chain. One of them acts at a time, in an order
that the specification and the acts decide, so a recorded order can be rebuilt. Every message and hand-off is evidence
with the sender that the runner knows; what a message says of itself is text.

Covered: names, turns, tools, channels and hand-offs of actors that use their `Attempt`. Not covered: see `seat`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from assay.agents.fork import ContinuesAttempt
from assay.agents.interface import Agent
from assay.agents.teams.interface import TeamSeats
from assay.agents.teams.spec import ALL, Role, TeamChannel, TeamSpec, may_use
from assay.analysis.contracts.trace import GUARD
from assay.environments.interface import ToolSpec
from assay.environments.worlds.interface import SplitsKnowledge
from assay.environments.worlds.played import text_world_of
from assay.errors import AgentError, TaskError, boundary, escape_surrogates
from assay.records import (
    HAND_OFF,
    TEAM,
    TEAM_HAND_OFF,
    TEAM_MESSAGE,
    TEAM_READ,
    TEAM_SEND,
    TEAM_TOOLS,
    HandOff,
    Message,
    Observation,
    Step,
    Task,
    TeamMessage,
    ToolCall,
)
from assay.rollout.attempt.agent_call import call_agent
from assay.rollout.attempt.recorded_attempt import LiveAttempt, ModelAccess
from assay.rollout.attempt.seat import SeatAttempt
from assay.rollout.recording.recorder import Recorder

MOST_TEXT: Final = 20_000
"""Largest number of characters of a message."""
MOST_UNREAD: Final = 1_000
"""Largest number of messages that wait for one actor."""
_GRACE_S: Final = 5.0
"""Seconds that cancelled actors get to end."""
_SHOWN: Final = 2_000


class Seat:
    """One actor of a team."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.name = role.name
        self.inbox: list[TeamMessage] = []
        self.task: str = ""
        """Text that another actor handed to it, for the next time that its agent begins."""
        self.view: SeatAttempt | None = None
        self.acting: asyncio.Task[None] | None = None
        self.gate = asyncio.Event()
        self.is_done = False
        """True once its agent has ended; with the order `hand-off` it begins again when it is handed to."""
        self.turns = 0
        """Turns taken; with the order `hand-off` the times that it was handed to."""
        self.last_turn = 0
        """Turns of the team up to its last one, that one included."""

    @property
    def is_full(self) -> bool:
        """Returns whether no further message may wait for it."""
        return len(self.inbox) >= MOST_UNREAD

    @property
    def is_spent(self) -> bool:
        """Returns whether it has taken all turns of its budget."""
        return self.role.turns is not None and self.turns >= self.role.turns

    def is_due(self, turns: int) -> bool:
        """Returns whether its schedule allows it a turn after so many of the team."""
        return turns >= self.role.after and (not self.turns or turns - self.last_turn >= self.role.every - 1)


class LiveTeam(TeamSeats):
    """Implements `TeamSeats` for one trial.

    Args:
        spec: The team.
        attempt: The attempt that the actors share.
        recorder: Its record.
        model: The run's model; None without one.
    """

    def __init__(self, spec: TeamSpec, attempt: LiveAttempt, recorder: Recorder, model: ModelAccess | None) -> None:
        self.spec, self.recorder, self.model = spec, recorder, model
        self._whole = attempt
        self._seats = {role.name: Seat(role) for role in spec.roles}
        self._names = tuple(self._seats)
        self._holder: Seat | None = None
        self._last = -1
        """Position of the role that took the last turn."""
        self._next_name: str | None = None
        """Actor that a hand-off gives the next turn to."""
        self._callers: list[Seat] = []
        """Actors that handed off and wait for the answer, the last one on top."""
        self._turn_over: asyncio.Future[None] | None = None
        self._turns = 0
        self._messages = self._hand_offs = 0
        self._is_over = False
        self._is_recalling = False

    async def run(self, agents: Mapping[str, Agent], steps: Sequence[Step] = ()) -> None:
        self._begin()
        self._recall(steps)
        try:
            while (seat := self._next()) is not None:
                await self._take_turn(seat, agents[seat.name], [one for one in steps if one.actor_name == seat.name])
        finally:
            self._is_over = True
            await self._cancel()
        if self._whole.ended is None:
            ends = [seat.view.own_end for seat in self._seats.values() if seat.view is not None and seat.view.own_end]
            self._whole.finish(ends[-1] if len(ends) == 1 else "every actor has ended")

    def _begin(self) -> None:
        """Records the team. Raises `TaskError` where the environment has a tool of a team's name."""
        taken = sorted(TEAM_TOOLS & {spec.name for spec in self._whole.tools.specs()})
        if taken:
            raise TaskError(
                f"the environment has a tool {taken[0]!r} of its own, which a team's tool has, too: rename it"
            )
        views = {seat.name: self._part_of(seat) for seat in self._seats.values()}
        data = {"team": msgspec.to_builtins(self.spec), "views": views}
        self.recorder.evidence("audit", TEAM, data)

    # The order of turns.

    def _next(self) -> Seat | None:
        """Returns the actor of the next turn; None if the team has ended."""
        if self._whole.ended is not None:
            return None
        if self.spec.order == "hand-off":
            if self._holder is None:
                self._holder = self._seats[self._names[0]]
            return None if self._holder.is_done else self._holder
        name, self._next_name = self._next_name, None
        if name is not None and not self._seats[name].is_done and not self._seats[name].is_spent:
            return self._seats[name]
        in_order = [self._names[(self._last + step) % len(self._names)] for step in range(1, len(self._names) + 1)]
        able = [seat for seat in map(self._seats.__getitem__, in_order) if not seat.is_done and not seat.is_spent]
        # Where all that could act wait for their time, it has come: no other turn would pass.
        return next((seat for seat in able if seat.is_due(self._turns)), able[0] if able else None)

    def _count_turn(self, seat: Seat) -> None:
        if self.spec.order == "round-robin":
            self._turns += 1
            seat.turns, seat.last_turn = seat.turns + 1, self._turns

    async def _take_turn(self, seat: Seat, agent: Agent, own_steps: Sequence[Step]) -> None:
        """Lets an actor act until its turn is over or its agent ends. Raises what ended the agent."""
        self._holder, self._last = seat, self._names.index(seat.name)
        self._count_turn(seat)
        over = self._turn_over = asyncio.get_running_loop().create_future()
        if seat.acting is None:
            seat.acting = asyncio.create_task(self._act(seat, agent, own_steps), name=f"actor {seat.name}")
        else:
            seat.gate.set()
        await asyncio.wait({seat.acting, over}, return_when=asyncio.FIRST_COMPLETED)
        if seat.acting.done():
            seat.acting.result()
            seat.acting, seat.is_done = None, True
            self._return_turn(seat)

    async def _act(self, seat: Seat, agent: Agent, own_steps: Sequence[Step]) -> None:
        begins_again = seat.view is not None
        view = seat.view = SeatAttempt(self, seat, self._whole, self._task_of(seat), self._seed_of(seat))
        view.is_sub_agent = bool(seat.task)
        seat.task = ""
        with boundary(AgentError, f"actor {seat.name}"):
            if own_steps and not begins_again and isinstance(agent, ContinuesAttempt):
                await agent.continue_from(view, own_steps)
            else:
                await call_agent(agent, view)

    def _return_turn(self, seat: Seat) -> None:
        """Gives the turn of an actor that has ended back to the one that handed to it."""
        if self.spec.order != "hand-off" or not self._callers or self._whole.ended is not None:
            return
        caller = self._callers.pop()
        ended = seat.view.own_end if seat.view is not None else None
        answer = escape_surrogates(ended or "ended without a word")[:MOST_TEXT]
        self._pass_to(seat, caller, answer, None, returns=True)

    def require_turn(self, seat: Seat, view: SeatAttempt) -> None:
        """Raises `AgentError` unless it is an actor's turn and the view is its present one."""
        if self._is_over or self._holder is not seat or seat.view is not view:
            raise AgentError(
                f"actor {seat.name!r} acts out of its turn: await each act, and use the attempt that was given last"
            )

    async def end_turn(self, seat: Seat) -> None:
        """Waits for an actor's next turn, if the act before ended this one."""
        episode = self._whole.episode
        if episode is not None and episode.terminated and self._whole.ended is None:
            self._whole.ended = "the world came to its end"
        if self._whole.ended is not None or self._is_over:
            return
        if self.spec.order == "hand-off" and self._holder is seat:
            return
        seat.gate.clear()
        if self._turn_over is not None and not self._turn_over.done():
            self._turn_over.set_result(None)
        await seat.gate.wait()

    async def _cancel(self) -> None:
        """Ends the agents that are still waiting for a turn."""
        tasks = [seat.acting for seat in self._seats.values() if seat.acting is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(tasks, timeout=_GRACE_S)
        for task in tasks:
            if task.done() and not task.cancelled():
                task.exception()  # of an actor that ended while it was cancelled: the attempt is over

    # Permissions.

    def refusal(self, seat: Seat, tool: str) -> str | None:
        """Returns why an actor may not use a tool now; None if it may."""
        if self._holder is not None and self._holder is not seat:  # a call of the same act handed off
            return f"Refused: the turn is that of {self._holder.name!r} since the hand-off. The call was not made."
        if tool in TEAM_TOOLS:
            return None if any(spec.name == tool for spec in self.tools_of(seat)) else f"{seat.name!r} has no {tool!r}"
        if may_use(seat.role, tool):
            return None
        return f"Refused: the role {seat.name!r} may not use the tool {tool[:80]!r}. The call was not made."

    def record_refusal(self, seat: Seat, call: ToolCall, at: int, reason: str) -> None:
        """Records a call that an actor's role does not allow."""
        data: dict[str, object] = {
            "decision": "denied",
            "contract": TEAM,
            "rule": f"role {seat.name}",
            "status": "violated",
            "enforce": "deny",
            "asked": False,
            "reason": reason,
            "tool": call.name[:200],
            "arguments": call.arguments[:_SHOWN],
            "step": self.recorder.steps,
            "call": at,
            "actor": seat.name,
        }
        self.recorder.evidence("audit", GUARD, data)

    def tools_of(self, seat: Seat) -> tuple[ToolSpec, ...]:
        """Returns the team's tools of an actor."""
        found = []
        written = [channel.name for channel in self.spec.channels if seat.name in self.spec.writers(channel)]
        if written:
            found.append(_spec(TEAM_SEND, "Sends a message to the readers of a channel.", channel=written, text=None))
        targets = self.spec.receivers_of_hand_off(seat.role)
        if targets:
            found.append(
                _spec(TEAM_HAND_OFF, "Gives the turn to another actor, with a text.", to=list(targets), text=None)
            )
        if (
            self.spec.channels
            or any(seat.name in self.spec.receivers_of_hand_off(role) for role in self.spec.roles)
            or targets
        ):
            found.append(_spec(TEAM_READ, "Returns the messages that came since the last time, as JSON."))
        return tuple(found)

    # The team's tools.

    def execute(self, seat: Seat, call: ToolCall) -> Observation:
        """Executes a call of a team's tool by an actor that may use it."""
        arguments = call.parsed or {}
        step = self.recorder.steps
        if call.name == TEAM_READ:
            inbox, seat.inbox = seat.inbox, []
            shown = [{"channel": one.channel, "from": one.sender, "text": one.text} for one in inbox]
            return Observation(msgspec.json.encode(shown).decode())
        text = arguments.get("text")
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            return Observation(f"text: expected a text of at most {MOST_TEXT} characters", error=True)
        if call.name == TEAM_SEND:
            return self._send(seat, arguments.get("channel"), text, step)
        return self._hand_off(seat, arguments.get("to"), text, step)

    def _send(self, seat: Seat, name: Any, text: str, step: int) -> Observation:
        channel: TeamChannel | None = next((one for one in self.spec.channels if one.name == name), None)
        if channel is None or seat.name not in self.spec.writers(channel):
            known = [one.name for one in self.spec.channels if seat.name in self.spec.writers(one)]
            return Observation(f"channel: {seat.name!r} may write to {', '.join(known)}", error=True)
        receivers = self.spec.readers(channel, seat.name)
        full = next((other for other in receivers if self._seats[other].is_full), None)
        if full is not None:
            return Observation(f"{full!r} has {MOST_UNREAD} unread messages: nothing was sent", error=True)
        message = self._deliver(channel.name, seat.name, receivers, text, step)
        return Observation(f"sent to {', '.join(message.receivers) or 'nobody'}; {_waiting(seat)}")

    def _deliver(self, channel: str, sender: str, receivers: tuple[str, ...], text: str, step: int) -> TeamMessage:
        self._messages += 1
        message = TeamMessage(
            id=f"m{self._messages}", channel=channel, sender=sender, receivers=receivers, text=text, step=step
        )
        for name in receivers:
            self._seats[name].inbox.append(message)
        if not self._is_recalling:
            self.recorder.evidence("audit", TEAM_MESSAGE, msgspec.to_builtins(message))
        return message

    def _hand_off(self, seat: Seat, to: Any, text: str, step: int) -> Observation:
        if to not in self.spec.receivers_of_hand_off(seat.role):
            known = ", ".join(self.spec.receivers_of_hand_off(seat.role))
            return Observation(f"to: {seat.name!r} may hand off to {known}", error=True)
        receiver = self._seats[to]
        if receiver.is_spent and receiver not in self._callers:
            return Observation(f"to: {to!r} has taken its {receiver.role.turns} turns", error=True)
        if self.spec.order == "round-robin":
            problem = self._hand_off_problem(receiver)
            if problem is not None:
                return Observation(f"to: {to!r} {problem}", error=True)
            self._next_name = to
            self._pass_to(seat, receiver, text, step, returns=False)
            return Observation(f"the next turn is that of {to}")
        returns = receiver in self._callers
        if returns:
            del self._callers[self._callers.index(receiver) :]
        else:
            self._callers.append(seat)
        self._pass_to(seat, receiver, text, step, returns=returns)
        self._holder = receiver
        return Observation(f"the turn is now that of {to}; what it answers is among your messages afterwards")

    def _hand_off_problem(self, receiver: Seat) -> str | None:
        """Returns why an actor cannot be given the next turn of a round; None if it can."""
        if receiver.is_done:
            return "has ended"
        if receiver.is_full:
            return f"has {MOST_UNREAD} unread messages: nothing was sent"
        if not receiver.is_due(self._turns):
            role = receiver.role
            return f"acts after {role.after} turns of the team, and in each {role.every}th at most"
        return None

    def _pass_to(self, sender: Seat, receiver: Seat, text: str, step: int | None, *, returns: bool) -> None:
        self._hand_offs += 1
        if self.spec.order == "hand-off":
            self._holder, receiver.is_done = receiver, False
        receiver.turns += self.spec.order == "hand-off" and not returns
        if receiver.acting is None and not returns and self.spec.order == "hand-off":
            receiver.task = text
        else:
            number = self._messages = self._messages + 1
            receiver.inbox.append(
                TeamMessage(
                    id=f"m{number}",
                    channel=HAND_OFF,
                    sender=sender.name,
                    receivers=(receiver.name,),
                    text=text,
                    step=-1 if step is None else step,
                )
            )
        if not self._is_recalling:
            record = HandOff(
                id=f"h{self._hand_offs}",
                sender=sender.name,
                receiver=receiver.name,
                text=text,
                step=step,
                returns=returns,
            )
            self.recorder.evidence("audit", HAND_OFF, msgspec.to_builtins(record))

    # What an actor is told.

    def _part_of(self, seat: Seat) -> int | str:
        """Returns the number of the part of the task's knowledge that an actor is given, 0 for none, or `all`."""
        world = self._split_world()
        view = seat.role.view
        if world is None:
            if view not in (None, ALL):
                raise TaskError(f"role {seat.name!r}: view={view}, and the task's world does not split its knowledge")
            return ALL
        if view == ALL:
            return ALL
        part = self._names.index(seat.name) + 1 if view is None else int(view)
        if view is not None and part > world.parts:
            raise TaskError(f"role {seat.name!r}: view={view}, and the task's world has {world.parts} parts")
        return part if part <= world.parts else 0

    def _split_world(self) -> SplitsKnowledge | None:
        world: object = text_world_of(self._whole.tools)
        return world if isinstance(world, SplitsKnowledge) and world.parts > 0 else None

    def _task_of(self, seat: Seat) -> Task:
        """Returns the task as an actor reads it: its part, its role, its channels, and what was handed to it."""
        task, world, part = self._whole.task, self._split_world(), self._part_of(seat)
        told = self._describe(seat)
        if world is not None and part != ALL:
            return msgspec.structs.replace(task, instruction=f"{world.view(int(part))}\n\n{told}")
        if isinstance(task.instruction, str):
            return msgspec.structs.replace(task, instruction=f"{task.instruction}\n\n{told}")
        return msgspec.structs.replace(task, instruction=(*task.instruction, Message("user", told)))

    def _describe(self, seat: Seat) -> str:
        others = [name for name in self._names if name != seat.name]
        lines = [f"You are {seat.name!r}" + (f" in a team with {', '.join(others)}." if others else ".")]
        if seat.role.instructions:
            lines.append(seat.role.instructions)
        for channel in self.spec.channels:
            rights = [
                word
                for word, names in (("write", self.spec.writers(channel)), ("read", self.spec.readers(channel, "")))
                if seat.name in names
            ]
            if rights:
                lines.append(f"Channel {channel.name!r}: you may {' and '.join(rights)}.")
        if seat.task:
            lines.append(f"You were handed this:\n{seat.task}")
        return "\n".join(lines)

    def _seed_of(self, seat: Seat) -> int:
        """Returns an actor's seed; that of a team of one is the attempt's."""
        seed = self._whole.seed
        return seed if len(self._names) == 1 else random.Random(f"{seed}/{seat.name}").getrandbits(63)

    # Recorded steps.

    def _recall(self, steps: Sequence[Step]) -> None:
        """Brings messages and order to where recorded steps led. Raises `TaskError` for steps of another team."""
        self._is_recalling = True
        for step in steps:
            if step.actor != "agent":
                continue
            seat = self._seats.get(step.actor_name or "")
            if seat is None:
                raise TaskError(f"step {step.index} is of {step.actor_name or 'no actor'!r}, which is not of this team")
            if self.spec.order == "hand-off" and seat in self._callers:  # those above it ended and returned the turn
                del self._callers[self._callers.index(seat) :]
            self._holder, self._last = seat, self._names.index(seat.name)
            self._count_turn(seat)
            self._next_name = None
            for call, seen in zip(step.tool_calls, step.observations, strict=False):
                if call.name in TEAM_TOOLS and not seen.error:
                    self.execute(seat, call)
        self._is_recalling = False


def _spec(name: str, description: str, **arguments: list[str] | None) -> ToolSpec:
    properties: dict[str, Any] = {
        argument: {"type": "string"} if known is None else {"type": "string", "enum": known}
        for argument, known in arguments.items()
    }
    schema = {"type": "object", "properties": properties, "required": [*arguments], "additionalProperties": False}
    return ToolSpec(name, description, schema)


def _waiting(seat: Seat) -> str:
    return f"{len(seat.inbox)} of your own messages are unread"
