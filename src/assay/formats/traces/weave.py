"""Weave: calls as its page, its SDK and its service export them, one a line, in an array, or under `calls`.

A call of a model has its usage by model. A cost is there only where the export asked for costs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.formats.otel.spans import TraceSpan
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.round_trip_builder import get_path, number, objects_in, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.traces.reading import RowPlaces, TraceFormat
from assay.formats.traces.table import AGENT, MODEL, TOOL, SpanTable

_MODEL_OPS = (
    "completions.create", "completions.parse", "responses.create", "messages.create", "messages.stream",
    "litellm.completion", "litellm.acompletion", "generate_content",
)  # fmt: skip
"""Ends of the names of operations that call a model, for calls of versions that state no kind."""
TABLE = SpanTable(
    kind=("kind",),
    operations={"llm": MODEL, "tool": TOOL, "agent": AGENT},
    inputs=("inputs",),
    outputs=("output",),
    model=("inputs.model", "output.model"),
    provider=("attributes.integration.name",),
    tools=("inputs.tools",),
    prompt_tokens=("usage.prompt_tokens", "usage.input_tokens"),
    completion_tokens=("usage.completion_tokens", "usage.output_tokens"),
    cached_tokens=("usage.cache_read_input_tokens", "usage.prompt_tokens_details.cached_tokens"),
    reasoning_tokens=("usage.completion_tokens_details.reasoning_tokens",),
    cost_usd=("cost",),
    error=("exception",),
)
_PLACES = RowPlaces(("trace_id",), ("id",), ("parent_id",), ("started_at",), ("ended_at",))


class WeaveFormat(TraceFormat):
    name: ClassVar[str] = "weave"
    title: ClassVar[str] = "Weave calls (JSON, JSON lines)"

    def recognises(self, path: Path) -> bool:
        paths = sniff(path).paths
        return any(paths >= {f"{at}op_name", f"{at}trace_id"} for at in ("", "[].", "calls[]."))

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        rows = value["calls"] if isinstance(value, dict) and isinstance(value.get("calls"), list) else [value]
        spans = [
            _PLACES.make_span(row | _facts(row), TABLE, *_facts(row), "inputs", "output") for row in objects_in(rows)
        ]
        if None in spans or len(spans) < len(rows):
            bad(where, "a call without `id` and `trace_id` is left out")
        return [span for span in spans if span is not None]


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a call's kind, name, usage and cost, which Weave keeps in references and by model."""
    op = (text_or_none(row.get("op_name")) or "").rpartition("/")[2].partition(":")[0]
    kind = text_or_none(get_path(row, "attributes", "weave", "kind")) or ("llm" if op.endswith(_MODEL_OPS) else None)
    usage, costs = get_path(row, "summary", "usage"), get_path(row, "summary", "weave", "costs")
    used = objects_in(list(usage.values())) if isinstance(usage, dict) else []
    spent = [
        number(one.get(f"{side}_tokens_total_cost"))
        for one in (objects_in(list(costs.values())) if isinstance(costs, dict) else ())
        for side in ("prompt", "completion")
    ]
    known = [cost for cost in spent if cost is not None]
    facts = {"kind": kind, "name": op, "usage": used[0] if used else None}
    return facts | {"cost": sum(known) if known and len(known) == len(spent) else None}
