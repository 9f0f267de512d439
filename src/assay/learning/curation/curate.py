"""Selects attempts of runs, and writes them with a decision for each attempt.

Invariants: attempts are taken from runs with intact hash chains only; `decisions.jsonl` has one line for every decided
attempt of every run, with its chain's head; only the same selection, made again, replaces an existing folder.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from assay import __version__, plugins
from assay.errors import UserError
from assay.formats.shared.output_files import new_file, new_folder
from assay.learning.conversation import Opening, conversations
from assay.learning.reading import RunReader
from assay.learning.row_files import write_rows
from assay.learning.rows import TrainingRow
from assay.learning.rows_config import RowsConfig
from assay.learning.selected import DECISIONS, MANIFEST
from assay.records import Task, Trajectory
from assay.rollout.exchange.secret_check import SecretCheck
from assay.settings import Settings
from assay.store import restore_messages
from assay.tasks import find_tasks

from .config import CurateConfig, CurateReport, RecoveryOutcome
from .interface import AttemptCandidate, SelectionStage
from .lessons import LESSONS, PAIRS, lesson_line, opening_for, pair_line
from .measures import AttemptMeasurement, compare_within_tasks, measure
from .recover import RecoveryResult, recover
from .select import SelectionResult, count_by_stage, parse_stage, select
from .similar import LeakageIndex
from .teacher import Student, rank_and_surprisal

ROWS, CONVERSATIONS = "rows.parquet", "conversations.jsonl"
NO_OPENING = "it called no model, and its opening is unknown"
STUDENT = "assay.learning.curation.student:TransformersStudent"


class _Manifest(msgspec.Struct):
    """The field of a manifest that says how a selection was made."""

    config: CurateConfig


OnProgress = Callable[[str], None]


def curate(config: CurateConfig, settings: Settings, on_progress: OnProgress | None = None) -> CurateReport:
    """Selects attempts and writes the folder.

    Raises:
        UserError: A stage or a run does not exist, the folder holds something else, or what is asked for cannot be
            made.
        StoreError: A run is damaged or was changed.
    """
    required = [] if config.require == "unknown" else [SelectionStage("separation", {"at_least": config.require})]
    stages = [*required, *(parse_stage(stage) if isinstance(stage, str) else stage for stage in config.where)]
    select([], stages)
    out = Path(config.out)
    _require_same_options(out, config)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Made beside its place, so that the folder is there whole or not at all.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
        folder = new_folder(Path(scratch) / out.name)
        candidates = list(_candidates(config, settings, on_progress or _ignore_progress))
        if any(one.secrets for one in candidates):
            stages = [SelectionStage("secrets"), *stages]
        selected = select(candidates, stages)
        check = None if config.with_secrets else SecretCheck.of_runs(config.runs, settings)
        with new_file(folder / DECISIONS) as stream:
            for one, decision in zip(candidates, selected, strict=True):
                stream.write(_cleaned(_line(one, decision), check) + b"\n")
        _require_same_decisions(out, folder)
        writing = _SelectionWriter(
            config, settings, {(c.run, c.chain): (c, s) for c, s in _kept_pairs(candidates, selected)}, check
        )
        writing.write(folder)
        if config.recover is not None or config.reattempt is not None:
            asyncio.run(writing.recover(folder))
        report = _report(config, candidates, selected, stages, writing)
        with new_file(folder / MANIFEST) as stream:
            stream.write(msgspec.json.format(_cleaned(_manifest(config, stages, candidates, report), check), indent=1))
        if out.exists():
            out.rename(Path(scratch) / "replaced")
        folder.rename(out)
    return report


def _require_same_options(out: Path, config: CurateConfig) -> None:
    """Raises `UserError` where something is at `out`, except a selection with the same options."""
    if not out.exists() and not out.is_symlink():
        return
    try:
        earlier = msgspec.json.decode((out / MANIFEST).read_bytes(), type=_Manifest).config
        earlier = msgspec.structs.replace(earlier, out=config.out)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise UserError(
            f"{out} exists and holds no selection of `assay curate`: name another --out, or move it away"
        ) from exc
    names = [name for name in config.__struct_fields__ if getattr(earlier, name) != getattr(config, name)]
    if names:
        raise UserError(
            f"{out} holds a selection with other options ({', '.join(names)}): name another --out, or move it away"
        )


def _require_same_decisions(out: Path, folder: Path) -> None:
    """Raises `UserError` where `out` holds other decisions than `folder`."""
    try:
        earlier = (out / DECISIONS).read_bytes() if out.exists() else None
    except OSError as exc:
        raise UserError(f"{exc.filename} cannot be read ({exc.strerror}): name another --out, or move it away") from exc
    if earlier not in (None, (folder / DECISIONS).read_bytes()):
        raise UserError(
            f"{out} holds an earlier selection with these options, and the attempts or their verdicts have changed "
            "since: name another --out, or move it away"
        )


def _candidates(config: CurateConfig, settings: Settings, on_progress: OnProgress) -> Iterator[AttemptCandidate]:
    held_out = _open_held_out(config.held_out)
    student = _open_student(config.student)
    rows = RowsConfig(
        model=config.model,
        uncertified="mask",
        with_secrets=config.with_secrets,
        allow_task_code=config.allow_task_code,
    )
    measured: list[AttemptMeasurement] = []
    for run in config.runs:
        with RunReader.open(settings, run, rows) as reader:
            for trajectory in reader.unchecked_trajectories():
                one = measure(trajectory, user_text(trajectory) if held_out else "", held_out)
                origin = reader.task_source(trajectory)
                more: dict[str, Any] = {"source": origin.source, "licence": origin.licence}
                more["secrets"] = reader.secret_names(trajectory)
                if student is not None:
                    more["rsr"] = _mean_rank_surprisal(student, reader.rows(trajectory))
                measured.append(one._replace(candidate=msgspec.structs.replace(one.candidate, **more)))
                if len(measured) % 200 == 0:
                    on_progress(f"{len(measured):,} attempts measured")
    yield from compare_within_tasks(measured)


def _mean_rank_surprisal(student: Student, rows: Sequence[TrainingRow]) -> tuple[float, float] | None:
    found = [(rank_and_surprisal(student.read(row.token_ids), row.loss_mask), int(row.loss_mask.sum())) for row in rows]
    known = [(pair, count) for pair, count in found if pair is not None]
    total = sum(count for _, count in known)
    if not total:
        return None
    return sum(pair[0] * n for pair, n in known) / total, sum(pair[1] * n for pair, n in known) / total


def _open_held_out(sources: Sequence[str]) -> LeakageIndex | None:
    if not sources:
        return None
    tasks = [loaded.task for loaded in find_tasks(list(sources))]
    return LeakageIndex({task.id: instruction_text(task) for task in tasks}, {task.digest: task.id for task in tasks})


def instruction_text(task: Task) -> str:
    """Returns a task's instruction as one text."""
    if isinstance(task.instruction, str):
        return task.instruction
    return "\n".join(m.content for m in task.instruction if isinstance(m.content, str))


