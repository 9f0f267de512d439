"""Metrics of a registry as those of the OpenTelemetry SDK; sums are cumulative since the registry's first report."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from assay import __version__
from assay.http.metrics import Distribution, MetricFamily

_UNITS = {"seconds": "s", "bytes": "By", "usd": "{USD}"}


def metrics_data(families: Sequence[MetricFamily], resource: Resource, start_ns: int, now_ns: int) -> MetricsData:
    """Returns metrics for an exporter, of the times between two moments (Unix, nanoseconds).

    Names are those of the Prometheus text without `_total`.
    """
    metrics = [_metric(family, start_ns, now_ns) for family in families if family.samples]
    scope = ScopeMetrics(InstrumentationScope("assay", __version__), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(family: MetricFamily, start_ns: int, now_ns: int) -> Metric:
    name = family.name.removesuffix("_total")
    unit = _UNITS.get(name.rpartition("_")[2], "1")
    data: Sum | Gauge | Histogram
    if family.kind == "histogram":
        data = Histogram(_distributions(family, start_ns, now_ns), AggregationTemporality.CUMULATIVE)
    else:
        points = [
            NumberDataPoint(dict(zip(family.label_names, labels, strict=True)), start_ns, now_ns, value)
            for labels, value in family.samples.items()
            if not isinstance(value, Distribution)
        ]
        data = Gauge(points) if family.kind == "gauge" else Sum(points, AggregationTemporality.CUMULATIVE, True)
    return Metric(name, family.help, unit, data)


def _distributions(family: MetricFamily, start_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    return [
        HistogramDataPoint(
            attributes=dict(zip(family.label_names, labels, strict=True)),
            start_time_unix_nano=start_ns,
            time_unix_nano=now_ns,
            count=sum(value.counts),
            sum=value.sum,
            bucket_counts=value.counts,
            explicit_bounds=family.bounds,
            min=None,  # type: ignore[arg-type,unused-ignore]  # optional in the protocol
            max=None,  # type: ignore[arg-type,unused-ignore]
        )
        for labels, value in family.samples.items()
        if isinstance(value, Distribution)
    ]
