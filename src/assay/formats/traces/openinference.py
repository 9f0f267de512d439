"""OpenInference: OpenTelemetry spans with `llm.*` and `tool.*` attributes, in OTLP JSON or flat JSON.

Phoenix, Arize and their instrumentation of agent libraries write them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.formats.otel.spans import TraceSpan, has_span_attributes, read_otel_spans
from assay.formats.shared.dialects import parse_json_text
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.traces.reading import TraceFormat, map_span
from assay.formats.traces.table import AGENT, MODEL, TOOL, SpanTable, nest, unwrap

_WRAPPERS = ("message", "tool_call", "message_content", "tool", "json_schema")
_CONTENT = ("llm.input_messages", "llm.output_messages", "llm.tools", "input.value", "output.value")
TABLE = SpanTable(
    kind=("openinference.span.kind",),
    operations={"llm": MODEL, "tool": TOOL, "agent": AGENT},
    name=("tool.name", "agent.name", "span"),
    inputs=("llm.input_messages", "input.value"),
    outputs=("llm.output_messages", "output.value"),
    model=("llm.model_name",),
    provider=("llm.provider", "llm.system"),
    tools=("llm.tools",),
    sampling=("llm.invocation_parameters",),
    prompt_tokens=("llm.token_count.prompt",),
    completion_tokens=("llm.token_count.completion",),
    cached_tokens=("llm.token_count.prompt_details.cache_read",),
    reasoning_tokens=("llm.token_count.completion_details.reasoning",),
    cost_usd=("llm.cost.total",),
    call_id=("tool.id", "tool_call.id"),
    agent=("agent.name",),
)


class OpenInferenceFormat(TraceFormat):
    name: ClassVar[str] = "openinference"
    title: ClassVar[str] = "OpenInference spans (Phoenix, Arize; OTLP JSON, flat JSON)"

    def recognises(self, path: Path) -> bool:
        return has_span_attributes(path, b"openinference.span.kind")

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        return [_mapped(span) for span in read_otel_spans(value, where, bad)]


def _mapped(span: TraceSpan) -> TraceSpan:
    row = nest(span.attributes) | {"span": span.raw.get("name")}
    row["llm"] = _readable(row.get("llm"))
    return map_span(span, row, TABLE, _CONTENT)


def _readable(llm: Any) -> Any:
    """Takes messages and tools out of the objects around them, and parses the tools' JSON."""
    if not isinstance(llm, dict):
        return llm
    made = {key: _renamed(unwrap(value, _WRAPPERS)) for key, value in llm.items()}
    if isinstance(made.get("tools"), list):
        made["tools"] = [parse_json_text(tool) for tool in made["tools"]]
    return made


def _renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if isinstance(value, dict):
        return {"content" if key == "contents" else key: _renamed(item) for key, item in value.items()}
    return value
