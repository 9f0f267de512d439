"""Watches recorded steps of a run for alarms, while it is written or afterwards (`assay alarm`). It writes nothing.

Each chain is read from where the last look ended, so that a long run costs no more than its new events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from assay.analysis.attribution import (
    Alarm,
    AlarmedAttempt,
    AlarmLabel,
    AlarmMonitor,
    AlarmScores,
    read_alarm_label,
    score_alarms,
)
from assay.analysis.contracts import Contract
from assay.records import AttemptStarted, EvidenceAdded, StepAdded
from assay.rollout.audit.alarm_config import AlarmConfig
from assay.rollout.limits.contract_guards import load_contracts
from assay.store import ADMISSION, AttemptRow, RunStore, current_verdicts_by_chain, decode_body, final_rows
from assay.store.database import has_writer
from assay.store.layout import Layout
from assay.verdicts import assess

_POLL_S = 0.7
"""Seconds between two looks at a run that is being written."""


class RunAlarm(msgspec.Struct, frozen=True):
    """An alarm in one attempt of a run."""

    attempt: str
    task: str
    number: int
    alarm: Alarm


class AlarmReport(msgspec.Struct, frozen=True):
    """All alarms of a run, and how they agree with labels and outcomes where it has them."""

    run: str
    attempts: int
    alarmed: int
    alarms: tuple[RunAlarm, ...]
    scores: AlarmScores | None


OnAlarm = Callable[[RunAlarm], None]


class _Watched:
    """One chain, as far as it was read."""

    def __init__(self, config: AlarmConfig, contracts: tuple[Contract, ...]) -> None:
        self._config, self._contracts = config, contracts
        self._monitor: AlarmMonitor | None = None
        self.read = 0
        self.first: Alarm | None = None
        self.label: AlarmLabel | None = None

    def add(self, body: object) -> tuple[Alarm, ...]:
        if isinstance(body, AttemptStarted):
            self._monitor = AlarmMonitor(self._config.threshold, self._contracts, body)
        elif isinstance(body, EvidenceAdded) and self.label is None:
            self.label = read_alarm_label((body.evidence,))
        elif isinstance(body, StepAdded):
            if self._monitor is None:
                self._monitor = AlarmMonitor(self._config.threshold, self._contracts)
            found = self._monitor.see(body.step)
            if found and self.first is None:
                self.first = found[0]
            return found
        return ()


def watch_run(root: Path, run: str, config: AlarmConfig, on_alarm: OnAlarm = lambda _: None) -> AlarmReport:
    """Returns a run's alarms; with `config.follow` once no process writes the run any more.

    Raises:
        UserError: A contract cannot be read, or no attempt has one of the names.
        StoreError: The run is damaged.
    """
    contracts = load_contracts(config.contracts)
    chains: dict[str, _Watched] = {}
    found: list[RunAlarm] = []
    while True:
        is_live = config.follow and has_writer(Layout(root, run).lock)  # before the look, which then sees all of it
        for row, alarm in _look(root, run, config, contracts, chains):
            found.append(RunAlarm(row.attempt, row.task, row.number, alarm))
            on_alarm(found[-1])
        if not is_live:
            break
        time.sleep(_POLL_S)
    passed = _passes(root, run)
    judged = [AlarmedAttempt(one.first, one.label, chain in passed) for chain, one in chains.items()]
    alarmed = sum(one.first is not None for one in judged)
    return AlarmReport(run, len(judged), alarmed, tuple(found), score_alarms(judged))


def _look(
    root: Path, run: str, config: AlarmConfig, contracts: tuple[Contract, ...], chains: dict[str, _Watched]
) -> list[tuple[AttemptRow, Alarm]]:
    """Reads what is new in each chain, and returns the alarms to report."""
    found = []
    with RunStore.open(root, run) as store, store.snapshot():
        wanted = {store.find(name).chain for name in config.attempt}
        for row in store.attempts():
            if row.agent == ADMISSION or (wanted and row.chain not in wanted):
                continue
            watched = chains.setdefault(row.chain, _Watched(config, contracts))
            if row.length == watched.read:
                continue
            for link in store.part(row.chain, watched.read, row.length):
                alarms = watched.add(decode_body(link))
                found += [(row, alarm) for alarm in alarms if config.every or alarm is watched.first]
            watched.read = row.length
    return found


def _passes(root: Path, run: str) -> set[str]:
    """Returns the chains of trusted passes."""
    with RunStore.open(root, run) as store, store.snapshot():
        rows = final_rows(store.attempts())
        current = current_verdicts_by_chain(store, rows)
        return {row.chain for row in rows if assess(current[row.chain], row).trusted}
