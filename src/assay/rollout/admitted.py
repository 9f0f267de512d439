"""Certificates of admission, which `assay run --admitted` requires of each task.

A certificate is evidence in a chain of its own (`TASK@certificate`) in the run that admitted the task. It names the
task's digest, the battery, the verification, the results and the chain heads behind it. Covered: a changed, removed or
added certificate or attempt invalidates it. Not covered: a party with write access to the store can forge a whole
admission, since the chain is unkeyed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from assay.errors import StoreError, UserError
from assay.records import AttemptStarted, Body, EvidenceAdded, Separation
from assay.store import ADMISSION, AttemptRow, Layout, RunStore, heads_digest, list_runs, verify_links
from assay.tasks import LoadedTask

BATTERY = "4"
"""Version of the battery; increased when tasks admitted before might now be rejected."""
MOST_MANIFEST = 64 << 20
_LISTED = 20


class Certificate(msgspec.Struct, frozen=True):
    """The admission results of one task."""

    task: str
    task_digest: str
    battery: str
    quick: bool
    verification: str
    """`default`, `as-asked` or `both`."""
    admitted: dict[str, bool]
    """By verification: true if no hole was found and the reference solution always passed."""
    findings: dict[str, int]
    """Number of findings by severity."""
    results: dict[str, str]
    rests_on: str
    """Digest over chain, head and length of every chain of the task in the run."""
    seed: int
    assay_version: str
    at: float
    accepted_wrongly: int = 0
    """Number of known-wrong solutions that passed."""
    separation: Separation = "unknown"
    """Weakest separation grade of a passing attempt by the reference solution."""


class StoredCertificate(msgspec.Struct, frozen=True):
    """A certificate and its location."""

    certificate: Certificate
    run: str
    chain: str
    head: str


def digest_chains(rows: Iterable[AttemptRow], task: str) -> str:
    """Returns the digest over the chains of a task's attempts, excluding its certificate."""
    return heads_digest((r.chain, r.head, r.length) for r in rows if r.task == task and r.agent != ADMISSION)


def find_certificates(root: Path, digests: Iterable[str]) -> dict[str, StoredCertificate]:
    """Maps task digests to their best certificate in a store. Current battery, default verification, full battery and
    newest are preferred, in that order.

    Raises:
        StoreError: A run that holds certificates cannot be read, or a certificate was tampered with.
    """
    wanted = set(digests)
    current: dict[str, StoredCertificate] = {}
    for run in list_runs(root):
        if not _is_admission(Layout(root, run)):
            continue
        with RunStore.open(root, run) as store:
            for stored in _read_certificates(store, wanted):
                best = current.get(stored.certificate.task_digest)
                if best is None or _rank(best.certificate) <= _rank(stored.certificate):
                    current[stored.certificate.task_digest] = stored
    return current


def _rank(certificate: Certificate) -> tuple[bool, bool, bool, float]:
    current = certificate.battery == BATTERY
    return current, "default" in certificate.admitted, not certificate.quick, certificate.at


def _is_admission(layout: Layout) -> bool:
    """Reads the manifest copy that needs no database; a wrong copy can only hide certificates."""
    try:
        with layout.manifest.open("rb") as file:
            manifest = msgspec.json.decode(file.read(MOST_MANIFEST))
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(manifest, dict) and ADMISSION in manifest


def _read_certificates(store: RunStore, wanted: set[str]) -> Iterator[StoredCertificate]:
    rows = store.attempts()
    by_task: dict[str, list[AttemptRow]] = {}
    for row in rows:
        by_task.setdefault(row.task, []).append(row)
    for row in rows:
        if row.agent != ADMISSION or row.task_digest not in wanted or not row.final:
            continue
        certificate = _read_certificate(store, row)
        if certificate.rests_on != digest_chains(by_task[row.task], row.task):
            raise StoreError(
                f"the attempts behind the certificate of task {row.task!r} in run {store.run!r} have changed: "
                f"see `assay verify {store.run}`, and admit the task again"
            )
        yield StoredCertificate(certificate, store.run, row.chain, row.head)


def _read_certificate(store: RunStore, row: AttemptRow) -> Certificate:
    problem, certificate = "its hash chain is broken", None
    if verify_links(store.links(row.chain), row.head) is None:
        problem, certificate = _parse_certificate([event.body for event in store.events(row.chain)])
    if certificate is None:
        raise StoreError(
            f"the certificate {row.chain} of run {store.run!r} is damaged ({problem}): admit the task again"
        )
    return certificate


def _parse_certificate(bodies: Sequence[Body]) -> tuple[str, Certificate | None]:
    """Returns a problem and no certificate, or an empty string and the certificate among a chain's events."""
    facts = [body.evidence for body in bodies if isinstance(body, EvidenceAdded)]
    found = next((fact.data for fact in facts if fact.kind == "certificate"), None)
    started = bodies[0] if bodies else None
    if found is None or not isinstance(started, AttemptStarted):
        return "the chain contains no certificate", None
    try:
        certificate = msgspec.convert(found, Certificate)
    except msgspec.ValidationError as exc:
        return str(exc), None
    if (certificate.task, certificate.task_digest) != (started.task, started.task_digest):
        return "it belongs to another task", None
    return "", certificate


def require_admitted(root: Path, tasks: Sequence[LoadedTask]) -> dict[str, StoredCertificate]:
    """Returns the certificates of tasks by task id.

    Raises:
        UserError: Some task has none that is current; each is named with the reason, and how to get one.
        StoreError: As `find_certificates`.
    """
    by_digest = find_certificates(root, [one.task.digest for one in tasks])
    certificates = {one.task.id: by_digest.get(one.task.digest) for one in tasks}
    refused = {name: why for name, one in certificates.items() if (why := _find_objection(one)) is not None}
    if not refused:
        return {name: one for name, one in certificates.items() if one is not None}
    listed = "".join(f"\n  {name}: {why}" for name, why in list(refused.items())[:_LISTED])
    more = f"\n  and {len(refused) - _LISTED} more" if len(refused) > _LISTED else ""
    folders = {str(one.folder) for one in tasks if one.task.id in refused and one.folder is not None}
    what = " ".join(sorted(folders)[:3]) + (" ..." if len(folders) > 3 else "") if folders else "TASKS"
    raise UserError(
        f"{len(refused)} of {len(tasks)} tasks are not admitted in {root}:{listed}{more}\n"
        f"Prove their verifiers with `assay admit {what}` in this store, or run without --admitted"
    )


def _find_objection(stored: StoredCertificate | None) -> str | None:
    """Returns why a certificate is not accepted; None if it is."""
    if stored is None:
        return "no certificate for the current version of the task"
    certificate = stored.certificate
    if certificate.battery != BATTERY:
        return f"its certificate is for battery {certificate.battery}; the current battery is {BATTERY}"
    if "default" not in certificate.admitted:
        return f"run {stored.run} admitted it under as-asked verification only; runs use the default verification"
    if not certificate.admitted["default"]:
        return f'not admitted; assay query "select text from findings" --run {stored.run} says why'
    return None
