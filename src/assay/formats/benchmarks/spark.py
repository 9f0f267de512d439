"""SPARK: attempts of Codex at SkillsBench tasks, with what their verifiers printed and counted.

Reads a task's folder, its `trajectory.jsonl` (what each attempt did and what was judged) and its `attempts.json`
(rewards and counts; where both tell of an attempt it is read once, and numbers that differ are both kept). Counts,
rewards, CTRF reports and the verifier's output are facts of their own, exactly as recorded, contradictions included.
What was done between attempts (reflections, drift, distilled skills) is kept as notes of the attempt before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.benchmarks.spark_events import SparkAttempt
from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.builder import Origin
from assay.formats.shared.json_stream import WarnFunction, digest_file, json_lines, warn_in
from assay.formats.shared.round_trip_builder import (
    find_file,
    is_object,
    load_optional_document,
    objects_in,
    text_or_empty,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff

LINES, ATTEMPTS, SKILL = "trajectory.jsonl", "attempts.json", "SKILL.md"
_KINDS = {"execution_result", "reflect_call", "pdi_snapshot", "skill_gen_call", "task_summary"}


class SparkFormat(ReadOnlyFormat):
    name: ClassVar[str] = "spark"
    title: ClassVar[str] = "SPARK attempts (trajectory.jsonl, attempts.json)"
    why_read_only: ClassVar[str] = "SPARK's files are only read"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if seen.shape == "folder":
            return _has_lines(path / LINES) or _has_attempts(path / ATTEMPTS)
        return _has_lines(path) or _has_attempts(path)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        whole = path.is_dir()
        folder = path if whole else path.parent
        lines = path if not whole and _has_lines(path) else find_file(folder / LINES)
        attempts = path if not whole and not _has_lines(path) else find_file(folder / ATTEMPTS)
        attempts_by_number = _load_attempts(attempts)
        digest = digest_file(path if not whole else lines or attempts or path)
        source = _AttemptReader(Origin(self.name, path.name, digest), reading, _task_name(folder, attempts))
        done: set[int] = set()
        if lines is not None and (whole or lines == path):
            yield from source.lines(lines, attempts_by_number, done, find_file(folder / SKILL))
        elif lines is not None:
            done = {n for n in _attempt_numbers(lines) if n in attempts_by_number}
            if done:
                told = ", ".join(map(str, sorted(done)))
                problem = f"attempts {told} are read with {LINES}: import that, or the folder"
                warn_in(reading, path.name)("attempts", problem)
        if whole or attempts == path:
            bad = warn_in(reading, path.name)
            for number, record in attempts_by_number.items():
                if number not in done:
                    yield source.one(SparkAttempt(number, None, record), bad)


class _AttemptReader:
    """Reads the attempts of one task."""

    def __init__(self, origin: Origin, reading: ImportContext, task: str) -> None:
        self._origin, self._reading, self._task_name = origin, reading, task

    def one(self, attempt: SparkAttempt, bad: WarnFunction, skill: Path | None = None) -> ImportedTrajectory:
        return attempt.read(self._origin, self._reading, bad, self._task_name, skill)

    def lines(
        self, path: Path, attempts_by_number: dict[int, dict[str, Any]], done: set[int], skill: Path | None
    ) -> Iterator[ImportedTrajectory]:
        """Yields the attempts in `trajectory.jsonl`, each with the lines that follow it."""
        bad = warn_in(self._reading, path.name)
        open_: SparkAttempt | None = None
        early: list[dict[str, Any]] = []
        for number, line in json_lines(path, bad):
            where = f"line {number}"
            kind = text_or_empty(line.get("type")) if isinstance(line, dict) else ""
            if kind not in _KINDS:
                bad(where, "not a SPARK record")
            elif kind == "execution_result":
                if open_ is not None:
                    yield self.one(open_, bad)
                tried = _number_or(line.get("attempt"), len(done))
                done.add(tried)
                open_ = SparkAttempt(tried, line, attempts_by_number.get(tried), where)
                open_.notes, early = early, []
            else:
                (open_.notes if open_ is not None else early).append(line)
        if open_ is not None:
            yield self.one(open_, bad, skill)
        elif early:
            bad("", "no attempt found")


def _has_lines(path: Path) -> bool:
    seen = sniff(path)
    # A first line may be longer than what is looked at.
    return is_object(seen) and seen.values.get("type") in _KINDS and (seen.has("attempt") or seen.has("task_name"))


def _has_attempts(path: Path) -> bool:
    seen = sniff(path)
    return is_object(seen) and seen.has("task_name", "max_retries") and not seen.has("type")


def _load_attempts(path: Path | None) -> dict[int, dict[str, Any]]:
    found = load_optional_document(path) if path is not None else None
    attempts = found.get("attempts") if isinstance(found, dict) else None
    records = objects_in(attempts)
    return {_number_or(one.get("attempt"), position): one for position, one in enumerate(records)}


def _attempt_numbers(path: Path) -> Iterator[int]:
    lines = (line for _, line in json_lines(path, lambda *_: None))
    tried = (line for line in lines if isinstance(line, dict) and line.get("type") == "execution_result")
    for position, line in enumerate(tried):
        yield _number_or(line.get("attempt"), position)


def _number_or(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else otherwise


def _task_name(folder: Path, attempts: Path | None) -> str:
    found = load_optional_document(attempts) if attempts is not None else None
    return (text_or_none(found.get("task_name")) if isinstance(found, dict) else None) or folder.name
