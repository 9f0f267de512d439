"""Metrics of a node agent, read from it when they are asked for: slots, leases, queue, upload spool."""

from __future__ import annotations

from assay.http.metrics import MetricsRegistry
from assay.rollout.cluster.agent import NodeAgent


def declare_agent_metrics(registry: MetricsRegistry, agent: NodeAgent) -> None:
    """Adds the metrics of an agent to those of its trials."""

    def leases() -> dict[tuple[str, ...], float]:
        load = agent.load()
        return {("waiting",): load.waiting, ("running",): load.running, ("uploading",): load.uploading}

    def polled() -> dict[tuple[str, ...], float]:
        polled_s = agent.load().polled_s
        return {} if polled_s is None else {(): polled_s}

    registry.read("assay_slots", "Trials that may run at once.", lambda: {(): agent.config.slots})
    registry.read(
        "assay_slots_allowed",
        "Trials that may run at once now, fewer than the slots while a model server or the place is overloaded.",
        lambda: {(): agent.limit.allowed},
    )
    registry.read(
        "assay_slots_cuts_total",
        "Times that this number was lowered.",
        lambda: {(): agent.limit.cuts},
        kind="counter",
    )
    registry.read("assay_leases", "Leases that the node holds, by state.", leases, ("state",))
    registry.read("assay_queue", "Leases that wait for a free slot.", lambda: {(): agent.load().waiting})
    registry.read("assay_spool_bytes", "Bytes of trials that wait for upload.", lambda: {(): agent.load().spool_bytes})
    registry.read(
        "assay_upload_wait_seconds",
        "Seconds for which the oldest trial waits for upload.",
        lambda: {(): agent.load().upload_wait_s},
    )
    registry.read("assay_coordinator_poll_age_seconds", "Seconds since a coordinator polled the node.", polled)
    registry.read(
        "assay_leases_ended_total",
        "Leases that ended, by ending.",
        lambda: {(ending,): count for ending, count in agent.endings.items()},
        ("ending",),
        kind="counter",
    )
