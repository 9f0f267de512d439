"""Certificates of admission: what a task must have in the store before `assay run --admitted` takes it.

A certificate is a fact in a chain of its own (`TASK@certificate`) in the run that admitted the task. It names the
digest of the task, the battery, the verification, the results, and the heads of the chains that it rests on. Covered: a
certificate, or an attempt behind it, that was changed, removed or added to is none. Not covered: whoever can write
the store can write a whole admission; an unkeyed chain shows no complete rewrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from assay.errors import StoreError, UserError
from assay.records import AttemptStarted, Body, EvidenceAdded, Separation
from assay.store import ADMISSION, AttemptRow, Layout, RunStore, heads_digest, list_runs, verify_links
from assay.tasks import LoadedTask

__all__ = ["ADMISSION", "BATTERY", "Certificate", "HeldCertificate", "certificates", "require_admitted", "rests_on"]

BATTERY = "3"
"""Grows when a task that was admitted before might not be now."""
MOST_MANIFEST = 64 << 20
_NAMED = 20


class Certificate(msgspec.Struct, frozen=True):
    """What was proved of one task."""

    task: str
    task_digest: str
    battery: str
    quick: bool
    verification: str
    """`default`, `as-asked` or `both`."""
    admitted: dict[str, bool]
    """By verification: whether no hole was found, and the reference solution always passed."""
    findings: dict[str, int]
    """Severity to how many."""
    results: dict[str, str]
    """Attempt to outcome."""
    rests_on: str
    """Digest over chain, head and length of every chain of the task in the run."""
    seed: int
    assay_version: str
    at: float
    accepted_wrongly: int = 0
    """How many solutions passed that are shown to be wrong."""
    separation: Separation = "unknown"
    """The weakest grade of separation that a passing attempt by the reference solution reached."""


class HeldCertificate(msgspec.Struct, frozen=True):
    """A certificate and where it is."""

    certificate: Certificate
    run: str
    chain: str
    head: str


def rests_on(rows: Iterable[AttemptRow], task: str) -> str:
    """The digest over the chains of a task's attempts, without its certificate."""
    return heads_digest((r.chain, r.head, r.length) for r in rows if r.task == task and r.agent != ADMISSION)


def certificates(root: Path, digests: Iterable[str]) -> dict[str, HeldCertificate]:
    """Task digest to the certificate in a store that counts: one of the default verification before one of another, a
    whole battery's before a quick one's, then the newest.

    Raises:
        StoreError: A run that holds certificates cannot be read, or a certificate was tampered with.
    """
    wanted = set(digests)
    counting: dict[str, HeldCertificate] = {}
    for run in list_runs(root):
        if not _is_admission(Layout(root, run)):
            continue
        with RunStore.open(root, run) as store:
            for held in _held(store, wanted):
                known = counting.get(held.certificate.task_digest)
                if known is None or _weight(known.certificate) <= _weight(held.certificate):
                    counting[held.certificate.task_digest] = held
    return counting


def _weight(certificate: Certificate) -> tuple[bool, bool, bool, float]:
    current = certificate.battery == BATTERY
    return current, "default" in certificate.admitted, not certificate.quick, certificate.at


def _is_admission(layout: Layout) -> bool:
    """By the copy of the manifest that needs no database; a wrong one can only hide certificates."""
    try:
        with layout.manifest.open("rb") as file:
            found = msgspec.json.decode(file.read(MOST_MANIFEST))
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(found, dict) and ADMISSION in found


def _held(store: RunStore, wanted: set[str]) -> Iterator[HeldCertificate]:
    rows = store.attempts()
    of_task: dict[str, list[AttemptRow]] = {}
    for row in rows:
        of_task.setdefault(row.task, []).append(row)
    for row in rows:
        if row.agent != ADMISSION or row.task_digest not in wanted or not row.final:
            continue
        certificate = _read(store, row)
        if certificate.rests_on != rests_on(of_task[row.task], row.task):
            raise StoreError(
                f"the certificate of task {row.task!r} in run {store.run!r} rests on attempts that are not those of "
                f"the run any more: see `assay verify {store.run}`, and admit the task again"
            )
        yield HeldCertificate(certificate, store.run, row.chain, row.head)


def _read(store: RunStore, row: AttemptRow) -> Certificate:
    problem, certificate = "its chain does not hold", None
    if verify_links(store.links(row.chain), row.head) is None:
        problem, certificate = _found_in([event.body for event in store.events(row.chain)])
    if certificate is None:
        raise StoreError(
            f"the certificate {row.chain} of run {store.run!r} is damaged ({problem}): admit the task again"
        )
    return certificate


def _found_in(bodies: Sequence[Body]) -> tuple[str, Certificate | None]:
    """The certificate among the events of its chain; else what is wrong."""
    facts = [body.evidence for body in bodies if isinstance(body, EvidenceAdded)]
    found = next((fact.data for fact in facts if fact.kind == "certificate"), None)
    started = bodies[0] if bodies else None
    if found is None or not isinstance(started, AttemptStarted):
        return "it holds none", None
    try:
        certificate = msgspec.convert(found, Certificate)
    except msgspec.ValidationError as exc:
        return str(exc), None
    if (certificate.task, certificate.task_digest) != (started.task, started.task_digest):
        return "it is another task's", None
    return "", certificate


def require_admitted(root: Path, tasks: Sequence[LoadedTask]) -> dict[str, HeldCertificate]:
    """The certificates of tasks, by task id.

    Raises:
        UserError: Some task has none that is current; each is named with the reason, and how to get one.
        StoreError: As `certificates`.
    """
    found = certificates(root, [one.task.digest for one in tasks])
    held = {one.task.id: found.get(one.task.digest) for one in tasks}
    refused = {name: why for name, one in held.items() if (why := _objection(one)) is not None}
    if not refused:
        return {name: one for name, one in held.items() if one is not None}
    named = "".join(f"\n  {name}: {why}" for name, why in list(refused.items())[:_NAMED])
    more = f"\n  and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
    folders = {str(one.folder) for one in tasks if one.task.id in refused and one.folder is not None}
    what = " ".join(sorted(folders)[:3]) + (" ..." if len(folders) > 3 else "") if folders else "TASKS"
    raise UserError(
        f"{len(refused)} of {len(tasks)} tasks are not admitted in {root}:{named}{more}\n"
        f"Prove their verifiers with `assay admit {what}` in this store, or run without --admitted"
    )


def _objection(held: HeldCertificate | None) -> str | None:
    """Why a certificate does not do; None where it does."""
    if held is None:
        return "no certificate of the task as it is now"
    certificate = held.certificate
    if certificate.battery != BATTERY:
        return f"its certificate is of battery {certificate.battery}, and the present one is {BATTERY}"
    if "default" not in certificate.admitted:
        return f"run {held.run} proved it as the task asks to be judged, and runs are judged by default"
    if not certificate.admitted["default"]:
        return f'not admitted; assay query "select text from findings" --run {held.run} says why'
    return None
