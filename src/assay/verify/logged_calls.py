"""Calls that the rules of services are judged over: the recorded steps, with the role and the time of the world's log.

A step says what an agent called and what it read; who called, and when by the world's clock, only the log knows. Where
there is no log that fits the steps, rules about role and time are undecidable, never kept.

Covered: logs of plain and of disturbed worlds, and of pages. Not covered: what calls of other roles returned, which no
log holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from assay.analysis.contracts import record_of
from assay.analysis.contracts.evaluation import Trace
from assay.analysis.contracts.syntax import Node, walk
from assay.analysis.contracts.trace import RecordedTrace, Tracer
from assay.analysis.judged_path import judged_path
from assay.environments.services.plans import Plan, as_tool_calls
from assay.environments.services.world import ServiceWorld
from assay.records import Observation, Step, ToolCall, Trajectory, canonical_bytes
from assay.verify.interface import WorldInput

_ROLE = ("call", "role")


class LoggedCalls(NamedTuple):
    """Calls of the agent, and those of all roles."""

    agents: RecordedTrace
    everybody: RecordedTrace | None
    """The same calls among those of persons, other users and the system; None without a log that fits."""
    next_agents: tuple[int, ...]
    """For each position of `everybody` that of the agent's call that comes next, or of the last one."""

    def agents_calls(self, positions: Iterable[int]) -> tuple[int, ...]:
        """Returns positions of `everybody` as positions of the agent's calls, each once; empty if there are none."""
        if not self.agents.steps:
            return ()
        return tuple(dict.fromkeys(self.next_agents[at] for at in positions))


def names_role(formula: Node) -> bool:
    """Returns whether a rule asks who called."""
    return any(node.op == "path" and tuple(node.value)[:2] == _ROLE for node in walk(formula))


def calls_of_plan(world: ServiceWorld, plan: Plan) -> LoggedCalls:
    """Returns the calls of a plan that is played on a fork of the world."""
    fork = world.fork()
    calls = as_tool_calls(plan)
    trace = trace_of_calls([(call, fork.act(call.name, call.parsed or {})) for call in calls])
    log = msgspec.convert(msgspec.to_builtins(fork.calls[len(world.calls) :]), tuple[_LogEntry, ...])
    return _with_log(trace, log)


def _with_log(agents: RecordedTrace, log: Sequence[_LogEntry]) -> LoggedCalls:
    """Returns calls with role and time; `agents` are those of the role `agent` in the log's order."""
    start = next((entry.now for entry in log if entry.now is not None), None)
    own = iter(range(len(agents.steps)))
    positions: list[dict[str, Any]] = []
    steps: list[int] = []
    numbers: list[int] = []
    mine: list[int] = []
    others = iter(_trace_of_log([entry for entry in log if entry.role != "agent"]).trace.positions)
    for at, entry in enumerate(log):
        if entry.role == "agent":
            number = next(own)
            mine.append(at)
            fields, step, call = agents.trace.positions[number], agents.steps[number], agents.calls[number]
        else:
            fields, step, call = next(others), -1, 0
        told = {"role": entry.role, "at": entry.now, "minutes": _minutes(start, entry.now)}
        positions.append({**fields, "call": {**fields["call"], **told}})
        steps.append(step)
        numbers.append(call)
    after: list[int] = []
    for number, place in enumerate(mine):
        after += [number] * (place + 1 - len(after))
    after += [max(0, len(mine) - 1)] * (len(log) - len(after))
    annotated = agents.trace._replace(positions=[positions[at] for at in mine])
    everybody = RecordedTrace(agents.trace._replace(positions=positions), tuple(steps), tuple(numbers))
    return LoggedCalls(agents._replace(trace=annotated), everybody, tuple(after))


