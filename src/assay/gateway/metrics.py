"""Metrics of a gateway: its sessions, calls under way and rejected requests. Model calls are counted where they are
recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from assay.http.metrics import MetricsRegistry


class GatewayLoad(NamedTuple):
    """A gateway at one moment."""

    sessions: int = 0
    calls: int = 0
    """Calls under way."""
    request_bytes: int = 0
    """Memory of the requests under way."""
    rejections: Mapping[str, int] = {}
    """Rejected or failed requests, by the kind of their problem."""


def declare_gateway_metrics(registry: MetricsRegistry, read: Callable[[], GatewayLoad]) -> None:
    """Adds the metrics of a gateway, which `read` returns."""
    registry.read("assay_gateway_sessions", "Open sessions.", lambda: {(): read().sessions})
    registry.read("assay_gateway_calls", "Calls under way.", lambda: {(): read().calls})
    registry.read(
        "assay_gateway_request_bytes", "Memory of the requests under way.", lambda: {(): read().request_bytes}
    )
    registry.read(
        "assay_gateway_rejections_total",
        "Rejected and failed requests, by kind of problem.",
        lambda: {(kind,): count for kind, count in read().rejections.items()},
        ("kind",),
        kind="counter",
    )
