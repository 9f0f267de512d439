"""MLflow 3: traces as `Trace.to_json` writes them, a document each or one a line. Assessments are kept.

Every attribute's value is JSON text there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from assay.formats.otel.spans import TraceSpan
from assay.formats.shared.json_stream import WarnFunction, loads
from assay.formats.shared.round_trip_builder import get_path, objects_in, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.formats.traces.reading import RowPlaces, TraceFormat, evaluation_span, holds_turns
from assay.formats.traces.table import AGENT, MODEL, TOOL, SpanTable, nest

TABLE = SpanTable(
    kind=("mlflow.spanType",),
    operations={"chat_model": MODEL, "llm": MODEL, "tool": TOOL, "agent": AGENT},
    inputs=("mlflow.spanInputs",),
    outputs=("mlflow.spanOutputs",),
    model=("mlflow.llm.model", "model", "mlflow.spanInputs.model"),
    provider=("mlflow.llm.provider", "mlflow.message.format"),
    tools=("mlflow.chat.tools", "tools"),
    prompt_tokens=("mlflow.chat.tokenUsage.input_tokens",),
    completion_tokens=("mlflow.chat.tokenUsage.output_tokens",),
    cached_tokens=("mlflow.chat.tokenUsage.cache_read_input_tokens",),
    cost_usd=("mlflow.llm.cost.total_cost",),
    error=("failure",),
)
_PLACES = RowPlaces(("trace",), ("span_id",), ("parent_span_id",), ("start",), ("end",))
_CONTENT = ("mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.chat.tools", "mlflow.chat.messages", "tools")


class MlflowFormat(TraceFormat):
    name: ClassVar[str] = "mlflow"
    title: ClassVar[str] = "MLflow 3 traces (JSON, JSON lines)"

    def recognises(self, path: Path) -> bool:
        paths = sniff(path).paths
        return any(paths >= {f"{at}info.trace_id", f"{at}data.spans"} for at in ("", "[]."))

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        trace = text_or_none(get_path(value, "info", "trace_id"))
        if trace is None:
            bad(where, "expected a trace with `info.trace_id` and `data.spans`")
            return []
        spans = [_span(trace, row) for row in objects_in(get_path(value, "data", "spans"))]
        found = [span for span in spans if span is not None]
        if len(found) < len(spans):
            bad(where, f"{len(spans) - len(found)} spans without `span_id` are left out")
        judged = objects_in(get_path(value, "info", "assessments"))
        return found + [_assessment(trace, n, row) for n, row in enumerate(judged) if "feedback" in row]


def _span(trace: str, row: dict[str, Any]) -> TraceSpan | None:
    given = row["attributes"] if isinstance(row.get("attributes"), dict) else {}
    attributes = {key: _value(item) for key, item in given.items()}
    times = {"start": _seconds(row.get("start_time_unix_nano")), "end": _seconds(row.get("end_time_unix_nano"))}
    failed = get_path(row, "status", "code") == "STATUS_CODE_ERROR"
    about = {"trace": trace, "failure": get_path(row, "status", "message") or "error" if failed else None}
    span = _PLACES.make_span({**nest(attributes), **row, **times, **about}, TABLE)
    if span is None:
        return None
    is_held = holds_turns(span.attributes)
    kept = {key: item for key, item in given.items() if not (is_held and key in _CONTENT)}
    return span._replace(raw={**row, "attributes": kept})


def _value(item: Any) -> Any:
    try:
        return loads(item) if isinstance(item, str) else item
    except ValueError:
        return item


def _seconds(nanoseconds: Any) -> float | None:
    return nanoseconds / 1e9 if isinstance(nanoseconds, int) and 0 < nanoseconds < 1 << 63 else None


def _assessment(trace: str, position: int, row: dict[str, Any]) -> TraceSpan:
    value, name = get_path(row, "feedback", "value"), row.get("assessment_name", row.get("name"))
    return evaluation_span(trace, f"assessment-{position}", name, value, row.get("rationale"), row)
