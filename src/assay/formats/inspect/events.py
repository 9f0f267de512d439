"""Inspect's events as model calls, evidence and notes, and back.

A model event becomes a call that shares with the calls before it what they have in common; a tool or sandbox event
becomes evidence of what was executed; any other event a note in its own words. Each keeps its place in the list of
events (`at`), so that the list can be written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from assay.formats.inspect.chat import REST, from_chat, from_chat_tool, to_chat, to_chat_tool
from assay.formats.inspect.embedded_records import ASSAY, read_own_call, read_record
from assay.formats.inspect.samples import Sample, pairs, ranges
from assay.formats.interface import ImportContext
from assay.formats.shared.builder import split_text_parts
from assay.formats.shared.conversations import MessageTree, first_message
from assay.formats.shared.json_stream import WarnFunction, parse_time, truncate_text
from assay.formats.shared.round_trip import diff_json
from assay.formats.shared.round_trip_builder import RoundTripBuilder, count_or_none, text_or_none
from assay.records import (
    Evidence,
    EvidenceAdded,
    ModelCall,
    Noted,
    Truncation,
    Usage,
    VerdictAdded,
    canonical_bytes,
)
from assay.verdicts import is_reverification

NOTE = "inspect."
"""Prefix of the names of notes that hold an event."""
_WIRE_KEYS = ("messages", "contents", "input", "inputs")
_RECENT = 16


class ModelEvent(NamedTuple):
    """The part of a model event that steps need."""

    call: ModelCall
    answer: dict[str, Any] | None
    """The model's message, as Inspect has it."""
    scoring: bool
    """The call graded the agent."""
    agent: str | None
    """Name of a nested agent; None for the evaluated one."""


class ToolEvent(NamedTuple):
    """The part of a tool event that steps need."""

    text: str
    error: bool
    timed_out: bool
    started: float | None
    ended: float | None
    exits: list[int]
    """Exit codes of the commands that ran during it."""


