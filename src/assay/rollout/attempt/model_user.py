"""The simulated person whose words a model chooses, from the script that rules would follow.

The model is asked before a message of the agent enters the world, and its answer enters as a call of the role `user`.
So the world stays synchronous, and recorded answers lead to the same states again. Each reply is a step of the actor
`user`, recorded after the agent's step, with its model call. An answer that leaves the script ends the attempt as
`broke: user`.

Covered: answers in a replay are the recorded ones, and only for the recorded messages. Not covered: an agent that talks
the person out of their script gets no verdict; many attempts that broke so are a finding about the agent or the model.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol, TypeGuard

import msgspec

from assay.environments.interface import ToolSpec, World
from assay.environments.schemas import tool_definitions
from assay.environments.services.conversation import (
    GIVE_ANSWER,
    SEND,
    Message,
    is_driven_by_model,
    person_of,
)
from assay.environments.services.disturbances.world import DisturbedWorld
from assay.environments.services.faithfulness import DialogueTurn, find_deviations
from assay.environments.services.users import UserScript
from assay.environments.services.world import ServiceWorld
from assay.errors import EnvironmentFailure, ProviderError, TaskError, UserFailure
from assay.formats.shared.builder import tool_call
from assay.gateway.interface import Exchange, ModelReply, ModelRequest
from assay.records import Evidence, Observation, Step, ToolCall
from assay.rollout.attempt.recorded_attempt import LiveAttempt, ModelAccess
from assay.rollout.recording.model_calls import Conversation
from assay.rollout.recording.recorder import Recorder

USER_DEVIATIONS: Final = "user_deviations"
"""Kind of the evidence that says where a person left their script."""
LEAVE: Final = "leave_conversation"
_LEAVE_TOOL: Final = ToolSpec(
    LEAVE, "Ends the conversation after what you say with it.", {"type": "object", "properties": {}}
)
_MOST_ROUNDS: Final = 8
"""Times that the person may use their tools before an answer."""
_MOST_ANSWER: Final = 20_000
_DISCLOSURES: Final = {
    "open": "you have told this in your first message",
    "asked": "tell this when you are asked for it, and not before",
    "insisted": "when you are asked for this first, ask why it is needed; tell it when you are asked again",
    "withheld": "never tell this",
}
_NO_ANSWER: Final = "no recorded answer of the person to this message; a model gives new ones (--user-model)"
_GOODBYE: Final = "Goodbye."


class UserReply(NamedTuple):
    """Words and acts of the person in one turn."""

    text: str
    calls: tuple[ToolCall, ...]
    call: str | None = None
    """Id of the model call."""


class Speaker(Protocol):
    """Chooses what a person says."""

    async def speak(self, question: str, messages: list[dict[str, Any]], tools: tuple[ToolSpec, ...]) -> UserReply:
        """Returns the next reply.

        Args:
            question: The agent's message.
            messages: The conversation as the model sees it, whose assistant is the person.
            tools: Tools of the person.

        Raises:
            ProviderError: The model's server failed.
            TaskError: The record has no answer to this message.
        """
        ...


class ModelSpeaker:
    """Asks a model. Calls are recorded as the user's, and count for the run's budget, not for the agent's limits."""

    def __init__(self, access: ModelAccess, attempt: LiveAttempt, recorder: Recorder) -> None:
        self._access, self._meter, self._recorder = access, attempt.meter, recorder
        self._conversation = Conversation()

    async def speak(self, question: str, messages: list[dict[str, Any]], tools: tuple[ToolSpec, ...]) -> UserReply:
        request = ModelRequest([*messages], tool_definitions(tools))
        self._meter.begin_user_call()
        call_id, started = self._recorder.begin_call(), time.time()
        with self._meter.waiting():
            async with self._access.slots:
                try:
                    reply = await self._access.backend.complete(request)
                except ProviderError as exc:
                    await self._record(call_id, request, started, error=str(exc))
                    raise
        await self._record(call_id, request, started, reply)
        self._meter.count_user_call(reply.usage, reply.cost_usd)
        text, calls = reply.message.get("content"), reply.message.get("tool_calls")
        return UserReply(
            text[:_MOST_ANSWER] if isinstance(text, str) else "",
            tuple(_read_calls(calls if isinstance(calls, list) else [], call_id)),
            call_id,
        )

    async def _record(
        self,
        call_id: str,
        request: ModelRequest,
        started: float,
        reply: ModelReply | None = None,
        error: str | None = None,
    ) -> None:
        position = self._conversation.locate(request)
        exchange = Exchange(
            id=call_id,
            request=position.request,
            reply=reply,
            error=error,
            model=self._access.backend.name,
            raw_request=b"",
            raw_response=b"",
            started=started,
            ended=time.time(),
            delivered=True,
            parent=position.parent,
            branch=self._conversation.add(call_id, position, reply),
            cause=position.cause,
            differs_at=position.differs_at,
            shared_messages=position.shared,
            shared_tokens=0,
            certificate=None,
            lineage={},
        )
        await self._recorder.end_call(exchange, actor="user")


