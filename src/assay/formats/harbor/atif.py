"""ATIF, the Agent Trajectory Interchange Format of Harbor (RFC 0001): versions 1.0 to 1.8 in, 1.8 out.

A document is one trajectory; subagents that are embedded in it are read as trajectories of their own that name their
parent. Fields that ATIF lacks (exit codes, verdicts, evidence, malformed arguments) are stored in its `extra` under
`assay`, which other readers ignore, and restored from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from assay.errors import UserError
from assay.formats.harbor.atif_writer import UNKNOWN, write_trajectories
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin, TrajectoryBuilder, tool_call
from assay.formats.shared.embedded_records import ASSAY, read_call, read_started, restore_calls, restore_records
from assay.formats.shared.json_stream import (
    ByteSource,
    WarnFunction,
    digest_file,
    json_fields,
    json_items,
    parse_time,
    warn_in,
)
from assay.formats.shared.round_trip_builder import text_or_none
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, ModelCall, Observation, ToolCall, Trajectory, Usage

_ACTORS = {"agent": "agent", "user": "user", "system": "environment"}
_PASSED_ON = ("reasoning_effort", "is_copied_context", "llm_call_count")
_STEP = {"step_id", "timestamp", "source", "model_name", "message", "reasoning_content", "tool_calls", "observation",
         "metrics", "extra", *_PASSED_ON}  # fmt: skip
_VERSION, _NEWEST = re.compile(r"ATIF-v1\.([0-9]{1,4})"), 8
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")


class AtifFormat:
    name: ClassVar[str] = "atif"
    title: ClassVar[str] = "ATIF 1.0-1.8, agent trajectories of Harbor"
    provenance: ClassVar[Provenance] = "peer"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if seen.shape not in ("object", "lines"):
            return False
        version = seen.values.get("schema_version")
        return (isinstance(version, str) and version.startswith("ATIF-")) or seen.has("steps[].step_id", "agent.name")

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        origin = Origin(self.name, path.name, digest_file(path))
        yield from read_document(path, origin, reading)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        """Writes one document where `target` ends in `.json`, else a folder with one for each trajectory."""
        write_trajectories(trajectories, target, writing)


def read_document(source: ByteSource, origin: Origin, reading: ImportContext) -> Iterator[ImportedTrajectory]:
    """Yields the trajectories of an ATIF document."""
    bad = warn_in(reading, origin.file)
    fields = json_fields(source, ("steps", "subagent_trajectories"), bad)
    if not isinstance(fields.get("agent"), dict) and "schema_version" not in fields:
        raise UserError("not an ATIF document: it has neither schema_version nor agent")
    check_version(fields.get("schema_version"), bad)
    steps = json_items(source, ("steps",), bad)
    yield _read_trajectory("trajectory", fields, steps, DocumentPath(origin, reading, bad, ""))
    for index, raw in json_items(source, ("subagent_trajectories",), bad):
        where = f"subagent_trajectories[{index}]"
        with skip_unreadable(bad, where):
            yield from _read_embedded(raw, fields.get("trajectory_id"), DocumentPath(origin, reading, bad, where))


def check_version(version: Any, bad: WarnFunction) -> None:
    """Reports a version that is newer than those read here.

    Raises:
        UserError: The version is not a minor version of ATIF 1; the meaning of its fields is unknown.
    """
    if version is None:
        return
    found = _VERSION.fullmatch(str(version))
    if found is None:
        raise UserError(f"its schema_version is {str(version)[:50]!r}: ATIF-v1.0 to ATIF-v1.{_NEWEST} are read")
    if int(found[1]) > _NEWEST:
        bad("schema_version", f"{version} is newer than ATIF-v1.{_NEWEST}: what it adds is kept unread")


class DocumentPath:
    """A place in a document, which prefixes warnings."""

    def __init__(self, origin: Origin, reading: ImportContext, bad: WarnFunction, prefix: str) -> None:
        self.origin, self.reading, self.prefix = origin, reading, prefix
        self._bad = bad

    def bad(self, where: str, problem: str) -> None:
        self._bad(f"{self.prefix}.{where}".strip("."), problem)

    def below(self, prefix: str) -> DocumentPath:
        return DocumentPath(self.origin, self.reading, self._bad, f"{self.prefix}.{prefix}".strip("."))


def _read_embedded(raw: Any, parent: Any, where: DocumentPath) -> Iterator[ImportedTrajectory]:
    if not isinstance(raw, dict) or not isinstance(raw.get("steps"), list):
        where.bad("", "expected a trajectory with steps")
        return
    fields = {k: v for k, v in raw.items() if k not in ("steps", "subagent_trajectories")}
    if parent is not None:
        fields["parent"] = parent
    yield _read_trajectory(f"trajectory {where.prefix}", fields, enumerate(raw["steps"]), where)
    below = raw.get("subagent_trajectories")
    for index, one in enumerate(below if isinstance(below, list) else []):
        yield from _read_embedded(one, raw.get("trajectory_id"), where.below(f"subagent_trajectories[{index}]"))


class DocumentSummary(NamedTuple):
    """A document's facts about its trajectory as a whole."""

    started: dict[str, Any]
    """For `TrajectoryBuilder.finish`."""
    ended: AttemptEnded | None
    unfinished: bool
    """The document itself records an interrupted attempt."""


