"""Metrics of a process: counters, gauges and histograms in one registry, rendered in the Prometheus text format.

`prometheus_client` is not used: it would be a dependency of the core for what takes 150 lines, bounds no labels, counts
under a lock, and registers collectors of the process on import. Its parser reads these texts in the tests.

Covered: a metric has at most `MOST_SERIES` combinations of label values, and further ones are counted as `other`; a
label value has at most `MOST_LABEL_CHARS` characters, which are escaped. Label values are words of this program
(outcomes, boundaries, phases), never text of a task, a model or a client: their callers see to that.

Invariant: a registry belongs to one event loop; other threads get what `collect` returned.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from .messages import Response

MOST_SERIES = 64
MOST_LABEL_CHARS = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of a duration."""

Labels = tuple[str, ...]
Kind = Literal["counter", "gauge", "histogram"]


class Distribution(NamedTuple):
    """The values of a histogram."""

    counts: tuple[int, ...]
    """Number of values in each bucket, not cumulative; the last bucket has no upper bound."""
    sum: float


class MetricFamily(NamedTuple):
    """A metric at one moment."""

    name: str
    help: str
    kind: Kind
    label_names: Labels
    samples: dict[Labels, float | Distribution]
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets."""


class _Metric:
    """A metric and its series by label values."""

    def __init__(self, family: MetricFamily) -> None:
        self.family = family

    def collect(self) -> MetricFamily:
        return self.family._replace(samples=dict(self.family.samples))

    def _add(self, amount: float, labels: Labels) -> None:
        values: dict[Labels, Any] = self.family.samples
        if labels in values:
            values[labels] += amount
        else:
            key = self._key(labels)
            values[key] = values.get(key, 0) + amount

    def _key(self, labels: Labels) -> Labels:
        """Returns the series to which label values belong."""
        samples = self.family.samples
        if labels in samples:
            return labels
        if len(labels) != len(self.family.label_names):
            raise ValueError(f"{self.family.name} has the labels {self.family.label_names}, not {len(labels)}")
        labels = tuple([value[:MOST_LABEL_CHARS] for value in labels])
        if labels in samples or len(samples) < MOST_SERIES - 1:
            return labels
        return ("other",) * len(labels)


class Counter(_Metric):
    """A number that only grows."""

    def add(self, amount: float, *labels: str) -> None:
        """Adds an amount of 0 or more."""
        self._add(amount, labels)


class Gauge(_Metric):
    """A number that is set."""

    def set(self, value: float, *labels: str) -> None:
        self.family.samples[self._key(labels)] = value

    def add(self, amount: float, *labels: str) -> None:
        """Adds an amount, which may be negative."""
        self._add(amount, labels)


class Histogram(_Metric):
    """A distribution of values over fixed buckets."""

    def __init__(self, family: MetricFamily) -> None:
        super().__init__(family)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Counts a value."""
        key = labels if labels in self._counts else self._key(labels)
        if key not in self._counts:
            self._counts[key] = [0] * (len(self.family.bounds) + 1)
            self._sums[key] = 0.0
            self.family.samples[key] = 0.0  # so that the number of series is bounded
        self._counts[key][bisect_left(self.family.bounds, value)] += 1
        self._sums[key] += value

    def collect(self) -> MetricFamily:
        samples: dict[Labels, float | Distribution] = {
            key: Distribution(tuple(counts), self._sums[key]) for key, counts in self._counts.items()
        }
        return self.family._replace(samples=samples)


class _ReadMetric(_Metric):
    """A metric whose values are read when it is collected."""

    def __init__(self, family: MetricFamily, read: Callable[[], Mapping[Labels, float]]) -> None:
        super().__init__(family)
        self._read = read

    def collect(self) -> MetricFamily:
        self.family.samples.clear()
        for labels, value in self._read().items():
            self._add(value, labels)
        return super().collect()


_M = TypeVar("_M", bound=_Metric)


class MetricsRegistry:
    """The metrics of one process or server, in the order in which they were declared."""

    def __init__(self) -> None:
        self._metrics: dict[str, _Metric] = {}

    def counter(self, name: str, help_text: str, label_names: Labels = ()) -> Counter:
        """Declares a counter, whose name ends in `_total`; returns the one of that name if it is declared already."""
        return self._declare(Counter, MetricFamily(name, help_text, "counter", label_names, {}))

    def gauge(self, name: str, help_text: str, label_names: Labels = ()) -> Gauge:
        """Declares a gauge, or returns the one of that name."""
        return self._declare(Gauge, MetricFamily(name, help_text, "gauge", label_names, {}))

    def histogram(
        self, name: str, help_text: str, label_names: Labels = (), bounds: tuple[float, ...] = SECONDS
    ) -> Histogram:
        """Declares a histogram, or returns the one of that name."""
        return self._declare(Histogram, MetricFamily(name, help_text, "histogram", label_names, {}, bounds))

    def read(
        self,
        name: str,
        help_text: str,
        read: Callable[[], Mapping[Labels, float]],
        label_names: Labels = (),
        *,
        kind: Literal["counter", "gauge"] = "gauge",
    ) -> None:
        """Declares a metric whose values `read` returns by label values whenever the metrics are collected."""
        self._metrics[name] = _ReadMetric(MetricFamily(name, help_text, kind, label_names, {}), read)

    def collect(self) -> list[MetricFamily]:
        """Returns all metrics as they are now. Called on the event loop."""
        return [metric.collect() for metric in self._metrics.values()]

    def response(self) -> Response:
        """Returns the metrics as the response to a scrape."""
        return Response(200, render_text(self.collect()).encode(), {"Content-Type": CONTENT_TYPE})

    def _declare(self, kind: type[_M], family: MetricFamily) -> _M:
        metric = self._metrics.setdefault(family.name, kind(family))
        if not isinstance(metric, kind) or metric.family.label_names != family.label_names:
            raise ValueError(f"metric {family.name} is declared in another way already")
        return metric


def render_text(families: Iterable[MetricFamily]) -> str:
    """Renders metrics in the Prometheus text format 0.0.4."""
    lines = []
    for family in families:
        help_text = family.help.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {family.name} {help_text}", f"# TYPE {family.name} {family.kind}"]
        for labels, value in family.samples.items():
            pairs = list(zip(family.label_names, labels, strict=True))
            if isinstance(value, Distribution):
                lines += _render_distribution(family, pairs, value)
            else:
                lines.append(f"{family.name}{_render_labels(pairs)} {_render_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def _render_distribution(family: MetricFamily, pairs: list[tuple[str, str]], value: Distribution) -> list[str]:
    lines, total = [], 0
    for bound, count in zip((*family.bounds, math.inf), value.counts, strict=True):
        total += count
        labels = _render_labels([*pairs, ("le", _render_number(bound))])
        lines.append(f"{family.name}_bucket{labels} {total}")
    labels = _render_labels(pairs)
    return [*lines, f"{family.name}_sum{labels} {_render_number(value.sum)}", f"{family.name}_count{labels} {total}"]


def _render_labels(pairs: list[tuple[str, str]]) -> str:
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in pairs) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _render_number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
