"""Sends traces and metrics over OTLP/HTTP with the OpenTelemetry SDK, which reads the variables `OTEL_...`.

Covered: a collector that is slow, refuses or is absent. Spans wait in a queue of `OTEL_BSP_MAX_QUEUE_SIZE` (2048),
whose oldest are dropped; threads of the SDK encode and send; the end of a run waits `CLOSE_S` at most; what did not
arrive is counted and said once. Not covered: what a collector does with what it is sent. It gets names of tasks,
agents, models, tools and checks, numbers and times, but no prompt, reply, argument, output or error text.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from hashlib import blake2b
from random import Random
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator

from assay import __version__
from assay.errors import UserError
from assay.http.metrics import MetricFamily, MetricsRegistry
from assay.settings import Settings
from assay.threads import start_thread

from .opening import LOSS_PREFIX, TraceIdentity
from .otel_metrics import metrics_data
from .trial_spans import RunTracer

CLOSE_S = 5.0
"""Seconds that the end of a run waits for its last spans and metrics to be sent."""
STOP_S = 0.5
"""Seconds in which a sender that waits between two tries gives up."""
METRICS_EVERY_MS = 60_000
MOST_ANSWER_BYTES = 64 << 10
"""Of an answer of a collector that are read; nothing needs them, but the connection is used again after its end."""
_PROTOCOL = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL")
_SWITCHES = ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_METRIC_EXPORT_INTERVAL")


@asynccontextmanager
async def open_exporters(
    run: str, registry: MetricsRegistry, identity: TraceIdentity, warn: Callable[[str], None]
) -> AsyncIterator[RunTracer | None]:
    """Yields the tracer of a run, None if the variables switch traces off; metrics are sent beside it.

    Raises:
        UserError: A variable is invalid.
    """
    named = Settings.named((*_PROTOCOL, *_SWITCHES))
    _require_supported(named)
    if named.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        yield None
        return
    resource = _resource(run, identity)
    try:
        traces = None if named.get("OTEL_TRACES_EXPORTER") == "none" else _TraceExport(resource, identity)
        metrics = None if named.get("OTEL_METRICS_EXPORTER") == "none" else _MetricExport(resource, registry)
    except (ValueError, OSError) as exc:
        raise UserError(f"otel: the exporter cannot be made as the variables OTEL_... say: {exc}") from exc
    every_s = _interval_s(named.get("OTEL_METRIC_EXPORT_INTERVAL"))
    with _silent_loggers():
        pushing = None if metrics is None else asyncio.create_task(metrics.push(every_s))
        try:
            yield None if traces is None else traces.tracer(run, is_node=identity.instance is not None)
        finally:
            if pushing is not None:
                pushing.cancel()
            problems = await asyncio.shield(_close(traces, metrics))
    for problem in problems:
        warn(problem)


def _require_supported(named: dict[str, str]) -> None:
    for name in _PROTOCOL:
        if named.get(name, "http/protobuf") != "http/protobuf":
            raise UserError(f"{name}={named[name]}: otel sends http/protobuf only: set it so, or leave it away")
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"):
        if named.get(name, "otlp") not in ("otlp", "none"):
            raise UserError(f"{name}={named[name]}: expected otlp or none")


def _interval_s(text: str | None) -> float:
    try:
        interval_ms = METRICS_EVERY_MS if text is None else float(text)
    except ValueError:
        interval_ms = math.nan
    if not 0 < interval_ms < math.inf:
        raise UserError(f"OTEL_METRIC_EXPORT_INTERVAL={text}: expected milliseconds, such as 60000")
    return interval_ms / 1000


def _resource(run: str, identity: TraceIdentity) -> Resource:
    """Returns what all spans and metrics share; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come first."""
    found = Resource.create()
    ours: dict[str, Any] = {"service.version": __version__, "assay.run": run}
    if identity.instance is not None:
        ours["service.instance.id"] = identity.instance
    if str(found.attributes.get("service.name", "")).startswith("unknown_service"):
        ours["service.name"] = "assay"
    named = {name: value for name, value in ours.items() if name == "service.name" or name not in found.attributes}
    return found.merge(Resource(named))


@contextmanager
def _silent_loggers() -> Iterator[None]:
    """Silences the SDK's messages of a failing collector, of which there is one for each span: they are counted."""
    logger = logging.getLogger("opentelemetry")
    level, disabled = logger.level, logger.disabled
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.disabled = disabled


async def _close(traces: _TraceExport | None, metrics: _MetricExport | None) -> list[str]:
    """Sends what is left, for `CLOSE_S` at most, and returns what did not arrive."""
    exports = [one for one in (traces, metrics) if one is not None]
    last = None if metrics is None else metrics.collect()

    def finish() -> None:
        for one in exports:
            one.finish(last)

    finishing = asyncio.wrap_future(start_thread("assay-otel-end", finish))
    await asyncio.wait({finishing}, timeout=CLOSE_S)
    if not finishing.done():
        for one in exports:
            start_thread("assay-otel-stop", one.stop)  # ends a wait between two tries
        await asyncio.wait({finishing}, timeout=STOP_S)
    return [problem for one in exports if (problem := one.problem()) is not None]