def _read_trajectory(
    key: str, fields: dict[str, Any], steps: Iterable[tuple[Any, Any]], where: DocumentPath
) -> ImportedTrajectory:
    version = str(fields.get("schema_version", ""))
    builder = TrajectoryBuilder(where.origin._replace(version=version), where.reading)
    filled = build_from_document(builder, fields, steps, where)
    result = builder.finish(key, ended=filled.ended, **filled.started)
    return drop_end(result) if filled.unfinished else result


def build_from_document(
    builder: TrajectoryBuilder, fields: dict[str, Any], steps: Iterable[tuple[Any, Any]], where: DocumentPath
) -> DocumentSummary:
    """Reads a document into the builder."""
    fields = {k: v for k, v in fields.items() if k != "schema_version"}
    agent = fields.pop("agent", None)
    agent = dict(agent) if isinstance(agent, dict) else {}
    name, model = str(agent.pop("name", "unknown")), agent.pop("model_name", None)
    model = model if isinstance(model, str) else None
    extra, own = _split_extra(fields.pop("extra", None))
    own = own if isinstance(own, dict) else {}
    if agent.get("version") == UNKNOWN:
        agent.pop("version")
    agent |= own["agent"] if isinstance(own.get("agent"), dict) else {}
    fields |= own["fields"] if isinstance(own.get("fields"), dict) else {}
    extra = fields.pop("extra", extra)
    builder.fields = {**fields, **({"agent": agent} if agent else {}), **({"extra": extra} if extra else {})}
    restore_calls(own, builder, where.bad, f"extra.{ASSAY}")
    for index, raw in () if own.get("placeholder") else steps:
        if isinstance(raw, dict):
            _read_step(raw, builder, model, where.below(f"steps[{index}]"))
        else:
            where.bad(f"steps[{index}]", "expected a step")
    ended = restore_records(own, builder, where.bad, f"extra.{ASSAY}")
    started = read_started(own, where.bad, f"extra.{ASSAY}")
    started.setdefault("at", next((s.started for s in builder.steps if s.started is not None), None))
    return DocumentSummary({"agent": name, "model": model, **started}, ended, own.get("unfinished") is True)


def drop_end(result: ImportedTrajectory) -> ImportedTrajectory:
    return ImportedTrajectory(
        result.key, result.started, tuple(b for b in result.bodies if not isinstance(b, AttemptEnded))
    )


def _split_extra(extra: Any) -> tuple[Any, Any]:
    """Splits a free field into the source's part and Assay's."""
    if not isinstance(extra, dict):
        return extra, None
    return {k: v for k, v in extra.items() if k != ASSAY}, extra.get(ASSAY)


def _read_step(raw: dict[str, Any], builder: TrajectoryBuilder, model: str | None, where: DocumentPath) -> None:
    source = text_or_none(raw.get("source"))
    if source not in _ACTORS:
        where.bad("source", f"expected system, user or agent, not {str(source)[:50]!r}; read as system")
    extra, own = _split_extra(raw.get("extra"))
    own = own if isinstance(own, dict) else {}
    rest: dict[str, Any] = dict(own["extra"]) if isinstance(own.get("extra"), dict) else {}
    unknown = {k: v for k, v in raw.items() if k not in _STEP}
    more = {**unknown, **(extra if isinstance(extra, dict) else {})}
    rest |= {name: raw[name] for name in _PASSED_ON if raw.get(name) is not None} | ({"extra": more} if more else {})
    message, parts = _read_content(raw.get("message"), where, "message")
    calls = _read_tool_calls(raw.get("tool_calls"), rest, where)
    observations = _read_observations(raw.get("observation"), builder, rest, where)
    call = _read_call(raw, builder, model, rest, where)
    at = parse_time(raw.get("timestamp"))
    reasoning = raw.get("reasoning_content")
    actor = own.get("actor") if own.get("actor") in ("user", "environment", "other_agent") else _ACTORS.get(str(source))
    result = builder.add_step(
        actor or "environment",
        message or None,
        reasoning=reasoning if isinstance(reasoning, str) else None,
        tool_calls=calls,
        call=call or text_or_none(own.get("call")),
        state=text_or_none(own.get("state")),
        started=_float_or(own.get("started"), at),
        ended=_float_or(own.get("ended"), None),
    )
    extra = {**rest, **({"message_parts": parts} if parts else {})}
    if observations or extra:
        builder.change_step(result, observations=tuple(observations), extra=extra)


