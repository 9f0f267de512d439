"""Claude Code sessions: JSONL whose lines form a tree by `uuid` and `parentUuid`; and the messages of its headless mode
and Agent SDK (`claude -p --output-format stream-json`, or an array of them), which name their parent in
`parent_tool_use_id`.

Lines with the same `message.id` are one answer of the model, and one step; a tool's result goes to the call that it
names. Lines of a side chain that stand in the main session are another agent's turns; a sub-agent's session in a file
of its own is a trajectory of its own, and so is each session that `claude -p` printed into one file. What was said on a
branch that was left (rewound) is kept and marked (`Step.extra["branch"] = "left"`). Exit codes are recorded only where
a failed command's text begins with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from assay.formats.claude_code.sdk_messages import as_stream_line, is_named_line, is_sdk_stream, session_of
from assay.formats.claude_code.sessions import SessionReader, find_main_branch, plan_lines, render_line
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import SingleFileFormat, skip_unreadable
from assay.formats.shared.json_stream import WarnFunction, warn_in
from assay.formats.shared.repeated_lines import unrepeated_lines
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import RoundTripBuilder, file_origin
from assay.formats.shared.sniffing import read_rows, sniff
from assay.records import Trajectory


class ClaudeCodeFormat(SingleFileFormat):
    name: ClassVar[str] = "claude-code"
    title: ClassVar[str] = "Claude Code session (.jsonl), and messages of claude -p and the Agent SDK"
    provenance: ClassVar[Provenance] = "peer"
    added: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "uuid, parentUuid, sessionId": "made of the attempt's id and the line's number",
            "the first line": "a session begins with its mode",
        }
    )

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if is_sdk_stream(seen):
            return True
        first = seen.first
        if not isinstance(first, dict) or "payload" in first:
            return False
        summary = first.get("type") == "summary" and "leafUuid" in first
        return summary or ("sessionId" in first and isinstance(first.get("type"), str))

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """Reads the file twice for each session: abandoned branches are known only at its end."""
        bad = warn_in(reading, path.name)
        sessions = _streamed_sessions(path)
        for session in sessions or (None,):
            tree = find_main_branch(line for _, line in _lines_of(path, session, lambda *_: None))
            reader = SessionReader(RoundTripBuilder(file_origin(self.name, path), reading, render_line), tree)
            report = bad if session is None or session == sessions[0] else lambda *_: None
            for where, line in unrepeated_lines(_lines_of(path, session, report), reading, path.name, is_named_line):
                if isinstance(line, dict):
                    with skip_unreadable(bad, where):
                        reader.line(line)
                else:
                    report(where, f"expected an object, found {type(line).__name__}")
            yield reader.finish(session or path.stem)

    def write_file(self, trajectory: Trajectory, path: Path, writing: ExportContext, *, own: bool) -> None:
        session = f"{trajectory.attempt}.{trajectory.retry}"
        with path.open("wb") as stream:
            before: str | None = None
            if not own:
                stream.write(msgspec.json.encode({"type": "mode", "mode": "normal", "sessionId": session}) + b"\n")
            for position, item in enumerate(restore_items(trajectory, render_line, plan_lines, writing, own=own)):
                if not own:
                    known = {"sessionId": session, "uuid": f"{session}-{position}", "parentUuid": before}
                    item, before = {**item, **known}, known["uuid"]
                stream.write(msgspec.json.encode(item) + b"\n")


def _iter_lines(path: Path, bad: WarnFunction) -> Iterator[tuple[str, Any]]:
    yield from ((where, as_stream_line(line)) for where, line in read_rows(path, bad))


def _streamed_sessions(path: Path) -> tuple[str, ...]:
    """Returns the sessions that several runs of `claude -p` printed into one file, in order; empty for one session."""
    if not is_sdk_stream(sniff(path)):
        return ()
    names = (session_of(line) for _, line in _iter_lines(path, lambda *_: None))
    found = tuple(dict.fromkeys(name for name in names if name is not None))
    return found if len(found) > 1 else ()


def _lines_of(path: Path, session: str | None, bad: WarnFunction) -> Iterator[tuple[str, Any]]:
    """Yields the lines of a session, or all of them; one that names no session belongs to the one before it."""
    current = None
    for where, line in _iter_lines(path, bad):
        current = session_of(line) or current
        if session is None or current == session:
            yield where, line
