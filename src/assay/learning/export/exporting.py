"""Exports a run for a trainer: selects what may be written, gives credit, and lists all that is left out or not held.

Invariants: nothing is taken from a run whose chain does not hold; a pass that something speaks against is never written
as a plain pass; what a target has no place for is in OUT.losses.json.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import UserError
from assay.formats.interface import Loss
from assay.formats.shared.writing import new_file, refuse_existing
from assay.learning.conversation import conversations, spoke
from assay.learning.credit import CreditConfig, credited
from assay.learning.reading import Reader
from assay.learning.rows import TrainingRow
from assay.records import Trajectory
from assay.rollout.exchange.exporting import (
    FAILED_INTEGRITY,
    AttemptStatus,
    ExportReport,
    LossFile,
    sidecar_of,
    status_of,
)
from assay.settings import Settings

from .config import TARGETS, WriteConfig
from .interface import Include, Target, Told

__all__ = ["TARGETS", "export_for_training", "target_named"]

ALL = "*"
"""What the sidecar names where a loss is that of every attempt."""
_ALWAYS = frozenset({"token_ids", "run", "chain", "attempt", "task", "branch"})
"""What every target holds in its own way, or what only names where a row came from; the sidecar says it."""
Progress = Callable[[int], None] | None


def target_named(name: str) -> Target:
    """The target of that name."""
    module, _, kind = TARGETS[name].partition(":")
    found: Target = getattr(import_module(f"{__package__}.{module}"), kind)()
    return found


def export_for_training(run: str, config: WriteConfig, settings: Settings, progress: Progress = None) -> ExportReport:
    """Exports the deciding try of each attempt of a run for a trainer.

    Raises:
        UserError: The target exists, a span is not certified, or there is nothing that the target can take.
        StoreError: The run cannot be read, or was changed.
    """
    target, out = target_named(config.to), Path(config.out)
    refuse_existing(out)
    with Reader.opened(settings.store, run, config) as reader, new_file(sidecar_of(out)) as stream:
        losses = LossFile(stream, {"run": run, "format": target.name, "out": out.name})
        source = _Source(_Asked(run, config, settings, progress), reader, target, losses)
        reader.tell = source.left_out
        written = _whole(target, source, out)
        source.close()
        losses.close(list(source.stands.values()))
    passes = [stands for stands in source.stands.values() if stands.outcome == "pass"]
    return ExportReport(
        run,
        target.name,
        str(out),
        str(sidecar_of(out)),
        written,
        dict(losses.counts),
        tuple(stands.attempt for stands in passes if stands.doubt is not None),
        sum(stands.integrity is None for stands in passes),
    )


def _whole(target: Target, source: _Source, out: Path) -> int:
    """Writes a target that appears under its name when it is whole."""
    partial = out.with_name(f".{out.name}.partial")
    out.parent.mkdir(parents=True, exist_ok=True)
    _sweep(partial)  # of an export that was killed
    try:
        written = target.write(source, partial)
        if written == 0:
            why = source.first.why if source.first is not None else "none is decided"
            message = f"nothing to write for {target.name}: every attempt was left out (the first: {why})"
            if source.first is not None and source.first.field == "tokens":
                message += "; --rendered --model FOLDER renders such attempts for supervised targets"
            raise UserError(message)
        partial.rename(out)
    finally:
        _sweep(partial)
    return written


def _sweep(partial: Path) -> None:
    if partial.is_dir() and not partial.is_symlink():
        shutil.rmtree(partial)
    else:
        partial.unlink(missing_ok=True)


class _Asked(NamedTuple):
    """Of what, and how."""

    run: str
    config: WriteConfig
    settings: Settings
    progress: Progress


class _Source:
    """See `Source`."""

    def __init__(self, asked: _Asked, reader: Reader, target: Target, losses: LossFile) -> None:
        self.run, self.config, self.settings, self._progress = asked
        self.stands: dict[str, AttemptStatus] = {}
        self.first: Loss | None = None
        self._reader = reader
        self._target = target
        self._losses = losses
        self._not_held: Counter[str] = Counter()
        wanted = self.config.include
        self._include: Include = target.include if wanted == "default" else wanted
        self._listed: set[tuple[str, str, str]] = set()
        self._counted: set[str] = set()

    def rows(self) -> Iterator[TrainingRow]:
        found = self._rows()
        if self._target.credit or self.config.credit is not None:
            found = self._credited(found)
        for row in found:
            if self._target.sampled and row.origin == "rendered":
                self.lost(row.attempt, "row", "it was rendered, not sampled: there is no policy gradient on it")
                continue
            if "doubt" not in self._target.holds and not row.loss_mask.any():
                self.lost(row.attempt, "row", f"no token of row {row.branch} is trained")
                continue
            self._not_held.update(_told_fields(row) - self._target.holds - _ALWAYS)
            yield row

    def conversations(self) -> Iterator[Told]:
        for trajectory in self._trajectories():
            if not spoke(trajectory):
                self.lost(trajectory.attempt, "messages", "its agent said and did nothing")
                continue
            if not self._target.holds and trajectory.chain not in self._counted:
                self._counted.add(trajectory.chain)
                self._not_held.update(_beside_messages(trajectory))
            for found in conversations(trajectory, self._reader.opening(trajectory)):
                yield Told(trajectory, found)

    def lost(self, attempt: str, field: str, why: str, count: int = 1) -> None:
        """See `Source.lost`. The same is listed once."""
        if (attempt, field, why) not in self._listed:
            self._listed.add((attempt, field, why))
            loss = Loss(attempt, field, why, count)
            self.first = self.first or loss
            self._losses.lost(loss)

    def left_out(self, attempt: str, field: str, why: str) -> None:
        """What the reader could not take."""
        self.lost(attempt, field, why)

    def close(self) -> None:
        """Lists the fields that the target has no place for."""
        for field, count in sorted(self._not_held.items()):
            self.lost(ALL, field, f"{self._target.name} has no place for it", count)

    def _rows(self) -> Iterator[TrainingRow]:
        for trajectory in self._trajectories():
            yield from self._reader.rows(trajectory)

    def _trajectories(self) -> Iterator[Trajectory]:
        for trajectory in self._reader.trajectories():
            attempt, stands = trajectory.attempt, status_of(trajectory, self.config.require)
            self.stands[attempt] = stands
            reason = self._refused(trajectory, stands)
            if reason is not None:
                self.lost(attempt, "attempt", f"left out: {reason}")
                continue
            if self._progress is not None:
                self._progress(len(self.stands))
            yield trajectory

    def _refused(self, trajectory: Trajectory, stands: AttemptStatus) -> str | None:
        """Why an attempt is not written; None where it is."""
        says_so = self._target.credit or "doubt" in self._target.holds
        if stands.doubt is not None and not (says_so and self._include == "all"):
            return f"it passed, and {stands.doubt}"
        if stands.integrity == "fail" and not self.config.failed_integrity:
            return FAILED_INTEGRITY.removeprefix("left out: ")
        if self._include == "all":
            return None
        outcome = "broken" if trajectory.finished is not None and trajectory.finished.broke else trajectory.outcome
        if self._include == "passes":
            return None if outcome == "pass" else f"its outcome is {outcome or 'not judged'}"
        return None if outcome in ("pass", "fail") else f"its outcome is {outcome or 'not judged'}: that is no reward"

    def _credited(self, rows: Iterator[TrainingRow]) -> Iterator[TrainingRow]:
        asked = CreditConfig(method=self.config.credit or "grpo", options=self.config.credit_options)
        held = list(rows)
        if not held:
            return
        given = credited(held, asked)
        for reason, turns in sorted(given.credit.reasons.items()):
            self.lost(ALL, "credit", f"turns that are not trained: {reason}", turns)
        yield from given.rows


def _told_fields(row: TrainingRow) -> set[str]:
    """The fields of a row that say something: that are not what they are where nothing is known."""
    return {name for name, default in _DEFAULTS.items() if _says(getattr(row, name), default)}


def _beside_messages(trajectory: Trajectory) -> Counter[str]:
    """What an attempt's record says beside its messages."""
    tokens = sum(call.completion_token_ids is not None for call in trajectory.calls)
    states = sum(step.state is not None for step in trajectory.steps)
    found = {"tokens": tokens, "states": states, "evidence": len(trajectory.evidence)}
    return Counter({**found, "verdicts": len(trajectory.verdicts)})


def _says(value: Any, default: Any) -> bool:
    if value is None or value is default:
        return False
    return bool(len(value)) if hasattr(value, "__len__") else bool(value != default)


_DEFAULTS = {
    field.name: None if field.default is msgspec.NODEFAULT else field.default
    for field in msgspec.structs.fields(TrainingRow)
}
