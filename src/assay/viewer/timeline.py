"""Where the time of an attempt went: spans of model calls, tools and verification, in seconds since it began."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from ._partial_events import LightCall, LightEvent, LightEvidence, LightStep

MOST_SPANS: Final = 4000
SpanKind = Literal["model", "tool", "verify"]


class Span(NamedTuple):
    """A stretch of time."""

    kind: SpanKind
    start: float
    """Seconds since the attempt began."""
    end: float
    event: int


class Timeline(NamedTuple):
    """The spans of an attempt in order of their events."""

    spans: tuple[Span, ...]
    left_out: int
    totals: dict[SpanKind, float]
    """Seconds by kind; spans that overlap count once."""
    acting: tuple[float, float] | None
    """Start of the first and end of the last step or call; None without a timed one."""
    end: float
    """End of the attempt, or of what is known of it."""


class TimelineBuilder:
    """Collects spans from the events of an attempt; times before its start are ignored."""

    def __init__(self, started: float | None) -> None:
        self._zero = started
        self._spans: list[Span] = []
        self._executions: list[Span] = []
        self._call_ends: dict[str, float] = {}
        self._last_act = -1
        self._end = 0.0

    def add(self, number: int, event: LightEvent) -> None:
        """Adds an event."""
        if event.call is not None:
            self._add_call(number, event.call)
        elif event.step is not None:
            self._add_step(number, event.step)
        elif event.evidence is not None:
            self._add_evidence(number, event.evidence)
        self._seconds(event.at)

    def build(self) -> Timeline:
        """Returns the timeline; what was executed after the last step or call is verification."""
        after = [span for span in self._executions if span.event > self._last_act]
        spans = sorted([*self._spans, *after], key=lambda span: span.event)
        kinds = dict.fromkeys(span.kind for span in spans)
        totals = {kind: round(covered(span for span in spans if span.kind == kind), 3) for kind in kinds}
        acts = [span for span in spans if span.kind != "verify"]
        acting = (min(span.start for span in acts), max(span.end for span in acts)) if acts else None
        return Timeline(tuple(spans[:MOST_SPANS]), max(len(spans) - MOST_SPANS, 0), totals, acting, self._end)

    def _seconds(self, at: float | None) -> float | None:
        """Returns a time in seconds since the start; None where unknown or before it."""
        if at is None or self._zero is None or not 0 <= at - self._zero < 1e9:
            return None
        self._end = max(self._end, found := round(at - self._zero, 3))
        return found

    def _append(self, kind: SpanKind, start: float | None, end: float | None, number: int) -> None:
        if start is not None and end is not None and end >= start:
            self._spans.append(Span(kind, start, end, number))

    def _add_call(self, number: int, call: LightCall) -> None:
        self._last_act = number
        start, end = self._seconds(call.started), self._seconds(call.ended)
        if end is not None:
            self._call_ends[call.id] = end
        self._append("model", start, end, number)

    def _add_step(self, number: int, step: LightStep) -> None:
        self._last_act = number
        start, end = self._seconds(step.started), self._seconds(step.ended)
        answered = self._call_ends.get(step.call or "")
        if start is not None and answered is not None:
            start = max(start, answered)
        if step.tool_calls:
            self._append("tool", start, end, number)

    def _add_evidence(self, number: int, evidence: LightEvidence) -> None:
        end, took = self._seconds(evidence.at), evidence.data.duration_s
        if end is not None and isinstance(took, int | float) and 0 <= took < 1e9:
            self._executions.append(Span("verify", max(round(end - took, 3), 0.0), end, number))


def covered(spans: Iterable[Span]) -> float:
    """Returns the seconds that spans cover together."""
    total, reached = 0.0, 0.0
    for span in sorted(spans, key=lambda span: span.start):
        total += max(span.end - max(span.start, reached), 0.0)
        reached = max(reached, span.end)
    return total
