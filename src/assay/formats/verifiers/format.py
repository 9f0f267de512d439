"""Traces of verifiers: `traces.jsonl` (one episode a line, with a message graph for each agent) and the older
`results.jsonl` (one rollout a line: `prompt`, `completion`, `reward`), read and written.

Each node of a graph is a message and the tokens that it adds; a call shares with the call before it on its path. For
attempts from elsewhere a graph without branches is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin
from assay.formats.shared.json_stream import WarnFunction, json_lines, parse_time, warn_in
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.messages import (
    actor_of,
    chat_calls,
    content_text,
    plan_chat_messages,
    read_message,
    render_chat_message,
)
from assay.formats.shared.output_files import new_file
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    file_origin,
    get_path,
    is_imported_from,
    named_rewards,
    number,
    objects_in,
    source_fields,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.formats.verifiers.graph import MessageGraph, chat_of
from assay.records import AttemptEnded, ModelCall, Observation, Step, Trajectory, VerdictStatus

LARGEST_LINE = 512 << 20
_BOUNDARIES = {
    "ProviderError": "provider",
    "HarnessError": "agent",
    "SandboxError": "environment",
    "ToolsetError": "environment",
    "EnvError": "environment",
    "InterceptionError": "environment",
    "TunnelError": "environment",
    "TaskError": "task",
}
_LIMITS = {
    "max_turns": "turns",
    "max_input_tokens": "tokens",
    "max_output_tokens": "tokens",
    "max_total_tokens": "tokens",
    "compaction_failed": "tokens",
}


class VerifiersFormat:
    name: ClassVar[str] = "verifiers"
    title: ClassVar[str] = "verifiers traces.jsonl and results.jsonl"
    provenance: ClassVar[Provenance] = "peer"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if seen.shape not in ("lines", "object"):
            return False
        episode = seen.has("task", "traces", "env") or seen.has("task.data", "agent", "nodes")
        return episode or (seen.has("prompt", "completion", "reward") and bool({"example_id", "task"} & seen.paths))

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """Yields one trajectory for each agent of an episode."""
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        seen: dict[str, int] = {}
        rows = 0
        for line, row in json_lines(path, bad, largest=LARGEST_LINE):
            rows += isinstance(row, dict)
            with skip_unreadable(bad, f"line {line}"):
                for one in _row(row, origin, reading, bad, f"line {line}", rows):
                    task = one.started.task + " " + one.started.agent
                    seen[task] = seen.get(task, -1) + 1
                    started = msgspec.structs.replace(one.started, number=seen[task])
                    yield ImportedTrajectory(one.key, started, one.bodies)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        with new_file(target) as out:
            for _, together in groupby(trajectories, _episode_of):
                traces = list(together)
                out.write(msgspec.json.encode(self._line(traces, writing)) + b"\n")

    def _line(self, traces: list[Trajectory], writing: ExportContext) -> dict[str, Any]:
        first = source_fields(traces[0]) if is_imported_from(traces[0], self.name) else {}
        rows = [self._trace(one, writing) for one in traces]
        if "episode" in first:
            return {**first["episode"], "traces": [row for row in rows if row is not None]}
        trace: dict[str, Any] = rows[0]
        if first:
            return trace
        line = {"id": trace["id"], "env": {"id": ""}, "task": trace["task"], "ok": trace["ok"], "is_timeout": False}
        back = _read_back({**line, "errors": [], "traces": [trace]})
        report_losses(traces[0], back, writing, self.name, added=_ADDED)
        return {**line, "errors": [], "traces": [trace]}

    def _trace(self, trajectory: Trajectory, writing: ExportContext) -> Any:
        if not is_imported_from(trajectory, self.name):
            nodes = list(restore_items(trajectory, _fresh_node, plan_chat_messages, writing, own=False))
            return _fresh_trace(trajectory, nodes)
        fields = source_fields(trajectory)
        report_losses(trajectory, None, writing, self.name)
        if "row" in fields:
            lists = {
                place: list(
                    restore_items(
                        trajectory, render_chat_message, plan_chat_messages, writing, own=True, list_name=place
                    )
                )
                for place in fields["lists"]
            }
            return {**fields["row"], **lists}
        if fields.get("trace") is None:
            return None
        return {
            **fields["trace"],
            "nodes": list(restore_items(trajectory, _fresh_node, plan_chat_messages, writing, own=True)),
        }


_ADDED = MappingProxyType(
    {
        "traces[].agent.trainable": "required: written as true",
        "traces[].rewards.*.weight": "required: written as 1",
        "traces[].task.data.idx": "required: written as 0",
        "traces[].verifiers.version": "names the writer",
    }
)


def _episode_of(trajectory: Trajectory) -> Any:
    """Returns a key that groups the traces of one episode; every other trajectory is a group of its own."""
    fields = source_fields(trajectory) if is_imported_from(trajectory, VerifiersFormat.name) else {}
    episode = fields.get("episode")
    return (episode.get("id"), fields.get("row_number")) if isinstance(episode, dict) else trajectory.chain


def _read_back(line: dict[str, Any]) -> ImportedTrajectory | None:
    return next(iter(_row(line, Origin(VerifiersFormat.name, "", ""), THROWAWAY, lambda *_: None, "", 0)), None)


def _row(
    row: Any, origin: Origin, reading: ImportContext, bad: WarnFunction, where: str, count: int
) -> Iterator[ImportedTrajectory]:
    if isinstance(row, dict) and isinstance(row.get("traces"), list):
        episode = {key: value for key, value in row.items() if key != "traces"}
        traces = [t for t in row["traces"] if isinstance(t, dict) and isinstance(t.get("nodes"), list)]
        for position, trace in enumerate(row["traces"]):
            if not isinstance(trace, dict) or not isinstance(trace.get("nodes"), list):
                bad(f"{where}.traces[{position}]", "expected a trace with nodes")
        for position, trace in enumerate(traces):
            shared = {"episode": episode, "row_number": count}
            yield _trace(trace, shared, origin, reading, bad, f"{where}.traces[{position}]")
        if not traces:
            yield _read_empty_episode(episode, count, origin, reading)
    elif isinstance(row, dict) and isinstance(row.get("nodes"), list):
        yield _trace(row, {}, origin, reading, bad, where)
    elif isinstance(row, dict) and "completion" in row:
        yield _read_old_row(row, origin, reading, bad, where)
    else:
        bad(where, "expected an episode, a trace or a rollout of verifiers")


# Traces


def _trace(
    trace: dict[str, Any], shared: dict[str, Any], origin: Origin, reading: ImportContext, bad: WarnFunction, where: str
) -> ImportedTrajectory:
    builder = RoundTripBuilder(origin, reading, _fresh_node)
    calls_made = objects_in(trace.get("calls"))
    calls = {c["node"]: c for c in calls_made if isinstance(c.get("node"), int)}
    graph = MessageGraph(trace["nodes"], calls, text_or_none(get_path(trace, "agent", "config", "model")))
    for index, node in enumerate(trace["nodes"]):
        if not isinstance(node, dict) or not isinstance(node.get("message"), dict):
            bad(f"{where}.nodes[{index}]", "expected a node with a message")
            builder.keep_item(node)
            continue
        call = graph.add_node(index, node)
        if call is not None:
            builder.add_call(call)
        _turn(builder, node, call)
    for number_, failed in enumerate(c for c in calls_made if c.get("error")):
        builder.add_call(_failed_call(failed, number_))
    builder.fields = {"trace": {key: value for key, value in trace.items() if key != "nodes"}, **shared}
    builder.place = where
    _judge(builder, trace)
    return builder.finish(f"trace {trace.get('id')}", ended=_build_end(trace), **_start_fields(trace, graph.model))


def _turn(builder: RoundTripBuilder, node: dict[str, Any], call: ModelCall | None) -> None:
    message = chat_of(node["message"])
    role = str(message.get("role"))
    text = content_text(message.get("content"))
    at = parse_time(node.get("timestamp"))
    if role == "tool":
        builder.add_answer(Observation(text or "", text_or_none(message.get("tool_call_id"))), node)
        return
    made = call is not None or role != "assistant"
    step = builder.add_step(
        actor_of(role) if made else "environment",  # what no model said was put in its mouth as an example
        text,
        reasoning=text_or_none(message.get("reasoning_content")),
        tool_calls=chat_calls(message) if role == "assistant" else (),
        call=None if call is None else call.id,
        started=at if call is None else call.started,
        ended=None if call is None else call.ended,
        extra={} if made and role in ("user", "assistant") else {"role": role},
    )
    builder.keep_item(node, "message", step)


def _fresh_node(step: Step, part: str, call: ModelCall | None = None) -> dict[str, Any]:
    message = render_chat_message(step, part, call)
    if isinstance(message.get("tool_calls"), list):
        flat = [{"id": c["id"], "type": "function", **c["function"]} for c in message["tool_calls"]]
        message = {**message, "tool_calls": flat}
    if message.get("content") is None and message.get("role") != "assistant":
        message = {**message, "content": ""}
    if message.get("role") == "tool":
        message = {"tool_call_id": "", **message}
    node: dict[str, Any] = {"message": message, "semantic_parents": [], "sampled": step.call is not None}
    node["sampled"] = part == "message" and step.actor in ("agent", "other_agent")
    at = step.ended if call is not None else step.started
    node |= {"timestamp": at} if at is not None and part == "message" else {}
    return node | {"token_ids": [], "mask": [], "is_content": [], "logprobs": []}


def _failed_call(call: dict[str, Any], index: int) -> ModelCall:
    """Returns a failed call."""
    said = get_path(call, "error", "message")
    return ModelCall(
        id=f"f{index}",
        dialect=text_or_none(call.get("endpoint")) or "unknown",
        model=text_or_none(call.get("model")) or "",
        request={},
        response=None,
        error=f"{get_path(call, 'error', 'type')}: {said}",
        started=parse_time(get_path(call, "time", "start")),
        ended=parse_time(get_path(call, "time", "end")),
    )


def _judge(builder: RoundTripBuilder, trace: dict[str, Any]) -> None:
    given = trace.get("rewards")
    rewards = {str(k): v for k, v in given.items() if isinstance(v, dict)} if isinstance(given, dict) else {}
    scores = {name: builder.read_reward(held.get("score")) for name, held in rewards.items()}
    known = {name: score for name, score in scores.items() if score is not None}
    metrics = trace.get("metrics")
    values = {
        str(k): n for k, v in (metrics.items() if isinstance(metrics, dict) else ()) if (n := number(v)) is not None
    }
    if not known or len(known) != len(scores):
        facts = (builder.add_evidence("reward", {"values": values}),) if values else ()
        builder.add_verdict("unknown", None, "no reward was recorded by verifiers", facts)
        return
    weights = {name: w if (w := number(rewards[name].get("weight"))) is not None else 1.0 for name in known}
    total, full = sum(known[n] * weights[n] for n in known), sum(weights.values())
    fact = builder.add_evidence("reward", {"values": {"reward": total, **known}, "weights": weights, "metrics": values})
    scaled = all(0 <= s <= 1 for s in known.values()) and all(w >= 0 for w in weights.values()) and full > 0
    if not scaled:
        builder.remark(builder.place, f"the reward {total:g} is on no scale from 0 to 1: the outcome is unknown")
        builder.add_verdict("unknown", None, f"the reward {total:g} is on no scale from 0 to 1", (fact,), known)
        return
    status: VerdictStatus = "pass" if total >= full * (1 - 1e-9) else "fail"
    builder.add_verdict(status, total / full, "weighted rewards as recorded by verifiers", (fact,), known)


def _build_end(trace: dict[str, Any]) -> AttemptEnded:
    errors = objects_in(trace.get("errors"))
    stop = text_or_none(trace.get("stop_condition"))
    broke = _BOUNDARIES.get(str(errors[-1].get("type")), "environment") if errors and not trace.get("ok") else None
    timeout = trace.get("is_timeout") is True
    stopped = "wall_s" if timeout else _LIMITS.get(stop or "")
    plain = stop is not None and broke is None and stopped is None
    timing = trace.get("timing")
    span = [parse_time(get_path(timing, "agent", which)) for which in ("start", "end")]
    wall = {"agent_s": span[1] - span[0]} if span[0] and span[1] and span[1] >= span[0] else {}
    error = str(errors[-1].get("message"))[:4000] if errors else None
    return AttemptEnded(ended=stop if plain else None, stopped=stopped, broke=broke, error=error, metrics=wall)


def _start_fields(trace: dict[str, Any], model: str | None) -> dict[str, Any]:
    data = get_path(trace, "task", "data")
    held = data if isinstance(data, dict) else {}
    task = held.get("id") or held.get("name") or get_path(trace, "task", "key") or held.get("idx")
    harness = get_path(trace, "agent", "config", "harness", "id")
    name = get_path(trace, "agent", "name")
    agents = [str(part) for part in (harness, None if name == "agent" else name) if part]
    at = parse_time(get_path(trace, "timing", "start"))
    named = {"agent": "/".join(agents) or "unknown", "model": model, "at": at}
    return {**named, **({"task": str(task)} if task is not None else {})}


def _read_empty_episode(
    episode: dict[str, Any], count: int, origin: Origin, reading: ImportContext
) -> ImportedTrajectory:
    """Reads an episode that broke before any agent began."""
    builder = RoundTripBuilder(origin, reading, _fresh_node)
    builder.fields = {"trace": None, "episode": episode, "row_number": count}
    builder.add_verdict("unknown", None, "the episode has no trace")
    started = _start_fields({"task": episode.get("task")}, None)
    return builder.finish(f"episode {episode.get('id')}", ended=_build_end({**episode, "ok": False}), **started)


def _fresh_trace(trajectory: Trajectory, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    calls = []
    for index, node in enumerate(nodes):
        node |= {"parent": index - 1} if index else {}
    by_id = {call.id: call for call in trajectory.calls}
    sampled = [index for index, node in enumerate(nodes) if node["sampled"]]
    said = [step for step in trajectory.steps if step.actor in ("agent", "other_agent")]
    tokens = _Tokens()
    for index, step in zip(sampled, said, strict=True):
        if step.call in by_id:
            calls.append(_fresh_call(by_id[step.call], index))
            nodes[index] |= tokens.node_fields(by_id[step.call])
    rewards = {name: {"score": value, "weight": 1.0} for name, value in named_rewards(trajectory).items()}
    finished = trajectory.finished
    errors = [{"type": "RolloutError", "message": finished.error or ""}] if finished and finished.broke else []
    data = {"id": trajectory.task, "idx": 0, "prompt": next((s.message for s in trajectory.steps if s.message), "")}
    config = {"harness": {"id": trajectory.agent}, "model": trajectory.model}
    return {
        "version": 1,
        "id": trajectory.chain or trajectory.attempt,
        "verifiers": {"version": "assay"},
        "task": {"type": "TaskData", "data": data},
        "agent": {"config": config, "name": "agent", "trainable": True},
        "nodes": nodes,
        "calls": calls,
        "rewards": rewards,
        "metrics": dict(finished.metrics) if finished else {},
        "is_completed": finished is not None,
        "ok": not errors and finished is not None,
        "stop_condition": (finished.stopped or finished.ended) if finished else None,
        "errors": errors,
    }


class _Tokens:
    """Computes the tokens that each call adds, while each prompt extends the one before."""

    def __init__(self) -> None:
        self._before: str | None = None
        self._length = 0
        self._broken = False

    def node_fields(self, call: ModelCall) -> dict[str, Any]:
        """Returns fields of the call's node; empty where its tokens are unknown or do not extend the ones before."""
        prompt, sampled = call.prompt_token_ids, call.completion_token_ids
        follows = call.shared_tokens == self._length and (not self._length or call.parent == self._before)
        if self._broken or prompt is None or not sampled or not follows:
            self._broken = True
            return {}
        self._before, self._length = call.id, self._length + len(prompt) + len(sampled)
        mask = [*[False] * len(prompt), *[True] * len(sampled)]
        logprobs = call.logprobs if call.logprobs is not None and len(call.logprobs) == len(sampled) else ()
        return {"token_ids": [*prompt, *sampled], "mask": mask, "logprobs": list(logprobs)}