def _minutes(start: str | None, now: str | None) -> int | None:
    """Returns the minutes between two times of a world's clock; None where one is missing or no time."""
    try:
        gone = datetime.fromisoformat(now or "") - datetime.fromisoformat(start or "")
    except (ValueError, TypeError):
        return None
    return int(gone.total_seconds() // 60)


class _ServedCall(msgspec.Struct, frozen=True):
    """A call by the service's own names, with the service's own answer."""

    action: str
    arguments: dict[str, Any]
    content: str
    error: bool


def recorded_calls(given: WorldInput) -> LoggedCalls | None:
    """Returns the calls that are judged.

    Those that a disturbed world reports that its service answered, because the agent may have seen other names and
    other answers; else those calls of the transcript that are in the world's log, if all of the log's are there; else
    the log: an agent in this process can mark its steps as not made, and one that uses pages makes steps of another
    kind. What a program's model asked the program's own tools for did not reach the world, whatever the program says,
    and neither did what other branches of the attempt called.
    """
    log = _read_log(given.facts.get("calls", ()))
    if log is None:
        return None
    own = [call for call in log if call.role == "agent"]
    if "trace" in given.facts:
        served = _read_served(given.facts["trace"])
        if served is None:
            return None
        names = [fields["call"]["name"] for fields in served.trace.positions]
        return _with_log(served, log) if names == [call.action for call in own] else LoggedCalls(served, None, ())
    recorded = None if given.transcript is None else record_of(_without_programs(given.transcript()), lambda _: None)
    if "calls" not in given.facts:
        return None if recorded is None else LoggedCalls(recorded, None, ())
    return _with_log((None if recorded is None else _those_in(own, recorded)) or _trace_of_log(own), log)


def _read_log(data: object) -> tuple[_LogEntry, ...] | None:
    try:
        return msgspec.convert(data, tuple[_LogEntry, ...])
    except msgspec.ValidationError:
        return None


def _read_served(data: object) -> RecordedTrace | None:
    try:
        served = msgspec.convert(data, tuple[_ServedCall, ...])
    except msgspec.ValidationError:
        return None
    return trace_of_calls(
        (
            ToolCall(f"t{at}", call.action, canonical_bytes(call.arguments).decode(), call.arguments),
            Observation(call.content, f"t{at}", error=call.error),
        )
        for at, call in enumerate(served)
    )


def _without_programs(trajectory: Trajectory) -> Trajectory:
    """Returns a trajectory without the turns of models that programs in the sandbox asked, whose results the programs
    report themselves. Their calls that reached the world are steps of their own. Steps of branches that were not handed
    in acted in other worlds, and their results say nothing of this one."""
    programs = {call.id for call in trajectory.calls if call.raw_request is not None}
    steps = tuple(step for step in judged_path(trajectory).steps if step.call is None or step.call not in programs)
    return msgspec.structs.replace(trajectory, steps=steps)


class _LogEntry(msgspec.Struct, frozen=True):
    """A call in the world's log."""

    role: str
    action: str
    arguments: dict[str, Any]
    code: str | None
    now: str | None = None


def _those_in(log: Sequence[_LogEntry], recorded: RecordedTrace) -> RecordedTrace | None:
    """Returns the recorded calls that are those of a log, in its order, judged by whether each was refused; None if one
    is not recorded."""
    keys = (_call_key(fields["call"], fields.get("result")) for fields in recorded.trace.positions)
    judged = enumerate(keys)
    kept: list[int] = []
    for call in log:
        is_refused = call.code is not None
        wanted = (call.action, is_refused, b"" if is_refused else canonical_bytes(call.arguments))
        at = next((at for at, key in judged if key == wanted), None)  # goes on after the call before
        if at is None:
            return None
        kept.append(at)
    return RecordedTrace(
        recorded.trace._replace(positions=[recorded.trace.positions[at] for at in kept]),
        tuple(recorded.steps[at] for at in kept),
        tuple(recorded.calls[at] for at in kept),
    )


def _trace_of_log(log: Sequence[_LogEntry]) -> RecordedTrace:
    """Returns the trace of a log. What the calls returned is not in it, so that rules about it are undecidable."""
    found = trace_of_calls(
        (
            ToolCall(f"l{at}", call.action, canonical_bytes(call.arguments).decode(), call.arguments),
            Observation("", f"l{at}", error=call.code is not None),
        )
        for at, call in enumerate(log)
    )
    for fields in found.trace.positions:
        for name in ("content", "data", "stderr"):
            fields["result"].pop(name)
    return found


def _call_key(call: Any, result: Any) -> tuple[Any, bool, bytes] | None:
    """Returns name, refusal and arguments of a judged call as the log has them; a refused call may be logged without
    arguments, and with a part of a long name. None without a call or its result."""
    if not isinstance(call, Mapping) or not isinstance(result, Mapping):
        return None
    is_refused = result.get("error") is True
    try:
        return call["name"][:200], is_refused, b"" if is_refused else canonical_bytes(call["arguments"])
    except (UnicodeError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def trace_of_calls(calls: Iterable[tuple[ToolCall, Observation]]) -> RecordedTrace:
    """Returns the trace of calls that were made without a run, one step a call."""
    tracer, positions = Tracer(None), []
    for number, (call, observation) in enumerate(calls):
        step = Step(number, "agent", tool_calls=(call,), observations=(observation,))
        positions += [(number, at, fields) for at, fields in tracer.positions(step)]
    trace = Trace([fields for _, _, fields in positions], ended=True)
    return RecordedTrace(trace, tuple(n for n, _, _ in positions), tuple(at for _, at, _ in positions))
