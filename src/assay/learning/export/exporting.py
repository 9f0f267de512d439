"""Exports a run for a trainer: selects attempts, assigns credit, and lists every loss.

Invariants: runs with a broken hash chain are refused; a doubted pass is never written as a plain pass; data without a
field in the target is listed in OUT.losses.json.
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
from assay.formats.interface import Addition, Loss
from assay.formats.shared.output_files import new_file, refuse_existing
from assay.learning.conversation import SEVERAL_ACTORS, conversations, has_agent_output, lacks_conversation
from assay.learning.credit import CreditConfig, assign_credit
from assay.learning.credit.actor_weights import describe_weights
from assay.learning.credit.compose import require_usable
from assay.learning.reading import STEERED_TOKENS, RunReader, TaskSource
from assay.learning.rows import UNKNOWN, TrainingRow
from assay.records import Task, Trajectory
from assay.rollout.exchange.exporting import (
    FAILED_INTEGRITY,
    AttemptStatus,
    ExportReport,
    LossFile,
    sidecar_of,
    status_of,
)
from assay.rollout.exchange.secret_check import SecretCheck, describe_secrets
from assay.settings import Settings

from .config import TARGETS, WriteConfig
from .interface import AttemptConversation, ExportTarget, Include

ALL = "*"
"""Attempt name in the sidecar for losses of all attempts."""
_ALWAYS = frozenset({"token_ids", "run", "chain", "attempt", "task", "branch"})
"""Fields that every target represents, or that only identify a row."""
Progress = Callable[[int], None] | None


def load_target(name: str) -> ExportTarget:
    """Loads a target by name. Raises `KeyError` for a name that is not in `TARGETS`."""
    module, _, kind = TARGETS[name].partition(":")
    target: ExportTarget = getattr(import_module(f"{__package__}.{module}"), kind)()
    return target


def export_for_training(run: str, config: WriteConfig, settings: Settings, progress: Progress = None) -> ExportReport:
    """Exports the deciding trial of each attempt of a run for a trainer.

    Raises:
        UserError: The target exists, a span is not certified, or there is nothing that the target can take.
        StoreError: The run cannot be read, or was changed.
    """
    target, out = load_target(config.to), Path(config.out)
    if target.credit or config.credit is not None:
        require_usable(_credit_of(config))
    elif config.credit_options or config.credit_actors != "equal":
        option = "--credit-option" if config.credit_options else "--credit-actors"
        raise UserError(f"{option} has no effect: --to {target.name} holds no advantages; name a method with --credit")
    refuse_existing(out)
    with RunReader.open(settings, run, config) as reader, new_file(sidecar_of(out)) as stream:
        check = None if config.with_secrets else SecretCheck([reader.manifest], settings)
        losses = LossFile(stream, {"run": run, "format": target.name, "out": out.name}, check)
        source = _RunSource(_ExportJob(run, config, settings, progress), reader, target, losses)
        reader.on_left_out = source.left_out
        written = _write_atomically(target, source, out)
        source.close()
        losses.close(list(source.statuses.values()))
    passes = [status for status in source.statuses.values() if status.outcome == "pass"]
    return ExportReport(
        run,
        target.name,
        str(out),
        str(sidecar_of(out)),
        written,
        dict(losses.counts),
        tuple(status.attempt for status in passes if status.doubt is not None),
        sum(status.integrity is None for status in passes),
        tuple(source.secret),
        losses.additions(),
        tuple(source.warnings()),
    )


def _write_atomically(target: ExportTarget, source: _RunSource, out: Path) -> int:
    """Writes a target under a temporary name and renames it when complete."""
    partial = out.with_name(f".{out.name}.partial")
    out.parent.mkdir(parents=True, exist_ok=True)
    _remove(partial)  # of an export that was killed
    try:
        written = target.write(source, partial)
        if written == 0:
            raise UserError(f"nothing to write for {target.name}: {_explain_nothing(target, source)}")
        partial.rename(out)
    finally:
        _remove(partial)
    return written


def _explain_nothing(target: ExportTarget, source: _RunSource) -> str:
    """Returns why every attempt was left out, by the first of them, and what would change that."""
    first = source.first
    if first is None:
        return "no attempt is decided"
    said = f"every attempt was left out (the first, {first.attempt}: {first.why.removeprefix('left out: ')})"
    if first.field != "tokens":
        return said + ("; --include all takes attempts of every outcome" if source.left_out_by_outcome else "")
    if target.sampled:
        return (
            f"{said}; it takes sampled tokens, so run the agent with a model that takes tokens (--model local:FOLDER, "
            "vllm:... or sglang:...)"
        )
    return f"{said}; --rendered --model FOLDER renders such attempts for supervised targets"


def _remove(partial: Path) -> None:
    if partial.is_dir() and not partial.is_symlink():
        shutil.rmtree(partial)
    else:
        partial.unlink(missing_ok=True)


class _ExportJob(NamedTuple):
    run: str
    config: WriteConfig
    settings: Settings
    progress: Progress


class _RunSource:
    def __init__(self, job: _ExportJob, reader: RunReader, target: ExportTarget, losses: LossFile) -> None:
        self.run, self.config, self.settings, self._progress = job
        self.statuses: dict[str, AttemptStatus] = {}
        self.first: Loss | None = None
        self.secret: list[str] = []
        """Attempts left out because they hold a secret."""
        self._reader = reader
        self._target = target
        self._losses = losses
        self._unsupported: Counter[str] = Counter()
        wanted = self.config.include
        self._include: Include = target.include if wanted == "default" else wanted
        self._listed: set[tuple[str, str, str]] = set()
        self._counted: set[str] = set()
        self.left_out_by_outcome = False
        self._sampled_rows = self._without_roles = 0
        self._without_advantage = False

    def rows(self) -> Iterator[TrainingRow]:
        rows = self._rows()
        if self._target.credit or self.config.credit is not None:
            rows = self._assign_credit(rows)
        for row in rows:
            if self._target.sampled and row.origin == "rendered":
                self.record_loss(row.attempt, "row", "it was rendered, not sampled: it has no policy gradient")
                continue
            if "doubt" not in self._target.holds and not row.loss_mask.any():
                self.record_loss(row.attempt, "row", f"no token of row {row.branch} is trained")
                continue
            if pictures := {name for turn in row.turns for name in turn.pictures}:
                self.record_loss(row.attempt, "pictures", "the model saw them and no row holds them", len(pictures))
            self._unsupported.update(_informative_fields(row) - self._target.holds - _ALWAYS)
            self._sampled_rows += row.origin == "sampled"
            self._without_roles += row.origin == "sampled" and bool((row.roles == UNKNOWN).any())
            yield row

    def conversations(self) -> Iterator[AttemptConversation]:
        for trajectory in self._trajectories():
            if not has_agent_output(trajectory):
                self.record_loss(trajectory.attempt, "messages", "its agent has no output")
                continue
            if lacks_conversation(trajectory):
                self.record_loss(trajectory.attempt, "messages", SEVERAL_ACTORS)
                continue
            if not self._target.holds and trajectory.chain not in self._counted:
                self._counted.add(trajectory.chain)
                self._unsupported.update(_non_message_counts(trajectory))
            for transcript in conversations(trajectory, self._reader.opening(trajectory)):
                yield AttemptConversation(trajectory, transcript)

    def trajectories(self) -> Iterator[Trajectory]:
        return self._trajectories()

    def task(self, trajectory: Trajectory) -> Task | None:
        return self._reader.task(trajectory)

    def blob(self, digest: str) -> bytes:
        return self._reader.blob(digest)

    def task_source(self, trajectory: Trajectory) -> TaskSource:
        """Returns the origin of an attempt's task."""
        return self._reader.task_source(trajectory)

    def record_loss(self, attempt: str, field: str, why: str, count: int = 1) -> None:
        """Records a loss once."""
        if (attempt, field, why) not in self._listed:
            self._listed.add((attempt, field, why))
            loss = Loss(attempt, field, why, count)
            self.first = self.first or loss
            self._losses.lost(loss)

    def record_addition(self, attempt: str, field: str, why: str) -> None:
        """Records a field that is written beyond the records."""
        self._losses.added(Addition(attempt, field, why))

    def left_out(self, attempt: str, field: str, why: str) -> None:
        """Records what the reader left out."""
        self.record_loss(attempt, field, why)

    def warnings(self) -> Iterator[str]:
        """Yields what makes the written examples less useful than they could be."""
        if self._without_roles and "roles" in self._target.holds:
            folder = self._reader.template.folder or "FOLDER"
            remedy = (
                f"--model {folder} assigns them"
                if self.config.model is None
                else f"the template of {self.config.model} does not render the recorded prompts: name another --model, "
                "--renderer, or --thinking or --no-thinking"
            )
            rows = f"{self._without_roles} row{'s' * (self._without_roles != 1)}"
            yield f"the roles of prompt tokens are unknown in {rows}; {remedy}"
        if self._sampled_rows and self._reader.template.steered and "logprobs" in self._target.holds:
            yield STEERED_TOKENS
        if self._without_advantage:
            yield (
                "every advantage is 0: no group holds both better and worse attempts at a task, so these rows teach "
                "nothing; more attempts at a task may differ (assay run --attempts N)"
            )

    def close(self) -> None:
        """Records the fields that the target cannot represent."""
        for field, count in sorted((+self._unsupported).items()):
            self.record_loss(ALL, field, f"{self._target.name} has no place for it", count)

    def _rows(self) -> Iterator[TrainingRow]:
        for trajectory in self._trajectories():
            yield from self._reader.rows(trajectory)

    def _trajectories(self) -> Iterator[Trajectory]:
        for trajectory in self._reader.unchecked_trajectories():
            attempt, status = trajectory.attempt, status_of(trajectory, self.config.require)
            self.statuses[attempt] = status
            reason = self._exclusion_reason(trajectory, status) or self._secret_reason(trajectory)
            if reason is not None:
                self.record_loss(attempt, "attempt", f"left out: {reason}")
                continue
            if self._progress is not None:
                self._progress(len(self.statuses))
            yield trajectory

    def _secret_reason(self, trajectory: Trajectory) -> str | None:
        reason = describe_secrets(self._reader.secret_names(trajectory))
        if reason is not None and trajectory.attempt not in self.secret:
            self.secret.append(trajectory.attempt)
        return reason

    def _exclusion_reason(self, trajectory: Trajectory, status: AttemptStatus) -> str | None:
        says_so = self._target.credit or "doubt" in self._target.holds
        if status.doubt is not None and not (says_so and self._include == "all"):
            return f"it passed, and {status.doubt}"
        if status.integrity == "fail" and not self.config.failed_integrity:
            return FAILED_INTEGRITY.removeprefix("left out: ")
        if self._include == "all":
            return None
        outcome = "broken" if trajectory.finished is not None and trajectory.finished.broke else trajectory.outcome
        passes_alone = self._include == "passes"
        if outcome == "pass" or (outcome == "fail" and not passes_alone):
            return None
        self.left_out_by_outcome = True
        return f"its outcome is {outcome or 'not judged'}{'' if passes_alone else ', which gives no reward'}"

    def _assign_credit(self, rows: Iterator[TrainingRow]) -> Iterator[TrainingRow]:
        job = _credit_of(self.config)
        listed = list(rows)
        if not listed:
            return
        credited = assign_credit(listed, job)
        for reason, turns in sorted(credited.credit.reasons.items()):
            self.record_loss(ALL, "credit", f"turns that are not trained: {reason}", turns)
        for text in describe_weights(credited.actors):
            self.record_addition(ALL, "weights of actors", text)
        rows_with = (row for row in credited.rows if row.advantages is not None and row.advantages.any())
        self._without_advantage = next(rows_with, None) is None
        yield from credited.rows


def _credit_of(config: WriteConfig) -> CreditConfig:
    return CreditConfig(method=config.credit or "grpo", options=config.credit_options, actors=config.credit_actors)


def _informative_fields(row: TrainingRow) -> set[str]:
    return {name for name, default in _DEFAULTS.items() if _is_informative(getattr(row, name), default)}


def _non_message_counts(trajectory: Trajectory) -> Counter[str]:
    tokens = sum(call.completion_token_ids is not None for call in trajectory.calls)
    states = sum(step.state is not None for step in trajectory.steps)
    evidence, verdicts = len(trajectory.evidence), len(trajectory.verdicts)
    return Counter({"tokens": tokens, "states": states, "evidence": evidence, "verdicts": verdicts})


def _is_informative(value: Any, default: Any) -> bool:
    if value is None or value is default:
        return False
    return bool(len(value)) if hasattr(value, "__len__") else bool(value != default)


_DEFAULTS = {
    field.name: None if field.default is msgspec.NODEFAULT else field.default
    for field in msgspec.structs.fields(TrainingRow)
}