def _fresh_call(call: ModelCall, node: int) -> dict[str, Any]:
    told: dict[str, Any] = {"node": node, "model": call.model, "sampling": call.sampling, "endpoint": call.dialect}
    usage = call.usage
    if usage.prompt_tokens is not None and usage.completion_tokens is not None:
        plain = {"prompt_tokens": usage.prompt_tokens - (usage.cached_tokens or 0)}
        plain |= {"completion_tokens": usage.completion_tokens}
        more = {"cached_input_tokens": usage.cached_tokens, "reasoning_tokens": usage.reasoning_tokens}
        told["usage"] = plain | {k: v for k, v in (more | {"cost": call.cost_usd}).items() if v is not None}
    return told | {"time": {"start": call.started or 0.0, "end": call.ended or 0.0}}


# Rollouts of older versions


def _read_old_row(
    row: dict[str, Any], origin: Origin, reading: ImportContext, bad: WarnFunction, where: str
) -> ImportedTrajectory:
    builder = RoundTripBuilder(origin, reading, render_chat_message)
    lists = [name for name in ("prompt", "completion") if isinstance(row.get(name), list)]
    for name in ("prompt", "completion"):
        held = row.get(name)
        if isinstance(held, str):
            builder.add_step("user" if name == "prompt" else "agent", held)
        for position, message in enumerate(held if isinstance(held, list) else ()):
            read_message(builder, message, bad, f"{where}.{name}[{position}]", name)
    builder.fields = {"row": {k: v for k, v in row.items() if k not in lists}, "lists": lists}
    builder.place = where
    reward = builder.read_reward(row.get("reward"))
    if reward is None:
        builder.add_verdict("unknown", None, "no reward was recorded by verifiers")
    else:
        fact = builder.add_evidence("reward", {"values": {"reward": reward}})
        status: VerdictStatus = "pass" if reward >= 1 else "fail"
        builder.add_verdict(status, reward, "the reward as recorded by verifiers", (fact,), {"reward": reward})
    task, example = row.get("task"), row.get("example_id")
    named = "/".join(str(part) for part in (task, example) if isinstance(part, str | int))
    error = text_or_none(row.get("error"))
    ended = AttemptEnded(
        ended=text_or_none(row.get("stop_condition")), broke="environment" if error else None, error=error
    )
    return builder.finish(f"{where}: example {example}", ended=ended, **({"task": named} if named else {}))
