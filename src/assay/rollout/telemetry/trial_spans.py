"""Spans of trials: a root for each trial, below it its phases, below these model calls, tool calls and commands.

Names follow the conventions for generative AI where these have one: `invoke_agent`, `chat`, `execute_tool`. All trials
of an attempt are one trace.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from assay.formats.otel.attributes import (
    AGENT,
    CONVERSATION,
    EVALUATION,
    MODEL,
    OPERATION,
    PROVIDER,
    TOOL_CALL,
    TOOL_NAME,
    TOOL_TYPE,
    usage_attributes,
)
from assay.records import ModelCall, Observation, Step, ToolCall

from .observer import Phase, TrialEnding, TrialInfo, TrialObserver

MOST_UPLOADS = 10_000
"""Trials of a node whose upload is awaited; further ones get no span of it."""
MOST_TEXT = 200
_TOOL = re.compile(r"[\w.:/-]{1,64}", re.ASCII)
Attributes = dict[str, Any]


class RunTracer:
    """Traces the trials of a run. A `RunObserver`."""

    def __init__(
        self, tracer: Tracer, choose_trace: Callable[[str, str], None], run: str, *, is_node: bool = False
    ) -> None:
        """Creates a tracer.

        Args:
            tracer: Starts the spans.
            choose_trace: Is called with run and attempt before a root span starts, and chooses its trace.
            run: Name of the run.
            is_node: True if trials are uploaded after their end.
        """
        self.tracer, self._choose_trace, self.run, self._is_node = tracer, choose_trace, run, is_node
        self._ended: dict[str, Context] = {}
        """Of a node, the root of each trial that is not uploaded yet, by chain."""

    def begin_trial(self, trial: TrialInfo) -> TrialObserver:
        self._choose_trace(trial.run, trial.attempt)
        return _TrialSpans(self, trial)

    def on_trial_end(self, chain: str, root: Context) -> None:
        """Keeps the root of a trial until its upload."""
        if self._is_node and len(self._ended) < MOST_UPLOADS:
            self._ended[chain] = root

    def on_upload(self, chain: str, started: float, ending: str) -> None:
        root = self._ended.pop(chain, None)
        if root is not None:
            attributes = {"assay.place": "place", "assay.ending": ending}
            span = self.tracer.start_span("commit", root, attributes=attributes, start_time=_nanoseconds(started))
            span.end()


class _TrialSpans:
    def __init__(self, run: RunTracer, trial: TrialInfo) -> None:
        self._run, self._trial = run, trial
        attributes = _known_attributes({
            "assay.run": trial.run,
            "assay.attempt": trial.attempt,
            "assay.task": trial.task,
            "assay.number": trial.number,
            "assay.retry": trial.retry,
            "assay.seed": str(trial.seed),
            CONVERSATION: trial.chain,
            AGENT: trial.agent,
            MODEL: trial.model,
        })  # fmt: skip
        self._root = run.tracer.start_span("attempt", Context(), attributes=attributes)
        self._root_context = set_span_in_context(self._root, Context())
        self._phase = self._root_context
        self._call_ends: dict[str, float] = {}
        """End of each call whose turn is not recorded yet."""

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        span = self._start_phase(name)
        outer, self._phase = self._phase, set_span_in_context(span, self._root_context)
        try:
            yield
        except BaseException as exc:
            _mark_error(span, type(exc).__name__)
            raise
        finally:
            self._phase = outer
            span.end()

    def _start_phase(self, name: Phase) -> Span:
        if name != "agent":
            place = {"assay.place": "store"} if name == "commit" else {}
            return self._run.tracer.start_span(name, self._root_context, attributes=place)
        trial = self._trial
        attributes = {OPERATION: "invoke_agent", AGENT: trial.agent, CONVERSATION: trial.chain, MODEL: trial.model}
        title = f"invoke_agent {trial.agent[:MOST_TEXT]}"
        return self._run.tracer.start_span(title, self._root_context, attributes=_known_attributes(attributes))

    def on_call(self, call: ModelCall) -> None:
        if call.started is None or call.ended is None:
            return
        if len(self._call_ends) < 1000:
            self._call_ends[call.id] = call.ended
        attributes: Attributes = {
            OPERATION: "chat",
            PROVIDER: call.dialect,
            MODEL: call.model,
            "assay.call": call.id,
            "assay.actor": call.actor,
            "assay.tries": call.tries,
            **usage_attributes(call),
        }
        attributes |= {f"gen_ai.request.{k}": v for k, v in call.sampling.items() if isinstance(v, int | float)}
        span = self._start(f"chat {call.model[:MOST_TEXT]}", attributes, call.started, kind=SpanKind.CLIENT)
        if call.error is not None:
            _mark_error(span, "provider")
        span.end(_nanoseconds(max(call.ended, call.started)))

    def on_step(self, step: Step) -> None:
        """Adds a span for each tool call. Those of one turn share its time, unless all say how long they took."""
        called = self._call_ends.pop(step.call or "", None)
        if step.started is None or step.ended is None or not step.tool_calls:
            return
        started = min(max(step.started, called or 0.0), step.ended)
        seen = {one.call_id: one for one in step.observations}
        durations = [getattr(seen.get(one.id), "duration_s", None) for one in step.tool_calls]
        at = started
        for call, duration in zip(step.tool_calls, durations, strict=True):
            until = step.ended
            if None not in durations and duration is not None:
                until = min(at + duration, step.ended)
            self._add_tool(call, seen.get(call.id), step, (at, until))
            at = started if None in durations else until

    def _add_tool(self, call: ToolCall, seen: Observation | None, step: Step, times: tuple[float, float]) -> None:
        name = call.name if _TOOL.fullmatch(call.name) else "invalid-name"
        attributes = {
            OPERATION: "execute_tool",
            TOOL_NAME: name,
            TOOL_TYPE: "function",
            TOOL_CALL: call.id,
            "assay.step": step.index,
            "assay.actor": step.actor,
            "process.exit.code": None if seen is None else seen.exit_code,
        }
        span = self._start(f"execute_tool {name}", attributes, times[0])
        if seen is not None and seen.error:
            _mark_error(span, "tool")
        span.end(_nanoseconds(times[1]))

    def on_execution(self, data: Mapping[str, object]) -> None:
        duration = data.get("duration_s")
        if not isinstance(duration, int | float):
            return
        now = time.time()
        exit_code, fork = data.get("exit_code"), data.get("fork")
        attributes: Attributes = {
            "process.exit.code": exit_code if isinstance(exit_code, int) else None,
            "assay.fork": fork if isinstance(fork, str) else None,
            "assay.timed_out": data.get("timed_out") is True,
        }
        span = self._start("command", attributes, now - duration)
        if exit_code != 0:
            _mark_error(span, "command")
        span.end(_nanoseconds(now))

    def _start(self, name: str, attributes: Attributes, started: float, kind: SpanKind = SpanKind.INTERNAL) -> Span:
        return self._run.tracer.start_span(
            name, self._phase, kind=kind, attributes=_known_attributes(attributes), start_time=_nanoseconds(started)
        )

    def on_end(self, ending: TrialEnding | None) -> None:
        root = self._root
        if ending is None:
            root.set_attribute("assay.interrupted", True)
        else:
            root.set_attributes(_known_attributes({
                "assay.outcome": ending.outcome,
                "assay.stopped": ending.stopped,
                "assay.retried": ending.is_retried,
            }))  # fmt: skip
            for verdict in ending.verdicts:
                evaluated = {"name": verdict.check, "score.label": verdict.status, "score.value": verdict.score}
                root.add_event(
                    EVALUATION, _known_attributes({f"gen_ai.evaluation.{k}": v for k, v in evaluated.items()})
                )
            if ending.broke is not None:
                _mark_error(root, ending.broke)
        root.end()
        self._run.on_trial_end(self._trial.chain, self._root_context)


def _known_attributes(attributes: Attributes) -> Attributes:
    """Returns the known attributes, with short texts that can be encoded."""
    return {
        name: value.encode("utf-8", "replace").decode()[:MOST_TEXT] if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


def _mark_error(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))


def _nanoseconds(at: float) -> int:
    return max(0, int(at * 1e9))
