"""Plain tool-calling loop: asks the model, executes its calls, shows the results, until the model finishes.

It asks through `attempt.ask` and acts through `attempt.act`, so the caller records and limits everything. It does not
stream, plan or retry. With `memory`, what earlier attempts showed stands before the task.

Invariant: a sent message is never changed in place. A turn appends; a conversation that is too long goes on as a new,
shorter one (`context`), and evidence of kind `context_dropped` lists the outputs that it no longer holds. The record
keeps each such segment as a branch of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from assay.environments.interface import ToolSpec
from assay.environments.schemas import tool_definitions
from assay.errors import LimitReached, ProviderError, TaskError
from assay.gateway.interface import MessageLog, ModelReply, ModelRequest
from assay.records import Evidence, Observation, Step, ToolCall, digest_bytes

from ._calls import assistant_message, parse_calls, render_observation, text_of
from ._context import (
    SUMMARY_REQUEST,
    Policy,
    ShortenedConversation,
    count_characters,
    is_context_overflow,
    replace_by_summary,
    shorten_outputs,
    summarised_part,
)
from ._options import read_options
from ._pictures import OPENING, ShowsScreens, drop_pictures, picture_message, picture_positions, shows_screens
from ._recall import Recall, RecallOptions
from ._skill_text import load_agent_skill
from .grounding import GroundingMeter
from .interface import Attempt
from .recoveries import RecoveryIndex

FINISH = ToolSpec(
    name="finish",
    description="Say that the task is done. Nothing is executed after it.",
    parameters={
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What was done, in a sentence or two."}},
        "required": ["message"],
    },
)
_SYSTEM = (
    "You solve a task by calling tools. Look before you change anything, check what you changed, and call `finish` "
    "when the task is done. Your work is judged by the state that you leave, not by what you say."
)
_UNGROUNDED = (
    "Your last steps repeat themselves and do not use what the tools returned. Name what the outputs have established, "
    "and choose the next step from that."
)
_UNGROUNDED_AGAIN = (
    "Your plan still does not use what the tools returned. Give it up, and look at what you do not know."
)
_NUDGE = "You called no tool. Go on with the task by calling one, or call `finish` if it is done."
Count = Annotated[int, msgspec.Meta(ge=0)]


class LoopOptions(RecallOptions, frozen=True, forbid_unknown_fields=True):
    """Options of the agent `loop`."""

    system: str = _SYSTEM
    """System prompt; empty for none."""
    nudge: str = _NUDGE
    """Answer to a reply without a tool call."""
    nudges: Count = 1
    """Maximum number of consecutive nudges before the attempt counts as finished."""
    max_output_chars: Annotated[int, msgspec.Meta(ge=100)] = 16_000
    """Characters of each output stream shown to the model; the record keeps more."""
    max_turns: Annotated[int, msgspec.Meta(ge=1)] = 200
    """Maximum number of replies; reaching it is a stop. The run's own limits also apply."""
    context: Policy = "drop"
    """Treatment of a conversation that is too long. `drop`: the oldest tool outputs are replaced by a marker;
    `trim`: only their ends are kept; `summarise`: the model writes a summary that replaces all but the opening and the
    latest turns."""
    context_chars: Count = 0
    """Characters from which on a conversation is too long; 0: it is if the model refuses it."""
    keep_outputs: Count = 2
    """Number of latest tool outputs that always stay."""
    keep_reasoning: bool = False
    """True if the model's reasoning is sent back to it, as `reasoning_content`."""
    pictures: Count = 0
    """Number of latest pictures of the browser's page that the model is shown as images, after its acts; 0 shows none.
    Up to twice as many less one stand in the conversation, then it goes on with these. They have no part in
    `context_chars`; a conversation that the model refuses as too long loses pictures first."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Maximum tokens of one reply."""
    seeded: bool = False
    """True if a sampling seed is sent, derived from the attempt's seed and the turn."""
    sampling: dict[str, Any] = msgspec.field(default_factory=dict)
    """Further sampling parameters, passed unchanged."""
    grounding: float | None = None
    """Index of grounding (`assay skills grounding`) below which the model is told that it repeats itself, such as -2;
    none never tells it."""
    recover: bool = False
    """True if an error that passing attempts of `memory` met too is answered with the calls that worked there. Errors
    are compared by tool, kind of failure and text, without what differs from task to task; `scope=any` takes those of
    all tasks, and `recall=0` shows nothing else of the memory."""
    skill: str = ""
    """Folder of an Agent Skill, or its SKILL.md: its text follows the system prompt, and its composite tools are
    offered; empty for none."""


