"""OpenLLMetry: OpenTelemetry spans of Traceloop's instrumentation, with `traceloop.*` for workflows and tools.

Its releases since 2026 write the conventions' messages; earlier ones a message in several attributes
(`gen_ai.prompt.0.role`, `gen_ai.completion.0.content`). Both are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.formats.otel.spans import TraceSpan, has_span_attributes, read_otel_spans
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.traces.reading import TraceFormat, map_span
from assay.formats.traces.table import AGENT, MODEL, TOOL, SpanTable, nest, operation_of

_CONTENT = ("gen_ai.prompt.", "gen_ai.completion.", "llm.request.functions.", "traceloop.entity.")
_NAMES = ("traceloop.entity.name", "traceloop.entity.path")
TABLE = SpanTable(
    kind=("traceloop.span.kind", "llm.request.type"),
    operations={"tool": TOOL, "agent": AGENT, "chat": MODEL, "completion": MODEL},
    name=("traceloop.entity.name",),
    inputs=("gen_ai.prompt", "traceloop.entity.input"),
    outputs=("gen_ai.completion", "traceloop.entity.output"),
    model=("gen_ai.response.model", "gen_ai.request.model"),
    provider=("gen_ai.system",),
    tools=("llm.request.functions",),
    prompt_tokens=("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens", "llm.usage.prompt_tokens"),
    completion_tokens=("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens", "llm.usage.completion_tokens"),
    cached_tokens=("gen_ai.usage.cache_read_input_tokens",),
    cost_usd=("gen_ai.usage.cost",),
)


class OpenLlmetryFormat(TraceFormat):
    name: ClassVar[str] = "openllmetry"
    title: ClassVar[str] = "OpenLLMetry spans (Traceloop; OTLP JSON, flat JSON)"

    def recognises(self, path: Path) -> bool:
        return has_span_attributes(path, b"traceloop.", b'"gen_ai.prompt.0.', b'"llm.request.type"')

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        return [_mapped(span) for span in read_otel_spans(value, where, bad)]


def _mapped(span: TraceSpan) -> TraceSpan:
    row = nest(span.attributes)
    if "gen_ai.input.messages" in span.attributes or operation_of(row, TABLE) is None:
        return span
    return map_span(span, row, TABLE, _CONTENT, without=_NAMES)