class SampleEvents:
    """Reads the events of one sample."""

    def __init__(self, builder: RoundTripBuilder, sample: Sample, reading: ImportContext, bad: WarnFunction) -> None:
        self.calls: list[ModelEvent] = []
        self.tools: dict[str, ToolEvent] = {}
        self.first: float | None = None
        self._builder, self._sample, self._reading, self._bad = builder, sample, reading, bad
        self._lines = MessageTree()
        self._numbers: dict[bytes, int] = {}
        self._chats: list[dict[str, Any]] = []
        self._pooled: list[int] = []
        self._wires: dict[bytes, int] = {}
        self._offered: dict[str, bytes] = {}
        self._spans: dict[str, tuple[str | None, str, str]] = {}
        self._legacy: list[str] = []
        self._recent: list[ToolEvent] = []
        self._facts = 0

    def read(self) -> None:
        for at, event in enumerate(self._sample.events()):
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                self._bad(f"events[{at}]", "expected an event, an object whose `event` says which")
                continue
            time = parse_time(event.get("timestamp"))
            self.first = time if self.first is None else self.first
            kind = event["event"]
            if kind == "model":
                self._model(at, event)
            elif kind in ("tool", "sandbox"):
                self._add_evidence(at, event, time)
            elif not self._restore_own(at, event):
                self._track_span(event)
                self._builder.add(Noted(NOTE + kind, {"at": at, "event": event}, time))

    def _restore_own(self, at: int, event: dict[str, Any]) -> bool:
        """Adds the record in an event that Assay wrote; returns False for other events."""
        if event["event"] != "info" or not str(event.get("source")).startswith(f"{ASSAY}."):
            return False
        try:
            found = read_record(event, self._reading)
        except ValueError as exc:
            self._bad(f"events[{at}].data", f"{exc}; it is kept as an event")
            return False
        if isinstance(found, VerdictAdded) and is_reverification(found.verdict.check):
            self._builder.later.append(found)
        else:
            self._builder.add(found)
        return True

    def _track_span(self, event: dict[str, Any]) -> None:
        if event["event"] == "span_begin" and isinstance(event.get("id"), str):
            named = (text_or_none(event.get("parent_id")), str(event.get("type")), str(event.get("name")))
            self._spans[event["id"]] = named
        elif event["event"] == "step" and event.get("action") == "begin":
            self._legacy.append(str(event.get("type")))
        elif event["event"] == "step" and self._legacy:
            self._legacy.pop()

    def _enclosing_spans(self, event: dict[str, Any]) -> list[tuple[str, str]]:
        """Returns type and name of the spans around an event, the innermost first."""
        found, at, seen = [], event.get("span_id"), set[str]()
        while isinstance(at, str) and at in self._spans and at not in seen:
            seen.add(at)
            parent, kind, name = self._spans[at]
            found.append((kind, name))
            at = parent
        return found

    # Model events

    def _model(self, at: int, event: dict[str, Any]) -> None:
        own = read_own_call(event, {seen.call.id for seen in self.calls}) if event.get("metadata") else None
        if own is not None:
            self._builder.add_call(own)
            self.calls.append(ModelEvent(own, None, scoring=False, agent=None))
            return
        item = {key: value for key, value in event.items() if key not in ("input", "input_refs")}
        keys = self._conversation(at, event)
        output = item.get("output")
        answer = first_message(output)
        number = None if answer is None else self._number(answer)
        id_ = f"m{at}"
        shared = self._lines.add(id_, keys, number)
        wire = self._strip_wire_messages(item)
        tools = [to_chat_tool(tool) for tool in item["tools"]] if isinstance(item.get("tools"), list) else []
        request = {
            "model": str(item.get("model", "")),
            "messages": [self._chats[key] for key in keys[shared.messages :]],
            **({"tool_choice": item["tool_choice"]} if "tool_choice" in item else {}),
        }
        offered = self._offered[id_] = _key(tools)
        as_before = shared.messages > 0 and self._offered.get(shared.parent or "") == offered
        request |= {"tools": tools} if tools and not as_before else {}
        call = ModelCall(
            id=id_,
            dialect="inspect",
            model=request["model"],
            request=request,
            response=_response(output, None if number is None else self._chats[number]),
            shared_fields=("tools",) if tools and as_before else (),
            **_call_fields(output, item),
            **shared.fields(),
        )
        held = {"at": at, "rest": diff_json(item, render_model_event(call, tools)), **({"wire": wire} if wire else {})}
        request[REST] = {key: value for key, value in held.items() if value is not None}
        self._builder.add_call(call)
        around = self._enclosing_spans(event)
        scoring = event.get("role") == "grader" or "scorer" in self._legacy
        scoring = scoring or any(kind in ("scorer", "scorers") for kind, _ in around)
        agents = [name for kind, name in around if kind == "agent"]
        nested = len(agents) > 1 or (agents and any(kind == "tool" for kind, _ in around))
        self.calls.append(ModelEvent(call, answer, scoring, agents[0] if nested else None))

    def _conversation(self, at: int, event: dict[str, Any]) -> list[int]:
        found, given, refs = list[int](), event.get("input"), event.get("input_refs")
        if isinstance(refs, list) and refs and not given:
            for start, end in pairs(refs, len(self._sample.pool)):
                for index in range(len(self._pooled), end):
                    message = self._sample.pool[index]
                    self._pooled.append(self._number(message if isinstance(message, dict) else {"content": message}))
                found += self._pooled[start:end]
            return found
        for position, message in enumerate(given if isinstance(given, list) else ()):
            if isinstance(message, dict):
                found.append(self._number(message))
            else:
                self._bad(f"events[{at}].input[{position}]", "expected a message")
        return found

    def _number(self, message: dict[str, Any]) -> int:
        """Returns the message's number; equal messages share it."""
        key = _key(message)
        if key not in self._numbers:
            self._numbers[key] = len(self._chats)
            self._chats.append(to_chat(message))
        return self._numbers[key]

    def _strip_wire_messages(self, item: dict[str, Any]) -> dict[str, Any] | None:
        """Removes the messages from the raw request; returns their ranges over all known ones, and the new ones."""
        call = item.get("call")
        request = call.get("request") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(request, dict):
            return None
        key = call.get("call_key")
        if isinstance(key, str) and isinstance(call.get("call_refs"), list):
            entries = [self._sample.requests[i] for i in ranges(call["call_refs"], len(self._sample.requests))]
        else:
            key = next((k for k in _WIRE_KEYS if isinstance(request.get(k), list)), None)
            entries = request[key] if key else []
        if key is None or (key in request and not isinstance(request[key], list)):
            return None
        numbers, new = [], []
        for entry in entries:
            known = _key(entry)
            if known not in self._wires:
                self._wires[known] = len(self._wires)
                new.append(entry)
            numbers.append(self._wires[known])
        left = {name: value for name, value in call.items() if name not in ("call_refs", "call_key")}
        item["call"] = {**left, "request": {name: value for name, value in request.items() if name != key}}
        return {"key": key, "refs": pack_ranges(numbers), **({"new": new} if new else {})}

    # Tools and sandboxes

    def _add_evidence(self, at: int, event: dict[str, Any], time: float | None) -> None:
        data = _tool_data(event) if event["event"] == "tool" else _sandbox_data(event)
        ended = parse_time(event.get("completed"))
        if time is not None and ended is not None and ended >= time:
            data["duration_s"] = round(ended - time, 6)
        kind = "file" if event["event"] == "sandbox" and event.get("action") != "exec" else "execution"
        id_ = f"e{self._facts}"
        self._facts += 1
        rest = diff_json(event, render_evidence_event(Evidence(id_, "audit", kind, data)))
        self._track_tool(event, data, time, ended)
        cut = self._truncate(data)
        data[REST] = {"at": at, **({"rest": rest} if rest is not None else {})}
        self._builder.add(EvidenceAdded(Evidence(id_, "audit", kind, data, (cut.digest,) if cut else (), time)))

    def _truncate(self, data: dict[str, Any]) -> Truncation | None:
        name = "stdout" if "stdout" in data else "text"
        text = data.get(name)
        if not isinstance(text, str):
            return None
        data[name], cut = truncate_text(text, self._reading)
        if cut is not None:
            data["truncated"] = {"length": cut.length, "digest": cut.digest}
        return cut

    def _track_tool(self, event: dict[str, Any], data: dict[str, Any], time: float | None, ended: float | None) -> None:
        """Records a tool, or gives a command's exit code to the one running tool."""
        if event["event"] == "tool":
            error = event.get("error")
            timed_out = isinstance(error, dict) and error.get("type") == "timeout"
            seen = ToolEvent(str(data.get("stdout", "")), bool(error), timed_out, time, ended, [])
            self.tools[str(event.get("id"))] = seen
            self._recent = [*self._recent[1 - _RECENT :], seen]
            return
        code = data.get("exit_code")
        if isinstance(code, int) and time is not None:
            running = [t for t in self._recent if t.started and t.ended and t.started <= time <= t.ended]
            if len(running) == 1:
                running[0].exits.append(code)


