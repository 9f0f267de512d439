"""Renders trajectories as spans: restored if they came from a trace, else newly made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from assay.formats.interface import ExportContext
from assay.formats.otel.attributes import (
    AGENT,
    CONVERSATION,
    EVALUATION,
    MODEL,
    OPERATION,
    PROVIDER,
    TOOL_CALL,
    TOOL_NAME,
    TOOL_TYPE,
    usage_attributes,
)
from assay.formats.otel.messages import REST, from_chat_messages
from assay.formats.otel.spans import Form, with_attributes
from assay.formats.shared.conversations import message_numbers
from assay.formats.shared.messages import plan_chat_messages, render_chat_message
from assay.formats.shared.round_trip import restore_observations
from assay.formats.shared.round_trip_builder import source_fields
from assay.records import ModelCall, Step, ToolCall, Trajectory, Verdict, canonical_bytes, match_calls
from assay.verdicts import outcome_verdicts, trust_of

INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"


def restore_spans(trajectory: Trajectory) -> Iterator[tuple[dict[str, Any], dict[str, Any], Form]]:
    """Restores the spans of a trace."""
    about = source_fields(trajectory).get("about") or [{}]
    chats: list[dict[str, Any]] = []
    numbers: dict[bytes, int] = {}

    def number_of(chat: dict[str, Any]) -> int:
        key = canonical_bytes(chat)
        if key not in numbers:
            numbers[key] = len(chats)
            chats.append(chat)
        return numbers[key]

    keys = message_numbers(trajectory.calls, number_of)
    found: list[tuple[int, dict[str, Any], dict[str, Any], Form]] = []
    for call in trajectory.calls:
        source = call.request.get(REST)
        if isinstance(source, dict):
            raw = with_attributes(
                source["span"], source["form"], _restored_messages(call, [chats[k] for k in keys[call.id]], source)
            )
            found.append((source["at"], raw, about[source["about"]], source["form"]))
    others = [e.data.get(REST) for e in trajectory.evidence]
    others += [n.data for n in trajectory.notes if n.name == "otel.span"]
    found += [(k["at"], k["span"], about[k["about"]], k["form"]) for k in others if isinstance(k, dict)]
    return ((raw, of, form) for _, raw, of, form in sorted(found, key=lambda one: one[0]))


def _restored_messages(call: ModelCall, chats: list[dict[str, Any]], source: dict[str, Any]) -> dict[str, Any]:
    choices = (call.response or {}).get("choices") or []
    values = {INPUT: from_chat_messages(chats)}
    values[OUTPUT] = [message for choice in choices for message in _choice_messages(choice)]
    return {n: json.dumps(values[n], separators=(",", ":"), ensure_ascii=False) for n in source.get("text", ())}


def _choice_messages(choice: dict[str, Any]) -> list[dict[str, Any]]:
    made = from_chat_messages([choice["message"]]) if isinstance(choice.get("message"), dict) else []
    return [{**m, "finish_reason": choice["finish_reason"]} for m in made] if "finish_reason" in choice else made


def render_spans(
    trajectory: Trajectory, writing: ExportContext
) -> Iterator[tuple[dict[str, Any], dict[str, Any], Form]]:
    """Renders a trace: one span for the attempt, one for each turn of the agent, one for each tool result."""

    trace = blake2b((trajectory.chain + trajectory.attempt).encode(), digest_size=16).hexdigest()
    about = {"resource": {"resource": {"attributes": []}}, "scope": {"scope": {"name": "assay"}}}
    names = iter(range(1 << 62))
    root = _id(trace, next(names))
    calls = {call.id: call for call in trajectory.calls}
    conversation: list[dict[str, Any]] = []
    start = trajectory.started.at or next((s.started for s in trajectory.steps if s.started), None)
    clock = start or 0.0
    yield _root(trajectory, trace, root, clock), about, "otlp"
    for step in trajectory.steps:
        full = restore_observations(step, writing)
        parts = [(part, render_chat_message(full, part)) for part in plan_chat_messages(full)]
        clock = max(clock, step.started or clock) if step.started else clock + 1e-6
        if step.actor in ("agent", "other_agent"):
            call = calls.get(step.call or "")
            span = _span(trace, _id(trace, next(names)), root, "chat", clock, step.ended)
            answer = parts[0][1]
            yield (
                with_attributes(span, "otlp", _chat_attributes(step, call, conversation, answer, trajectory.model)),
                about,
                "otlp",
            )
        for index, (seen, position) in enumerate(
            zip(full.observations, match_calls(full.tool_calls, full.observations), strict=True)
        ):
            call_ = None if position is None else full.tool_calls[position]
            if call_ is not None:
                span = _span(trace, _id(trace, next(names)), root, "execute_tool", clock + 5e-7, None)
                if seen.error:
                    span["status"] = {"code": 2, "message": "error"}
                yield with_attributes(span, "otlp", _tool_attributes(call_, full, index)), about, "otlp"
        conversation += [chat for _, chat in parts]


def _id(trace: str, index: int) -> str:
    return blake2b(f"{trace}/{index}".encode(), digest_size=8).hexdigest()


def _span(trace: str, id_: str, parent: str, operation: str, start: float, end: float | None) -> dict[str, Any]:
    nano = int(start * 1e9) or 1
    raw: dict[str, Any] = {"traceId": trace, "spanId": id_, "parentSpanId": parent, "name": operation, "kind": 1}
    raw |= {"startTimeUnixNano": str(nano), "endTimeUnixNano": str(max(nano, int((end or start) * 1e9)))}
    return raw | {"attributes": [], "status": {}}


def _root(trajectory: Trajectory, trace: str, id_: str, start: float) -> dict[str, Any]:
    finished = trajectory.finished
    raw = _span(trace, id_, "", "invoke_agent", start, finished.at if finished else None)
    del raw["parentSpanId"]
    if finished is not None and finished.broke:
        raw["status"] = {"code": 2, "message": finished.error or finished.broke}
    why = trust_of(trajectory).doubt
    outcomes = outcome_verdicts(trajectory.verdicts)
    raw["events"] = [_evaluation(raw["endTimeUnixNano"], verdict, why) for verdict in outcomes]
    return with_attributes(raw, "otlp", {
        OPERATION: "invoke_agent",
        AGENT: trajectory.agent,
        CONVERSATION: trajectory.attempt,
        MODEL: trajectory.model,
        "assay.task": trajectory.task,
    })  # fmt: skip


def _evaluation(at: str, verdict: Verdict, why: str | None) -> dict[str, Any]:
    """Renders a verdict as an evaluation event; a doubted pass (`why`) is written as unknown."""
    event = {"timeUnixNano": at, "name": EVALUATION, "attributes": []}
    given: dict[str, Any] = {"name": verdict.check, "score.label": verdict.status, "score.value": verdict.score}
    given["explanation"] = verdict.reason
    if why is not None and verdict.status == "pass":
        given |= {"score.label": "unknown", "score.value": None, "explanation": f"a doubted pass: {why}"}
    return with_attributes(event, "otlp", {f"gen_ai.evaluation.{k}": v for k, v in given.items()})


def _chat_attributes(
    step: Step, call: ModelCall | None, conversation: list[dict[str, Any]], answer: dict[str, Any], model: str | None
) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        OPERATION: "chat",
        PROVIDER: call.dialect if call is not None else "unknown",
        MODEL: call.model if call is not None else model,
        INPUT: json.dumps(from_chat_messages(conversation), separators=(",", ":")),
        OUTPUT: json.dumps(from_chat_messages([answer]), separators=(",", ":")),
        AGENT: step.extra.get("name") if isinstance(step.extra.get("name"), str) else None,
    }
    if call is not None:
        attributes |= usage_attributes(call)
        attributes |= {f"gen_ai.request.{k}": v for k, v in call.sampling.items() if isinstance(v, str | int | float)}
    return attributes


def _tool_attributes(call: ToolCall, step: Step, index: int) -> dict[str, Any]:
    return {
        OPERATION: "execute_tool",
        TOOL_NAME: call.name,
        TOOL_TYPE: "function",
        TOOL_CALL: call.id,
        "gen_ai.tool.call.arguments": call.arguments,
        "gen_ai.tool.call.result": step.observations[index].content,
    }
