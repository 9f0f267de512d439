"""Writes a run in somebody else's format, and beside it everything that the format could not hold.

Invariants: nothing is dropped in silence (`OUT.losses.json` names every loss, and how each attempt stands); a pass that
something speaks against is never written as a plain pass, where the target has a field to say so in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from assay.errors import UserError
from assay.formats.interface import ExportContext, Format, Loss
from assay.formats.registry import load_format, load_formats
from assay.formats.shared.output_files import new_file, refuse_existing
from assay.records import Body, EvidenceAdded, Separation, Trajectory, VerdictGiven, VerdictStatus
from assay.settings import Settings
from assay.store import RunStore, later_events
from assay.verdicts import OutcomeClass, current_verdicts_of, meets, trust_of

__all__ = ["ExportConfig", "ExportReport", "LossFile", "Stands", "export_run", "sidecar_of", "stands_of", "whole"]


FAILED_INTEGRITY = "left out: its integrity is fail (--failed-integrity writes such attempts too)"


class ExportConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to export, and as what."""

    to: str
    """Format to write: a name out of `assay formats`."""
    out: str
    """File or folder to make; what the format cannot hold is listed in OUT.losses.json."""
    attempts: tuple[str, ...] = ()
    """Only these attempts, by id or the beginning of one; default: all."""
    require: Separation = "unknown"
    """Weakest grade of separation at which a pass is exported; passes below it are left out and listed."""
    failed_integrity: bool = False
    """Also write attempts whose integrity failed; else they are left out, whatever their outcome."""


