"""Exports a run to a foreign format, with a sidecar file that lists what the format could not represent.

Invariants: every loss and addition is listed in `OUT.losses.json`, with each attempt's status; a doubtful pass is never
written as a plain pass if the target can express the doubt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from assay.errors import UserError
from assay.formats.interface import Addition, ExportContext, Format, Loss
from assay.formats.registry import load_format, load_formats
from assay.formats.shared.output_files import new_file, refuse_existing
from assay.records import Body, EvidenceAdded, Separation, Trajectory, VerdictAdded, VerdictStatus
from assay.rollout.exchange.config import ExportConfig
from assay.rollout.exchange.secret_check import SecretCheck
from assay.settings import Settings
from assay.store import RunStore, later_events
from assay.verdicts import OutcomeClass, current_verdicts_of, meets, trust_of

FAILED_INTEGRITY = "left out: its integrity is fail (--failed-integrity writes such attempts too)"


class AttemptStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An attempt's status as the sidecar lists it."""

    attempt: str
    outcome: VerdictStatus | None
    integrity: VerdictStatus | None
    """None if the attempt was not audited (`assay audit`)."""
    reverified: str | None = None
    doubt: str | None = None
    """Reason to distrust its pass."""
    outcome_class: OutcomeClass
    """`pass`, `doubt` (a doubtful pass), `fail`, `unknown`, `error` or `open`."""
    separation: Separation
    """Grade of the outcome: how far the deciding process was isolated from the agent's files."""


def status_of(trajectory: Trajectory, require: Separation = "unknown") -> AttemptStatus:
    """Returns an attempt's status from all verdicts of its trajectory."""
    current, trust = current_verdicts_of(trajectory), trust_of(trajectory, require=require)
    return AttemptStatus(
        attempt=trajectory.attempt,
        outcome=trajectory.outcome,
        integrity=current.integrity,
        reverified=current.reverified,
        doubt=trust.doubt,
        outcome_class=trust.outcome_class,
        separation=trust.separation,
    )


class ExportReport(msgspec.Struct, frozen=True):
    """The result of an export."""

    run: str
    format: str
    out: str
    sidecar: str
    written: int
    losses: dict[str, int]
    """Number of losses by field."""
    doubted: tuple[str, ...]
    unaudited: int
    """Passes whose integrity was not audited."""
    secret: tuple[str, ...] = ()
    """Attempts that were left out because they hold a secret."""
    additions: dict[str, int] = {}
    """Number of attempts by field that is written beyond the records."""
    warnings: tuple[str, ...] = ()
    """Warnings: causes that make the written examples less useful, each with its remedy."""


def sidecar_of(out: Path) -> Path:
    """Returns the path of an export's loss list."""
    return out.with_name(out.name + ".losses.json")


def export_run(
    run: str, config: ExportConfig, settings: Settings, progress: Callable[[int], None] | None = None
) -> ExportReport:
    """Exports the deciding trial of each attempt of a run.

    Raises:
        UserError: The format cannot be written, the target exists, or an attempt id is unknown.
        StoreError: The run cannot be read.
    """
    format, out = _writer(config.to), Path(config.out)
    refuse_existing(out)
    with RunStore.open(settings.store, run) as store:
        check = None if config.with_secrets else SecretCheck([store.manifest()], settings)
        exporting = _Export(store, config, progress, check)
        with new_file(sidecar_of(out)) as stream:
            losses = LossFile(stream, {"run": run, "format": format.name, "out": out.name}, check)
            read: Callable[[str], bytes] = store.blobs.get
            if check is not None:
                read = check.redacted(read, lambda digest, names: losses.lost(_redacted_blob(digest, names)))
            context = ExportContext(read, losses.lost, losses.added)
            format.write(exporting.trajectories(losses.lost), out, context)
            losses.close(exporting.status)
    passes = [status for status in exporting.status if status.outcome == "pass"]
    return ExportReport(
        run,
        format.name,
        str(out),
        str(sidecar_of(out)),
        exporting.written,
        dict(losses.counts),
        tuple(status.attempt for status in passes if status.doubt is not None),
        sum(status.integrity is None for status in passes),
        tuple(exporting.secret),
        losses.additions(),
    )


def _redacted_blob(digest: str, names: str) -> Loss:
    return Loss("*", "blob", f"{digest} was redacted: it holds {names}")


def _writer(name: str) -> Format:
    found = load_format(name)
    if not found.writes:
        able = ", ".join(f.name for f in load_formats() if f.writes)
        raise UserError(f"{found.name} is read, not written; these are written: {able}")
    return found


