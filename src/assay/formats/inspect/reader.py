"""Reads an Inspect sample as a trajectory.

The final conversation gives the turns. Answers that it does not show (of sub-agents, or dropped by a compaction) become
turns too, where they happened, marked `beside`; those of graders do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from assay.formats.inspect.chat import index_tool_calls, observation_of, reasoning_of, render_message, tool_calls_of
from assay.formats.inspect.embedded_records import ASSAY, restore_step, turn_fields
from assay.formats.inspect.events import ModelEvent, SampleEvents
from assay.formats.inspect.samples import Sample
from assay.formats.inspect.scores import judge_invalidation, judge_scores
from assay.formats.interface import ImportContext, ImportedTrajectory
from assay.formats.shared.builder import Origin, split_text_parts
from assay.formats.shared.json_stream import WarnFunction, parse_time
from assay.formats.shared.round_trip_builder import RoundTripBuilder, text_or_none
from assay.records import AttemptEnded, AttemptStarted, Body, Observation, ToolCall, canonical_bytes
from assay.verdicts import IMPORTED

_LIMITS = {
    "time": "wall_s",
    "working": "working_s",
    "message": "messages",
    "token": "tokens",
    "turn": "turns",
    "cost": "cost_usd",
    "operator": "cancelled",
}
_BOUNDARIES = (
    ("provider", ("inspect_ai/model/", "openai", "anthropic", "httpx", "RateLimit", "APIError", "google.genai")),
    ("verifier", ("inspect_ai/scorer/", "/scorer")),
    ("environment", ("inspect_ai/util/_sandbox/", "_sandbox", "docker")),
)


class LogFacts(NamedTuple):
    """Data that all samples of a log share."""

    header: dict[str, Any]
    digest: str
    """Of the header, which is stored whole."""
    origin: Origin


def read_sample(sample: Sample, log: LogFacts, reading: ImportContext, bad: WarnFunction) -> ImportedTrajectory:
    builder = RoundTripBuilder(log.origin, reading, render_message)
    events = SampleEvents(builder, sample, reading, bad)
    events.read()
    own = _own_facts(sample)
    _Turns(builder, events, reading, bad, own=own is not None).read(sample)
    scores = sample.fields.pop("scores", None)
    if scores is None and "score" in sample.fields:
        scores = {_first_scorer(log.header): sample.fields.pop("score")}
    if own is None:
        judge_scores(builder, scores)
        judge_invalidation(builder, sample.fields.get("invalidation"))
    elif later := _later_scores(scores):
        judge_scores(builder, later)
    builder.fields = {"sample": sample.fields, "header": log.digest, "eval": _eval_facts(log.header)}
    identity, epoch = sample.fields.get("id"), sample.fields.get("epoch")
    key = f"sample {identity} epoch {epoch}"
    if own is not None and (found := _restore_start_and_end(builder.finish(key), own, bad)) is not None:
        return found
    return builder.finish(
        key, ended=_build_end(sample.fields), **_start_fields(sample.fields, log.header, events.first)
    )


def _later_scores(scores: Any) -> dict[str, Any]:
    """Returns the scores that others added to, or edited in, a log that Assay wrote."""
    given = scores.items() if isinstance(scores, dict) else ()
    return {
        name: score
        for name, score in given
        if isinstance(score, dict) and (score.get("history") or ASSAY not in (score.get("metadata") or {}))
    }


def _first_scorer(header: dict[str, Any]) -> str:
    results = header.get("results")
    scores = results.get("scores") if isinstance(results, dict) else None
    first = scores[0] if isinstance(scores, list) and scores else None
    return str(first.get("name", "score")) if isinstance(first, dict) else "score"


def _eval_facts(header: dict[str, Any]) -> dict[str, Any]:
    said = {key: header["eval"].get(key) for key in ("eval_id", "run_id", "task", "created")}
    return {key: value for key, value in said.items() if value is not None} | {"status": header.get("status")}


def _start_fields(fields: dict[str, Any], header: dict[str, Any], first: float | None) -> dict[str, Any]:
    told, plan = header["eval"], header.get("plan")
    steps = plan.get("steps") if isinstance(plan, dict) else None
    solvers = [str(s.get("solver")) for s in (steps if isinstance(steps, list) else ()) if isinstance(s, dict)]
    epoch = fields.get("epoch")
    at = parse_time(fields.get("started_at"))
    return {
        "task": f"{told.get('task', 'task')}/{fields.get('id')}",
        "agent": text_or_none(told.get("solver")) or "+".join(solvers) or "inspect",
        "model": text_or_none(told.get("model")),
        "number": max(epoch - 1, 0) if isinstance(epoch, int) else 0,
        "at": first if at is None else at,
    }


def _build_end(fields: dict[str, Any]) -> AttemptEnded:
    error, limit, output = fields.get("error"), fields.get("limit"), fields.get("output")
    broke = _boundary(error) if isinstance(error, dict) else None
    kind = limit.get("type") if isinstance(limit, dict) else None
    choices = output.get("choices") if isinstance(output, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    reason = first.get("stop_reason") if isinstance(first, dict) else None
    usual = broke is None and kind is None and reason is not None
    metrics = {
        name: float(fields[key])
        for name, key in (("wall_s", "total_time"), ("working_s", "working_time"))
        if isinstance(fields.get(key), int | float)
    }
    return AttemptEnded(
        ended=f"the model stopped: {reason}" if usual else None,
        stopped=None if kind is None else _LIMITS.get(str(kind), str(kind)),
        broke=broke,
        error=str(error.get("message"))[:4000] if isinstance(error, dict) else None,
        metrics=metrics,
        at=parse_time(fields.get("completed_at")),
    )


def _boundary(error: dict[str, Any]) -> str:
    """Returns the boundary whose code raised, from the innermost frame that names one; else `task`."""
    lines = (str(error.get("traceback") or "") + "\n" + str(error.get("message") or "")).splitlines()
    for line in reversed([text for text in lines if 'File "' in text] or lines):
        for name, words in _BOUNDARIES:
            if any(word in line for word in words):
                return name
    return "task"


class _Turns:
    """Builds the turns of a sample from its messages and from calls that they do not show."""

    def __init__(
        self, builder: RoundTripBuilder, events: SampleEvents, reading: ImportContext, bad: WarnFunction, *, own: bool
    ) -> None:
        self._builder, self._events, self._reading, self._bad, self._own = builder, events, reading, bad, own
        self._free = {index: seen for index, seen in enumerate(events.calls) if seen.answer and not seen.scoring}
        self._by_key: dict[tuple[str, Any], list[int]] = {}
        for index, seen in self._free.items():
            for key in _match_keys(seen.answer or {}):
                self._by_key.setdefault(key, []).append(index)

    def read(self, sample: Sample) -> None:
        messages = list(sample.messages())
        matches = self._matches(messages)
        shown = set(matches.values())
        beside = [index for index in self._free if index not in shown]
        done = 0
        for position, message in enumerate(messages):
            if not isinstance(message, dict):
                self._bad(f"messages[{position}]", f"expected a message, found {type(message).__name__}")
                continue
            done = self._own_turn(messages, position) if position >= done else done
            if position < done:
                continue
            index = matches.get(position)
            while index is not None and beside and beside[0] < index:
                self._add_unshown(self._events.calls[beside.pop(0)])
            self._message(message, None if index is None else self._events.calls[index])
        for index in beside:
            self._add_unshown(self._events.calls[index])

    def _matches(self, messages: list[Any]) -> dict[int, int]:
        """Returns position of each assistant's message to the index of its call."""
        found, taken = dict[int, int](), set[int]()
        said = [(p, m) for p, m in enumerate(messages) if isinstance(m, dict) and m.get("role") == "assistant"]
        for position, message in said:
            for key in _match_keys(message):
                index = next((i for i in self._by_key.get(key, ()) if i not in taken), None)
                if index is not None:
                    found[position] = index
                    taken.add(index)
                    break
        left = [p for p, m in said if p not in found and not m.get("id")]
        unshown = [i for i, s in self._free.items() if i not in taken and not (s.answer or {}).get("id")]
        if len(left) == len(unshown):  # older logs have no ids, and their solvers may rewrite what the model said
            found |= dict(zip(left, unshown, strict=True))
        return found

    def _own_turn(self, messages: list[Any], position: int) -> int:
        """Reads a turn that Assay wrote; returns the position after its messages, or `position` without one."""
        metadata = messages[position].get("metadata")
        held = metadata.get(ASSAY) if self._own and isinstance(metadata, dict) else None
        count = held.get("parts") if isinstance(held, dict) else None
        parts = messages[position : position + count] if isinstance(count, int) and 0 < count < 1 << 20 else []
        if not parts or len(parts) != count or not all(isinstance(part, dict) for part in parts):
            return position
        step = restore_step(parts, len(self._builder.steps), self._reading, self._bad)
        if step is None:
            return position
        self._builder.steps.append(step)
        return position + len(parts)

    def _message(self, message: dict[str, Any], event: ModelEvent | None) -> None:
        if message.get("role") == "tool":
            self._builder.add_answer(self._add_timing(observation_of(message)), message)
            return
        fields = turn_fields(message)
        stripped = () if event is None or fields["tool_calls"] else tool_calls_of(event.answer or {})
        if event is not None:
            fields |= {"call": event.call.id, "started": event.call.started, "ended": event.call.ended}
        if stripped:  # solvers take the call that hands in an answer out of the conversation; it was made all the same
            fields["tool_calls"] = stripped
        step = self._builder.add_step(**fields)
        self._builder.keep_item(index_tool_calls(message), "message", step)
        self._results(stripped)

    def _results(self, calls: tuple[ToolCall, ...]) -> None:
        """Adds tool results that the conversation does not show."""
        for asked in calls:
            tool = self._events.tools.get(asked.id)
            if tool is not None:
                self._builder.add_result(self._add_timing(Observation(tool.text, asked.id, error=tool.error)))

    def _add_timing(self, observation: Observation) -> Observation:
        tool = self._events.tools.get(observation.call_id or "")
        if tool is None:
            return observation
        took = tool.ended - tool.started if tool.started is not None and tool.ended is not None else None
        return msgspec.structs.replace(
            observation,
            exit_code=tool.exits[0] if len(tool.exits) == 1 else None,
            timed_out=observation.timed_out or tool.timed_out,
            duration_s=None if took is None or took < 0 else round(took, 6),
        )

    def _add_unshown(self, event: ModelEvent) -> None:
        answer = event.answer or {}
        step = self._builder.add_step(
            "agent" if event.agent is None else "other_agent",
            split_text_parts(answer.get("content"))[0],
            reasoning=reasoning_of(answer),
            tool_calls=tool_calls_of(answer),
            call=event.call.id,
            started=event.call.started,
            ended=event.call.ended,
            extra={"beside": True, "name": event.agent},
        )
        self._results(step.tool_calls)