class Stands(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How an attempt stands, as the sidecar has it."""

    attempt: str
    outcome: VerdictStatus | None
    integrity: VerdictStatus | None
    """None: nobody looked (`assay audit` does)."""
    reverified: str | None = None
    doubt: str | None = None
    """Why its pass is not to be taken for one."""
    outcome_class: OutcomeClass
    """`pass`, `doubt` (a pass with something against it), `fail`, `unknown`, `error` or `open`."""
    separation: Separation
    """Grade of the outcome: how far the deciding process was kept from what the agent wrote."""


def stands_of(trajectory: Trajectory, require: Separation = "unknown") -> Stands:
    """Returns how an attempt stands, by all verdicts that the trajectory holds."""
    current, trust = current_verdicts_of(trajectory), trust_of(trajectory, require=require)
    return Stands(
        attempt=trajectory.attempt,
        outcome=trajectory.outcome,
        integrity=current.integrity,
        reverified=current.reverified,
        doubt=trust.doubt,
        outcome_class=trust.outcome_class,
        separation=trust.separation,
    )


class ExportReport(msgspec.Struct, frozen=True):
    """What an export did."""

    run: str
    format: str
    out: str
    sidecar: str
    written: int
    losses: dict[str, int]
    """How much of each field the format could not hold."""
    doubted: tuple[str, ...]
    """Passes that something speaks against."""
    unaudited: int
    """Passes whose integrity nobody looked at."""


def sidecar_of(out: Path) -> Path:
    """Where the losses of an export are listed."""
    return out.with_name(out.name + ".losses.json")


def export_run(
    run: str, config: ExportConfig, settings: Settings, progress: Callable[[int], None] | None = None
) -> ExportReport:
    """Exports the last try of each attempt of a run.

    Raises:
        UserError: The format does not write, the target exists, or no attempt has such an id.
        StoreError: The run cannot be read.
    """
    format, out = _writer(config.to), Path(config.out)
    refuse_existing(out)
    with RunStore.open(settings.store, run) as store:
        exporting = _Export(store, settings.store, config, progress)
        with new_file(sidecar_of(out)) as stream:
            losses = LossFile(stream, {"run": run, "format": format.name, "out": out.name})
            format.write(exporting.trajectories(losses.lost), out, ExportContext(store.blobs.get, losses.lost))
            losses.close(exporting.stands)
    passes = [stands for stands in exporting.stands if stands.outcome == "pass"]
    return ExportReport(
        run,
        format.name,
        str(out),
        str(sidecar_of(out)),
        exporting.written,
        dict(losses.counts),
        tuple(stands.attempt for stands in passes if stands.doubt is not None),
        sum(stands.integrity is None for stands in passes),
    )


def _writer(name: str) -> Format:
    found = load_format(name)
    if not found.writes:
        able = ", ".join(f.name for f in load_formats() if f.writes)
        raise UserError(f"{found.name} is read, not written; these are written: {able}")
    return found


class _Export:
    """The trajectories of a run, with all that was learnt of them later."""

    def __init__(
        self, store: RunStore, root: Path, config: ExportConfig, progress: Callable[[int], None] | None
    ) -> None:
        wanted = config.attempts
        self._store = store
        self._progress = progress
        self.stands: list[Stands] = []
        self.written = 0
        self._learnt: dict[str, tuple[Body, ...]] = later_events(root, store.run)
        self._require = config.require
        self._failed_integrity = config.failed_integrity
        self._rows = [row for row in store.attempts() if _is_wanted(row.attempt, wanted)]
        if not self._rows:
            raise UserError(f"run {store.run!r} has no attempt" + (f" {' or '.join(wanted)}" if wanted else ""))

    def trajectories(self, lost: Callable[[Loss], None]) -> Iterator[Trajectory]:
        """One at a time, in the order in which they began."""
        for row in self._rows:
            if row.retried:
                lost(Loss(row.attempt, "trajectory", f"try {row.retry} broke and was made again; the last one is here"))
                continue
            trajectory = whole(self._store, row.chain, self._learnt.get(row.chain, ()))
            stands = stands_of(trajectory, self._require)
            self.stands.append(stands)
            if stands.outcome == "pass" and not meets(stands.separation, self._require):
                lost(Loss(row.attempt, "trajectory", f"left out: it passed, and {stands.doubt}"))
                continue
            if stands.integrity == "fail" and not self._failed_integrity:
                lost(Loss(row.attempt, "trajectory", FAILED_INTEGRITY))
                continue
            self.written += 1
            if self._progress is not None:
                self._progress(len(self.stands))
            yield trajectory


def whole(store: RunStore, chain: str, later: Sequence[Body]) -> Trajectory:
    """Returns a trajectory with the `later` events (see `later_events`); those of its own chain are in it already."""
    found = store.trajectory(chain)
    facts = [b.evidence for b in later if isinstance(b, EvidenceAdded) and b.evidence not in found.evidence]
    given = [b.verdict for b in later if isinstance(b, VerdictGiven) and b.verdict not in found.verdicts]
    if not facts and not given:
        return found
    return msgspec.structs.replace(found, evidence=(*found.evidence, *facts), verdicts=(*found.verdicts, *given))


def _is_wanted(attempt: str, wanted: tuple[str, ...]) -> bool:
    return not wanted or any(attempt.startswith(start) for start in wanted)


class LossFile:
    """The sidecar, written while the export goes on, because a run of many attempts has many losses."""

    def __init__(self, stream: BinaryIO, about: dict[str, str]) -> None:
        self._stream = stream
        self.counts: Counter[str] = Counter()
        self._first = True
        stream.write(msgspec.json.encode(about)[:-1] + b',\n"losses": [')

    def lost(self, loss: Loss) -> None:
        """Lists a loss."""
        self.counts[loss.field] += loss.count
        self._stream.write((b"\n" if self._first else b",\n") + msgspec.json.encode(loss))
        self._first = False

    def close(self, stands: list[Stands]) -> None:
        """Ends the list, and says how each attempt stands."""
        self._stream.write(b'],\n"totals": ' + msgspec.json.encode(dict(sorted(self.counts.items()))))
        self._stream.write(b',\n"attempts": [')
        for position, one in enumerate(stands):
            self._stream.write((b",\n" if position else b"\n") + msgspec.json.encode(one))
        self._stream.write(b"]}\n")
