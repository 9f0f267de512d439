"""Spans of OpenTelemetry out of files and into them: OTLP JSON (a document, or a batch a line) and flat JSON as the SDK
prints it, one span a line or in an array.

A trace's spans may be anywhere in a file, so its lines are indexed first and each trace is then read by position. A
span keeps its source (`raw`) beside its attributes as plain values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay.errors import UserError
from assay.formats.interface import ImportContext, ReadProblem
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.json_stream import WarnFunction, decode_item, json_items, json_values, loads, parse_time
from assay.formats.shared.round_trip_builder import list_or_empty, objects_in, text_or_none
from assay.formats.shared.sniffing import sniff

Form = Literal["otlp", "flat"]
LARGEST = 512 << 20
_ABOUT = ("resource", "scope")


class TraceSpan(NamedTuple):
    trace: str
    id: str
    parent: str | None
    start: float | None
    end: float | None
    attributes: dict[str, Any]
    raw: dict[str, Any]
    about: dict[str, Any]
    """Resource and scope, of OTLP; a flat span holds its own."""
    form: Form


SpanReader = Callable[[Any, str, WarnFunction], list[TraceSpan]]
"""Makes spans of a JSON value, given its place and a function that reports problems."""


def is_genai_trace(path: Path) -> bool:
    """Returns whether a file begins with spans of a generative model."""
    return has_span_attributes(path, b"gen_ai.")


def has_span_attributes(path: Path, *marks: bytes) -> bool:
    """Returns whether a file is one of OpenTelemetry's spans and begins with attributes of one of these names."""
    seen = sniff(path)
    if not {"resourceSpans", "context.trace_id", "[].context.trace_id"} & seen.paths:
        return False
    with path.open("rb") as stream:
        head = stream.read(8 << 20)
    return any(mark in head for mark in marks)


def traces(path: Path, bad: WarnFunction, read: SpanReader | None = None) -> Iterator[list[TraceSpan]]:
    """Yields the spans of each trace, traces in the order of first occurrence, spans in the file's order.

    `read` makes spans of one JSON value; by default of OpenTelemetry's forms.
    """
    seen, read = sniff(path), read or read_otel_spans
    if seen.shape == "array":
        yield from _group_by_trace(_read_value(item, f"[{n}]", bad, read) for n, item in json_items(path, (), bad))
    elif seen.shape == "object" and not _one_line(path):
        documents = ((f"line {number}", value) for number, value in json_values(path, bad, largest=LARGEST))
        yield from _group_by_trace(_read_value(value, where, bad, read) for where, value in documents)
    else:
        yield from _read_by_place(path, bad, read)


def unrepeated_spans(spans: list[TraceSpan], reading: ImportContext, file: str) -> list[TraceSpan]:
    """Returns a trace's spans, each once, and reports those that occur again: a log that was joined or exported twice.

    Of model and tool spans with one id and different content the last is read. Other spans may share an id, such as
    the scores of several spans.
    """
    last: dict[str, int] = {}
    kept: dict[int, TraceSpan] = {}
    for position, span in enumerate(spans):
        before = last.get(span.id)
        same = before is not None and kept[before]._replace(form=span.form) == span
        replaced = before is not None and not same and all(_is_call(one) for one in (kept[before], span))
        if before is not None and (same or replaced):
            del kept[before]
            how = "with other content: the last is read" if replaced else "unchanged: it is read once"
            problem = f"span {span.id} occurs again {how}"
            reading.report_problem(ReadProblem(file, f"trace {span.trace}", problem, is_remark=same))
        last[span.id], kept[position] = position, span
    return list(kept.values())


def _is_call(span: TraceSpan) -> bool:
    return isinstance(span.attributes.get("gen_ai.operation.name"), str)


def _one_line(path: Path) -> bool:
    """Returns whether the first line is a whole document, so that the file is one of lines."""
    with path.open("rb") as stream:
        line = stream.readline(LARGEST)
    try:
        return isinstance(loads(line), dict)
    except ValueError:
        return False


def _group_by_trace(some: Iterable[list[TraceSpan]]) -> Iterator[list[TraceSpan]]:
    found: dict[str, list[TraceSpan]] = {}
    for spans in some:
        for span in spans:
            found.setdefault(span.trace, []).append(span)
    yield from found.values()


def _read_by_place(path: Path, bad: WarnFunction, read: SpanReader) -> Iterator[list[TraceSpan]]:
    places: dict[str, list[tuple[int, int, int]]] = {}
    with path.open("rb") as stream:
        number, start = 0, 0
        while line := stream.readline(LARGEST + 1):
            number, start, at = number + 1, start + len(line), start
            if len(line) > LARGEST:
                raise UserError(f"line {number} has more than {LARGEST:,} bytes")
            for trace in dict.fromkeys(s.trace for s in _line(line, number, bad, read)):
                places.setdefault(trace, []).append((number, at, len(line)))
        inner: tuple[int, list[TraceSpan]] = (0, [])
        for trace, lines in places.items():
            found: list[TraceSpan] = []
            for number, at, size in lines:
                if inner[0] != number:
                    stream.seek(at)
                    inner = (number, _line(stream.read(size), number, lambda *_: None, read))
                found += [span for span in inner[1] if span.trace == trace]
            yield found


def _line(line: bytes, number: int, bad: WarnFunction, read: SpanReader) -> list[TraceSpan]:
    if not line.strip():
        return []
    where = f"line {number}"
    value = decode_item(line, where, bad, LARGEST)
    return [] if value is msgspec.UNSET else _read_value(value, where, bad, read)


def _read_value(value: Any, where: str, bad: WarnFunction, read: SpanReader) -> list[TraceSpan]:
    found: list[TraceSpan] = []
    with skip_unreadable(bad, where):
        found = read(value, where, bad)
    return found


