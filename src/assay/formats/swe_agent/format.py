"""SWE-agent's `.traj`: actions (`trajectory`) and messages (`history`), in one document.

Reads versions 0.x (commands in the text) and 1.x (tool calls), and demonstrations that are a history alone. An entry of
`trajectory` is one step; the history's messages belong to the steps that they tell of. A report and a test output
beside it (or where SWE-smith puts them) are the evidence of the outcome. Writes 1.x.

Tools: with tool calls as the history has them. Where the command stands in the text, the tool is its first word where
that is one of SWE-agent's own, else `bash`, and the argument `command` is the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import SingleFileFormat
from assay.formats.shared.json_stream import WarnFunction, load_document, loads, warn_in
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    WHOLE,
    RoundTripBuilder,
    attempt_name,
    file_origin,
    is_object,
    number,
    source_fields,
    text_or_none,
)
from assay.formats.shared.sniffing import SniffResult, sniff
from assay.formats.swe_agent.report import OUTPUT, REPORT, judge, report_beside
from assay.formats.swe_agent.steps import EntryRenderer, TrajReader, history_plan, trajectory_plan
from assay.records import AttemptEnded, Trajectory

_STOPPED = {"exit_cost": "cost_usd", "exit_context": "tokens", "exit_total_execution_time": "wall_s"}
_GENERIC = {"main", "swe_main", "swe-bench", ""}


class SweAgentFormat(SingleFileFormat):
    name: ClassVar[str] = "swe-agent"
    title: ClassVar[str] = "SWE-agent trajectory (.traj)"
    provenance: ClassVar[Provenance] = "recorded"
    added: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "info.model_stats": "sums over the model calls",
            "info.attempt": "the attempt's id, which names the file",
        }
    )
    suffix: ClassVar[str] = ".traj"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if not is_object(seen):
            return False
        entries = seen.has("trajectory[].action", "trajectory[].observation")
        entries = entries and any(f"trajectory[].{key}" in seen.paths for key in ("response", "thought", "state"))
        known = "info" in seen.paths or "history[].role" in seen.paths or _is_empty_list(seen, "history")
        empty = _is_empty_list(seen, "trajectory") and known
        return entries or empty or (seen.has("history[].role", "history[].agent") and "trajectory" not in seen.paths)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        found = load_document(path, bad, largest=WHOLE)
        if not isinstance(found, dict):
            bad("", f"expected an object, found {type(found).__name__}")
            return
        info = found.get("info") if isinstance(found.get("info"), dict) else {}
        version = text_or_none(info.get("swe_agent_version")) if isinstance(info, dict) else None
        builder = RoundTripBuilder(file_origin(self.name, path, version or ""), reading, EntryRenderer())
        TrajReader(builder, bad).read(_list(found, "trajectory", bad), _list(found, "history", bad))
        builder.fields = {k: v for k, v in found.items() if k not in {"trajectory", "history", "instance_id"}}
        yield _finish(builder, found, path, info or {})

    def write_file(self, trajectory: Trajectory, path: Path, writing: ExportContext, *, own: bool) -> None:
        fresh = EntryRenderer()
        entries = restore_items(trajectory, fresh, trajectory_plan, writing, own=own, list_name="trajectory")
        history = restore_items(trajectory, fresh, history_plan, writing, own=own, list_name="history")
        fields = dict(source_fields(trajectory)) if own else _fresh_fields(trajectory)
        report = fields.pop("report", None)
        lists = fields.pop("lists", ["trajectory", "history"])
        made = {"trajectory": list(entries), "history": list(history)}
        found = {**{key: made[key] for key in ("trajectory", "history") if key in lists}, **fields}
        path.write_bytes(msgspec.json.encode({**found, "instance_id": trajectory.task}))
        if report is not None:
            path.with_suffix(f".{REPORT}").write_bytes(msgspec.json.encode(report))
        output = next((e for e in trajectory.evidence if e.kind == "test_output"), None)
        if own and report is not None and output is not None:
            whole = writing.read_blob(output.blobs[0]) if output.blobs else str(output.data["text"]).encode()
            path.with_suffix(f".{OUTPUT}").write_bytes(whole)


def _is_empty_list(seen: SniffResult, name: str) -> bool:
    """Returns whether a field is an object or array without content."""
    inside = any(path.startswith((f"{name}[", f"{name}.")) for path in seen.paths)
    return name in seen.paths and name not in seen.values and not inside


def _list(document: dict[str, Any], key: str, bad: WarnFunction) -> list[Any] | None:
    value = document.get(key)
    if value is not None and not isinstance(value, list):
        bad(key, f"expected a list, found {type(value).__name__}")
    return value if isinstance(value, list) else None


def _fresh_fields(trajectory: Trajectory) -> dict[str, Any]:
    ended = trajectory.finished
    status = "submitted" if ended and ended.ended else (ended.stopped if ended and ended.stopped else None)
    submission = next((e.data.get("text") for e in trajectory.evidence if e.kind == "submission"), None)
    costs = [call.cost_usd for call in trajectory.calls if call.cost_usd is not None]
    stats = {
        "instance_cost": sum(costs) if costs else None,
        "tokens_sent": sum(call.usage.prompt_tokens or 0 for call in trajectory.calls),
        "tokens_received": sum(call.usage.completion_tokens or 0 for call in trajectory.calls),
        "api_calls": len(trajectory.calls),
    }
    told = {"exit_status": status, "submission": submission, "model_stats": stats}
    return {
        "info": {**told, "attempt": attempt_name(trajectory)},
        "replay_config": {"agent": {"model": {"name": trajectory.model}}},
        "environment": trajectory.task,
    }


def _finish(
    builder: RoundTripBuilder, document: dict[str, Any], path: Path, info: dict[str, Any]
) -> ImportedTrajectory:
    task = _task(document, path)
    present = [key for key in ("trajectory", "history") if isinstance(document.get(key), list)]
    builder.fields |= {"lists": present} if len(present) == 1 else {}
    if submission := text_or_none(info.get("submission")):
        builder.add_text_evidence("submission", submission)
    report, output = report_beside(path, task)
    if report is not None:
        builder.fields["report"] = report
        judge(builder, report, output)
    status = text_or_none(info.get("exit_status")) or ""
    stopped = next((limit for name, limit in _STOPPED.items() if name in status), None)
    ended = AttemptEnded(
        ended=status if status.startswith("submitted") else None,
        stopped=stopped,
        error=status if status and not status.startswith("submitted") and stopped is None else None,
        metrics=_metrics(info.get("model_stats")),
    )
    return builder.finish(task, ended=ended, task=task, agent="swe-agent", model=_model(document.get("replay_config")))


def _task(document: dict[str, Any], path: Path) -> str:
    named = document.get("instance_id"), document.get("environment")
    return next((name for name in named if isinstance(name, str) and name not in _GENERIC), path.stem)


def _metrics(stats: Any) -> dict[str, float]:
    told = {k: number(v) for k, v in stats.items()} if isinstance(stats, dict) else {}
    return {key: value for key, value in told.items() if value is not None}


def _model(config: Any) -> str | None:
    """Returns the model's name; None for a replay."""
    if isinstance(config, str):
        try:
            config = loads(config)
        except ValueError:
            return None
    for key in ("agent", "model", "name"):
        config = config.get(key) if isinstance(config, dict) else None
    return config if isinstance(config, str) and config != "replay" else None
