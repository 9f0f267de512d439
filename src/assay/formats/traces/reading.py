"""Reads the traces of a tool: makes spans of its rows, links tools to calls, hands each trace to `TraceReader`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from assay.formats.interface import ImportContext, ImportedTrajectory, Provenance
from assay.formats.otel.attributes import COST
from assay.formats.otel.messages import parse_objects
from assay.formats.otel.spans import SpanReader, TraceSpan, traces, unrepeated_spans, with_attributes
from assay.formats.otel.trace import TraceReader
from assay.formats.otel.writer import INPUT, OUTPUT
from assay.formats.shared.base import ReadOnlyFormat, skip_unreadable
from assay.formats.shared.content_parts import as_text
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
    provenance: ClassVar[Provenance] = "peer"
    why_read_only: ClassVar[str] = "traces of other tools are only read; write otel-genai, which those tools take"

    def read_spans(self, value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
        """Returns the spans in one JSON value: a line, an element of the array, or the document."""
        raise NotImplementedError

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        yield from self.read_traces(path, reading, self.read_spans)

    def read_traces(self, path: Path, reading: ImportContext, read: SpanReader) -> Iterator[ImportedTrajectory]:
        """Yields one trajectory for each trace with a span of a model or a tool."""
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for found in traces(path, bad, read):
            spans = unrepeated_spans(found, reading, path.name)
            if any(span.attributes.get(_OPERATION) in (MODEL, TOOL) for span in spans):
                with skip_unreadable(bad, f"trace {spans[0].trace}"):
                    in_order = sorted(spans, key=lambda span: span.start or 0.0)
                    _demote_nested_calls(in_order)
                    _link_tools(in_order)
                    _name_task(in_order)
                    yield TraceReader(spans, origin, reading).read()
            elif spans:
                bad(f"trace {spans[0].trace}", f"none of its {len(spans)} spans is of a model or a tool")


class RowPlaces(NamedTuple):
    """Places of what every row has."""

    trace: Paths
    id: Paths
    parent: Paths
    start: Paths
    end: Paths

    def make_span(self, row: dict[str, Any], table: SpanTable, *without: str) -> TraceSpan | None:
        """Makes a span of a row; None where it has no ids.

        The row is kept with it, without the fields in `without` where they become turns: of models and tools.
        """
        trace, id_ = (text_or_none(find(row, paths)) for paths in (self.trace, self.id))
        if trace is None or id_ is None:
            return None
        start, end = (parse_time(find(row, paths)) for paths in (self.start, self.end))
        parent, attributes = text_or_none(find(row, self.parent)), span_attributes(row, table)
        rest = {k: v for k, v in row.items() if k not in without} if holds_turns(attributes) else row
        return TraceSpan(trace, id_, parent, start, end, attributes, rest, {}, "flat")


def map_span(
    span: TraceSpan, row: dict[str, Any], table: SpanTable, content: tuple[str, ...], without: tuple[str, ...] = ()
) -> TraceSpan:
    """Adds to a span of OpenTelemetry what a table finds in `row`; its messages are kept once, as turns.

    Attributes whose names begin with `content` are the messages, but for those in `without`.
    """
    attributes = span.attributes | span_attributes(row, table)
    names = span.attributes if holds_turns(attributes) else ()
    held = {name: None for name in names if name.startswith(content) and name not in without}
    return span._replace(attributes=attributes, raw=with_attributes(span.raw, span.form, held))


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


def holds_turns(attributes: dict[str, Any]) -> bool:
    """Returns whether a span is of a model or a tool, so that its input and output become turns."""
    return attributes.get(_OPERATION) in (MODEL, TOOL)


def _demote_nested_calls(spans: list[TraceSpan]) -> None:
    """Makes one call of model spans inside each other, with the tokens of the innermost, which outer ones repeat."""
    by_id = {span.id: span for span in spans}
    outermost = _outermost_calls(spans, by_id)
    inner: dict[str, list[TraceSpan]] = {}
    for span in spans:
        if (outer := outermost.get(span.id)) is not None and outer != span.id and holds_turns(span.attributes):
            inner.setdefault(outer, []).append(span)
    inner = {outer: found for outer, found in inner.items() if any(_is_model(span) for span in found)}
    for outer, found in inner.items():
        models = [span for span in found if _is_model(span)]
        around = {span.parent for span in models}
        leaves = [span for span in models if span.id not in around]
        for key in _SUMS:
            counts = [span.attributes[key] for span in leaves if key in span.attributes]
            if counts:
                by_id[outer].attributes[key] = sum(counts)
        for span in models:
            span.attributes.pop(_OPERATION)


def _is_model(span: TraceSpan) -> bool:
    return span.attributes.get(_OPERATION) == MODEL


def _outermost_calls(spans: list[TraceSpan], by_id: dict[str, TraceSpan]) -> dict[str, str | None]:
    """Returns the farthest model span at or above each span, by their ids; None without one."""
    found: dict[str, str | None] = {}
    for span in spans:
        line: list[TraceSpan] = []
        at: TraceSpan | None = span
        while at is not None and at.id not in found:
            found[at.id] = None  # also ends a circle of parents
            line.append(at)
            at = by_id.get(at.parent or "")
        above = found[at.id] if at is not None else None
        for one in reversed(line):
            above = above or (one.id if _is_model(one) else None)
            found[one.id] = above
    return found


class _OpenCalls:
    """Calls that models asked for and that no span of a tool belongs to yet."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str], deque[int]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._added = 0

    def add(self, call: dict[str, Any]) -> None:
        name, given = str(call.get("name")), as_text(call.get("arguments"))
        for key in (("id", str(call.get("id"))), (f"name {name}", given), (f"name {name}", "")):
            self._by_key.setdefault(key, deque()).append(self._added)
        self._calls[self._added] = call
        self._added += 1

    def take(self, attributes: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the earliest call of a tool span's id; else of its name and arguments; else of its name."""
        if attributes.get(_CALL_ID) is not None:
            return self._first(("id", attributes[_CALL_ID]))
        given = parse_json_text(attributes.get("gen_ai.tool.call.arguments"))
        name = str(attributes.get(_TOOL_NAME))
        for alias in dict.fromkeys((name, name.rpartition(" ")[2], name.rpartition(".")[2])):
            for arguments in (as_text(given), ""):
                if (found := self._first((f"name {alias}", arguments))) is not None:
                    return found
        return None

    def _first(self, key: tuple[str, str]) -> dict[str, Any] | None:
        waiting = self._by_key.get(key, deque())
        while waiting:
            if (call := self._calls.pop(waiting.popleft(), None)) is not None:
                return call
        return None


def _link_tools(spans: Iterable[TraceSpan]) -> None:
    """Gives spans of tools that name no call the id of the call that they execute."""
    open_calls = _OpenCalls()
    for span in spans:
        if _is_model(span):
            for part in (p for a in parse_objects(span.attributes.get(OUTPUT)) for p in objects_in(a.get("parts"))):
                if part.get("type") == "tool_call":
                    open_calls.add(part)
        elif span.attributes.get(_OPERATION) == TOOL:
            found = open_calls.take(span.attributes)
            if found is not None:
                span.attributes.update({_CALL_ID: found.get("id"), _TOOL_NAME: found.get("name")})


def _name_task(spans: list[TraceSpan]) -> None:
    """Names a trace's task after the trace if no prompt is recorded."""
    if any(span.attributes.get(INPUT) for span in spans):
        return
    ids = {span.id for span in spans}
    root = next((span for span in spans if span.parent not in ids), spans[0])
    root.attributes.setdefault("assay.task", root.trace)