def read_otel_spans(value: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
    """Returns the spans of a batch of OTLP (`resourceSpans`), or one flat span."""
    batches = value.get("resourceSpans") if isinstance(value, dict) else None
    if not isinstance(batches, list):
        return _read_flat_span(value, where, bad)
    found: list[TraceSpan] = []
    for b, batch in enumerate(batches):
        scopes = batch.get("scopeSpans") if isinstance(batch, dict) else None
        for s, scoped in enumerate(scopes if isinstance(scopes, list) else ()):
            spans = scoped.get("spans") if isinstance(scoped, dict) else None
            about = {"resource": {k: v for k, v in batch.items() if k != "scopeSpans"}}
            about |= {"scope": {k: v for k, v in scoped.items() if k != "spans"} if isinstance(scoped, dict) else {}}
            for n, raw in enumerate(spans if isinstance(spans, list) else ()):
                span = otlp_span(raw, about)
                if span is None:
                    bad(
                        f"{where}.resourceSpans[{b}].scopeSpans[{s}].spans[{n}]".lstrip("."), "expected a span with ids"
                    )
                else:
                    found.append(span)
    return found


def otlp_span(raw: Any, about: dict[str, Any]) -> TraceSpan | None:
    """Parses a span of OTLP; None where it is invalid."""
    if not isinstance(raw, dict) or not isinstance(raw.get("traceId"), str) or not isinstance(raw.get("spanId"), str):
        return None
    attributes = {a["key"]: plain_value(a.get("value")) for a in list_or_empty(raw.get("attributes")) if _is_pair(a)}
    parent = text_or_none(raw.get("parentSpanId")) or None
    times = [_nanoseconds(raw.get(key)) for key in ("startTimeUnixNano", "endTimeUnixNano")]
    return TraceSpan(raw["traceId"], raw["spanId"], parent, times[0], times[1], attributes, raw, about, "otlp")


def _read_flat_span(raw: Any, where: str, bad: WarnFunction) -> list[TraceSpan]:
    context = raw.get("context") if isinstance(raw, dict) else None
    ids = [context.get(key) for key in ("trace_id", "span_id")] if isinstance(context, dict) else []
    if len(ids) != 2 or not all(isinstance(i, str) for i in ids):
        bad(where, "expected a span with ids, or a batch of them (`resourceSpans`)")
        return []
    attributes = raw.get("attributes")
    inner = attributes if isinstance(attributes, dict) else {}
    times = [parse_time(raw.get(key)) for key in ("start_time", "end_time")]
    return [
        TraceSpan(
            str(ids[0]), str(ids[1]), text_or_none(raw.get("parent_id")), times[0], times[1], inner, raw, {}, "flat"
        )
    ]


def _nanoseconds(value: Any) -> float | None:
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found / 1e9 if 0 < found < 1 << 63 else None


def plain_value(value: Any) -> Any:
    """Converts a value of OTLP (`{"stringValue": ...}`) to plain JSON."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    kind, inner = next(iter(value.items()))
    if kind == "arrayValue":
        return [plain_value(v) for v in list_or_empty(inner.get("values"))] if isinstance(inner, dict) else []
    if kind == "kvlistValue":
        pairs = objects_in(inner.get("values")) if isinstance(inner, dict) else []
        return {str(p.get("key")): plain_value(p.get("value")) for p in pairs}
    if kind == "intValue":
        try:
            return int(inner)
        except (TypeError, ValueError, OverflowError):
            return None
    return inner


def _is_pair(attribute: Any) -> bool:
    return isinstance(attribute, dict) and isinstance(attribute.get("key"), str)


def encode_value(value: Any) -> dict[str, Any]:
    """Converts plain JSON to a value of OTLP; objects become JSON text."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list) and all(isinstance(v, str | bool | int | float) for v in value):
        return {"arrayValue": {"values": [encode_value(v) for v in value]}}
    return {"stringValue": value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))}


def with_attributes(raw: dict[str, Any], form: Form, added: dict[str, Any]) -> dict[str, Any]:
    """Returns a span with more attributes, in its own form. The value None removes an attribute."""
    if form == "flat":
        inner = raw.get("attributes")
        kept = {k: v for k, v in (inner if isinstance(inner, dict) else {}).items() if k not in added}
        return {**raw, "attributes": {**kept, **{k: v for k, v in added.items() if v is not None}}}
    pairs = [a for a in list_or_empty(raw.get("attributes")) if not (_is_pair(a) and a["key"] in added)]
    pairs += [{"key": k, "value": encode_value(v)} for k, v in added.items() if v is not None]
    return {**raw, "attributes": pairs}


def encode_lines(spans: Iterable[tuple[dict[str, Any], dict[str, Any], Form]]) -> Iterator[bytes]:
    """Yields lines, one for each flat span, or for each batch of OTLP spans that share resource and scope, from the
    source, resource and scope, and form of each span in order.
    """
    batch: list[dict[str, Any]] = []
    shared: dict[str, Any] | None = None
    for raw, about, form in spans:
        if batch and (form == "flat" or about != shared):
            yield _batch(batch, shared or {})
            batch = []
        if form == "flat":
            yield msgspec.json.encode(raw) + b"\n"
            continue
        shared = about
        batch.append(raw)
    if batch:
        yield _batch(batch, shared or {})


def _batch(spans: list[dict[str, Any]], about: dict[str, Any]) -> bytes:
    resource, scope = ({**about.get(which, {})} for which in _ABOUT)
    whole = {"resourceSpans": [{**resource, "scopeSpans": [{**scope, "spans": spans}]}]}
    return msgspec.json.encode(whole) + b"\n"
