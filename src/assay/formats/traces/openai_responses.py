"""OpenAI Responses: an array of items, as `to_input_list()` of the Agents SDK gives and a conversation stores them, or
responses, alone or as `{request, response}`, one a line or in an array.

An array of items is one conversation. Responses are the calls of one conversation where they name each other
(`previous_response_id`) or begin with the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.otel.spans import TraceSpan
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.dialects import to_chat_messages
from assay.formats.shared.json_stream import WarnFunction, json_items, warn_in
from assay.formats.shared.round_trip_builder import file_origin, get_path, list_or_empty, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.turns import Turn, add_turn
from assay.formats.traces.reading import RowPlaces, TraceFormat
from assay.formats.traces.table import MODEL, SpanTable
from assay.records import canonical_bytes, digest_bytes

_ITEMS = {"function_call", "function_call_output", "reasoning", "custom_tool_call", "web_search_call", "mcp_call"}
_USAGE = "response.usage."
TABLE = SpanTable(
    kind=("response.object",),
    operations={"response": MODEL},
    inputs=("request",),
    outputs=("response",),
    model=("response.model", "request.model"),
    provider=("provider",),
    tools=("response.tools", "request.tools"),
    sampling=("sampling",),
    prompt_tokens=(f"{_USAGE}input_tokens",),
    completion_tokens=(f"{_USAGE}output_tokens",),
    cached_tokens=(f"{_USAGE}input_tokens_details.cached_tokens",),
    reasoning_tokens=(f"{_USAGE}output_tokens_details.reasoning_tokens",),
    error=("response.error",),
)
_PLACES = RowPlaces(("trace",), ("response.id",), ("parent",), ("response.created_at",), ("response.completed_at",))


class OpenAiResponsesFormat(TraceFormat):
    name: ClassVar[str] = "openai-responses"
    title: ClassVar[str] = "OpenAI Responses, items or responses (JSON, JSON lines)"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if "responses_create_params" in seen.paths:  # a rollout of NeMo Gym, which holds a response
            return False
        starts = ("", "[].", "response.", "[].response.")
        return _has_items(path) or any(seen.values.get(f"{at}object") == "response" for at in starts)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        if not _has_items(path):
            yield from self.read_traces(path, reading, partial(_read_responses, {}))
            return
        builder, bad = TrajectoryBuilder(file_origin(self.name, path), reading), warn_in(reading, path.name)
        items = [item for _, item in json_items(path, (), bad)]
        for message in to_chat_messages(items):
            add_turn(builder, Turn(message))
        yield builder.finish(path.stem)


def _has_items(path: Path) -> bool:
    """Returns whether a file is an array of items; of messages alone, `chat` reads it too."""
    seen = sniff(path)
    return seen.shape == "array" and (
        bool({"[].call_id", "[].summary"} & seen.paths and "[].type" in seen.paths) and "[].span_data" not in seen.paths
    )


def _read_responses(traces: dict[str, str], value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
    """Makes a span of a response. `traces` holds the conversation of each response so far."""
    row = value if isinstance(value, dict) else {}
    response, request = (row["response"], row.get("request")) if "response" in row else (row, None)
    id_ = text_or_none(get_path(response, "id"))
    if id_ is None or response.get("object") != "response":
        bad(where, "expected a response with an `id`, or an object with `request` and `response`")
        return []
    before = text_or_none(response.get("previous_response_id") or get_path(request, "previous_response_id"))
    traces[id_] = traces.get(before or "") or _first_words(request) or id_
    request = request if isinstance(request, dict) else {"instructions": response.get("instructions"), "input": []}
    names = ("temperature", "top_p", "max_output_tokens")
    sampling = {key: response[key] for key in names if response.get(key) is not None}
    about = {"trace": traces[id_], "parent": before, "provider": "openai", "sampling": sampling}
    span = _PLACES.make_span({"request": request, "response": response, **about}, TABLE, "request", "response", *about)
    rest = {key: item for key, item in response.items() if key not in ("output", "tools", "instructions")}
    return [] if span is None else [span._replace(raw={"response": rest})]


def _first_words(request: Any) -> str | None:
    """Returns the digest of a request's first message, by which requests of one conversation are told."""
    given = get_path(request, "input")
    first = given if isinstance(given, str) else next(iter(list_or_empty(given)), None)
    return None if first is None else digest_bytes(canonical_bytes(to_chat_messages(first)))
