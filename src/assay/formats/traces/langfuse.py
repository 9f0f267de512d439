"""Langfuse: traces as its page downloads them (`{trace, observations}`), as its API gives them (a trace with its
observations), and observations alone, one a line or in an array. Scores are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import Provenance
from assay.formats.otel.spans import TraceSpan
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.round_trip_builder import objects_in
from assay.formats.shared.sniffing import sniff
from assay.formats.traces.reading import RowPlaces, TraceFormat, evaluation_span
from assay.formats.traces.table import AGENT, MODEL, TOOL, SpanTable

TABLE = SpanTable(
    kind=("type",),
    operations={"generation": MODEL, "tool": TOOL, "agent": AGENT},
    inputs=("input",),
    outputs=("output",),
    model=("model", "providedModelName"),
    provider=("metadata.ls_provider", "metadata.attributes.gen_ai.system"),
    tools=("input.tools", "output.tools"),
    sampling=("modelParameters",),
    prompt_tokens=("usageDetails.input", "usage.input", "promptTokens"),
    completion_tokens=("usageDetails.output", "usage.output", "completionTokens"),
    cached_tokens=(
        "usageDetails.input_cache_read", "usageDetails.input_cached_tokens", "usageDetails.prompt_details.cache_read"
    ),
    reasoning_tokens=("usageDetails.output_reasoning", "usageDetails.output_reasoning_tokens"),
    cost_usd=("costDetails.total", "totalCost", "calculatedTotalCost"),
    error=("failure",),
)  # fmt: skip
_PLACES = RowPlaces(("traceId",), ("id",), ("parentObservationId",), ("startTime",), ("endTime",))


class LangfuseFormat(TraceFormat):
    name: ClassVar[str] = "langfuse"
    title: ClassVar[str] = "Langfuse traces and observations (JSON, JSON lines)"
    provenance: ClassVar[Provenance] = "recorded"

    def recognises(self, path: Path) -> bool:
        paths = sniff(path).paths
        rows = any(paths >= {f"{at}traceId", f"{at}parentObservationId", f"{at}type"} for at in ("", "[]."))
        inside = any(paths >= {f"{at}.traceId", f"{at}.startTime"} for at in ("observations[]", "[].observations[]"))
        return rows or inside or paths >= {"trace.id", "observations"}

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        if not isinstance(value, dict):
            bad(where, f"expected a trace or an observation, found {type(value).__name__}")
            return []
        rows = objects_in(value["observations"]) if "observations" in value else [value]
        spans = [
            _PLACES.make_span(row | _failure(row), TABLE, "input", "output")
            for row in rows
        ]  # fmt: skip
        if None in spans:
            bad(where, f"{spans.count(None)} observations without `id` and `traceId` are left out")
        found = [span for span in spans if span is not None]
        about = value["trace"] if isinstance(value.get("trace"), dict) else value
        return found + [
            _score(found[0].trace, n, row) for n, row in enumerate(objects_in(about.get("scores"))) if found
        ]


def _failure(row: dict[str, Any]) -> dict[str, Any]:
    return {"failure": row.get("statusMessage") or "error"} if row.get("level") == "ERROR" else {}


def _score(trace: str, position: int, row: dict[str, Any]) -> TraceSpan:
    value = row.get("stringValue") if row.get("dataType") == "CATEGORICAL" else row.get("value")
    value = bool(value) if row.get("dataType") == "BOOLEAN" and value in (0, 1) else value
    return evaluation_span(trace, f"score-{position}", row.get("name"), value, row.get("comment"), row)