def user_text(trajectory: Trajectory) -> str:
    """Returns the user messages of an attempt as one text."""
    messages = [step.message for step in trajectory.steps if step.actor == "user" and step.message]
    if not messages and trajectory.calls:
        first = restore_messages({call.id: call for call in trajectory.calls}, trajectory.calls[0])
        messages = [m["content"] for m in first if m.get("role") == "user" and isinstance(m.get("content"), str)]
    return "\n".join(messages)


def _open_student(named: str | None) -> Student | None:
    if named is None:
        return None
    reader, equals, folder = named.rpartition("=")
    kind = plugins.load("students", reader if equals else STUDENT)
    student: Student = kind(folder)
    return student


def _kept_pairs(
    candidates: Sequence[AttemptCandidate], selected: Sequence[SelectionResult]
) -> Iterator[tuple[AttemptCandidate, SelectionResult]]:
    return ((c, s) for c, s in zip(candidates, selected, strict=True) if s.kept)


def _cleaned(value: Any, check: SecretCheck | None) -> bytes:
    """Returns JSON with secrets redacted."""
    data = msgspec.json.encode(value)
    return data if check is None else check.clean(data).data


def _line(one: AttemptCandidate, decision: SelectionResult) -> dict[str, Any]:
    fields = {k: v for k, v in msgspec.to_builtins(one).items() if k not in ("moves", "signature")}
    return {"kept": decision.kept, "stage": decision.stage, "why": decision.why, **fields}


