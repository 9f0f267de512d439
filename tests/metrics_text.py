"""Reads the Prometheus text format with the parser of `prometheus_client`; a test skips where that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["parse_metrics"]


def parse_metrics(text: str) -> Iterator[Any]:
    """Returns the families of a text."""
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")
    families: Iterator[Any] = parser.text_string_to_metric_families(text)
    return families
