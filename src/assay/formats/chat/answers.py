"""Answers that stand beside a row's messages: logs of model calls (LiteLLM, DSPy, request and response in one row)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from assay.formats.shared.json_stream import loads, parse_time
from assay.formats.shared.round_trip_builder import count_or_none, get_path, number, text_or_none
from assay.records import AttemptEnded, ModelCall, Usage

_TEXT_FIELDS = ("response", "completion", "output")


def answer_of(row: dict[str, Any], messages: list[Any]) -> dict[str, Any] | None:
    """Returns the answer to a row's messages where another field holds it; None where the messages end with it."""
    last = messages[-1] if messages and isinstance(messages[-1], dict) else {}
    if last.get("role") in ("assistant", "model", "ai"):
        return None
    for held in (row.get("response"), row, row.get("completion"), row.get("output")):
        found = _message_of(_decoded(held))
        if found is not None:
            return found
    outputs = row.get("outputs")
    if isinstance(outputs, list) and outputs:
        return _output_message(outputs[0])
    text = next((row[name] for name in _TEXT_FIELDS if isinstance(row.get(name), str) and row[name]), None)
    return None if text is None else {"role": "assistant", "content": text}


def _decoded(held: Any) -> Any:
    """Decodes a response that a column holds as text."""
    if isinstance(held, str) and held.startswith("{"):
        with suppress(ValueError):
            return loads(held)
    return held


def _message_of(held: Any) -> dict[str, Any] | None:
    """Returns the message of a response: of Chat Completions, or of Anthropic Messages."""
    choices = held.get("choices") if isinstance(held, dict) else None
    message = get_path(choices[0], "message") if isinstance(choices, list) and choices else held
    is_message = isinstance(message, dict) and message.get("role") == "assistant"
    return message if is_message and ("content" in message or "tool_calls" in message) else None


def _output_message(output: Any) -> dict[str, Any] | None:
    """Returns an output of DSPy as a message: text, or an object with text, reasoning and tool calls."""
    if isinstance(output, str):
        return {"role": "assistant", "content": output}
    if not isinstance(output, dict) or not ({"text", "tool_calls"} & set(output)):
        return None
    return {**output, "role": "assistant", "content": output.get("text")}


def call_of(row: dict[str, Any]) -> ModelCall | None:
    """Returns the model call of a row that logs one, with tokens, cost and times; None without tokens and cost."""
    response = _decoded(row.get("response"))
    is_anthropic = isinstance(response, dict) and response.get("type") == "message"
    usage = row.get("usage") if isinstance(row.get("usage"), dict) else get_path(response, "usage")
    counts = {**row, **(usage if isinstance(usage, dict) else {})}
    prompt = _count(counts, "prompt_tokens", "input_tokens")
    if is_anthropic and prompt is not None:  # its input tokens leave out those of its cache
        prompt += sum(_count(counts, name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
    completion = _count(counts, "completion_tokens", "output_tokens")
    cached = count_or_none(get_path(counts, "prompt_tokens_details", "cached_tokens"))
    cached = _count(counts, "cache_read_input_tokens") if is_anthropic else cached
    cost = next((n for name in ("response_cost", "cost") if (n := number(row.get(name))) is not None), None)
    if prompt is None and completion is None and cost is None:
        return None
    names = row.get("model"), row.get("response_model"), get_path(response, "model")
    model = next((m for name in names if (m := text_or_none(name))), "unknown")
    return ModelCall(
        next((i for name in ("id", "uuid") if (i := text_or_none(row.get(name)))), "call-0"),
        "anthropic-messages" if is_anthropic else "openai-chat",
        model,
        {},
        None,
        Usage(prompt, completion, cached),
        cost_usd=cost,
        started=parse_time(row.get("startTime")),
        ended=parse_time(row.get("endTime")),
    )


def _count(counts: dict[str, Any], *names: str) -> int | None:
    return next((n for name in names if (n := count_or_none(counts.get(name))) is not None), None)


def end_of(row: dict[str, Any]) -> AttemptEnded | None:
    """Returns the end of a row whose call failed (LiteLLM); None for others."""
    if row.get("status") != "failure" or not ({"error_str", "error_information"} & set(row)):
        return None
    error = text_or_none(row.get("error_str")) or text_or_none(get_path(row, "error_information", "error_message"))
    return AttemptEnded(broke="provider", error=(error or "the model call failed")[:4000])