class LoopAgent:
    """Tool-calling loop. Its options are the fields of `LoopOptions`."""

    name = "loop"
    needs_model = True
    host_options = frozenset({"memory", "skill"})
    """Options that name files of the machine that runs the agent."""

    def __init__(self, **options: Any) -> None:
        self._options = read_options(LoopOptions, options, self.name)
        self._skill = load_agent_skill(self._options.skill)
        self._recall = Recall(self._options)

    async def run(self, attempt: Attempt) -> None:
        await self._begin(attempt).run()

    async def continue_from(self, attempt: Attempt, steps: Sequence[Step]) -> None:
        """Shows the model the recorded messages, calls and observations verbatim."""
        conversation = self._begin(attempt)
        conversation.recall(steps)
        await conversation.run()

    def _begin(self, attempt: Attempt) -> _Conversation:
        options, offered = self._options, attempt
        screens = self._screens_of(attempt) if options.pictures else None
        if self._skill is not None:
            system = "\n\n".join(filter(None, (options.system, self._skill.text.strip())))
            options, offered = msgspec.structs.replace(options, system=system), self._skill.offer(attempt, FINISH.name)
        opening = self._recall.extend(attempt, _opening(attempt, options.system))
        if screens is not None:
            opening.append({"role": "user", "content": OPENING})
        recoveries = self._recall.recoveries(attempt) if options.recover else None
        return _Conversation(offered, options, opening, recoveries, screens)

    def _screens_of(self, attempt: Attempt) -> ShowsScreens:
        """Returns the world whose pages the model is shown. Raises `TaskError` without one."""
        if shows_screens(attempt.tools):
            return attempt.tools
        raise TaskError(
            f"agent {self.name!r} with pictures={self._options.pictures} shows pages of a browser, and task "
            f"{attempt.task.id!r} is in an environment {attempt.task.environment.kind!r}: leave pictures out, or take "
            "tasks with pages"
        )


