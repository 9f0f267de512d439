"""ATIF, the Agent Trajectory Interchange Format of Harbor (RFC 0001): versions 1.0 to 1.8 in, 1.8 out.

A document is one trajectory; subagents that are embedded in it are read as trajectories of their own that name their
parent. What ATIF has no field for (exit codes, verdicts, evidence, malformed arguments) goes into its `extra` under
`assay`, where a reader that does not know it passes it over, and comes back from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from assay.errors import UserError
from assay.formats.harbor.atif_writer import UNKNOWN, write_trajectories
from assay.formats.interface import Imported, Provenance, Reading, Writing
from assay.formats.shared.building import Building, Origin, tool_call
from assay.formats.shared.own_words import ASSAY, added_calls, call_put_back, held_started, put_back
from assay.formats.shared.reading import Bad, Source, at_place, digest_file, json_fields, json_items, seconds
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, ModelCall, Observation, ToolCall, Trajectory, Usage

__all__ = ["Atif", "Filled", "Place", "fill", "read_document"]

_ACTORS = {"agent": "agent", "user": "user", "system": "environment"}
_KEPT = ("reasoning_effort", "is_copied_context", "llm_call_count")
_STEP = {"step_id", "timestamp", "source", "model_name", "message", "reasoning_content", "tool_calls", "observation",
         "metrics", "extra", *_KEPT}  # fmt: skip
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")


class Atif:
    """See the module."""

    name: ClassVar[str] = "atif"
    title: ClassVar[str] = "ATIF 1.0-1.8, agent trajectories of Harbor"
    provenance: ClassVar[Provenance] = "peer"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        """A JSON object whose `schema_version` begins with ATIF, or with an agent and steps that have a `step_id`."""
        seen = sniff(path)
        if seen.shape not in ("object", "lines"):
            return False
        version = seen.values.get("schema_version")
        return (isinstance(version, str) and version.startswith("ATIF-")) or seen.has("steps[].step_id", "agent.name")

    def read(self, path: Path, reading: Reading) -> Iterator[Imported]:
        """The trajectory of a document, then those of its embedded subagents."""
        origin = Origin(self.name, path.name, digest_file(path))
        yield from read_document(path, origin, reading)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: Writing) -> None:
        """Writes one document where `target` ends in `.json`, else a folder with one for each trajectory."""
        write_trajectories(trajectories, target, writing)


def read_document(source: Source, origin: Origin, reading: Reading) -> Iterator[Imported]:
    """The trajectories of an ATIF document."""
    bad = at_place(reading, origin.file)
    fields = json_fields(source, ("steps", "subagent_trajectories"), bad)
    if not isinstance(fields.get("agent"), dict) and "schema_version" not in fields:
        raise UserError("it is no ATIF document: it has neither a schema_version nor an agent")
    steps = json_items(source, ("steps",), bad)
    yield _trajectory("trajectory", fields, steps, Place(origin, reading, bad, ""))
    for index, held in json_items(source, ("subagent_trajectories",), bad):
        place = f"subagent_trajectories[{index}]"
        yield from _embedded(held, fields.get("trajectory_id"), Place(origin, reading, bad, place))


class Place:
    """Where in which document something is read."""

    def __init__(self, origin: Origin, reading: Reading, bad: Bad, inside: str) -> None:
        self.origin, self.reading, self.inside = origin, reading, inside
        self._bad = bad

    def bad(self, place: str, problem: str) -> None:
        """Says what is wrong with a field of it."""
        self._bad(f"{self.inside}.{place}".strip("."), problem)

    def below(self, inside: str) -> Place:
        """A place within it."""
        return Place(self.origin, self.reading, self._bad, f"{self.inside}.{inside}".strip("."))


def _embedded(held: Any, parent: Any, place: Place) -> Iterator[Imported]:
    if not isinstance(held, dict) or not isinstance(held.get("steps"), list):
        place.bad("", "expected a trajectory with steps")
        return
    fields = {k: v for k, v in held.items() if k not in ("steps", "subagent_trajectories")}
    if parent is not None:
        fields["parent"] = parent
    yield _trajectory(f"trajectory {place.inside}", fields, enumerate(held["steps"]), place)
    below = held.get("subagent_trajectories")
    for index, one in enumerate(below if isinstance(below, list) else []):
        yield from _embedded(one, held.get("trajectory_id"), place.below(f"subagent_trajectories[{index}]"))


class Filled(NamedTuple):
    """What a document says of its trajectory as a whole."""

    started: dict[str, Any]
    """For `Building.done`."""
    ended: AttemptEnded | None
    unfinished: bool
    """Whether it says itself that it is of an attempt that was cut."""


def _trajectory(key: str, fields: dict[str, Any], steps: Iterable[tuple[Any, Any]], place: Place) -> Imported:
    version = str(fields.get("schema_version", ""))
    building = Building(place.origin._replace(version=version), place.reading)
    filled = fill(building, fields, steps, place)
    made = building.done(key, ended=filled.ended, **filled.started)
    return _without_end(made) if filled.unfinished else made


def fill(building: Building, fields: dict[str, Any], steps: Iterable[tuple[Any, Any]], place: Place) -> Filled:
    """Reads a document into `building`."""
    fields = {k: v for k, v in fields.items() if k != "schema_version"}
    agent = fields.pop("agent", None)
    agent = dict(agent) if isinstance(agent, dict) else {}
    name, model = str(agent.pop("name", "unknown")), agent.pop("model_name", None)
    model = model if isinstance(model, str) else None
    extra, own = _own(fields.pop("extra", None))
    own = own if isinstance(own, dict) else {}
    if agent.get("version") == UNKNOWN:
        agent.pop("version")
    agent |= own["agent"] if isinstance(own.get("agent"), dict) else {}
    fields |= own["fields"] if isinstance(own.get("fields"), dict) else {}
    extra = fields.pop("extra", extra)
    building.fields = {**fields, **({"agent": agent} if agent else {}), **({"extra": extra} if extra else {})}
    added_calls(own, building, place.bad, f"extra.{ASSAY}")
    for index, held in () if own.get("placeholder") else steps:
        if isinstance(held, dict):
            _step(held, building, model, place.below(f"steps[{index}]"))
        else:
            place.bad(f"steps[{index}]", "expected a step")
    ended = put_back(own, building, place.bad, f"extra.{ASSAY}")
    started = held_started(own, place.bad, f"extra.{ASSAY}")
    started.setdefault("at", next((s.started for s in building.steps if s.started is not None), None))
    return Filled({"agent": name, "model": model, **started}, ended, own.get("unfinished") is True)


def _without_end(made: Imported) -> Imported:
    return Imported(made.key, made.started, tuple(b for b in made.bodies if not isinstance(b, AttemptEnded)))


def _own(extra: Any) -> tuple[Any, Any]:
    """A free field without our own words, and those."""
    if not isinstance(extra, dict):
        return extra, None
    return {k: v for k, v in extra.items() if k != ASSAY}, extra.get(ASSAY)


def _step(held: dict[str, Any], building: Building, model: str | None, place: Place) -> None:
    source = _text(held.get("source"))
    if source not in _ACTORS:
        place.bad("source", f"expected system, user or agent, not {str(source)[:50]!r}; read as system")
    extra, own = _own(held.get("extra"))
    own = own if isinstance(own, dict) else {}
    rest: dict[str, Any] = dict(own["extra"]) if isinstance(own.get("extra"), dict) else {}
    unknown = {k: v for k, v in held.items() if k not in _STEP}
    more = {**unknown, **(extra if isinstance(extra, dict) else {})}
    rest |= {name: held[name] for name in _KEPT if held.get(name) is not None} | ({"extra": more} if more else {})
    message, parts = _content(held.get("message"), place, "message")
    calls = _tool_calls(held.get("tool_calls"), rest, place)
    observations = _observations(held.get("observation"), building, rest, place)
    call = _call(held, building, model, rest, place)
    at = seconds(held.get("timestamp"))
    reasoning = held.get("reasoning_content")
    actor = own.get("actor") if own.get("actor") in ("user", "environment", "other_agent") else _ACTORS.get(str(source))
    made = building.step(
        actor or "environment",
        message or None,
        reasoning=reasoning if isinstance(reasoning, str) else None,
        tool_calls=calls,
        call=call or _text(own.get("call")),
        state=_text(own.get("state")),
        started=_number(own.get("started"), at),
        ended=_number(own.get("ended"), None),
    )
    extra = {**rest, **({"message_parts": parts} if parts else {})}
    if observations or extra:
        building.change(made, observations=tuple(observations), extra=extra)


def _content(content: Any, place: Place, name: str) -> tuple[str, list[Any] | None]:
    """The text of a content, and its parts where any of them is more than text."""
    if content is None or isinstance(content, str):
        return content or "", None
    if not isinstance(content, list):
        place.bad(name, "expected text or an array of parts")
        return "", [content]
    texts = [p["text"] for p in content if isinstance(p, dict) and isinstance(p.get("text"), str)]
    plain = len(texts) == len(content) and all(set(p) == {"type", "text"} for p in content)
    return "\n".join(texts), None if plain else content


def _tool_calls(held: Any, rest: dict[str, Any], place: Place) -> tuple[ToolCall, ...]:
    if held is None:
        return ()
    if not isinstance(held, list):
        place.bad("tool_calls", "expected an array")
        return ()
    made: list[ToolCall] = []
    beside: list[dict[str, Any]] = []
    for index, call in enumerate(held):
        if not isinstance(call, dict):
            place.bad(f"tool_calls[{index}]", "expected an object")
            continue
        extra, own = _own(call.get("extra"))
        if extra:
            beside.append({"index": len(made), "extra": extra})
        made.append(_tool_call(call, own))
    if beside:
        rest["tool_calls"] = beside
    return tuple(made)


def _tool_call(call: dict[str, Any], own: Any) -> ToolCall:
    id_, name = str(call.get("tool_call_id") or ""), str(call.get("function_name") or "")
    raw = own.get("arguments") if isinstance(own, dict) else None
    found = tool_call(id_, name, raw if isinstance(raw, str) else call.get("arguments"))
    error = own.get("error") if isinstance(own, dict) else None
    return ToolCall(id_, name, found.arguments, found.parsed, error if isinstance(error, str) else found.error)


def _observations(held: Any, building: Building, rest: dict[str, Any], place: Place) -> list[Observation]:
    results = held.get("results") if isinstance(held, dict) else None
    if not isinstance(results, list):
        if held is not None:
            place.bad("observation", "expected results")
        return []
    made: list[Observation] = []
    beside: list[dict[str, Any]] = []
    for index, result in enumerate(results):
        if not isinstance(result, dict):
            place.bad(f"observation.results[{index}]", "expected an object")
            continue
        content, parts = _content(result.get("content"), place, f"observation.results[{index}].content")
        extra, own = _own(result.get("extra"))
        words = {"extra": extra or None, "subagent_trajectory_ref": result.get("subagent_trajectory_ref")}
        words = {k: v for k, v in {**words, "content_parts": parts}.items() if v is not None}
        if words:
            beside.append({"index": len(made), **words})
        made.append(_observation(content, result.get("source_call_id"), own, building))
    if beside:
        rest["results"] = beside
    return made


def _observation(content: str, call_id: Any, own: Any, building: Building) -> Observation:
    own = own if isinstance(own, dict) else {}
    known: dict[str, Any] = {}
    for name, kind in (("exit_code", int), ("error", bool), ("timed_out", bool), ("stderr", str)):
        if isinstance(own.get(name), kind) and (kind is bool or not isinstance(own[name], bool)):
            known[name] = own[name]
    known["duration_s"] = _number(own.get("duration_s"), None)
    id_ = _text(own.get("call_id")) or (str(call_id) if call_id is not None else None)
    found = building.observation(content, id_, **known)
    return building.cut(found, own)


def _call(
    held: dict[str, Any], building: Building, model: str | None, rest: dict[str, Any], place: Place
) -> str | None:
    metrics, own_model = held.get("metrics"), _text(held.get("model_name"))
    if not isinstance(metrics, dict):
        if own_model:
            rest["model_name"] = own_model
        return None
    extra, own = _own(metrics.get("extra"))
    if extra:
        rest["metrics_extra"] = extra
    usage = Usage(*(_count(metrics.get(name)) for name in _COUNTS))
    base = call_put_back(own, place.bad, f"metrics.extra.{ASSAY}") if own is not None else None
    id_ = base.id if base is not None else f"step-{len(building.steps)}"
    made = base or ModelCall(id_, "atif", own_model or model or "unknown", {}, None, usage)
    return building.call(_with_tokens(made, metrics, place))


def _with_tokens(call: ModelCall, metrics: dict[str, Any], place: Place) -> ModelCall:
    found: dict[str, Any] = {"cost_usd": _number(metrics.get("cost_usd"), call.cost_usd)}
    for name, kind in (("prompt_token_ids", int), ("completion_token_ids", int), ("logprobs", float)):
        held = metrics.get(name)
        if held is None:
            continue
        if isinstance(held, list) and all(isinstance(v, int | kind) and not isinstance(v, bool) for v in held):
            found[name] = tuple(map(kind, held))
        else:
            place.bad(f"metrics.{name}", "expected an array of numbers")
    return msgspec.structs.replace(call, **found)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any, default: float | None) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
