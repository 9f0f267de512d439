"""Converts messages of mini-swe-agent to steps, and steps to messages."""

from __future__ import annotations

import re
from typing import Any

from assay.formats.shared.builder import tool_call
from assay.formats.shared.json_stream import WarnFunction, parse_time
from assay.formats.shared.messages import chat_calls, content_text, read_message, render_chat_message
from assay.formats.shared.round_trip_builder import RoundTripBuilder, count_or_none, exit_code, number, text_or_none
from assay.records import ModelCall, Observation, Step, ToolCall, Usage

_FENCE = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(.*?)\n```", re.DOTALL)
_RETURNED = re.compile(r"<returncode>(-?[0-9]{1,9})</returncode>")
_NOT_EXECUTED = "action was not executed"
_TOKENS = (
    ("prompt_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
)


class Messages:
    """Reads the messages of a document."""

    def __init__(self, builder: RoundTripBuilder, bad: WarnFunction, model: str) -> None:
        self._builder, self._bad, self._model = builder, bad, model
        self._unanswered: list[str] = []
        """Ids of commands in the text that await their results, which name no id."""

    def read(self, messages: list[Any]) -> None:
        for position, message in enumerate(messages):
            where = f"messages[{position}]"
            if not isinstance(message, dict):
                self._bad(where, f"expected a message, found {type(message).__name__}")
            elif message.get("type") == "function_call_output":
                self._result(message, text_or_none(message.get("call_id")), content_text(message.get("output")))
            elif isinstance(message.get("output"), list):
                self._response(message)
            elif message.get("role") == "tool":
                call_id = text_or_none(message.get("tool_call_id"))
                self._result(message, call_id, content_text(message.get("content")))
            elif message.get("role") == "assistant":
                self._answer(message)
            elif message.get("role") == "exit":
                self._builder.keep_item(message)
            elif self._unanswered and _is_result(message):
                self._result(message, self._unanswered.pop(0), content_text(message.get("content")))
            else:
                self._add_message(message, where)

    def _add_message(self, message: dict[str, Any], where: str) -> None:
        extra = _extra(message)
        dropped = extra.get("interrupt_type")
        if isinstance(dropped, str) and isinstance(extra.get("response"), dict):
            self._exchange(extra, f"the turn was dropped: {dropped}")
        self._unanswered = []
        if isinstance(dropped, str):
            step = self._builder.add_step("environment", content_text(message.get("content")), extra={"role": "user"})
            self._builder.keep_item(message, "message", step)
            return
        read_message(self._builder, message, self._bad, where)

    def _answer(self, message: dict[str, Any]) -> None:
        calls = chat_calls(message)
        if not calls:
            commands = _commands(message)
            calls = tuple(
                tool_call(f"action-{len(self._builder.steps)}-{i}", "bash", {"command": c})
                for i, c in enumerate(commands)
            )
            self._unanswered = [call.id for call in calls]
        extra = _extra(message)
        step = self._builder.add_step(
            "agent",
            content_text(message.get("content")),
            reasoning=text_or_none(message.get("reasoning_content")),
            tool_calls=calls,
            call=self._exchange(extra),
            started=parse_time(extra.get("timestamp", message.get("timestamp"))),
        )
        self._builder.keep_item(message, "message", step)

    def _response(self, message: dict[str, Any]) -> None:
        items = [item for item in message["output"] if isinstance(item, dict)]
        texts = [content_text(item.get("content")) for item in items if item.get("type") == "message"]
        thoughts = [_summary(item) for item in items if item.get("type") == "reasoning"]
        calls = [_flat_call(item) for item in items if item.get("type") == "function_call"]
        extra = {**_extra(message), "response": {k: v for k, v in message.items() if k not in {"extra", "output"}}}
        step = self._builder.add_step(
            "agent",
            "\n".join(t for t in texts if t) or None,
            reasoning="\n".join(t for t in thoughts if t) or None,
            tool_calls=tuple(calls),
            call=self._exchange(extra),
            started=parse_time(extra.get("timestamp")),
        )
        self._builder.keep_item(message, "message", step)

    def _result(self, message: dict[str, Any], call_id: str | None, content: str | None) -> None:
        extra = _extra(message)
        code, problem = extra.get("returncode"), text_or_none(extra.get("exception_info"))
        if code is None and (found := _RETURNED.search((content or "")[:4096])):
            code = int(found[1])
        executed = problem != _NOT_EXECUTED
        seen = Observation(content or "", call_id, exit_code=exit_code(code) if executed else None, error=bool(problem))
        self._builder.add_answer(seen, message)

    def _exchange(self, extra: dict[str, Any], problem: str | None = None) -> str | None:
        """Adds the model call of an answer, if its response or cost was recorded."""
        response, cost = extra.get("response"), number(extra.get("cost"))
        if not isinstance(response, dict) and cost is None:
            return None
        response = response if isinstance(response, dict) else {}
        usage = response.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        counts = [next((c for k in keys if (c := count_or_none(usage.get(k))) is not None), None) for keys in _TOKENS]
        named = text_or_none(response.get("id"))
        taken = {call.id for call in self._builder.calls[-1:]}
        made = ModelCall(
            named if named and named not in taken else f"call-{len(self._builder.calls)}",
            "openai-chat" if "choices" in response else "openai-responses" if response else "unknown",
            text_or_none(response.get("model")) or self._model,
            {},
            response,
            usage=Usage(counts[0], counts[1]),
            cost_usd=cost,
            error=problem,
        )
        return self._builder.add_call(made)


def _extra(message: dict[str, Any]) -> dict[str, Any]:
    extra = message.get("extra")
    return extra if isinstance(extra, dict) else {}


def _is_result(message: dict[str, Any]) -> bool:
    """Returns whether a user's message is the result of a command in the text."""
    if message.get("role") != "user":
        return False
    extra = _extra(message)
    if "returncode" in extra:
        return True
    return not extra and bool(_RETURNED.match(content_text(message.get("content")) or ""))


def _commands(message: dict[str, Any]) -> list[str]:
    """Returns the commands in the text: the recorded ones, else the only one in a code block."""
    actions = _extra(message).get("actions")
    if isinstance(actions, list):
        return [a["command"] for a in actions if isinstance(a, dict) and isinstance(a.get("command"), str)]
    found = _FENCE.findall(content_text(message.get("content")) or "")
    return [found[0].strip()] if len(found) == 1 else []


def _summary(item: dict[str, Any]) -> str | None:
    parts = item.get("summary")
    return (content_text(parts) or None) if isinstance(parts, list) else None


def _flat_call(item: dict[str, Any]) -> ToolCall:
    call_id = text_or_none(item.get("call_id")) or text_or_none(item.get("id")) or ""
    return tool_call(call_id, text_or_none(item.get("name")) or "", item.get("arguments"))


def render_message(step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
    """Renders a part of a step as a message."""
    message = render_chat_message(step, part)
    kind, _, position = part.partition(" ")
    if kind == "result":
        seen = step.observations[int(position)]
        message.pop("name", None)
        return {**message, "extra": {"returncode": seen.exit_code, "exception_info": "error" if seen.error else ""}}
    if message["role"] != "assistant":
        return message
    actions = [{"command": (c.parsed or {}).get("command", c.arguments), "tool_call_id": c.id} for c in step.tool_calls]
    extra: dict[str, Any] = {"actions": actions}
    if call is not None:
        extra |= {"response": call.response} if call.response else {"response": _usage(call)}
        extra |= {"cost": call.cost_usd}
    extra |= {"timestamp": step.started} if step.started is not None else {}
    return {**message, "extra": extra}


def _usage(call: ModelCall) -> dict[str, Any]:
    """Returns an answer of which only the tokens are known."""
    counts = {"prompt_tokens": call.usage.prompt_tokens, "completion_tokens": call.usage.completion_tokens}
    return {"id": call.id, "model": call.model, "usage": counts}