class _Conversation:
    def __init__(
        self,
        attempt: Attempt,
        options: LoopOptions,
        opening: list[dict[str, Any]],
        recoveries: RecoveryIndex | None,
        screens: ShowsScreens | None = None,
    ) -> None:
        self._attempt = attempt
        self._recoveries = recoveries
        self._options = options
        specs = attempt.tools.specs()
        # A world that has a `finish` of its own keeps it: then that call is an act like any other.
        self._finishes = all(spec.name != FINISH.name for spec in specs)
        offered = (*specs, FINISH) if self._finishes else specs
        self._tools = {spec.name: spec for spec in offered}
        self._definitions = tool_definitions(offered)
        self._sampling = _sampling(options)
        self._messages = MessageLog(opening)
        self._meter = GroundingMeter("\n".join(text_of(one.get("content")) for one in opening))
        self._opening = len(opening)
        self._silent = 0
        self._drops = 0
        self._was_low = False
        self._first_turn = 0
        self._screens = screens
        """World whose pages the model is shown; None to show none."""
        self._shown = None if screens is None else screens.last_screen

    def recall(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._messages.append(self._as_sent(step.message, list(step.tool_calls), step.reasoning))
            self._append_results(step.tool_calls, step.observations)
            if not step.tool_calls:
                self._messages.append({"role": "user", "content": self._options.nudge})
        self._first_turn = len(steps)

    async def run(self) -> None:
        """Takes turns until the model is done."""
        for turn in range(self._first_turn, self._options.max_turns):
            exchange = await self._query_model(turn)
            if exchange is None:
                self._attempt.finish("stopped: the conversation no longer fits the model, and nothing is left to drop")
                return
            if await self._execute_reply(turn, *exchange):
                return
        most, limit = self._options.max_turns, "turns"
        raise LimitReached(limit, most, most)

    async def _query_model(self, turn: int) -> tuple[str, ModelReply] | None:
        """Queries the model, shortening the conversation while it is too long; None if nothing is left to shorten."""
        limit = self._options.context_chars
        while limit and self._messages.fold(count_characters, 0) > limit:
            if not await self._shorten(turn, f"longer than context_chars={limit}"):
                break  # what is left may still fit the model
        while True:
            try:
                return await self._attempt.ask(
                    ModelRequest(self._messages, self._definitions, self._sampling_params(turn))
                )
            except ProviderError as exc:
                if not is_context_overflow(exc):
                    raise
                why = str(exc)
                if not (
                    self._drop_pictures(turn, 1, why)
                    or await self._shorten(turn, why)
                    or self._drop_pictures(turn, 0, why)
                ):
                    return None

    async def _shorten(self, turn: int, reason: str) -> bool:
        """Goes on with a shorter conversation; returns False if it cannot get shorter."""
        options = self._options
        if options.context == "summarise":
            shorter = await self._summarise(turn)
        else:
            shorter = shorten_outputs(self._messages, options.keep_outputs, options.context)
        if shorter is None:
            return False
        self._drops += 1
        self._messages = MessageLog(shorter.messages)
        self._attempt.note(shorter.evidence(self._drops, turn, reason))
        return True

    async def _summarise(self, turn: int) -> ShortenedConversation | None:
        """Has the model summarise; where the conversation does not fit it even for that, without its oldest outputs."""
        part = summarised_part(self._messages, self._opening, self._options.keep_outputs)
        messages: list[dict[str, Any]] = [*self._messages]
        sampling = {name: value for name, value in self._sampling_params(turn).items() if name != "tool_choice"}
        while part is not None:
            asked = [*messages, {"role": "user", "content": SUMMARY_REQUEST}]
            try:
                call_id, reply = await self._attempt.ask(ModelRequest(asked, [], sampling))
            except ProviderError as exc:
                if not is_context_overflow(exc):
                    raise
                fitting = shorten_outputs(messages, 0)
                if fitting is None:
                    return None
                messages = fitting.messages
            else:
                summary = text_of(reply.message.get("content"))
                return replace_by_summary(self._messages, part, summary, call_id)
        return None

    def _sampling_params(self, turn: int) -> dict[str, Any]:
        """Returns a turn's sampling parameters. A shared seed would make the turns' draws dependent."""
        if not self._options.seeded:
            return self._sampling
        drawn = digest_bytes(f"{self._attempt.seed}/{turn}".encode()).removeprefix("blake3:")
        return {"seed": int(drawn[:8], 16) >> 1} | self._sampling

    async def _execute_reply(self, turn: int, call_id: str, reply: ModelReply) -> bool:
        """Executes a reply; returns True if it ended the attempt."""
        content, reasoning = reply.message.get("content"), _reasoning(reply.message)
        calls = parse_calls(reply.message.get("tool_calls") or [], self._tools, turn)
        sent = self._as_sent(content, calls, reasoning)
        if not calls:
            self._messages.append(sent)
            return self._nudge(text_of(content), reasoning, call_id)
        self._silent = 0
        acts, last = self._choose_calls(calls)
        message = text_of(content) or None
        if acts:
            observations = await self._attempt.act(acts, message=message, reasoning=reasoning, call=call_id)
            self._messages.append(sent)
            self._append_results(acts, observations)
            self._append_picture(turn)
            self._recognise_errors(turn, acts, observations)
            self._check_grounding(turn, " ".join(filter(None, (message, reasoning))), acts, observations)
        elif last is not None:
            self._attempt.say(message or "", reasoning=reasoning, call=call_id)
        if self._attempt.ended is not None:  # the world is over: to ask the model once more would be for nothing
            return True
        if last is None:
            return False
        self._attempt.finish((last.parsed or {})["message"])
        return True

    def _append_results(self, acts: Sequence[ToolCall], observations: Sequence[Observation]) -> None:
        limit = self._options.max_output_chars
        for call, observation in zip(acts, observations, strict=True):
            self._messages.append(
                {"role": "tool", "tool_call_id": call.id, "content": render_observation(observation, limit)}
            )

    def _append_picture(self, turn: int) -> None:
        """Shows the model the page after the last act of a turn, if one was taken that it has not seen."""
        if self._screens is None or self._screens.last_screen is self._shown:
            return
        self._shown, most = self._screens.last_screen, self._options.pictures
        message = None if self._shown is None else picture_message(self._shown)
        if message is None:
            return
        self._messages.append(message)
        if len(picture_positions(self._messages, self._opening)) >= 2 * most:
            self._drop_pictures(turn, most, f"pictures={most}")

    def _drop_pictures(self, turn: int, keep: int, reason: str) -> bool:
        """Goes on with the latest pictures alone; returns False if there are no more than these."""
        fewer = drop_pictures(self._messages, self._opening, keep) if self._screens is not None else None
        if fewer is None:
            return False
        self._messages = MessageLog(fewer.messages)
        self._attempt.note(fewer.evidence(turn, reason))
        return True

    def _recognise_errors(self, turn: int, acts: Sequence[ToolCall], observations: Sequence[Observation]) -> None:
        """Tells the model what worked after errors that passing attempts met too; the record says which."""
        if self._recoveries is None:
            return
        for number, (call, seen) in enumerate(zip(acts, observations, strict=True)):
            found = self._recoveries.recognise(call, seen)
            if found is not None:
                text, data = found
                self._messages.append({"role": "user", "content": text})
                self._attempt.note(Evidence(f"recovery-{turn}-{number}", "audit", "error_recognised", data))

    def _check_grounding(
        self, turn: int, said: str, acts: Sequence[ToolCall], observations: Sequence[Observation]
    ) -> None:
        """Tells the model where its acts rest on nothing that was shown; the record says at which turn and why."""
        if self._options.grounding is None:
            return
        made = " ".join(f"{call.name} {call.arguments}" for call in acts)
        found = self._meter.add(turn, said, made, " ".join(f"{one.content} {one.stderr}" for one in observations))
        is_low = found.score < self._options.grounding
        if is_low:
            text = _UNGROUNDED_AGAIN if self._was_low else _UNGROUNDED
            self._messages.append({"role": "user", "content": text})
            data = {"turn": turn, "index": round(found.score, 3), "again": self._was_low}
            self._attempt.note(Evidence(f"grounding-{turn}", "audit", "ungrounded", data))
        self._was_low = is_low

    def _choose_calls(self, calls: list[ToolCall]) -> tuple[list[ToolCall], ToolCall | None]:
        """Returns the calls to execute and the well-formed `finish`, if any; calls after it are refused."""
        if not self._finishes:
            return calls, None
        acts: list[ToolCall] = []
        last: ToolCall | None = None
        for call in calls:
            if last is not None:
                acts.append(msgspec.structs.replace(call, error="not executed: `finish` was called before it"))
            elif call.name == FINISH.name and call.error is None:
                last = call
            else:
                acts.append(call)
        return acts, last

    def _nudge(self, text: str, reasoning: str | None, call_id: str) -> bool:
        self._attempt.say(text, reasoning=reasoning, call=call_id)
        if self._silent >= self._options.nudges:
            self._attempt.finish(text)
            return True
        self._silent += 1
        self._messages.append({"role": "user", "content": self._options.nudge})
        return False

    def _as_sent(self, content: Any, calls: list[ToolCall], reasoning: str | None) -> dict[str, Any]:
        message = assistant_message(content, calls)
        if reasoning is not None and self._options.keep_reasoning:
            message["reasoning_content"] = reasoning
        return message


def _reasoning(message: dict[str, Any]) -> str | None:
    found = message.get("reasoning_content") or message.get("reasoning")
    return found if isinstance(found, str) else None


def _opening(attempt: Attempt, system: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    instruction = attempt.task.instruction
    if isinstance(instruction, str):
        return [*messages, {"role": "user", "content": instruction}]
    for message in instruction:
        told: dict[str, Any] = {"role": message.role, "content": message.content}
        messages.append(told if message.name is None else {**told, "name": message.name})
    return messages


def _sampling(options: LoopOptions) -> dict[str, Any]:
    named = {"temperature": options.temperature, "top_p": options.top_p, "max_tokens": options.max_tokens}
    sampling = {key: value for key, value in named.items() if value is not None}
    return {**sampling, **options.sampling}
