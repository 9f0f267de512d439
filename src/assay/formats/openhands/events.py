"""Converts OpenHands' events to steps, and steps to events. `old` are the events of the program before the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from assay.formats.shared.builder import tool_call
from assay.formats.shared.json_stream import WarnFunction, parse_time
from assay.formats.shared.messages import actor_of, answered_call, content_text, iso_time
from assay.formats.shared.round_trip_builder import RoundTripBuilder, exit_code, get_path, text_or_empty, text_or_none
from assay.records import Actor, ModelCall, Observation, Step, ToolCall, Usage

_NOT_ARGUMENTS = frozenset(
    {"thought", "confirmation_state", "security_risk", "blocking", "hidden", "is_static", "impl_source", "kind"}
)
_RESULTS = {"ObservationEvent", "UserRejectObservation", "AgentErrorEvent"}
KINDS = frozenset({"ActionEvent", "MessageEvent", "SystemPromptEvent", "ConversationStateUpdateEvent", *_RESULTS})
"""Kinds of the SDK's events that a stream of them begins with."""
_SILENT = {"change_agent_state", "recall", "agent_state_changed", "condensation", "condensation_request", "null"}


class EventReader:
    """Reads events into a trajectory."""

    def __init__(self, builder: RoundTripBuilder, bad: WarnFunction, usages: dict[str, Usage], model: str) -> None:
        self._builder, self._bad, self._usages, self._model = builder, bad, usages, model
        self._answer: tuple[str, int] | None = None
        """The id of the model's answer whose calls are being read, and its step."""
        self._calls: dict[Any, str] = {}
        """Call of each old action, by the action's id."""
        self.finished = False
        self.first: float | None = None
        self.last: float | None = None

    def read(self, events: list[Any]) -> None:
        """Reads all events. Old files pair an action with its observation."""
        for position, event in enumerate(events):
            for one in event if isinstance(event, list) else [event]:
                if isinstance(one, dict):
                    self._event(one)
                else:
                    self._bad(f"history[{position}]", f"expected an event, found {type(one).__name__}")

    def _event(self, event: dict[str, Any]) -> None:
        at = parse_time(event.get("timestamp"))
        self.first = at if self.first is None else self.first
        self.last = at if at is not None else self.last
        kind = text_or_empty(event.get("kind"))
        if kind == "ActionEvent":
            self._action(event, at)
        elif kind == "MessageEvent":
            self._message(event, at)
        elif kind in _RESULTS:
            self._result(event)
        elif kind == "SystemPromptEvent":
            self._add_message("environment", event, "system", content_text([event.get("system_prompt")]), at)
        elif not kind and isinstance(event.get("action"), str):
            self._old_action(event, str(event["action"]), at)
        elif not kind and isinstance(event.get("observation"), str):
            self._old_result(event, at)
        else:
            self._builder.keep_item(event)

    def _add_message(self, actor: Actor, event: dict[str, Any], part: str, text: str | None, at: float | None) -> None:
        self._answer = None
        extra = {"role": "system"} if part in {"system", "old system"} else {}
        step = self._builder.add_step(actor, text, started=at, extra=extra)
        self._builder.keep_item(event, part, step)

    def _message(self, event: dict[str, Any], at: float | None) -> None:
        said = event.get("llm_message")
        said = said if isinstance(said, dict) else {}
        role = {"agent": "assistant"}.get(str(event.get("source")), text_or_none(said.get("role")) or "user")
        self._answer = None
        step = self._builder.add_step(
            actor_of(role),
            content_text(said.get("content")),
            reasoning=text_or_none(said.get("reasoning_content")),
            call=self._call(event.get("llm_response_id")) if role == "assistant" else None,
            started=at,
        )
        self._builder.keep_item(event, "message", step)

    def _call(self, name: Any) -> str | None:
        usage = self._usages.pop(name, None) if isinstance(name, str) else None
        if usage is None:
            return None
        return self._builder.add_call(ModelCall(name, "openai-chat", self._model, {}, {}, usage=usage))

    def _action(self, event: dict[str, Any], at: float | None) -> None:
        asked_call = event.get("tool_call")
        asked_call = asked_call if isinstance(asked_call, dict) else {}
        call_id = text_or_none(event.get("tool_call_id")) or text_or_none(asked_call.get("id")) or ""
        name = text_or_none(event.get("tool_name")) or text_or_none(asked_call.get("name")) or ""
        made = tool_call(call_id, name, asked_call.get("arguments", event.get("action")))
        self.finished = self.finished or name == "finish"
        answer = event.get("llm_response_id")
        thought = content_text(event.get("thought")) or None
        step = self._step(answer, thought, text_or_none(event.get("reasoning_content")), at)
        step = self._builder.extend_step(step, tool_calls=(*step.tool_calls, made))
        self._builder.keep_item(event, f"action {len(step.tool_calls) - 1}", step)

    def _step(self, answer: Any, thought: str | None, reasoning: str | None, at: float | None) -> Step:
        """Returns the step of an answer of the model: the open one, or a new one."""
        if self._answer is not None and self._answer[0] == answer and thought is None and reasoning is None:
            step = self._builder.steps[self._answer[1]]
            if not self._builder.is_full(step):
                return step
        step = self._builder.add_step("agent", thought, reasoning=reasoning, call=self._call(answer), started=at)
        self._answer = (answer, step.index) if isinstance(answer, str) else None
        return step

    def _result(self, event: dict[str, Any]) -> None:
        observation = event.get("observation")
        observation = observation if isinstance(observation, dict) else {}
        text = content_text(observation.get("content"))
        if text is None:
            text = text_or_none(event.get("error")) or text_or_none(event.get("rejection_reason")) or ""
        code = observation.get("exit_code", get_path(observation, "metadata", "exit_code"))
        found = Observation(
            text,
            text_or_none(event.get("tool_call_id")),
            exit_code=exit_code(code),
            error=observation.get("is_error") is True or event.get("kind") != "ObservationEvent",
            timed_out=observation.get("timeout") is True,
        )
        self._builder.add_answer(found, event)

    def _old_action(self, event: dict[str, Any], action: str, at: float | None) -> None:
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        if action in {"message", "system"}:
            source = str(event.get("source"))
            text = text_or_none(arguments.get("content")) or text_or_none(event.get("message"))
            actor: Actor = "environment" if action == "system" else ("user" if source == "user" else "agent")
            self._add_message(actor, event, f"old {action}", text, at)
            return
        if action in _SILENT or text_or_empty(event.get("source")) in {"user", "environment"}:
            self._builder.keep_item(event)
            return
        metadata = event.get("tool_call_metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        call_id = text_or_none(metadata.get("tool_call_id")) or f"event-{event.get('id')}"
        if isinstance(event.get("id"), int | str):
            self._calls[event["id"]] = call_id
        answer = get_path(metadata, "model_response", "id")
        thought = text_or_none(arguments.get("thought")) or None
        step = self._step(answer, thought, None, at)
        name = text_or_none(metadata.get("function_name")) or action
        made = tool_call(call_id, name, _original_arguments(metadata, call_id, arguments))
        self.finished = self.finished or action == "finish"
        step = self._builder.extend_step(step, tool_calls=(*step.tool_calls, made))
        self._builder.keep_item(event, f"old-action {len(step.tool_calls) - 1}", step)

    def _old_result(self, event: dict[str, Any], at: float | None) -> None:
        cause = event.get("cause")
        known = self._calls.get(cause) if isinstance(cause, int | str) else None
        metadata = text_or_none(get_path(event, "tool_call_metadata", "tool_call_id"))
        if text_or_empty(event.get("observation")) in _SILENT or (known is None and metadata is None and cause is None):
            self._builder.keep_item(event)
            return
        code = get_path(event, "extras", "metadata", "exit_code")
        code = get_path(event, "extras", "exit_code") if code is None else code
        found = Observation(
            content_text(event.get("content")) or "",
            metadata or known,
            exit_code=exit_code(code),
            error=event.get("observation") == "error",
        )
        step = self._builder.add_result(found, started=at)
        self._builder.keep_item(event, f"old-result {len(step.observations) - 1}", step)


def _original_arguments(metadata: dict[str, Any], call_id: str, arguments: dict[str, Any]) -> Any:
    """Returns the arguments as the model wrote them, where recorded; else as they were executed."""
    choices = get_path(metadata, "model_response", "choices")
    for choice in choices if isinstance(choices, list) else ():
        calls = get_path(choice, "message", "tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and call.get("id") == call_id:
                return get_path(call, "function", "arguments")
    return {key: value for key, value in arguments.items() if key not in _NOT_ARGUMENTS}


def plan_events(step: Step) -> Iterator[str]:
    """Yields the parts that a step is written as."""
    if step.actor == "environment" and step.message is not None:
        yield "system"
    elif step.actor != "environment" and not step.tool_calls:
        yield "message"
    yield from (f"action {i}" for i in range(len(step.tool_calls)))
    yield from (f"result {i}" for i in range(len(step.observations)))


def render_event(step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
    kind, _, position = part.partition(" ")
    if kind.startswith("old"):
        return _old(step, kind, position)
    event: dict[str, Any] = {"timestamp": iso_time(step.started)}
    if kind == "system":
        return {**event, "kind": "SystemPromptEvent", "source": "agent", "system_prompt": _text(step.message or "")}
    if kind == "action":
        return {**event, **_action(step, step.tool_calls[int(position)], int(position), call)}
    if kind == "result":
        return {**event, **_result(step, int(position))}
    agent = step.actor in {"agent", "other_agent"}
    said: dict[str, Any] = {"role": "assistant" if agent else "user"}
    said["content"] = [_text(step.message)] if step.message is not None else []
    said |= {"reasoning_content": step.reasoning} if step.reasoning is not None else {}
    event |= {"kind": "MessageEvent", "source": "agent" if agent else "user", "llm_message": said}
    return event | ({"llm_response_id": call.id} if call is not None else {})


def _text(text: str) -> dict[str, Any]:
    return {"cache_prompt": False, "type": "text", "text": text}


def _action(step: Step, asked_call: ToolCall, at: int, call: ModelCall | None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [_text(step.message)] if step.message is not None and at == 0 else [],
        "tool_name": asked_call.name,
        "tool_call_id": asked_call.id,
        "tool_call": {
            "id": asked_call.id,
            "name": asked_call.name,
            "arguments": asked_call.arguments,
            "origin": "completion",
        },
        "llm_response_id": call.id if call is not None else f"step-{step.index}",
    }
    return made | ({"reasoning_content": step.reasoning} if step.reasoning is not None and at == 0 else {})


def _result(step: Step, position: int) -> dict[str, Any]:
    observation, call = step.observations[position], answered_call(step, position)
    name = "" if call is None else call.name
    metadata: dict[str, Any] = {"content": [_text(observation.content)], "is_error": observation.error}
    metadata |= {"exit_code": observation.exit_code} if observation.exit_code is not None else {}
    metadata |= {"timeout": True} if observation.timed_out else {}
    made = {"kind": "ObservationEvent", "source": "environment", "tool_name": name, "observation": metadata}
    return {**made, "tool_call_id": observation.call_id}


def _old(step: Step, kind: str, position: str) -> dict[str, Any]:
    if kind == "old-result":
        return {"content": step.observations[int(position)].content}
    if kind == "old":
        return {"action": position, "args": {"content": step.message}}
    return {"source": "agent", "args": dict(step.tool_calls[int(position)].parsed or {})}
