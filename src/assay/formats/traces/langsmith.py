"""LangSmith: runs as its API, its SDK and its command line export them, one a line, in an array, or under `runs`.

A trace's `llm` runs are calls, its `tool` runs executions; the runs of LangGraph's nodes are notes. Feedback on the
root is kept by its averages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.otel.spans import TraceSpan
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.round_trip_builder import objects_in
from assay.formats.shared.sniffing import sniff
from assay.formats.traces.reading import RowPlaces, TraceFormat, evaluation_span
from assay.formats.traces.table import AGENT, MODEL, TOOL, SpanTable

_MESSAGE = "outputs.generations.0.0.message.kwargs"
TABLE = SpanTable(
    kind=("kind",),
    operations={"llm": MODEL, "tool": TOOL, "root": AGENT},
    inputs=("inputs",),
    outputs=("outputs",),
    model=("extra.metadata.ls_model_name", "extra.invocation_params.model", "extra.invocation_params.model_name"),
    provider=("extra.metadata.ls_provider",),
    tools=("extra.invocation_params.tools", "inputs.tools"),
    prompt_tokens=(
        "prompt_tokens", "outputs.usage_metadata.input_tokens", f"{_MESSAGE}.usage_metadata.input_tokens",
        "outputs.llm_output.token_usage.prompt_tokens", "extra.metadata.usage_metadata.input_tokens",
    ),
    completion_tokens=(
        "completion_tokens", "outputs.usage_metadata.output_tokens", f"{_MESSAGE}.usage_metadata.output_tokens",
        "outputs.llm_output.token_usage.completion_tokens", "extra.metadata.usage_metadata.output_tokens",
    ),
    cached_tokens=(
        "outputs.usage_metadata.input_token_details.cache_read",
        f"{_MESSAGE}.usage_metadata.input_token_details.cache_read", "prompt_token_details.cache_read",
    ),
    reasoning_tokens=(f"{_MESSAGE}.usage_metadata.output_token_details.reasoning",),
    cost_usd=("total_cost",),
    call_id=("extra.tool_call_id", "inputs.tool_call_id"),
    error=("error",),
)  # fmt: skip
_PLACES = RowPlaces(("trace_id",), ("id", "run_id"), ("parent_run_id",), ("start_time",), ("end_time",))


class LangSmithFormat(TraceFormat):
    name: ClassVar[str] = "langsmith"
    title: ClassVar[str] = "LangSmith runs (JSON, JSON lines)"

    def recognises(self, path: Path) -> bool:
        paths = sniff(path).paths
        return any(paths >= {f"{at}run_type", f"{at}trace_id"} for at in ("", "[].", "runs[].", "child_runs[]."))

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        found: list[TraceSpan] = []
        for row in _runs(value):
            kind = "root" if row.get("run_type") == "chain" and not row.get("parent_run_id") else row.get("run_type")
            span = _PLACES.make_span(row | {"kind": kind}, TABLE, "kind", "inputs", "outputs", "child_runs", "events")
            if span is None:
                bad(where, "a run without `id` and `trace_id` is left out")
                continue
            found.append(span)
            stats = row.get("feedback_stats")
            for name, about in stats.items() if isinstance(stats, dict) else ():
                if isinstance(about, dict) and not row.get("parent_run_id"):
                    found.append(evaluation_span(span.trace, f"feedback-{name}", name, about.get("avg"), None, about))
        return found


def _runs(value: Any) -> Iterator[dict[str, Any]]:
    """Yields a run and those below it."""
    for run in objects_in(
        value["runs"] if isinstance(value, dict) and isinstance(value.get("runs"), list) else [value]
    ):
        if "run_type" in run:
            yield run
        for child in objects_in(run.get("child_runs")):
            yield from _runs(child)