class RecordedSpeaker:
    """Repeats the answers of a recorded attempt, each only to the message that it answered.

    Args:
        acts: What was done in the attempt.
        message_tool: Name by which its agent knew the tool that sends a message; its only argument is the text.
    """

    def __init__(self, acts: Iterable[Step | Evidence], message_tool: str = SEND) -> None:
        steps = [act for act in acts if isinstance(act, Step)]
        self._replies = [step for step in steps if step.actor == "user"]
        self._questions = [
            str(next(iter((call.parsed or {}).values()), None))
            for step in steps
            if step.actor == "agent"
            for call in step.tool_calls
            if call.name == message_tool
        ]
        self._is_answering = False

    async def speak(self, question: str, messages: list[dict[str, Any]], tools: tuple[ToolSpec, ...]) -> UserReply:
        if not self._is_answering:
            if question not in self._questions:
                raise TaskError(_NO_ANSWER)
            del self._questions[: self._questions.index(question) + 1]
        if not self._replies:
            raise TaskError(_NO_ANSWER)
        step = self._replies.pop(0)
        self._is_answering = bool(step.tool_calls) and all(call.name != LEAVE for call in step.tool_calls)
        return UserReply(step.message or "", step.tool_calls)


class ModelUser:
    """The person of a world, driven through a speaker.

    Args:
        world: The world of the attempt.
        speaker: Chooses the words.
        attempt: Gets the person's steps, and the failure that ends it; None where nothing is recorded.
    """

    def __init__(self, world: ServiceWorld, speaker: Speaker, attempt: LiveAttempt | None = None) -> None:
        self._world, self._speaker, self._attempt = world, speaker, attempt
        self._messages: list[dict[str, Any]] = []
        self._turns: list[DialogueTurn] = []
        self._failure: UserFailure | None = None

    async def answer(self, arguments: dict[str, Any]) -> None:
        """Puts the person's answer to a message into the world. A message that will be refused is not answered.

        Raises:
            UserFailure: The answer leaves the script. The attempt has been told, whatever the agent makes of it.
        """
        if self._failure is not None:
            raise self._failure
        found = person_of(self._world)
        assert found is not None  # it is attached to worlds with a person
        script, state = found
        text = arguments.get("text")
        if not isinstance(text, str) or not text.strip() or len(text) > _MOST_ANSWER or state.left:
            return
        if not self._messages:
            self._begin(script)
        self._messages.append({"role": "user", "content": text})
        turn = await self._converse(text, script)
        self._turns.append(turn)
        if deviations := find_deviations(script, self._turns):
            self._fail(msgspec.to_builtins(deviations))
        given = {"text": turn.answer, "leaves": turn.has_left}
        observation = self._world.act(GIVE_ANSWER, given, "user")
        if observation.error:
            raise EnvironmentFailure(f"the person's answer did not enter the world: {observation.content[:200]}")

    def _begin(self, script: UserScript) -> None:
        """Reads what was said before, which a restored world brings with it."""
        self._messages = [
            {"role": "system", "content": write_role(script, has_tools=len(self._tools(script)) > 1)},
            {"role": "user", "content": "(The conversation begins.)"},
        ]
        table = self._world.tables[Message]
        earlier = [table.to_row(values) for values in self._world.database.rows(table)]
        question = ""
        for message in sorted(earlier, key=lambda one: one.number):
            role = "assistant" if message.sender == "user" else "user"
            self._messages.append({"role": role, "content": message.text})
            if role == "user":
                question = message.text
            elif message.number:
                self._turns.append(DialogueTurn(question, message.text))

    async def _converse(self, question: str, script: UserScript) -> DialogueTurn:
        tools = self._tools(script)
        own = {tool.name for tool in tools} - {LEAVE}
        made: list[tuple[str, dict[str, Any]]] = []
        results: list[str] = []
        for _ in range(_MOST_ROUNDS):
            started = time.time()
            reply = await self._speaker.speak(question, self._messages, tools)
            has_left = any(call.name == LEAVE for call in reply.calls)
            observations: list[Observation] = []
            for call in reply.calls:
                content, is_error = "", False
                if call.name != LEAVE:
                    made.append((call.name, call.parsed or {}))
                    found = Observation(f"no tool is called {call.name[:80]!r}", error=True)
                    if call.name in own and call.parsed is not None:
                        found = self._world.act(call.name, call.parsed, "user")
                    content, is_error = found.content, found.error
                    results.append(content)
                observations.append(Observation(content, call.id, error=is_error))
            self._remember(reply, observations)
            if self._attempt is not None:
                state = self._world.database.digest()
                step = Step(0, "user", reply.text or None, None, reply.calls, tuple(observations), reply.call, state)
                self._attempt.add_user_step(msgspec.structs.replace(step, started=started, ended=time.time()))
            if has_left or not reply.calls:
                text = reply.text or (_GOODBYE if has_left else "")
                return DialogueTurn(question, text, tuple(made), tuple(results), has_left)
        return DialogueTurn(question, "", tuple(made), tuple(results))

    def _tools(self, script: UserScript) -> tuple[ToolSpec, ...]:
        named = {act.action for act in script.acts}
        return (*(spec for spec in self._world.specs_for("user") if spec.name in named), _LEAVE_TOOL)

    def _remember(self, reply: UserReply, observations: list[Observation]) -> None:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in reply.calls
            ]
        self._messages.append(message)
        self._messages += [{"role": "tool", "tool_call_id": o.call_id, "content": o.content} for o in observations]

    def _fail(self, deviations: list[dict[str, Any]]) -> None:
        first = deviations[0]
        self._failure = UserFailure(
            f"the person left the script at turn {first['turn']}: {first['kind']} {first['subject']!r}"
        )
        if self._attempt is not None:
            self._attempt.note(Evidence(USER_DEVIATIONS, "audit", USER_DEVIATIONS, {"deviations": deviations}))
            self._attempt.fail_service(self._failure)
        raise self._failure


