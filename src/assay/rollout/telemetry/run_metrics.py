"""Metrics of trials and model calls, for the registry of a node, of the rollout service or of a run with `otel`.

Labels are outcomes, boundaries, phases and kinds of tokens: their number is bounded, and none is text of a task, a
model or a client.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager

from assay.http.metrics import MetricsRegistry
from assay.records import ModelCall, Step

from .observer import Phase, TrialEnding, TrialInfo, TrialObserver

COMMIT_HELP = "Seconds from the end of a trial until the place or the run's store holds it."


class RunMetrics:
    """Counts trials and their model calls. A `RunObserver`."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self.registry = registry
        self.attempts = registry.gauge("assay_attempts", "Attempts under way, by state.", ("state",))
        self.ended = registry.counter("assay_attempts_total", "Attempts that ended, by outcome.", ("outcome",))
        self.interrupted = registry.counter("assay_interruptions_total", "Trials that were cut before their end.")
        self.retries = registry.counter("assay_retries_total", "Trials that are followed by another trial.")
        self.stopped = registry.counter("assay_stops_total", "Trials that a limit ended, by limit.", ("limit",))
        self.errors = registry.counter("assay_errors_total", "Trials that an error ended, by boundary.", ("boundary",))
        self.phases = registry.histogram("assay_phase_seconds", "Seconds of the phases of trials.", ("phase",))
        self.commits = registry.histogram("assay_commit_seconds", COMMIT_HELP, ("place",))
        self.steps = registry.counter("assay_steps_total", "Recorded turns, by actor.", ("actor",))
        self.commands = registry.counter("assay_commands_total", "Commands in sandboxes, by result.", ("result",))
        self.calls = CallMetrics(registry)

    def begin_trial(self, trial: TrialInfo) -> TrialObserver:
        return _TrialMetrics(self)

    def observe_session(self) -> TrialObserver:
        """Returns the observer of the calls of a gateway's session, which is not a trial."""
        return _TrialMetrics(self)

    def on_upload(self, chain: str, started: float, ending: str) -> None:
        self.commits.observe(max(0.0, time.time() - started), "place")


class CallMetrics:
    """Counts model calls."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._calls = registry.counter(
            "assay_model_calls_total", "Model calls that ended, by actor and result.", ("actor", "result")
        )
        self._seconds = registry.histogram(
            "assay_model_call_seconds", "Seconds of model calls, with the wait for a call slot.", ("actor",)
        )
        self._tokens = registry.counter(
            "assay_model_tokens_total", "Tokens of model calls as the servers counted them.", ("type",)
        )
        self._cost = registry.counter("assay_model_cost_usd_total", "US dollars of model calls with a known price.")

    def count_call(self, call: ModelCall) -> None:
        """Counts a recorded call."""
        self._calls.add(1, call.actor, "ok" if call.error is None else "error")
        if call.started is not None and call.ended is not None:
            self._seconds.observe(max(0.0, call.ended - call.started), call.actor)
        usage = call.usage
        counts = {
            "input": usage.prompt_tokens,
            "output": usage.completion_tokens,
            "cached": usage.cached_tokens,
            "reasoning": usage.reasoning_tokens,
        }
        for name, count in counts.items():
            if count:
                self._tokens.add(max(0, count), name)
        if call.cost_usd:
            self._cost.add(max(0.0, call.cost_usd))


class _MeasuredPhase:
    """A class, not a generator: a trial has five or more, and each costs half."""

    __slots__ = ("_began", "_metrics", "_name")

    def __init__(self, metrics: RunMetrics, name: Phase) -> None:
        self._metrics, self._name = metrics, name

    def __enter__(self) -> None:
        self._began = time.monotonic()
        self._metrics.attempts.add(1, self._name)

    def __exit__(self, *_: object) -> None:
        metrics, name = self._metrics, self._name
        metrics.attempts.add(-1, name)
        seconds = time.monotonic() - self._began
        metrics.phases.observe(seconds, name)
        if name == "commit":
            metrics.commits.observe(seconds, "store")


class _TrialMetrics:
    def __init__(self, metrics: RunMetrics) -> None:
        self._metrics = metrics

    def phase(self, name: Phase) -> AbstractContextManager[None]:
        return _MeasuredPhase(self._metrics, name)

    def on_call(self, call: ModelCall) -> None:
        self._metrics.calls.count_call(call)

    def on_step(self, step: Step) -> None:
        self._metrics.steps.add(1, step.actor)

    def on_execution(self, data: Mapping[str, object]) -> None:
        self._metrics.commands.add(
            1, "timed out" if data.get("timed_out") else "ok" if data.get("exit_code") == 0 else "error"
        )

    def on_end(self, ending: TrialEnding | None) -> None:
        metrics = self._metrics
        if ending is None:
            metrics.interrupted.add(1)
            return
        if ending.broke is not None:
            metrics.errors.add(1, ending.broke)
        if ending.stopped is not None:
            metrics.stopped.add(1, ending.stopped)
        if ending.is_retried:
            metrics.retries.add(1)
        else:
            metrics.ended.add(1, ending.outcome or "broke")
