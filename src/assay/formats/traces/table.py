"""Maps a span of any tracing tool to the attributes of OpenTelemetry's conventions for generative AI, by a table.

A table says under which paths a row holds a value; the first path with a value counts. Messages, in whatever dialect,
become the conventions' messages, so that one reader (`otel.trace`) reads every tool's traces.

Invariant: a cost of 0 is left out, because these tools write 0 where they know no price.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import msgspec

from assay.formats.otel.attributes import COST
from assay.formats.otel.messages import from_chat_messages
from assay.formats.otel.writer import INPUT, OUTPUT
from assay.formats.shared.content_parts import as_text
from assay.formats.shared.dialects import (
    name_calls,
    parse_json_text,
    parse_messages_text,
    to_answer,
    to_chat_messages,
)
from assay.formats.shared.round_trip_builder import count_or_none, text_or_none, value_at
from assay.formats.shared.tools import tool_definitions
from assay.formats.shared.usage import known_cost

Paths = tuple[str, ...]
"""Places of a value, each a path of keys and positions joined by dots; the first that holds one counts."""
_DEEPEST = 32
"""Most dots in a key that are read as levels."""
MODEL, TOOL, AGENT = "chat", "execute_tool", "invoke_agent"
_USAGE = "gen_ai.usage."
_UUID = re.compile(r"[ ._-]?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


class SpanTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The places of a span's values in a row of one tool."""

    kind: Paths
    operations: dict[str, str]
    """Kinds, in lower case, of spans of a model, a tool and an agent; all others are kept as notes."""
    inputs: Paths
    """A model's messages, a tool's arguments."""
    outputs: Paths
    name: Paths = ("name",)
    model: Paths = ()
    provider: Paths = ()
    tools: Paths = ()
    sampling: Paths = ()
    """An object of parameters."""
    prompt_tokens: Paths = ()
    completion_tokens: Paths = ()
    cached_tokens: Paths = ()
    reasoning_tokens: Paths = ()
    cost_usd: Paths = ()
    call_id: Paths = ()
    error: Paths = ()
    agent: Paths = ()
    """The agent's name; without one that of an agent's span."""


def find(row: Any, paths: Paths) -> Any:
    """Returns the first value that is neither missing nor None."""
    return next((value for path in paths if (value := value_at(row, path)) is not None), None)


def operation_of(row: dict[str, Any], table: SpanTable) -> str | None:
    """Returns the operation of a row's kind; None where it is neither of a model nor a tool nor an agent."""
    return table.operations.get(str(find(row, table.kind)).lower())


def span_attributes(row: dict[str, Any], table: SpanTable) -> dict[str, Any]:
    """Returns a row as attributes of the conventions."""
    operation = operation_of(row, table)
    values: dict[str, Any] = {"gen_ai.operation.name": operation, "error.type": _error(find(row, table.error))}
    name = text_or_none(find(row, table.name))
    name = _UUID.sub("", name) if name else None  # Some tools add the run's id to an agent's name.
    values["gen_ai.agent.name"] = text_or_none(find(row, table.agent)) or (name if operation == AGENT else None)
    if operation == MODEL:
        values |= _model_attributes(row, table)
    elif operation == TOOL:
        values |= _tool_attributes(row, table) | {"gen_ai.tool.name": name}
    return {key: value for key, value in values.items() if value is not None}


def _model_attributes(row: dict[str, Any], table: SpanTable) -> dict[str, Any]:
    prompt = to_chat_messages(parse_messages_text(find(row, table.inputs)))
    answer = to_answer(parse_messages_text(find(row, table.outputs)))
    name_calls([*prompt, *([answer] if answer is not None else [])])
    sampling = parse_json_text(find(row, table.sampling))
    requested = {f"gen_ai.request.{k}": v for k, v in sampling.items()} if isinstance(sampling, dict) else {}
    scalars = {k: v for k, v in requested.items() if isinstance(v, str | int | float)}
    definitions = tool_definitions(parse_json_text(find(row, table.tools)))
    return scalars | {
        INPUT: from_chat_messages(prompt),
        OUTPUT: from_chat_messages([answer]) if answer is not None else None,
        "gen_ai.provider.name": text_or_none(find(row, table.provider)),
        "gen_ai.request.model": text_or_none(find(row, table.model)),
        "gen_ai.tool.definitions": definitions or None,
        f"{_USAGE}input_tokens": count_or_none(find(row, table.prompt_tokens)),
        f"{_USAGE}output_tokens": count_or_none(find(row, table.completion_tokens)),
        f"{_USAGE}cache_read.input_tokens": count_or_none(find(row, table.cached_tokens)),
        f"{_USAGE}reasoning.output_tokens": count_or_none(find(row, table.reasoning_tokens)),
        COST: known_cost(find(row, table.cost_usd)),
    }


def _tool_attributes(row: dict[str, Any], table: SpanTable) -> dict[str, Any]:
    result, call_id = _tool_result(find(row, table.outputs))
    given = find(row, table.inputs)
    return {
        "gen_ai.tool.call.arguments": given if isinstance(given, str | dict) else as_text(given),
        "gen_ai.tool.call.result": result,
        "gen_ai.tool.call.id": text_or_none(find(row, table.call_id)) or call_id,
    }


def _tool_result(value: Any) -> tuple[str | None, str | None]:
    """Returns the text of a tool's output, and the call that it names; LangChain's tools return messages."""
    if isinstance(value, dict) and set(value) == {"output"}:
        return _tool_result(value["output"])
    if isinstance(value, dict) and ("tool_call_id" in value or "kwargs" in value):
        (message, *_) = to_chat_messages(value, "tool") or [{}]
        return message.get("content"), message.get("tool_call_id") or None
    return (None if value is None else as_text(value)), None


def _error(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("message") or value.get("description")
    return value if isinstance(value, str) and value else None


class _Nested(dict[str, Any]):
    """An object made of keys with dots, as opposed to a value of the source."""


def nest(attributes: dict[str, Any]) -> dict[str, Any]:
    """Turns keys with dots into objects and lists: `messages.0.role` into `{"messages": [{"role": ...}]}`."""
    found = _Nested()
    for key, value in attributes.items():
        inner = found
        *above, last = key.split(".") if key.count(".") < _DEEPEST else [key]
        for part in above:
            below = inner.setdefault(part, _Nested())
            inner = below if isinstance(below, _Nested) else _Nested()
        inner[last] = value
    return {key: _lists(value) for key, value in found.items()}


def _lists(value: Any) -> Any:
    """Turns objects whose keys are positions into lists."""
    if not isinstance(value, _Nested):
        return value
    inner = {key: _lists(item) for key, item in value.items()}
    if inner and all(key.isdecimal() and len(key) < 9 for key in inner):
        return [inner[key] for key in sorted(inner, key=int)]
    return inner


def unwrap(value: Any, wrappers: Collection[str]) -> Any:
    """Replaces objects that hold nothing but one of these keys by what they hold, at any depth."""
    if isinstance(value, list):
        return [unwrap(item, wrappers) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (key := next(iter(value))) in wrappers:
        return unwrap(value[key], wrappers)
    return {name: unwrap(item, wrappers) for name, item in value.items()}