def _key(value: Any) -> bytes:
    return blake2b(canonical_bytes(value), digest_size=16).digest()


def pack_ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Packs numbers into `[start, end)` ranges."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1][1] += 1
        else:
            found.append([number, number + 1])
    return found


def _response(output: Any, answer: dict[str, Any] | None) -> dict[str, Any] | None:
    if not isinstance(output, dict):
        return None
    choices = output.get("choices")
    entries = []
    for index, choice in enumerate(choices if isinstance(choices, list) else ()):
        if not isinstance(choice, dict):
            return None
        message = answer if index == 0 and answer is not None else choice.get("message")
        message = to_chat(message) if index and isinstance(message, dict) else message
        others = {k: v for k, v in choice.items() if k not in ("message", "stop_reason")}
        entries.append({"index": index, "message": message, "finish_reason": choice.get("stop_reason"), **others})
    response: dict[str, Any] = {"model": output.get("model"), "choices": entries}
    return response | ({"usage": output["usage"]} if output.get("usage") is not None else {})


def _call_fields(output: Any, event: dict[str, Any]) -> dict[str, Any]:
    """Returns usage, cost, times and error of a call, as fields of `ModelCall`."""
    given = output.get("usage") if isinstance(output, dict) else None
    usage = given if isinstance(given, dict) else {}
    asked, said = count_or_none(usage.get("input_tokens")), count_or_none(usage.get("output_tokens"))
    cached = [count_or_none(usage.get(f"input_tokens_cache_{which}")) or 0 for which in ("read", "write")]
    if asked is not None and usage.get("total_tokens") == asked + sum(cached) + (said or 0):
        asked += sum(cached)  # newer logs count what came from the cache apart
    retries = count_or_none(event.get("retries"))
    cost = usage.get("total_cost")
    config = event.get("config")
    return {
        "usage": Usage(
            asked,
            said,
            count_or_none(usage.get("input_tokens_cache_read")),
            count_or_none(usage.get("reasoning_tokens")),
        ),
        "cost_usd": float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
        "logprobs": _logprobs(output),
        "sampling": config if isinstance(config, dict) else {},
        "error": text_or_none(event.get("error")),
        "tries": 1 + (retries or 0),
        "started": parse_time(event.get("timestamp")),
        "ended": parse_time(event.get("completed")),
    }


