"""OpenHands: `output.jsonl` of evaluations, events in an array or one a line, and conversation folders of its SDK.

Reads events of the SDK (`kind`: ActionEvent, ObservationEvent, ...) and of the program before it (`action` and
`observation`, an observation naming its action in `cause`). Calls that came of one answer of the model are one step.
Tokens come from the metrics beside the events, or in all from the last event with `stats`. Writes `output.jsonl` with
the SDK's events. The SDK's were tested on what it wrote itself, the older ones and `output.jsonl` on their description
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.errors import UserError
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.openhands.events import KINDS, EventReader, plan_events, render_event
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin
from assay.formats.shared.json_stream import WarnFunction, digest_file, json_items, json_lines, load_document, warn_in
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.output_files import new_file
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    attempt_name,
    count_or_none,
    file_origin,
    find_file,
    get_path,
    is_imported_from,
    named_rewards,
    number,
    objects_in,
    source_fields,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, Trajectory, Usage, VerdictStatus

_STATE, _EVENTS = "base_state.json", "events"
_STOPPED = {"stuck": "stuck", "paused": "cancelled"}


class OpenHandsFormat:
    name: ClassVar[str] = "openhands"
    title: ClassVar[str] = "OpenHands events (output.jsonl, event lists, conversation folders)"
    provenance: ClassVar[Provenance] = "peer"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if seen.shape == "folder":
            return _is_conversation(path)
        start = {"array": "[].", "object": "history[].", "lines": "history[]."}.get(seen.shape)
        if start is None:
            return False
        if start == "history[]." and seen.has("history[][].action", "history[][].source"):
            return True
        if _is_event_stream(path):
            return True
        said = any(seen.has(start + key) for key in ("kind", "action", "observation"))
        return (said and seen.has(start + "source", start + "timestamp")) or seen.values.get("format") == "openhands"

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        bad = warn_in(reading, path.name)
        if path.is_dir():
            yield from self._conversation(path, reading, bad)
            return
        origin = file_origin(self.name, path)
        if sniff(path).shape == "array" or _is_event_stream(path):
            found = json_items(path, (), bad) if sniff(path).shape == "array" else json_lines(path, bad)
            events = [event for _, event in found]
            yield self._one(origin, reading, bad, {"history": events}, path.stem)
            return
        for number_, line in json_lines(path, bad):
            where = f"line {number_}"
            if isinstance(line, dict) and isinstance(line.get("history"), list):
                key = text_or_none(line.get("instance_id")) or where
                with skip_unreadable(bad, where):
                    yield self._one(origin, reading, _prefix_place(bad, where), line, key)
            else:
                bad(where, "expected an object with a list `history`")

    def _conversation(self, path: Path, reading: ImportContext, bad: WarnFunction) -> Iterator[ImportedTrajectory]:
        state = path / _STATE
        found = _document(state, bad)
        line: dict[str, Any] = {"base_state": found} if isinstance(found, dict) else {}
        line["history"] = []
        for file in sorted((path / _EVENTS).glob("event-*.json")):
            event = _document(file, bad)
            line["history"] += [] if event is None else [event]
        origin = Origin(self.name, path.name, digest_file(state) if state.is_file() else "")
        yield self._one(origin, reading, bad, line, path.name)

    def _one(
        self, origin: Origin, reading: ImportContext, bad: WarnFunction, line: dict[str, Any], key: str
    ) -> ImportedTrajectory:
        builder = RoundTripBuilder(origin, reading, render_event)
        events = EventReader(builder, bad, _usages(line), _model(line) or "unknown")
        events.read(line["history"])
        builder.fields = {name: value for name, value in line.items() if name != "history"}
        _judge(builder, line)
        state = line.get("base_state")
        status = state.get("execution_status") if isinstance(state, dict) else None
        error = text_or_none(line.get("error"))
        cost = number(get_path(line.get("metrics"), "accumulated_cost"))
        metrics = {} if builder.calls else _totals(line)
        ended = AttemptEnded(
            ended="the agent finished" if events.finished or status == "finished" else None,
            stopped=_STOPPED.get(str(status)),
            error=error or ("it ended with an error" if status == "error" else None),
            metrics=metrics | ({} if cost is None else {"cost_usd": cost}),
            at=events.last,
        )
        return builder.finish(
            key,
            ended=ended,
            task=text_or_none(line.get("instance_id")),
            agent="openhands",
            model=_model(line),
            at=events.first,
        )

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        with new_file(target) as stream:
            for trajectory in trajectories:
                stream.write(msgspec.json.encode(self._line(trajectory, writing)) + b"\n")

    def _line(self, trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
        mine = is_imported_from(trajectory, self.name)
        events = list(restore_items(trajectory, render_event, plan_events, writing, own=mine))
        fields = source_fields(trajectory) if mine else _fresh_fields(trajectory)
        line = {**fields, "history": events}
        read_back = None if mine else self._one(Origin(self.name, "", ""), THROWAWAY, lambda *_: None, line, "")
        added = {
            "format": "names the format",
            "metrics.accumulated_cost": "the sum over the model calls",
        }
        report_losses(trajectory, read_back, writing, self.name, added=added)
        return line


def _is_event_stream(path: Path) -> bool:
    """Returns whether a file has one event of the SDK a line, as `openhands --json` prints them."""
    seen = sniff(path)
    return seen.shape == "lines" and seen.has("kind", "source", "timestamp") and str(seen.values.get("kind")) in KINDS


def _prefix_place(bad: WarnFunction, where: str) -> WarnFunction:
    return lambda place, problem: bad(f"{where} {place}", problem)


def _is_conversation(path: Path) -> bool:
    try:
        return (path / _EVENTS).is_dir() and ((path / _STATE).is_file() or any((path / _EVENTS).glob("event-*.json")))
    except OSError:
        return False


def _document(path: Path, bad: WarnFunction) -> Any:
    """Returns a file of a conversation; None, with a warning, where it is invalid."""
    if find_file(path) is None:
        if path.exists():
            bad(path.name, "it is not a regular file, or too large to read")
        return None
    try:
        return load_document(path, bad, path.name)
    except (UserError, OSError) as exc:
        bad(path.name, str(exc))
        return None


def _model(line: dict[str, Any]) -> str | None:
    named = [get_path(line, "base_state", "agent", "llm", "model"), get_path(line, "metadata", "llm_config", "model")]
    named += [metrics.get("model_name") for metrics in _by_use(line)]
    return next((name for name in named if isinstance(name, str)), None)


def _by_use(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the metrics of each use of a model: of the conversation's state, else of the last event with `stats`."""
    stats = get_path(line, "base_state", "stats")
    for event in line["history"] if not isinstance(stats, dict) else ():
        stats = event.get("value") if isinstance(event, dict) and event.get("key") == "stats" else stats
    by_use = get_path(stats, "usage_to_metrics")
    return objects_in(list(by_use.values())) if isinstance(by_use, dict) else []


