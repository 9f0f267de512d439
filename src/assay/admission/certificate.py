"""Appends findings, certificate and verdict of a task to the run, as a chain of their own.

Invariant: all of it or nothing; once it is there, no more attempts at the task are made in the run.
"""

from __future__ import annotations

import time

import msgspec

from assay import __version__
from assay.errors import StoreError
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    Verdict,
    VerdictAdded,
    digest_record,
)
from assay.rollout.admitted import BATTERY, Certificate, digest_chains
from assay.store import ADMISSION, RunStore

from .config import AdmitConfig
from .findings import SEVERITIES
from .soundness import TaskReport


def chain_of(task: str) -> str:
    """Returns the chain of a task's certificate."""
    return f"{task}@certificate.0"


def certify(store: RunStore, report: TaskReport, config: AdmitConfig) -> Certificate:
    """Appends the certificate of a task. Raises `StoreError` where it cannot be written."""
    certificate = Certificate(
        task=report.task,
        task_digest=report.task_digest,
        battery=BATTERY,
        quick=config.quick,
        verification=config.verification,
        admitted=report.admitted,
        findings={name: sum(f.severity == name for f in report.findings) for name in SEVERITIES},
        results={one.attempt: one.outcome or f"broke: {one.broke}" for one in report.probes},
        rests_on=digest_chains(store.attempts(), report.task),
        seed=config.seed,
        assay_version=__version__,
        at=time.time(),
        accepted_wrongly=report.accepted_wrongly,
        separation=report.separation,
    )
    store.append(chain_of(report.task), list(_bodies(store, report, certificate)))
    return certificate


def _bodies(store: RunStore, report: TaskReport, certificate: Certificate) -> list[Body]:
    now = certificate.at
    found = [
        Evidence(f"f{number}", "state", "finding", msgspec.to_builtins(finding), at=now)
        for number, finding in enumerate(report.findings, 1)
    ]
    whole = store.blobs.put(msgspec.json.encode(report))
    data = msgspec.to_builtins(certificate)
    evidence = [*found, Evidence("certificate", "state", "certificate", data, (whole,), now)]
    started = AttemptStarted(
        run=store.run,
        attempt=f"{report.task}@certificate",
        task=report.task,
        task_digest=report.task_digest,
        agent=ADMISSION,
        model=None,
        seed=certificate.seed,
        number=0,
        at=now,
        assay_version=__version__,
    )
    cited = tuple(one.id for one in evidence)
    verdicts = [_verdict(report, name, cited) for name in report.admitted]
    ended = AttemptEnded(report.conclusion, at=now)
    return [started, *map(EvidenceAdded, evidence), *map(VerdictAdded, verdicts), ended]


def _verdict(report: TaskReport, verification: str, cited: tuple[str, ...]) -> Verdict:
    mine = [f for f in report.findings if f.verification in (None, verification)]
    bad = [f for f in mine if f.severity in ("hole", "broken")]
    reason = f"{len(bad)} findings: {'; '.join(f.text for f in bad)}"[:2000] if bad else "no hole was found"
    name = "admission" if verification == "default" else "admission as asked"
    verifier = digest_record([ADMISSION, BATTERY, verification])
    return Verdict(name, "integrity", "fail" if bad else "pass", None, reason, cited, verifier)


def read_reports(store: RunStore) -> dict[str, TaskReport]:
    """Returns the reports of the certified tasks in a run. Raises `StoreError` if one cannot be read."""
    certified = [row for row in store.attempts() if row.agent == ADMISSION and row.final]
    return {row.task: _report(store, row.chain) for row in certified}


def _report(store: RunStore, chain: str) -> TaskReport:
    for event in store.events(chain):
        body = event.body
        if isinstance(body, EvidenceAdded) and body.evidence.kind == "certificate" and body.evidence.blobs:
            data = store.blobs.get(body.evidence.blobs[0])
            try:
                return msgspec.json.decode(data, type=TaskReport)
            except msgspec.DecodeError as exc:
                raise StoreError(
                    f"the report of {chain} is not one of this version: {exc}; admit the task again"
                ) from exc
    raise StoreError(f"{chain} of run {store.run!r} holds no report: see `assay verify {store.run}`")
