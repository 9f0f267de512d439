"""AgentLens-Bench: runs as chains of states, each with the tool call that led to it and the beginning of its answer.

State N is step N: state 0, the initial one, holds the task's text. Only the first 500 characters of an observation were
published, and how many there were was not: a step whose observation is cut says so (`extra["cut"]`). The published
quality scores, in `annotations/trajectories.csv` two folders above, are kept as a label; whether the run
passed is the source's claim.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.shared.base import ReadOnlyFormat
from assay.formats.shared.builder import TrajectoryBuilder, tool_call
from assay.formats.shared.json_stream import WarnFunction, load_document, loads, parse_time, read_head, warn_in
from assay.formats.shared.round_trip_builder import count_or_none, file_origin, find_file, is_object, text_or_none
from assay.formats.shared.sniffing import sniff
from assay.records import ModelCall, ToolCall, Usage, VerdictStatus

ANNOTATIONS = "trajectories.csv"
_HEADER = b"task_id,model,trajectory_id,passed,"
_PREVIEW = 500
_TERMINAL = "run_in_terminal"
"""The one tool whose answers can be empty; the preview of an empty answer was left out."""
_NOT_ARGUMENTS = {"thought"}
_STATUS: dict[str, VerdictStatus] = {"passed": "pass", "failed": "fail"}


class AgentLensFormat(ReadOnlyFormat):
    name: ClassVar[str] = "agentlens"
    title: ClassVar[str] = "AgentLens-Bench states"
    why_read_only: ClassVar[str] = "AgentLens-Bench is an annotated data set and is only read"

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if is_object(seen):
            return seen.has("initial_state", "states") or seen.values.get("dataset_name") == "AgentLens-Bench"
        return seen.shape == "other" and read_head(path, len(_HEADER)) == _HEADER

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        if read_head(path, len(_HEADER)) == _HEADER:
            bad("", "the file holds labels of trajectories: import the folder `trajectories`")
            return
        found = load_document(path, bad)
        metadata = found.get("metadata") if isinstance(found, dict) else None
        if not isinstance(metadata, dict) or not isinstance(found.get("states"), dict):
            bad("", "not a run: it has no states" if isinstance(found, dict) else "expected an object")
            return
        if metadata.get("source") == "merger":
            bad("", f"it is a reference merged from {metadata.get('num_traces')} runs, not a run")
            return
        builder = TrajectoryBuilder(
            file_origin(self.name, path, text_or_none(metadata.get("generator")) or ""), reading
        )
        states = _order_states(found["states"], bad)
        for state in states:
            _add_turn(builder, state, metadata, last=state is states[-1])
        yield _finish(builder, metadata, path)


def _order_states(states: dict[str, Any], bad: WarnFunction) -> list[dict[str, Any]]:
    """Orders the states by step. A missing step keeps its place, so that positions stay those of the source."""
    found: dict[int, dict[str, Any]] = {}
    for name, state in states.items():
        step = state.get("step") if isinstance(state, dict) else None
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < 100_000:
            bad(f"states.{name}", "a state is an object with a step")
        elif step in found:
            bad(f"states.{name}.step", f"step {step} occurs twice")
        else:
            found[step] = state
    if not found:
        return []
    if missing := sorted(set(range(max(found))) - set(found))[:5]:
        bad("states", f"no state has the step {', '.join(map(str, missing))}")
    if max(found) > 2 * len(found) + 10:
        bad("states", f"the last step is {max(found)}, of {len(found)} states: the gaps are closed")
        return [found[step] for step in sorted(found)]
    return [found.get(step, {}) for step in range(max(found) + 1)]


def _add_turn(builder: TrajectoryBuilder, state: dict[str, Any], metadata: dict[str, Any], *, last: bool) -> None:
    index = len(builder.steps)
    entry, known_data = state.get("log_entry"), state.get("metadata")
    known_data = known_data if isinstance(known_data, dict) else {}
    extra = {k: v for k, v in state.items() if k not in {"log_entry", "metadata", "observation", "step"}}
    if not isinstance(entry, dict):
        message = text_or_none(metadata.get("task_description")) if index == 0 else None
        builder.add_step("user" if index == 0 else "environment", message, extra={**extra, "metadata": known_data})
        return
    call = _parse_call(entry)
    preview = text_or_none(entry.get("response_preview"))
    if preview is None and entry.get("tool") == _TERMINAL and not last:
        preview = ""
    seen = [] if preview is None else [builder.make_observation(preview, call.id)]
    extra |= {"cut": True} if preview is not None and len(preview) >= _PREVIEW else {}
    usage = Usage(
        count_or_none(known_data.get("input_tokens")),
        count_or_none(known_data.get("output_tokens")),
        count_or_none(known_data.get("cached_input_tokens")),
    )
    model = text_or_none(known_data.get("model"))
    called = None
    if usage != Usage() and model is not None:
        called = builder.add_call(ModelCall(f"call-{index}", "unknown", model, {}, {}, usage=usage))
    builder.add_step(
        "agent",
        text_or_none(known_data.get("thought")) or None,
        tool_calls=(call,),
        observations=tuple(seen),
        call=called,
        started=parse_time(known_data.get("timestamp")),
        extra={
            **extra,
            "observation": state.get("observation"),
            "entry": _other_entry_fields(entry),
            "metadata": _other_metadata(known_data),
        },
    )


def _parse_call(entry: dict[str, Any]) -> ToolCall:
    arguments = entry.get("args")
    if isinstance(arguments, dict):
        arguments = {k: v for k, v in arguments.items() if k not in _NOT_ARGUMENTS or entry.get("tool") == "think"}
    return tool_call(str(entry.get("id", "")), text_or_none(entry.get("tool")) or "", arguments)


def _other_entry_fields(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k not in {"args", "response_preview", "tool", "id", "signature"}}


def _other_metadata(known_data: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in known_data.items() if k not in {"thought", "input_tokens", "output_tokens", "timestamp"}}


def _finish(builder: TrajectoryBuilder, metadata: dict[str, Any], path: Path) -> ImportedTrajectory:
    builder.fields = {"metadata": {k: v for k, v in metadata.items() if k != "task_description"}}
    row = _find_annotation(path, path.stem)
    evidence: tuple[str, ...] = ()
    if row is not None:
        evidence = (builder.add_label("agentlens", row),)
    said = text_or_none(metadata.get("pass_fail_status")) or ""
    status = _STATUS.get(said, "unknown")
    score = {"pass": 1.0, "fail": 0.0}.get(status)
    builder.add_verdict(status, score, "as recorded by AgentLens-Bench", evidence)
    return builder.finish(
        path.stem,
        task=text_or_none(metadata.get("task_name")),
        agent=text_or_none(metadata.get("source_format")) or "unknown",
        model=text_or_none(metadata.get("model_name")),
    )


def _find_annotation(path: Path, name: str) -> dict[str, Any] | None:
    file = find_file(path.parent.parent.parent / "annotations" / ANNOTATIONS)
    if file is None:
        return None
    state = file.stat()
    return _load_annotations(file, state.st_mtime_ns, state.st_size).get(name)


@lru_cache(maxsize=2)
def _load_annotations(path: Path, _changed: int, _size: int) -> dict[str, dict[str, Any]]:
    text = path.read_bytes().decode("utf-8", "replace")
    try:
        rows = [
            {str(key): _parse_value(value) for key, value in row.items()} for row in csv.DictReader(io.StringIO(text))
        ]
        return {str(row["trajectory_id"]): row for row in rows if row.get("trajectory_id")}
    except csv.Error:
        return {}


def _parse_value(text: Any) -> Any:
    if text in {"True", "False"}:
        return text == "True"
    if not isinstance(text, str) or not text:
        return None
    try:
        return loads(text)
    except ValueError:
        return text