class _SelectionWriter:
    def __init__(
        self,
        config: CurateConfig,
        settings: Settings,
        kept: Mapping[tuple[str, str], tuple[AttemptCandidate, SelectionResult]],
        check: SecretCheck | None,
    ) -> None:
        self._config, self._settings, self._selection, self._check = config, settings, kept, check
        self.rows = self.conversations = 0
        self.missing: Counter[str] = Counter()
        self.lessons: Counter[str] = Counter()
        self.recovered: list[RecoveryOutcome] = []

    def write(self, out: Path) -> None:
        """Writes the configured files."""
        if "conversations" in self._config.write:
            with new_file(out / CONVERSATIONS) as stream:
                for reader, trajectory in self._trajectories():
                    for line in self._conversations(reader, trajectory):
                        self.conversations += self._write_line(stream, line)
        if "rows" in self._config.write:
            write_rows(self._rows(), out / ROWS)

    def _write_line(self, stream: BinaryIO, line: Any) -> bool:
        """Writes a line, unless it holds a secret; returns whether it was written."""
        data = msgspec.json.encode(line)
        names = () if self._check is None else self._check.clean(data).names
        if names:
            self.missing[f"it holds {', '.join(names)} (--with-secrets writes it too)"] += 1
            return False
        stream.write(data + b"\n")
        return True

    def _trajectories(self) -> Iterator[tuple[RunReader, Trajectory]]:
        model = self._config.model
        rows = RowsConfig(
            model=model,
            uncertified=self._config.uncertified,
            rendered=model is not None,
            with_secrets=self._config.with_secrets,
            allow_task_code=self._config.allow_task_code,
        )
        for run in self._config.runs:
            with RunReader.open(self._settings, run, rows) as reader:
                for trajectory in reader.trajectories():
                    if (trajectory.run, trajectory.chain) in self._selection:
                        yield reader, trajectory

    def _rows(self) -> Iterator[TrainingRow]:
        for reader, trajectory in self._trajectories():
            found = reader.rows(trajectory)
            self.missing["no tokens are known of it, and no --model renders it"] += not found
            self.rows += len(found)
            yield from found

    def _conversations(self, reader: RunReader, trajectory: Trajectory) -> Iterator[dict[str, Any]]:
        one, decision = self._selection[trajectory.run, trajectory.chain]
        try:
            opening = reader.opening(trajectory)
            found = list(conversations(trajectory, opening))
        except UserError:
            self.missing[f"no conversation: {NO_OPENING}"] += 1
            return
        for line in found:
            source = {"run": one.run, "attempt": one.attempt, "chain": one.chain, "head": one.head, "task": one.task,
                      "agent": one.agent, "model": one.model, "branch": line.branch}  # fmt: skip
            verdict_fields = {"outcome": one.outcome, "integrity": one.integrity, "doubt": one.doubt}
            verdict_fields["separation"] = one.separation
            yield {
                "messages": line.messages,
                "tools": line.tools,
                "source": source,
                **verdict_fields,
                "why": decision.why,
            }

    async def recover(self, out: Path) -> None:
        """Writes lessons from the selected failed attempts, and notes the result for each."""
        openings = self._failed_attempts()
        if not openings:
            self.missing["no failed attempt was kept: --where verdicts:outcome=fail keeps them"] += 1
        found = await recover([one for one, _ in openings.values()], self._config, self._settings)
        with new_file(out / LESSONS) as lessons, new_file(out / PAIRS) as pairs:
            for one in found:
                _, opening = openings[one.failed.run, one.failed.chain]
                self.recovered.append(self._write_lessons(one, opening, lessons, pairs))

    def _write_lessons(
        self, found: RecoveryResult, opening: Opening | None, lessons: BinaryIO, pairs: BinaryIO
    ) -> RecoveryOutcome:
        failed, written, pair, why = found.failed, list[str](), False, found.why
        if opening is None:
            why += "; its opening is unknown" if found.lessons else ""
        else:
            for lesson in found.lessons:
                if self._write_line(lessons, lesson_line(lesson, failed, opening)):
                    written.append(lesson.kind)
            pair = found.contrast is not None and self._write_line(pairs, pair_line(found.contrast, failed, opening))
        self.lessons.update([*written, *(["pairs"] if pair else [])])
        return RecoveryOutcome(run=failed.run, attempt=failed.attempt, lessons=tuple(written), pair=pair, why=why)

    def _failed_attempts(self) -> dict[tuple[str, str], tuple[Trajectory, Opening | None]]:
        found: dict[tuple[str, str], tuple[Trajectory, Opening | None]] = {}
        for reader, trajectory in self._trajectories():
            if trajectory.outcome != "fail":
                continue
            opening = None
            try:
                opening = opening_for(reader, trajectory)
            except UserError:
                self.missing[f"no lesson: {NO_OPENING}"] += 1
            found[trajectory.run, trajectory.chain] = trajectory, opening
        return found


def _report(
    config: CurateConfig,
    candidates: Sequence[AttemptCandidate],
    selected: Sequence[SelectionResult],
    stages: Sequence[SelectionStage],
    writing: _SelectionWriter,
) -> CurateReport:
    kept = [one for one, _ in _kept_pairs(candidates, selected)]
    return CurateReport(
        out=config.out,
        attempts=len(candidates),
        kept=len(kept),
        stages=tuple(count_by_stage(stages, selected)),
        by_run=dict(sorted(Counter(one.run for one in kept).items())),
        by_model=dict(sorted(Counter(one.model or one.agent for one in kept).items())),
        by_licence=dict(sorted(Counter(one.licence for one in kept).items())),
        rows=writing.rows if "rows" in config.write else None,
        conversations=writing.conversations if "conversations" in config.write else None,
        lessons=dict(sorted(writing.lessons.items())),
        recovered=tuple(writing.recovered),
        not_written={why: count for why, count in writing.missing.items() if count},
    )


def _manifest(
    config: CurateConfig, stages: Sequence[SelectionStage], candidates: Sequence[AttemptCandidate], report: CurateReport
) -> dict[str, Any]:
    return {
        "assay_version": __version__,
        "config": msgspec.to_builtins(config),
        "stages": msgspec.to_builtins(stages),
        "runs": {run: sum(one.run == run for one in candidates) for run in config.runs},
        "report": msgspec.to_builtins(report),
    }


def _ignore_progress(_: str) -> None:
    """Ignores progress."""
