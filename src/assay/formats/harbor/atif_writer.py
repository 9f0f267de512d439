"""Writes ATIF 1.8 that Harbor's own models accept, and that reads back as the same trajectory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import StoreError, UserError
from assay.formats.interface import ExportContext, Loss
from assay.formats.shared.embedded_records import ASSAY, EmbeddedCalls, embed_records, slim_call
from assay.formats.shared.json_stream import INLINE_BYTES, parse_time
from assay.formats.shared.losses import report_additions
from assay.formats.shared.output_files import FileNames, new_file, new_folder
from assay.records import ModelCall, Observation, Step, ToolCall, Trajectory, canonical_bytes
from assay.verdicts import IMPORTED, trust_of

SCHEMA = "ATIF-v1.8"
UNKNOWN = "unknown"
"""The required version of an agent, where it is unknown."""
WHOLE = 16 << 20
"""Truncated texts up to this many bytes are written whole."""
_SOURCES = {"agent": "agent", "user": "user", "environment": "system", "other_agent": "user"}
_ROOT = ("session_id", "trajectory_id", "notes", "continued_trajectory_ref")


def write_trajectories(trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
    """Writes one document where `target` ends in `.json`, else a folder of them. Raises `UserError` where it exists."""
    if target.suffix == ".json":
        with new_file(target) as stream:
            count = 0
            for count, trajectory in enumerate(trajectories, start=1):
                if count > 1:
                    raise UserError(f"an ATIF document holds one trajectory: name a folder instead of {target.name}")
                stream.write(_encode_document(trajectory, writing))
            if count == 0:
                raise UserError("ATIF needs a trajectory to write")
        return
    new_folder(target)
    names = FileNames()
    for trajectory in trajectories:
        with new_file(target / names.name(trajectory.attempt or trajectory.task, ".json")) as stream:
            stream.write(_encode_document(trajectory, writing))


def _encode_document(trajectory: Trajectory, writing: ExportContext) -> bytes:
    return msgspec.json.format(msgspec.json.encode(render_document(trajectory, writing)), indent=2) + b"\n"


def render_document(trajectory: Trajectory, writing: ExportContext, format_name: str = "atif") -> dict[str, Any]:
    """Renders an ATIF document; fields read from `format_name` return to their places."""
    before = trajectory.started.config.get(IMPORTED)
    own_before = isinstance(before, dict) and before.get("format") == format_name
    fields = dict(before.get("fields") or {}) if isinstance(before, dict) and own_before else {}
    calls = EmbeddedCalls(trajectory, writing)
    words = embed_records(trajectory, writing, format_name)
    linked = {step.call for step in trajectory.steps}
    apart = [{**slim_call(c), **calls.tokens(c)} for c in trajectory.calls if c.id not in linked]
    words |= {"calls": apart} if apart else {}
    steps = _Steps(trajectory, calls, writing).render()
    if not steps:
        words["placeholder"] = True
        steps = [{"step_id": 1, "source": "system", "message": ""}]
    extra = fields.pop("extra", None)
    agent = _agent(trajectory, fields.pop("agent", None), words)
    report_additions(trajectory, writing, _additions(agent, words, own_before=own_before))
    strange = {k: v for k, v in fields.items() if not _is_root(k, v)}
    strange |= {"extra": extra} if extra is not None and not isinstance(extra, dict) else {}
    words |= {"fields": strange} if strange else {}
    document: dict[str, Any] = {"schema_version": SCHEMA}
    document |= {name: fields[name] for name in _ROOT if isinstance(fields.get(name), str)}
    document |= {"agent": agent, "steps": steps}
    if not own_before or "final_metrics" in fields:
        document["final_metrics"] = _final_metrics(trajectory, fields, len(steps))
    document["extra"] = {**(extra if isinstance(extra, dict) else {}), ASSAY: words}
    return _note_doubt(document, trust_of(trajectory).doubt)


def _additions(agent: dict[str, Any], words: dict[str, Any], *, own_before: bool) -> dict[str, str]:
    """Returns what a document holds beyond the records."""
    added = {} if own_before else {"final_metrics": "sums over the model calls"}
    if agent["version"] == UNKNOWN:
        added["agent.version"] = f"required: written as `{UNKNOWN}`"
    if words.get("placeholder"):
        added["steps"] = "required: an empty step stands for none"
    return added


def _is_root(name: str, value: Any) -> bool:
    """Returns whether ATIF has this root field; `imported_before` is stored under `assay`."""
    if name in _ROOT:
        return isinstance(value, str)
    return name == "imported_before" or (name == "final_metrics" and isinstance(value, dict))


def _note_doubt(document: dict[str, Any], why: str | None) -> dict[str, Any]:
    """Adds a note about a doubted trajectory."""
    said = f"Assay: {why}; what it claims is not to be taken as it stands."
    notes = document.get("notes") or ""
    if why is not None and said not in notes:
        document["notes"] = f"{notes}\n{said}".strip()
    return document


def _agent(trajectory: Trajectory, before: Any, words: dict[str, Any]) -> dict[str, Any]:
    given = before if isinstance(before, dict) else {}
    known = {"version": str, "tool_definitions": list, "extra": dict}
    agent: dict[str, Any] = {"name": trajectory.agent, "version": UNKNOWN}
    agent |= {"model_name": trajectory.model} if trajectory.model is not None else {}
    agent |= {name: given[name] for name, kind in known.items() if isinstance(given.get(name), kind)}
    strange = {k: v for k, v in given.items() if k not in agent}
    words |= {"agent": strange} if strange else {}
    return agent


def _final_metrics(trajectory: Trajectory, fields: dict[str, Any], steps: int) -> dict[str, Any]:
    if isinstance(fields.get("final_metrics"), dict):
        return dict(fields["final_metrics"])
    totals: dict[str, Any] = {}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
        known = [getattr(c.usage, name) for c in trajectory.calls if getattr(c.usage, name) is not None]
        totals |= {f"total_{name}": sum(known)} if known else {}
    costs = [c.cost_usd for c in trajectory.calls]
    known_costs = [cost for cost in costs if cost is not None]
    if costs and len(known_costs) == len(costs):  # an unknown price is never 0
        totals["total_cost_usd"] = sum(known_costs)
    return {**totals, "total_steps": steps}


class _Steps:
    """Renders the steps of one trajectory."""

    def __init__(self, trajectory: Trajectory, calls: EmbeddedCalls, writing: ExportContext) -> None:
        self._trajectory, self._calls, self._writing = trajectory, calls, writing
        self._written: set[str] = set()

    def render(self) -> list[dict[str, Any]]:
        return [self._step(number, step) for number, step in enumerate(self._trajectory.steps, start=1)]

    def _step(self, number: int, step: Step) -> dict[str, Any]:
        rest = dict(step.extra)
        own: dict[str, Any] = {"state": step.state, "ended": step.ended}
        call = self._first_call(step, own)
        as_agent = step.actor == "agent" or call is not None or step.reasoning is not None or bool(step.tool_calls)
        source = "agent" if as_agent else _SOURCES[step.actor]
        own |= (
            {}
            if {"agent": "agent", "user": "user", "system": "environment"}[source] == step.actor
            else {"actor": step.actor}
        )
        parts = rest.pop("message_parts", None)
        whole_parts = isinstance(parts, list) and all(isinstance(p, dict) for p in parts)
        held: dict[str, Any] = {"step_id": number, "timestamp": iso_or_none(step.started), "source": source}
        held |= {"message": parts if whole_parts else step.message or "", "reasoning_content": step.reasoning}
        if step.started is not None and parse_time(held["timestamp"]) != step.started:
            own["started"] = step.started
        held |= self._native_fields(rest, as_agent=as_agent)
        held |= self._render_acts(step, rest)
        if call is not None:
            held |= self._metrics(call, rest)
        extra = rest.pop("extra", None)
        native = extra if isinstance(extra, dict) else {}
        rest |= {"extra": extra} if extra is not None and not isinstance(extra, dict) else {}
        rest |= {"message_parts": parts} if parts is not None and not whole_parts else {}
        own |= {"extra": rest} if rest else {}
        return drop_none({**held, "extra": {**native, **_extra(own)} or None})

    def _first_call(self, step: Step, own: dict[str, Any]) -> ModelCall | None:
        """Returns the step's call where the step is the first that came from it."""
        call = self._calls.by_id.get(step.call or "")
        if call is None or call.id in self._written:
            own["call"] = step.call
            return None
        self._written.add(call.id)
        return call

    @staticmethod
    def _native_fields(rest: dict[str, Any], *, as_agent: bool) -> dict[str, Any]:
        """Returns an imported step's own fields, where their types are valid."""
        held: dict[str, Any] = {}
        kinds: tuple[tuple[str, Any, bool], ...] = (
            ("reasoning_effort", str | float, True), ("is_copied_context", bool, False), ("model_name", str, True),
        )  # fmt: skip
        for name, kind, agents in kinds:
            if isinstance(rest.get(name), kind) and (as_agent or not agents):
                held[name] = rest.pop(name)
        return held

    def _render_acts(self, step: Step, rest: dict[str, Any]) -> dict[str, Any]:
        calls = [_tool_call(call) for call in step.tool_calls]
        ids = {call["tool_call_id"] for call in calls}
        results = [self._result(obs, ids) for obs in step.observations]
        for name, made in (("tool_calls", calls), ("results", results)):
            if _has_valid_indexes(rest.get(name), len(made)):
                for beside in rest.pop(name):
                    _restore_native(made[beside["index"]], beside)
        return {"tool_calls": calls or None, "observation": {"results": results} if results else None}

    def _metrics(self, call: ModelCall, rest: dict[str, Any]) -> dict[str, Any]:
        extra = rest.pop("metrics_extra", None)
        native = extra if isinstance(extra, dict) else {}
        rest |= {"metrics_extra": extra} if extra is not None and not isinstance(extra, dict) else {}
        usage = call.usage
        metrics = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
        metrics |= {"cached_tokens": usage.cached_tokens}
        words = drop_none({**metrics, "cost_usd": call.cost_usd, **self._calls.tokens(call)})
        model = call.model if call.model not in (self._trajectory.model, "unknown") else None
        held: dict[str, Any] = {"metrics": {**words, "extra": {**native, ASSAY: slim_call(call)}}}
        count = rest.get("llm_call_count")
        if isinstance(count, int) and count > 0:
            held["llm_call_count"] = rest.pop("llm_call_count")
        return held | ({"model_name": model} if model is not None else {})

    def _result(self, obs: Observation, ids: set[str]) -> dict[str, Any]:
        own: dict[str, Any] = {
            "exit_code": obs.exit_code,
            "error": obs.error or None,
            "stderr": obs.stderr or None,
        }
        own |= {"timed_out": obs.timed_out or None, "duration_s": obs.duration_s}
        inside = obs.call_id is not None and obs.call_id in ids
        own |= {} if inside else {"call_id": obs.call_id}
        content = obs.content
        if obs.truncated is not None:
            content = self._whole(obs, own)
        if obs.stderr_truncated is not None:
            self._whole_stderr(obs, own)
        return drop_none(
            {
                "source_call_id": obs.call_id if inside else None,
                "content": content,
                "extra": _extra(own) or None,
            }
        )

    def _whole(self, obs: Observation, own: dict[str, Any]) -> str:
        """Returns the whole content where only a reader's limit had truncated it, else the recorded part."""
        assert obs.truncated is not None
        text = self._load_text(obs.truncated.digest, obs.truncated.length, "steps.observations.truncated")
        if text is None or not obs.truncated.complete:
            own["truncated"] = obs.truncated.length
            return obs.content
        if text.encode("utf-8", "replace")[:INLINE_BYTES].decode("utf-8", "ignore") == obs.content:
            return text
        own["whole"] = text
        return obs.content

    def _whole_stderr(self, obs: Observation, own: dict[str, Any]) -> None:
        assert obs.stderr_truncated is not None
        cut = obs.stderr_truncated
        text = self._load_text(cut.digest, cut.length, "steps.observations.stderr_truncated")
        own |= {"stderr_truncated": cut.length} if text is None else {"whole_stderr": text}

    def _load_text(self, digest: str, length: int, field: str) -> str | None:
        if length <= WHOLE:
            try:
                return self._writing.read_blob(digest).decode("utf-8", "replace")
            except StoreError as exc:
                self._writing.report_loss(Loss(self._trajectory.attempt, field, str(exc)))
                return None
        self._writing.report_loss(Loss(self._trajectory.attempt, field, f"the whole has {length:,} bytes"))
        return None


