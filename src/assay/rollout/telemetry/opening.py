"""Opens what observes a run. Imports OpenTelemetry only for a run that asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from assay.errors import UserError
from assay.http.metrics import MetricsRegistry

from .observer import RunObserver, combine_observers
from .run_metrics import RunMetrics

LOSS_PREFIX = "otel: "
"""Begins the message about what did not reach the collector."""


class TraceIdentity(NamedTuple):
    """Where traces come from."""

    instance: str | None = None
    """Name of the node; None for a run in one process."""
    seed: str | None = None
    """Random text that all processes of a run share, so that trials of an attempt are one trace; None: made here."""


@asynccontextmanager
async def open_telemetry(
    run: str,
    warn: Callable[[str], None],
    metrics: RunMetrics | None = None,
    identity: TraceIdentity | None = None,
    *,
    otel: bool,
) -> AsyncIterator[RunObserver | None]:
    """Yields the observer of a run; None if nothing observes it.

    Args:
        run: Name of the run.
        warn: Is told at the end of spans that did not reach the collector.
        metrics: Metrics that others serve; None: there are none, unless `otel` needs them.
        identity: Where traces come from.
        otel: Send traces and metrics to the collector that the variables `OTEL_...` name.

    Raises:
        UserError: OpenTelemetry is not installed, or a variable is invalid; nothing was started.
    """
    if not otel:
        yield metrics
        return
    try:
        from .otel import open_exporters  # late: the extra `otel`
    except ImportError as exc:
        raise UserError(f"otel needs {exc.name}, which is not installed: pip install 'assay[otel]'") from exc

    metrics = metrics or RunMetrics(MetricsRegistry())
    async with open_exporters(run, metrics.registry, identity or TraceIdentity(), warn) as tracer:
        yield combine_observers([metrics, *([] if tracer is None else [tracer])])
