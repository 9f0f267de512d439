"""The output of `codex exec --json`: the events of one run. Its session file says more (`codex`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.codex.events import read_events
from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.json_stream import WarnFunction, json_lines, warn_in
from assay.formats.shared.round_trip_builder import file_origin
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded


class CodexExecFormat(ReadOnlyFormat):
    name: ClassVar[str] = "codex-exec"
    title: ClassVar[str] = "Codex events (codex exec --json)"
    why_read_only: ClassVar[str] = (
        "the output of `codex exec` is only read: export to codex, which writes session files"
    )

    def recognises(self, path: Path) -> bool:
        first = sniff(path).first
        return isinstance(first, dict) and first.get("type") == "thread.started" and "thread_id" in first

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """Reads a trajectory for each thread that the file begins: several runs may print into one file."""
        bad = warn_in(reading, path.name)
        origin = file_origin(self.name, path)
        for events in _threads(path, bad):
            builder = TrajectoryBuilder(origin, reading)
            found = read_events(builder, events, bad, "unknown")
            error = found.errors[-1] if found.errors and found.ended is None else None
            builder.fields = {"errors": found.errors} if found.errors else {}
            yield builder.finish(
                f"thread {found.thread or path.stem}",
                ended=AttemptEnded(ended=found.ended, error=error),
                task=None if builder.steps else path.stem,
                agent="codex",
            )


def _threads(path: Path, bad: WarnFunction) -> Iterator[Iterator[tuple[str, Any]]]:
    """Yields the events of each thread. A resumed thread, which begins again with its id, goes on."""
    lines = ((f"line {number}", line) for number, line in json_lines(path, bad))
    for _, numbered in groupby(_number_threads(lines), key=itemgetter(0)):
        yield (line for _, line in numbered)


def _number_threads(lines: Iterator[tuple[str, Any]]) -> Iterator[tuple[int, tuple[str, Any]]]:
    number, thread = 0, None
    for where, line in lines:
        began = isinstance(line, dict) and line.get("type") == "thread.started"
        if began and thread is not None and line.get("thread_id") != thread:
            number += 1
        thread = line.get("thread_id") if began else thread
        yield number, (where, line)