def attach_user(
    world: World, attempt: LiveAttempt, recorder: Recorder, access: ModelAccess | None, acts: Iterable[Step | Evidence]
) -> None:
    """Gives the person of a world their words, where a model drives them: a model's, else those of recorded acts."""
    if is_user_recorded(world):
        speaker: Speaker = _recorded(world, acts) if access is None else ModelSpeaker(access, attempt, recorder)
        world.before_message = ModelUser(_service_of(world), speaker, attempt).answer


def attach_recorded_user(world: World, acts: Iterable[Step | Evidence]) -> None:
    """Gives the person of a world the recorded answers, without recording them again."""
    if is_user_recorded(world):
        world.before_message = ModelUser(_service_of(world), _recorded(world, acts)).answer


def is_user_recorded(world: World) -> TypeGuard[ServiceWorld | DisturbedWorld]:
    """Returns whether a world's person says what a record holds when calls are done again."""
    return isinstance(world, ServiceWorld | DisturbedWorld) and is_driven_by_model(_service_of(world))


def _service_of(world: ServiceWorld | DisturbedWorld) -> ServiceWorld:
    return world.service if isinstance(world, DisturbedWorld) else world


def _recorded(world: ServiceWorld | DisturbedWorld, acts: Iterable[Step | Evidence]) -> RecordedSpeaker:
    return RecordedSpeaker(acts, world.message_tool if isinstance(world, DisturbedWorld) else SEND)


def write_role(script: UserScript, *, has_tools: bool) -> str:
    """Returns the system prompt of a person."""
    lines = [
        "You play a person in a conversation with an agent that serves you. Speak in the first person, in one to three "
        "sentences, and never leave the role. You know only what is written here. Do not make up names, numbers, dates "
        "or addresses; say that you do not know. Give exact values exactly as written.",
        f"What you want: {script.goal}",
    ]
    for fact in script.facts:
        lines.append(f"- You know: {fact.text} ({_DISCLOSURES[fact.disclosure]})")
        if fact.wrong and fact.disclosure in ("asked", "insisted"):
            noticed = "" if fact.corrects_at is None else f", or at your answer {fact.corrects_at}"
            lines.append(f"  By mistake you say at first: {fact.wrong} When you are asked again{noticed}, correct it.")
    lines += [
        f"- In your answer {change.turn}, whatever is asked, also say: {change.text}" for change in script.changes
    ]
    if has_tools:
        lines.append("Use your own tools only when the agent asks for it:")
        lines += [
            f"- {act.action} {msgspec.json.encode(act.arguments).decode()}: {', '.join(act.cues)}"
            for act in script.acts
        ]
    lines.append("Your first message is not counted as an answer.")
    lines.append(
        f"You are {script.mood}. After {script.patience} answers that bring you no further, leave the conversation."
    )
    lines.append(f"When all is done, thank the agent; call {LEAVE} only then, or when your patience has ended.")
    return "\n".join(lines)


def _read_calls(raw: list[Any], call_id: str) -> Iterable[ToolCall]:
    """Yields the tool calls of a reply with identifiers of their own."""
    for number, one in enumerate(raw[:_MOST_ROUNDS]):
        function = one.get("function") if isinstance(one, dict) else None
        function = function if isinstance(function, dict) else {}
        name = function.get("name")
        yield tool_call(f"{call_id}-{number}", name if isinstance(name, str) else "", function.get("arguments"))