def _read_content(content: Any, where: DocumentPath, name: str) -> tuple[str, list[Any] | None]:
    """Returns the text of a content, and its parts where any of them is more than text."""
    if content is None or isinstance(content, str):
        return content or "", None
    if not isinstance(content, list):
        where.bad(name, "expected text or an array of parts")
        return "", [content]
    texts = [p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str)]
    plain = len(texts) == len(content) and all(set(p) == {"type", "text"} for p in content)
    return "\n".join(texts), None if plain else content


def _read_tool_calls(raw: Any, rest: dict[str, Any], where: DocumentPath) -> tuple[ToolCall, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        where.bad("tool_calls", "expected an array")
        return ()
    result: list[ToolCall] = []
    beside: list[dict[str, Any]] = []
    for index, call in enumerate(raw):
        if not isinstance(call, dict):
            where.bad(f"tool_calls[{index}]", "expected an object")
            continue
        extra, own = _split_extra(call.get("extra"))
        if extra:
            beside.append({"index": len(result), "extra": extra})
        result.append(_read_tool_call(call, own))
    if beside:
        rest["tool_calls"] = beside
    return tuple(result)


def _read_tool_call(call: dict[str, Any], own: Any) -> ToolCall:
    id_, name = str(call.get("tool_call_id") or ""), str(call.get("function_name") or "")
    raw = own.get("arguments") if isinstance(own, dict) else None
    found = tool_call(id_, name, raw if isinstance(raw, str) else call.get("arguments"))
    error = own.get("error") if isinstance(own, dict) else None
    return ToolCall(id_, name, found.arguments, found.parsed, error if isinstance(error, str) else found.error)


def _read_observations(
    raw: Any, builder: TrajectoryBuilder, rest: dict[str, Any], where: DocumentPath
) -> list[Observation]:
    results = raw.get("results") if isinstance(raw, dict) else None
    if not isinstance(results, list):
        if raw is not None:
            where.bad("observation", "expected results")
        return []
    observations: list[Observation] = []
    beside: list[dict[str, Any]] = []
    for index, result in enumerate(results):
        if not isinstance(result, dict):
            where.bad(f"observation.results[{index}]", "expected an object")
            continue
        content, parts = _read_content(result.get("content"), where, f"observation.results[{index}].content")
        extra, own = _split_extra(result.get("extra"))
        words = {"extra": extra or None, "subagent_trajectory_ref": result.get("subagent_trajectory_ref")}
        words = {k: v for k, v in {**words, "content_parts": parts}.items() if v is not None}
        if words:
            beside.append({"index": len(observations), **words})
        observations.append(_read_observation(content, result.get("source_call_id"), own, builder))
    if beside:
        rest["results"] = beside
    return observations


def _read_observation(content: str, call_id: Any, own: Any, builder: TrajectoryBuilder) -> Observation:
    own = own if isinstance(own, dict) else {}
    known: dict[str, Any] = {}
    for name, kind in (("exit_code", int), ("error", bool), ("timed_out", bool), ("stderr", str)):
        if isinstance(own.get(name), kind) and (kind is bool or not isinstance(own[name], bool)):
            known[name] = own[name]
    known["duration_s"] = _float_or(own.get("duration_s"), None)
    id_ = text_or_none(own.get("call_id")) or (str(call_id) if call_id is not None else None)
    found = builder.make_observation(content, id_, **known)
    return builder.restore_truncation(found, own)


def _read_call(
    raw: dict[str, Any], builder: TrajectoryBuilder, model: str | None, rest: dict[str, Any], where: DocumentPath
) -> str | None:
    metrics, own_model = raw.get("metrics"), text_or_none(raw.get("model_name"))
    if not isinstance(metrics, dict):
        if own_model:
            rest["model_name"] = own_model
        return None
    extra, own = _split_extra(metrics.get("extra"))
    if extra:
        rest["metrics_extra"] = extra
    usage = Usage(*(_int_or_none(metrics.get(name)) for name in _COUNTS))
    base = read_call(own, where.bad, f"metrics.extra.{ASSAY}") if own is not None else None
    id_ = base.id if base is not None else f"step-{len(builder.steps)}"
    result = base or ModelCall(id_, "atif", own_model or model or "unknown", {}, None, usage)
    return builder.add_call(_with_tokens(result, metrics, where))


def _with_tokens(call: ModelCall, metrics: dict[str, Any], where: DocumentPath) -> ModelCall:
    found: dict[str, Any] = {"cost_usd": _float_or(metrics.get("cost_usd"), call.cost_usd)}
    for name, kind in (("prompt_token_ids", int), ("completion_token_ids", int), ("logprobs", float)):
        raw = metrics.get(name)
        if raw is None:
            continue
        if isinstance(raw, list) and all(isinstance(v, int | kind) and not isinstance(v, bool) for v in raw):
            found[name] = tuple(map(kind, raw))
        else:
            where.bad(f"metrics.{name}", "expected an array of numbers")
    return msgspec.structs.replace(call, **found)


def _int_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float_or(value: Any, default: float | None) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
