"""Traces of the OpenAI Agents SDK: what its exporter sends, one item a line, in an array, or in batches under `data`.

Spans of the Responses API hold only the response's id and its tokens: turns then have the calls and results that the
spans of tools show, and no text. Those of Chat Completions hold the messages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.formats.otel.spans import TraceSpan
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.round_trip_builder import list_or_empty
from assay.formats.shared.sniffing import sniff
from assay.formats.traces.reading import RowPlaces, TraceFormat
from assay.formats.traces.table import AGENT, MODEL, TOOL, SpanTable

_USAGE = "span_data.usage."
TABLE = SpanTable(
    kind=("span_data.type",),
    operations={"generation": MODEL, "response": MODEL, "function": TOOL, "agent": AGENT},
    name=("span_data.name",),
    inputs=("span_data.input",),
    outputs=("span_data.output",),
    model=("span_data.model",),
    sampling=("span_data.model_config",),
    prompt_tokens=(f"{_USAGE}input_tokens", f"{_USAGE}prompt_tokens"),
    completion_tokens=(f"{_USAGE}output_tokens", f"{_USAGE}completion_tokens"),
    cached_tokens=(f"{_USAGE}input_tokens_details.cached_tokens",),
    reasoning_tokens=(f"{_USAGE}output_tokens_details.reasoning_tokens",),
    error=("error",),
)
_PLACES = RowPlaces(("trace_id",), ("id",), ("parent_id",), ("started_at",), ("ended_at",))


class OpenAiAgentsFormat(TraceFormat):
    name: ClassVar[str] = "openai-agents"
    title: ClassVar[str] = "OpenAI Agents SDK traces (JSON, JSON lines)"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        inside = any(seen.paths >= {f"{at}span_data.type", f"{at}trace_id"} for at in ("", "[].", "data[]."))
        return inside or (seen.values.get("object") == "trace" and "workflow_name" in seen.paths)

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        found = []
        batch = list_or_empty(value.get("data")) if isinstance(value, dict) and "data" in value else [value]
        for row in batch:
            if not isinstance(row, dict) or row.get("object") not in ("trace", "trace.span"):
                bad(where, "expected an item whose `object` is trace or trace.span")
            elif row["object"] == "trace.span":
                span = _PLACES.make_span(row, TABLE, "span_data")
                if span is None:
                    bad(where, "a span without `id` and `trace_id` is left out")
                else:
                    data = row["span_data"] if isinstance(row.get("span_data"), dict) else {}
                    kept = {key: item for key, item in data.items() if key not in ("input", "output")}
                    found.append(span._replace(raw={**row, "span_data": kept}))
        return found
