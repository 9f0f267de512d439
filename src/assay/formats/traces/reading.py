"""Reads the traces of a tool: makes spans of its rows, links tools to calls, hands each trace to `TraceReader`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.otel.messages import parse_objects
from assay.formats.otel.spans import SpanReader, TraceSpan, traces
from assay.formats.otel.trace import COST, TraceReader
from assay.formats.otel.writer import INPUT, OUTPUT
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.dialects import parse_json_text
from assay.formats.shared.json_stream import WarnFunction, parse_time, warn_in
from assay.formats.shared.outcomes import is_outcome
from assay.formats.shared.round_trip_builder import file_origin, objects_in, text_or_none
from assay.formats.traces.table import MODEL, TOOL, Paths, SpanTable, find, span_attributes

_OPERATION, _CALL_ID, _TOOL_NAME = "gen_ai.operation.name", "gen_ai.tool.call.id", "gen_ai.tool.name"
_SUMS = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.cache_read.input_tokens",
         "gen_ai.usage.reasoning.output_tokens", COST)  # fmt: skip


class TraceFormat(ReadOnlyFormat):
    """A tool's traces: JSON lines, an array or a document of rows, each row a span."""

    name: ClassVar[str]
    table: ClassVar[SpanTable]
    why_read_only: ClassVar[str] = "traces of other tools are only read; write otel-genai, which those tools take"

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        """Returns the spans in one JSON value: a line, an element of the array, or the document."""
        raise NotImplementedError

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        yield from self.read_traces(path, reading, self.read_spans)

    def read_traces(self, path: Path, reading: ImportContext, read: SpanReader) -> Iterator[ImportedTrajectory]:
        """Yields one trajectory for each trace with a span of a model or a tool."""
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for spans in traces(path, bad, read):
            if any(span.attributes.get(_OPERATION) in (MODEL, TOOL) for span in spans):
                in_order = sorted(spans, key=lambda span: span.start or 0.0)
                _demote_nested_calls(in_order)
                _link_tools(in_order)
                _name_task(in_order)
                yield TraceReader(spans, origin, reading).read()
            elif spans:
                bad(f"trace {spans[0].trace}", f"none of its {len(spans)} spans is of a model or a tool")


class RowPlaces:
    """Places of what every row has."""

    def __init__(self, trace: Paths, id_: Paths, parent: Paths, start: Paths, end: Paths) -> None:
        self.trace, self.id, self.parent, self.start, self.end = trace, id_, parent, start, end

    def make_span(self, row: dict[str, Any], table: SpanTable, *without: str) -> TraceSpan | None:
        """Makes a span of a row, which is kept but for the fields in `without`; None where it has no ids."""
        trace, id_ = (text_or_none(find(row, paths)) for paths in (self.trace, self.id))
        if trace is None or id_ is None:
            return None
        start, end = (parse_time(find(row, paths)) for paths in (self.start, self.end))
        parent, rest = text_or_none(find(row, self.parent)), {k: v for k, v in row.items() if k not in without}
        return TraceSpan(trace, id_, parent, start, end, span_attributes(row, table), rest, {}, "flat")


def evaluation_span(trace: str, id_: str, name: Any, value: Any, comment: Any, raw: dict[str, Any]) -> TraceSpan:
    """Makes a span of a score that a tool keeps beside its spans.

    It becomes a verdict if its name says that it is about success, else a note.
    """
    attributes: dict[str, Any] = {}
    if is_outcome(name):
        number_ = float(value) if isinstance(value, bool | int | float) else None
        label = str(value).lower() if isinstance(value, bool | str) else None
        about = {"name": name, "score.value": number_, "score.label": label, "explanation": comment}
        attributes = {f"gen_ai.evaluation.{key}": held for key, held in about.items() if held is not None}
    return TraceSpan(trace, id_, None, None, None, attributes, raw, {}, "flat")


def _demote_nested_calls(spans: list[TraceSpan]) -> None:
    """Makes one call of model spans inside each other, with the tokens of the innermost, which outer ones repeat."""
    by_id = {span.id: span for span in spans}
    inner: dict[str, list[TraceSpan]] = {}
    for span in spans:
        outer = _outermost_call(span, by_id)
        if outer is not None:
            inner.setdefault(outer.id, []).append(span)
    nested = {span.id for found in inner.values() for span in found}
    around = {span.parent for found in inner.values() for span in found}
    for outer_id, found in inner.items():
        leaves = [span for span in found if span.id not in around]
        for key in _SUMS:
            counts = [span.attributes[key] for span in leaves if key in span.attributes]
            if counts:
                by_id[outer_id].attributes[key] = sum(counts)
    for id_ in nested:
        by_id[id_].attributes.pop(_OPERATION)


def _outermost_call(span: TraceSpan, by_id: dict[str, TraceSpan]) -> TraceSpan | None:
    """Returns the farthest model span around a model span; None where it is in none."""
    if span.attributes.get(_OPERATION) != MODEL:
        return None
    found, seen, parent = None, {span.id}, by_id.get(span.parent or "")
    while parent is not None and parent.id not in seen:
        seen.add(parent.id)
        found = parent if parent.attributes.get(_OPERATION) == MODEL else found
        parent = by_id.get(parent.parent or "")
    return found


def _link_tools(spans: Iterable[TraceSpan]) -> None:
    """Gives tools that name no call the id of the earliest call of their name, with their arguments where one has."""
    waiting: list[dict[str, Any]] = []
    for span in spans:
        if span.attributes.get(_OPERATION) == MODEL:
            answers = parse_objects(span.attributes.get(OUTPUT))
            waiting += [p for a in answers for p in objects_in(a.get("parts")) if p.get("type") == "tool_call"]
        elif span.attributes.get(_OPERATION) == TOOL:
            found = _asked_call(span.attributes, waiting)
            if found is not None:
                waiting.remove(found)
                span.attributes.update({_CALL_ID: found.get("id"), _TOOL_NAME: found.get("name")})


def _asked_call(attributes: dict[str, Any], waiting: list[dict[str, Any]]) -> dict[str, Any] | None:
    call_id, name = attributes.get(_CALL_ID), str(attributes.get(_TOOL_NAME))
    if call_id is not None:
        return next((call for call in waiting if call.get("id") == call_id), None)
    named = [call for call in waiting if _is_named(name, str(call.get("name")))]
    given = parse_json_text(attributes.get("gen_ai.tool.call.arguments"))
    return next((call for call in named if call.get("arguments") == given), named[0] if named else None)


def _is_named(span: str, tool: str) -> bool:
    """Returns whether a span's name is that of a tool, which may follow other words (`running tool: search`)."""
    return span == tool or (bool(tool) and span.endswith((f" {tool}", f".{tool}")))


def _name_task(spans: list[TraceSpan]) -> None:
    """Names a trace's task after the trace where no prompt is recorded: there is no instruction to name it by."""
    if any(span.attributes.get(INPUT) for span in spans):
        return
    ids = {span.id for span in spans}
    root = next((span for span in spans if span.parent not in ids), spans[0])
    root.attributes.setdefault("assay.task", root.trace)