def _match_keys(message: dict[str, Any]) -> list[tuple[str, Any]]:
    """Returns the keys to match an answer by, the most reliable first."""
    found: list[tuple[str, Any]] = []
    if message.get("id"):
        found.append(("id", str(message["id"])))
    calls = tuple(c.id for c in tool_calls_of(message) if c.id)
    if calls:
        found.append(("calls", calls))
    elif not message.get("id"):
        found.append(("content", canonical_bytes(message.get("content"))))
    return found


def _own_facts(sample: Sample) -> dict[str, Any] | None:
    """Returns the attempt's start and end in a log that Assay wrote; else None."""
    metadata = sample.fields.get("metadata")
    own = metadata.get(ASSAY) if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) and isinstance(own.get("started"), dict) else None


def _restore_start_and_end(
    imported: ImportedTrajectory, own: dict[str, Any], bad: WarnFunction
) -> ImportedTrajectory | None:
    """Restores the start and end that Assay wrote; None where they are invalid."""
    try:
        started = msgspec.convert(own["started"], AttemptStarted)
        finished = msgspec.convert(own.get("finished"), AttemptEnded | None)
    except msgspec.ValidationError as exc:
        bad(f"metadata.{ASSAY}", str(exc))
        return None
    config = {**started.config, IMPORTED: imported.started.config[IMPORTED]}
    named = msgspec.structs.replace(started, run="", attempt="", config=config)
    ends: tuple[Body, ...] = () if finished is None else (finished,)
    at = next(n for n, body in enumerate(imported.bodies) if isinstance(body, AttemptEnded))
    return ImportedTrajectory(imported.key, named, (*imported.bodies[:at], *ends, *imported.bodies[at + 1 :]))
