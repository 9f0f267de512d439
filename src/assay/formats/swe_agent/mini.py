"""mini-swe-agent's `.traj.json`, of all its versions: commands in the text (1.x), tool calls, and Responses (2.x).

The messages are the trajectory. Stored raw answers (`extra.response`) become model calls; a command's exit code is the
recorded one, and a command that was never executed (the last one, which submits) has none. An unparsable answer that
the program discarded is a model call without a turn, and the next turn gives the reason. Writes the form with tool
calls, which was tested on the program's own files; the two others on their description alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import SingleFileFormat
from assay.formats.shared.json_stream import load_document, warn_in
from assay.formats.shared.messages import plan_chat_messages
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    WHOLE,
    RoundTripBuilder,
    attempt_name,
    file_origin,
    get_path,
    is_object,
    number,
    source_fields,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.formats.swe_agent.mini_steps import Messages, render_message
from assay.records import AttemptEnded, Trajectory

_FORMAT = "mini-swe-agent-1.1"
_STOPPED = {"LimitsExceeded": "limits", "TimeExceeded": "wall_s", "UserInterruption": "cancelled"}


class MiniSweAgentFormat(SingleFileFormat):
    name: ClassVar[str] = "mini-swe-agent"
    title: ClassVar[str] = "mini-swe-agent trajectory (.traj.json)"
    provenance: ClassVar[Provenance] = "peer"
    added: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "info.model_stats": "sums over the model calls",
            "info.attempt": "the attempt's id, which names the file",
        }
    )
    suffix: ClassVar[str] = ".traj.json"

    def recognises(self, path: Path) -> bool:
        """Checks several keys, because the format's name is at the end of its files."""
        seen = sniff(path)
        if not is_object(seen) or seen.has("trajectory"):
            return False
        named = str(seen.values.get("trajectory_format", "")).startswith("mini-swe-agent")
        return named or seen.has("info.mini_version") or seen.has("info.model_stats.api_calls", "messages")

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        found = load_document(path, bad, largest=WHOLE)
        messages = found.get("messages") if isinstance(found, dict) else None
        if not isinstance(messages, list):
            bad("messages", "expected a list of messages")
            return
        info = found.get("info")
        info = info if isinstance(info, dict) else {}
        builder = RoundTripBuilder(
            file_origin(self.name, path, text_or_none(info.get("mini_version")) or ""), reading, render_message
        )
        model = text_or_none(get_path(info, "config", "model", "model_name"))
        Messages(builder, bad, model or "unknown").read(messages)
        builder.fields = {key: value for key, value in found.items() if key not in {"messages", "instance_id"}}
        yield _finish(builder, found, info, path, model)

    def write_file(self, trajectory: Trajectory, path: Path, writing: ExportContext, *, own: bool) -> None:
        messages = restore_items(trajectory, render_message, plan_chat_messages, writing, own=own)
        fields = source_fields(trajectory) if own else _fresh_fields(trajectory)
        found = {**fields, "messages": list(messages), "instance_id": trajectory.task}
        path.write_bytes(msgspec.json.encode(found))


def _fresh_fields(trajectory: Trajectory) -> dict[str, Any]:
    ended = trajectory.finished
    costs = [call.cost_usd for call in trajectory.calls if call.cost_usd is not None]
    info = {
        "model_stats": {"instance_cost": sum(costs) if costs else None, "api_calls": len(trajectory.calls)},
        "config": {"model": {"model_name": trajectory.model}},
        "attempt": attempt_name(trajectory),
        "exit_status": "Submitted" if ended and ended.ended else (ended.stopped if ended and ended.stopped else ""),
        "submission": next((e.data.get("text") for e in trajectory.evidence if e.kind == "submission"), ""),
    }
    return {"info": info, "trajectory_format": _FORMAT}


def _finish(
    builder: RoundTripBuilder, document: dict[str, Any], info: dict[str, Any], path: Path, model: str | None
) -> ImportedTrajectory:
    status = text_or_none(info.get("exit_status")) or ""
    if submission := text_or_none(info.get("submission")):
        builder.add_text_evidence("submission", submission)
    stats = info.get("model_stats")
    told = {k: number(v) for k, v in stats.items()} if isinstance(stats, dict) else {}
    stopped = _STOPPED.get(status)
    ended = AttemptEnded(
        ended=status if status == "Submitted" else None,
        stopped=stopped,
        error=status if status and status != "Submitted" and stopped is None else None,
        metrics={key: value for key, value in told.items() if value is not None},
    )
    stem = path.name.removesuffix(".json").removesuffix(".traj")
    named = text_or_none(document.get("instance_id")) or (stem if "__" in stem else None)
    return builder.finish(named or stem, ended=ended, task=named, agent="mini-swe-agent", model=model)