def _logprobs(output: Any) -> tuple[float, ...] | None:
    choices = output.get("choices") if isinstance(output, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    held = first.get("logprobs") if isinstance(first, dict) else None
    content = held.get("content") if isinstance(held, dict) else None
    if not isinstance(content, list) or not content:
        return None
    found = [c.get("logprob") if isinstance(c, dict) else None for c in content]
    return tuple(float(n) for n in found) if all(isinstance(n, int | float) for n in found) else None  # type: ignore[arg-type]


def _tool_data(event: dict[str, Any]) -> dict[str, Any]:
    result = event.get("result")
    text = result if isinstance(result, str) else None
    if text is None and isinstance(result, list):
        text, _ = split_text_parts(result)
    elif text is None and result is not None:
        text = canonical_bytes(result).decode()
    data = {"tool": event.get("function"), "call_id": event.get("id"), "arguments": event.get("arguments")}
    error = event.get("error")
    return {**data, "stdout": text or "", **({"error": error} if error is not None else {})}


def _sandbox_data(event: dict[str, Any]) -> dict[str, Any]:
    if event.get("action") != "exec":
        data = {"path": event.get("file"), "action": event.get("action")}
        text = event.get("input") if event.get("action") == "write_file" else event.get("output")
        return {**data, **({"text": text} if isinstance(text, str) else {})}
    options = event.get("options")
    cwd = options.get("cwd") if isinstance(options, dict) else None
    given = {"stdin": event.get("input"), "cwd": cwd, "exit_code": event.get("result")}
    return {
        "command": event.get("cmd"),
        **{key: value for key, value in given.items() if value is not None},
        "stdout": event["output"] if isinstance(event.get("output"), str) else "",
    }


def render_model_event(call: ModelCall, tools: Sequence[Any]) -> dict[str, Any]:
    """Renders a model event without its input and the messages of its raw request."""
    own = call.dialect == "inspect"
    entries = [from_chat_tool(tool, own=own) for tool in tools]
    fresh: dict[str, Any] = {
        "event": "model",
        "model": call.model,
        "tools": entries,
        "config": call.sampling if own else {},
    }
    choice = call.request.get("tool_choice")
    fresh["tool_choice"] = choice if own or choice in ("auto", "any", "none") else "auto"
    fresh["output"] = _fresh_output(call, own=own)
    return fresh | ({"error": call.error} if call.error is not None else {})


def _fresh_output(call: ModelCall, *, own: bool) -> dict[str, Any]:
    response = call.response or {}
    choices = response.get("choices")
    entries = []
    for choice in choices if isinstance(choices, list) else ():
        held = choice if isinstance(choice, dict) else {}
        message = held.get("message")
        entry = {k: v for k, v in held.items() if k not in ("index", "message", "finish_reason")} if own else {}
        entry["message"] = from_chat(message) if isinstance(message, dict) else message
        reason = held.get("finish_reason")
        if own:
            entry |= {"stop_reason": reason} if reason is not None else {}
        else:
            entry["message"] = {"content": "", **(entry["message"] or {}), "role": "assistant"}
            entry["stop_reason"] = _REASONS.get(str(reason), "unknown")
        entries.append(entry)
    fresh: dict[str, Any] = {"model": response.get("model") or call.model, "choices": entries}
    text, _ = split_text_parts(
        entries[0]["message"].get("content") if entries and isinstance(entries[0]["message"], dict) else None
    )
    fresh["completion"] = text
    return fresh | ({"usage": response["usage"]} if own and "usage" in response else _fresh_usage(call))


_REASONS = {"stop": "stop", "length": "max_tokens", "tool_calls": "tool_calls", "content_filter": "content_filter"}


def _fresh_usage(call: ModelCall) -> dict[str, Any]:
    asked, said = call.usage.prompt_tokens, call.usage.completion_tokens
    if asked is None and said is None:
        return {}
    usage = {"input_tokens": asked or 0, "output_tokens": said or 0, "total_tokens": (asked or 0) + (said or 0)}
    return {"usage": usage | ({"total_cost": call.cost_usd} if call.cost_usd is not None else {})}


def render_evidence_event(fact: Evidence) -> dict[str, Any]:
    """Renders the tool or sandbox event of a piece of evidence."""
    data = fact.data
    if "call_id" in data:
        fresh = {"event": "tool", "type": "function", "id": data["call_id"], "function": data.get("tool")}
        fresh |= {"arguments": data.get("arguments"), "result": data.get("stdout", ""), "events": []}
        return fresh | ({"error": data["error"]} if "error" in data else {})
    fresh = {"event": "sandbox"}
    if fact.kind == "file":
        side = "input" if data.get("action") == "write_file" else "output"
        fresh |= {"action": data.get("action"), "file": data.get("path")}
        return fresh | ({side: data["text"]} if "text" in data else {})
    fresh |= {"action": "exec", "cmd": data.get("command"), "output": data.get("stdout", "")}
    pairs = (("input", "stdin"), ("result", "exit_code"))
    return fresh | {name: data[key] for name, key in pairs if key in data}