def _tool_call(call: ToolCall) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if call.parsed is None or canonical_bytes(call.parsed).decode() != call.arguments:
        own["arguments"] = call.arguments
    if call.error is not None:
        own["error"] = call.error
    held = {"tool_call_id": call.id, "function_name": call.name, "arguments": call.parsed or {}}
    return held | ({"extra": _extra(own)} if own else {})


def _extra(own: dict[str, Any]) -> dict[str, Any]:
    words = drop_none(own)
    return {ASSAY: words} if words else {}


def _has_valid_indexes(beside: Any, count: int) -> bool:
    return isinstance(beside, list) and all(
        isinstance(b, dict) and isinstance(b.get("index"), int) and 0 <= b["index"] < count
        and isinstance(b.get("extra", {}), dict) for b in beside
    )  # fmt: skip


def _restore_native(made: dict[str, Any], beside: dict[str, Any]) -> None:
    """Restores an imported document's fields of one call or result."""
    if beside.get("extra"):
        made["extra"] = {**beside["extra"], **made.get("extra", {})}
    if beside.get("content_parts") is not None:
        made["content"] = beside["content_parts"]
    if beside.get("subagent_trajectory_ref") is not None:
        made["subagent_trajectory_ref"] = beside["subagent_trajectory_ref"]


def iso_or_none(at: float | None) -> str | None:
    try:
        return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def drop_none(words: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value is not None}