class _Export:
    def __init__(
        self,
        store: RunStore,
        config: ExportConfig,
        progress: Callable[[int], None] | None,
        check: SecretCheck | None,
    ) -> None:
        wanted = config.attempts
        self._store = store
        self._progress = progress
        self.status: list[AttemptStatus] = []
        self.written = 0
        self.secret: list[str] = []
        """Attempts left out because they hold a secret."""
        self._check = check
        self._later: dict[str, tuple[Body, ...]] = later_events(store.layout.root, store.run)
        self._require = config.require
        self._failed_integrity = config.failed_integrity
        self._rows = [row for row in store.attempts() if _is_wanted(row.attempt, wanted)]
        if not self._rows:
            raise UserError(f"run {store.run!r} has no attempt" + (f" {' or '.join(wanted)}" if wanted else ""))

    def trajectories(self, lost: Callable[[Loss], None]) -> Iterator[Trajectory]:
        """Yields trajectories in the order of their start."""
        for row in self._rows:
            if row.retried:
                lost(Loss(row.attempt, "trajectory", f"try {row.retry} broke and was made again; the last one is here"))
                continue
            trajectory = merge_later_events(self._store, row.chain, self._later.get(row.chain, ()))
            status = status_of(trajectory, self._require)
            self.status.append(status)
            if status.outcome == "pass" and not meets(status.separation, self._require):
                lost(Loss(row.attempt, "trajectory", f"left out: it passed, and {status.doubt}"))
                continue
            if status.integrity == "fail" and not self._failed_integrity:
                lost(Loss(row.attempt, "trajectory", FAILED_INTEGRITY))
                continue
            secret = None if self._check is None else self._check.describe(trajectory)
            if secret is not None:
                self.secret.append(row.attempt)
                lost(Loss(row.attempt, "trajectory", f"left out: {secret}"))
                continue
            self.written += 1
            if self._progress is not None:
                self._progress(len(self.status))
            yield trajectory


def merge_later_events(store: RunStore, chain: str, later: Sequence[Body]) -> Trajectory:
    """Returns a stored trajectory with evidence and verdicts from `later` that its chain does not contain."""
    found = store.trajectory(chain)
    facts = [b.evidence for b in later if isinstance(b, EvidenceAdded) and b.evidence not in found.evidence]
    given = [b.verdict for b in later if isinstance(b, VerdictAdded) and b.verdict not in found.verdicts]
    if not facts and not given:
        return found
    return msgspec.structs.replace(found, evidence=(*found.evidence, *facts), verdicts=(*found.verdicts, *given))


def _is_wanted(attempt: str, wanted: tuple[str, ...]) -> bool:
    return not wanted or any(attempt.startswith(start) for start in wanted)


class LossFile:
    """The sidecar, written incrementally, since a large run has many losses. With a check, secrets are redacted."""

    def __init__(self, stream: BinaryIO, about: dict[str, str], check: SecretCheck | None = None) -> None:
        self._stream = stream
        self._check = check
        self.counts: Counter[str] = Counter()
        self._added: Counter[tuple[str, str]] = Counter()
        self._first = True
        stream.write(msgspec.json.encode(about)[:-1] + b',\n"losses": [')

    def lost(self, loss: Loss) -> None:
        self.counts[loss.field] += loss.count
        self._stream.write((b"\n" if self._first else b",\n") + self._encode(loss))
        self._first = False

    def added(self, addition: Addition) -> None:
        """Counts a field that is written beyond the records."""
        self._added[addition.field, addition.why] += 1

    def additions(self) -> dict[str, int]:
        """Returns the number of attempts by added field."""
        found: Counter[str] = Counter()
        for (field, _), count in self._added.items():
            found[field] += count
        return dict(sorted(found.items()))

    def close(self, status: list[AttemptStatus]) -> None:
        """Ends the list and appends totals, additions and each attempt's status."""
        self._stream.write(b'],\n"totals": ' + msgspec.json.encode(dict(sorted(self.counts.items()))))
        added = [{"field": f, "why": why, "attempts": n} for (f, why), n in sorted(self._added.items())]
        self._stream.write(b',\n"additions": ' + msgspec.json.encode(added))
        self._stream.write(b',\n"attempts": [')
        for position, one in enumerate(status):
            self._stream.write((b",\n" if position else b"\n") + self._encode(one))
        self._stream.write(b"]}\n")

    def _encode(self, value: Loss | AttemptStatus) -> bytes:
        data = msgspec.json.encode(value)
        return data if self._check is None else self._check.clean(data).data