class _TraceIds(IdGenerator):  # type: ignore[misc,unused-ignore]
    """Random ids, without the state of the module `random`; the next trace has the id that was set."""

    def __init__(self) -> None:
        self._random = Random(secrets.token_bytes(32))
        self.next_trace = 0

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        return self.next_trace or self._random.getrandbits(128) or 1


class _CollectorSession(requests.Session):
    """Sends to one collector. The SDK takes a redirection for success, though nobody took what was sent, and reads
    answers of any length."""

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        """Raises `requests.HTTPError` for a redirection; the answer that is returned has no content."""
        options["stream"] = True
        with super().request(*arguments, **options) as response:
            if 300 <= response.status_code < 400:
                raise requests.HTTPError("the collector redirects: name the address that takes traces and metrics")
            response.raw.read(MOST_ANSWER_BYTES)
        return response


class _CountedSpans(SpanProcessor):  # type: ignore[misc,unused-ignore]
    """Counts ended spans before they are queued."""

    def __init__(self) -> None:
        self.ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self.ended += 1


class _CountedExporter(SpanExporter):  # type: ignore[misc,unused-ignore]
    """Counts the spans that a collector took. Its calls are made by one thread."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self.delivered = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.delivered += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()


class _TraceExport:
    """The queue of spans, and the thread of the SDK that sends them."""

    def __init__(self, resource: Resource, identity: TraceIdentity) -> None:
        self._seed = identity.seed or secrets.token_hex(16)
        self._ids = _TraceIds()
        self._counted = _CountedSpans()
        self._exporter = _CountedExporter(OTLPSpanExporter(session=_CollectorSession()))
        self._queue = BatchSpanProcessor(self._exporter)
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(self._counted)
        self._provider.add_span_processor(self._queue)

    def tracer(self, run: str, *, is_node: bool) -> RunTracer:
        """Returns the tracer of a run."""
        return RunTracer(self._provider.get_tracer("assay", __version__), self._choose_trace, run, is_node=is_node)

    def _choose_trace(self, run: str, attempt: str) -> None:
        """Makes the next root span one of an attempt's trace."""
        digest = blake2b(f"{self._seed}\0{run}\0{attempt}".encode("utf-8", "replace"), digest_size=16).digest()
        self._ids.next_trace = int.from_bytes(digest)

    def finish(self, last: list[MetricFamily] | None) -> None:
        """Sends the spans that are queued, on a thread."""
        self._queue.shutdown()

    def stop(self) -> None:
        """Ends sending."""
        self._exporter.shutdown()

    def problem(self) -> str | None:
        ended, delivered = self._counted.ended, self._exporter.delivered
        if ended == delivered:
            return None
        return (
            f"{LOSS_PREFIX}{ended - delivered} of {ended} spans did not reach the collector (it did not take them "
            "in time, or the queue was full: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_BSP_MAX_QUEUE_SIZE); the run is not "
            "affected"
        )


class _MetricExport:
    """Sends the metrics of a registry, one request at a time; a slow collector misses some."""

    def __init__(self, resource: Resource, registry: MetricsRegistry) -> None:
        self._resource, self._registry = resource, registry
        self._exporter = OTLPMetricExporter(session=_CollectorSession())
        self._start_ns = time.time_ns()
        self._sending = threading.Lock()
        self._failures = 0
        self._requests = 0

    async def push(self, every_s: float) -> None:
        """Sends the metrics for ever."""
        while True:
            await asyncio.sleep(every_s)
            if not self._sending.locked():
                start_thread("assay-otel-metrics", self._send, self.collect())

    def collect(self) -> list[MetricFamily]:
        """Returns the metrics as they are now. Called on the event loop."""
        return self._registry.collect()

    def finish(self, last: list[MetricFamily] | None) -> None:
        """Sends the last metrics, on a thread."""
        self._send(last or [])

    def _send(self, families: list[MetricFamily]) -> None:
        data = metrics_data(families, self._resource, self._start_ns, time.time_ns())
        with self._sending:
            self._requests += 1
            self._failures += 1  # until it has arrived
            if self._exporter.export(data) is MetricExportResult.SUCCESS:
                self._failures -= 1

    def stop(self) -> None:
        """Ends sending."""
        self._exporter.shutdown()

    def problem(self) -> str | None:
        if not self._failures:
            return None
        return f"{LOSS_PREFIX}{self._failures} of {self._requests} reports of metrics did not reach the collector"