def _totals(line: dict[str, Any]) -> dict[str, float]:
    """Returns an attempt's tokens and cost where its answers have none of their own."""
    uses = _by_use(line)
    found: dict[str, float] = {}
    for name in ("prompt_tokens", "completion_tokens"):
        counts = [count_or_none(get_path(use, "accumulated_token_usage", name)) for use in uses]
        found |= {name: float(sum(count or 0 for count in counts))} if any(counts) else {}
    cost = sum(number(use.get("accumulated_cost")) or 0.0 for use in uses)
    return found | ({"cost_usd": cost} if cost else {})


def _usages(line: dict[str, Any]) -> dict[str, Usage]:
    """Returns the tokens of each answer of the model, by its id."""
    found: dict[str, Usage] = {}
    told = [get_path(line, "metrics"), *_by_use(line)]
    for metrics in told:
        usages = get_path(metrics, "token_usages")
        for usage in usages if isinstance(usages, list) else ():
            if isinstance(usage, dict) and isinstance(name := usage.get("response_id"), str) and name:
                keys = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "reasoning_tokens")
                found[name] = Usage(*(count_or_none(usage.get(key)) for key in keys))
    return found


def _judge(builder: RoundTripBuilder, line: dict[str, Any]) -> None:
    result = line.get("test_result")
    if isinstance(patch := get_path(result, "git_patch"), str) and patch:
        builder.add_text_evidence("submission", patch)
    report = get_path(result, "report") if isinstance(get_path(result, "report"), dict) else line.get("report")
    resolved = get_path(report, "resolved")
    if isinstance(report, dict) and isinstance(resolved, bool):
        status: VerdictStatus = "pass" if resolved else "fail"
        fact = builder.add_evidence("report", report, channel="audit")
        builder.add_verdict(status, float(resolved), "as recorded by OpenHands' evaluation", (fact,))


def _fresh_fields(trajectory: Trajectory) -> dict[str, Any]:
    usages = [
        {
            "response_id": call.id,
            "model": call.model,
            "prompt_tokens": call.usage.prompt_tokens,
            "completion_tokens": call.usage.completion_tokens,
            "cache_read_tokens": call.usage.cached_tokens,
            "reasoning_tokens": call.usage.reasoning_tokens,
        }
        for call in trajectory.calls
    ]
    costs = [call.cost_usd for call in trajectory.calls if call.cost_usd is not None]
    made: dict[str, Any] = {
        "format": "openhands",
        "instance_id": trajectory.task,
        "attempt": attempt_name(trajectory),
        "metadata": {"agent_class": trajectory.agent, "llm_config": {"model": trajectory.model}},
        "metrics": {"accumulated_cost": sum(costs) if costs else None, "token_usages": usages},
    }
    rewards = named_rewards(trajectory)
    return made | ({"test_result": {"rewards": rewards}} if rewards else {})
