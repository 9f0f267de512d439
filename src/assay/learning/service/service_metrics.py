"""Metrics of the rollout service, beside those of its attempts."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .ledger import Ledger
from .policies import PolicyBook
from .service_config import RolloutServiceConfig
from .worker import BatchWorker

_STATES = ("waiting", "running", "done", "failed", "cancelled")
_Values = dict[tuple[str, ...], float]


class _Service(NamedTuple):
    config: RolloutServiceConfig
    ledger: Ledger
    policies: PolicyBook
    worker: BatchWorker

    def batches(self) -> _Values:
        counts = Counter[str](batch.state for batch in self.ledger.all())
        return {(state,): counts[state] for state in _STATES}

    def queue(self) -> _Values:
        waiting = (tally.total - tally.done - len(tally.running) for tally in self.worker.tallies.values())
        return {(): max(0, sum(waiting))}

    def slots_in_use(self) -> _Values:
        return {(): sum(len(tally.running) for tally in self.worker.tallies.values())}

    def steps(self) -> _Values:
        newest = {name: self.policies.find(name).newest for name in self.config.policies}
        return {(name,): version.step for name, version in newest.items() if version is not None}

    def lags(self) -> _Values:
        lags = Counter[str]()
        for batch in self.ledger.all():
            lags.update(batch.lags)
        return {(lag,): count for lag, count in lags.items()}


def declare_service_metrics(
    config: RolloutServiceConfig, ledger: Ledger, policies: PolicyBook, worker: BatchWorker
) -> None:
    """Adds the service's metrics to those of its worker."""
    registry, service = worker.metrics.registry, _Service(config, ledger, policies, worker)
    registry.read("assay_batches", "Remembered batches, by state.", service.batches, ("state",))
    registry.read("assay_slots", "Attempts that may run at once.", lambda: {(): config.concurrency})
    registry.read("assay_slots_in_use", "Attempts that have a slot.", service.slots_in_use)
    registry.read("assay_queue", "Attempts of running batches that wait for a slot.", service.queue)
    registry.read("assay_paused", "1 during a pause, else 0.", lambda: {(): float(worker.controls.is_paused)})
    registry.read("assay_policy_step", "Step of a policy's newest version.", service.steps, ("policy",))
    registry.read(
        "assay_acknowledged_groups",
        "Acknowledged groups of remembered batches, by the age of their weights in steps.",
        service.lags,
        ("lag",),
    )
