"""Metrics of a registry, read by the parser of `prometheus_client`."""

from __future__ import annotations

import pytest

from assay.http.metrics import CONTENT_TYPE, MOST_SERIES, MetricsRegistry, render_text
from tests.metrics_text import parse_metrics

pytestmark = pytest.mark.quick
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(registry: MetricsRegistry) -> Samples:
    families = parse_metrics(registry.response().body.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_counters_and_gauges_are_what_was_counted() -> None:
    registry = MetricsRegistry()
    calls = registry.counter("calls_total", "Calls.", ("result",))
    calls.add(1, "ok")
    calls.add(2.5, "ok")
    calls.add(1, "error")
    slots = registry.gauge("slots", "Slots.")
    slots.set(4)
    slots.add(-1)
    registry.read("leases", "Leases.", lambda: {("waiting",): 7.0}, ("state",))
    assert parsed(registry) == {
        ("calls_total", (("result", "ok"),)): 3.5,
        ("calls_total", (("result", "error"),)): 1.0,
        ("slots", ()): 3.0,
        ("leases", (("state", "waiting"),)): 7.0,
    }
    assert registry.response().headers["Content-Type"] == CONTENT_TYPE


def test_a_histogram_is_cumulative_and_closed_above() -> None:
    registry = MetricsRegistry()
    seconds = registry.histogram("wait_seconds", "Waits.", (), (0.1, 1.0))
    for value in (0.1, 0.5, 0.25, 30.0):
        seconds.observe(value)
    found = parsed(registry)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name == "wait_seconds_bucket"}
    assert buckets == {"0.1": 1.0, "1": 3.0, "+Inf": 4.0}
    assert (found["wait_seconds_count", ()], found["wait_seconds_sum", ()]) == (4.0, 30.85)


def test_types_and_help_are_declared() -> None:
    registry = MetricsRegistry()
    registry.counter("a_total", "One\nline \\ more.").add(1)
    registry.histogram("b_seconds", "B.", ("phase",)).observe(1.0, "open")
    families = {f.name: f for f in parse_metrics(render_text(registry.collect()))}
    assert (families["a"].type, families["a"].documentation) == ("counter", "One\nline \\ more.")
    assert families["b_seconds"].type == "histogram"


@pytest.mark.parametrize("value", ['say "hi"', "back\\slash", "new\nline", "ünïcode", ""])
def test_label_values_come_back_as_they_were(value: str) -> None:
    registry = MetricsRegistry()
    registry.counter("a_total", "A.", ("name",)).add(1, value)
    assert parsed(registry) == {("a_total", (("name", value),)): 1.0}


def test_the_number_of_series_is_bounded_and_nothing_is_lost() -> None:
    registry = MetricsRegistry()
    counter, seconds = registry.counter("a_total", "A.", ("name",)), registry.histogram("b", "B.", ("name",))
    for number in range(10 * MOST_SERIES):
        counter.add(1, f"n{number}")
        seconds.observe(1.0, f"n{number}")
    found = parsed(registry)
    counts = [value for (name, _), value in found.items() if name == "a_total"]
    assert (len(counts), sum(counts)) == (MOST_SERIES, 10 * MOST_SERIES)
    assert found["a_total", (("name", "other"),)] == 9 * MOST_SERIES + 1
    assert found["b_count", (("name", "other"),)] == 9 * MOST_SERIES + 1


def test_what_is_read_beyond_the_bound_is_summed_and_not_overwritten() -> None:
    registry = MetricsRegistry()
    registry.read("a", "A.", lambda: {(f"n{number}",): 2 for number in range(10 * MOST_SERIES)}, ("name",))
    for _ in range(2):
        counts = parsed(registry)
        assert (len(counts), sum(counts.values())) == (MOST_SERIES, 20 * MOST_SERIES)


def test_a_metric_is_declared_once() -> None:
    registry = MetricsRegistry()
    assert registry.counter("a_total", "A.") is registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="another way"):
        registry.gauge("a_total", "A.")
    with pytest.raises(ValueError, match="labels"):
        registry.counter("b_total", "B.", ("x",)).add(1)
