"""Results of tau2-bench: one document with the run's `info`, its `tasks` and its `simulations`, or a folder whose
`results.json` has the former two and whose `simulations/` has a file for each.

A simulated user may call tools of its own there: its turns then have tool calls as the agent's have. Rewards and the
checks behind them (database, environment assertions, actions, communicated facts) are kept as recorded. Reads and
writes; the simulations of a large document are read one at a time, beside `info` and the tasks. Where a conversation by
voice is recorded in ticks, the pieces that one side says without a break are a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from assay.errors import UserError
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin, tool_call
from assay.formats.shared.json_stream import (
    WarnFunction,
    json_fields,
    json_items,
    load_document,
    parse_time,
    warn_in,
)
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.messages import actor_of, plan_chat_messages, role_of
from assay.formats.shared.output_files import new_file
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    WHOLE,
    RoundTripBuilder,
    count_or_none,
    file_origin,
    find_file,
    get_path,
    is_imported_from,
    is_object,
    named_rewards,
    number,
    objects_in,
    source_fields,
    text_or_empty,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, ModelCall, Observation, Step, Trajectory, Usage, VerdictStatus

_STOPS = {"max_steps": "turns", "timeout": "wall_s", "too_many_errors": "errors"}
_META, _SIMULATIONS = "results.json", "simulations"
_BROKE = {"agent_error": "agent", "user_error": "environment", "infrastructure_error": "environment"}


class Tau2Format:
    name: ClassVar[str] = "tau2"
    title: ClassVar[str] = "tau2-bench results"
    provenance: ClassVar[Provenance] = "specification"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        if seen.shape == "folder":
            return (
                (path / _SIMULATIONS).is_dir() and find_file(path / _META) is not None and self.recognises(path / _META)
            )
        return is_object(seen) and (
            seen.has("info.agent_info", "info.user_info")
            or seen.has("simulations[].task_id", "simulations[].messages")
            or seen.has("tasks[].user_scenario", "info.num_trials")
        )

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        path = path / _META if path.is_dir() else path
        bad = warn_in(reading, path.name)
        top = json_fields(path, ("tasks", "simulations"), bad)
        info = top.get("info")
        tasks = {str(t.get("id")): t for _, t in json_items(path, ("tasks",), bad) if isinstance(t, dict)}
        origin = file_origin(self.name, path, text_or_none(get_path(info, "git_commit")) or "")
        for where, key, run in _simulations(path, top.get("simulation_index"), bad):
            messages = _messages_of(run)
            if messages is None:
                bad(where, "expected a simulation, an object with a list of messages or of ticks")
                continue
            builder = RoundTripBuilder(origin, reading, _render_item)
            builder.place = where
            with skip_unreadable(bad, where):
                _read_messages(builder, messages, bad, where)
                builder.fields = {"info": info} if isinstance(info, dict) else {}
                builder.fields |= {"task": task} if (task := tasks.get(str(run.get("task_id")))) is not None else {}
                builder.fields["simulation"] = {k: value for k, value in run.items() if k not in ("messages", "ticks")}
                if run.get("ticks"):
                    builder.fields["ticks"] = builder.keep_text(msgspec.json.encode(run["ticks"]).decode())
                _judge(builder, run)
                yield _finish(builder, run, info, key)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        """Writes one document, with the `info` of the first trajectory."""
        tasks: dict[str, Any] = {}
        wrote = False
        with new_file(target) as stream:
            for position, trajectory in enumerate(trajectories):
                if position == 0:
                    info = (
                        source_fields(trajectory).get("info")
                        if is_imported_from(trajectory, self.name)
                        else _fresh_info(trajectory)
                    )
                    head = b'{"info": ' + msgspec.json.encode(info) + b', "simulations": [\n'
                    stream.write(head)
                run, wrote = self._run(trajectory, writing), True
                task = (
                    source_fields(trajectory).get("task")
                    if is_imported_from(trajectory, self.name)
                    else {"id": run.get("task_id")}
                )
                if task is not None:
                    tasks.setdefault(str(run.get("task_id")), task)
                stream.write((b",\n" if position else b"") + msgspec.json.encode(run))
            start = b"" if wrote else b'{"info": {"agent_info": {}, "user_info": {}}, "simulations": ['
            stream.write(start + b'\n], "tasks": ' + msgspec.json.encode(list(tasks.values())) + b"}\n")

    def _run(self, trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
        mine = is_imported_from(trajectory, self.name)
        messages = restore_items(trajectory, _render_item, plan_chat_messages, writing, own=mine)
        fields = source_fields(trajectory).get("simulation") if mine else None
        run = {**(fields if isinstance(fields, dict) else _fresh_run(trajectory)), "messages": list(messages)}
        ticks = source_fields(trajectory).get("ticks") if mine else None
        if isinstance(ticks, str):  # the messages were made of them
            run |= {"messages": None, "ticks": msgspec.json.decode(writing.read_blob(ticks))}
        back = None if mine else _read_back(run, _fresh_info(trajectory))
        report_losses(trajectory, back, writing, self.name, added=_ADDED)
        return run


def _simulations(path: Path, index: Any, bad: WarnFunction) -> Iterator[tuple[str, str, Any]]:
    """Yields the place, the key and the value of each simulation, of the document or of the folder beside it."""
    for position, run in json_items(path, ("simulations",), bad):
        yield f"simulations[{position}]", f"simulation {position}", run
    folder = path.parent / _SIMULATIONS
    files = sorted(folder.glob("*.json")) if folder.is_dir() and not folder.is_symlink() else []
    for file in files:
        where = f"{_SIMULATIONS}/{file.name}"
        try:
            yield where, f"simulation {file.stem}", load_document(file, bad, where, largest=WHOLE)
        except (UserError, OSError) as exc:
            bad(where, str(exc))
    listed = {text_or_empty(entry.get("id")) for entry in objects_in(index)}
    if missing := sorted(listed - {file.stem for file in files}):
        bad("simulation_index", f"{len(missing)} simulations have no file: {', '.join(missing[:5])}")


def _messages_of(run: Any) -> list[Any] | None:
    """Returns a simulation's messages, or those that its ticks make; None where it has neither."""
    messages, ticks = get_path(run, "messages"), get_path(run, "ticks")
    if isinstance(messages, list):
        return messages
    if not isinstance(ticks, list):
        return None
    made: list[Any] = []
    for tick in objects_in(ticks):
        for side, role in (("agent", "assistant"), ("user", "user")):
            _add_chunk(made, tick, side, role)
            made += objects_in(tick.get(f"{side}_tool_results"))
    return made


def _add_chunk(made: list[Any], tick: dict[str, Any], side: str, role: str) -> None:
    """Adds a tick's words and calls of one side to its turn, or begins one."""
    text, calls = text_or_none(get_path(tick, f"{side}_chunk", "content")), objects_in(tick.get(f"{side}_tool_calls"))
    last = made[-1] if made else {}
    if text and last.get("role") == role and not last.get("tool_calls") and not calls:
        last["content"] = f"{last['content']} {text}" if last["content"] else text
    elif text or calls:
        made.append({"role": role, "content": text, "tool_calls": calls or None, "timestamp": tick.get("timestamp")})


_ADDED = MappingProxyType(
    {
        "info.num_trials": "required: written as 1",
        "info.user_info.implementation": "required: written as `unknown`",
        "simulations[].termination_reason": "required: `agent_stop` where the attempt ended, else `max_steps`",
    }
)


def _read_back(run: dict[str, Any], info: dict[str, Any]) -> ImportedTrajectory:
    builder = RoundTripBuilder(Origin(Tau2Format.name, "", ""), THROWAWAY, _render_item)
    _read_messages(builder, run["messages"], lambda *_: None, "")
    _judge(builder, run)
    return _finish(builder, run, info, "")


def _fresh_info(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "num_trials": 1,
        "agent_info": {"implementation": trajectory.agent, "llm": trajectory.model},
        "user_info": {"implementation": "unknown"},
    }


def _fresh_run(trajectory: Trajectory) -> dict[str, Any]:
    rewards = named_rewards(trajectory)
    reward = rewards.get("reward", next(iter(rewards.values()), None))
    return {
        "id": f"{trajectory.attempt}.{trajectory.retry}",
        "task_id": trajectory.task,
        "trial": trajectory.number,
        "seed": trajectory.seed,
        "termination_reason": "agent_stop" if trajectory.finished and trajectory.finished.ended else "max_steps",
        "reward_info": {"reward": reward} if reward is not None else None,
    }


def _read_messages(builder: RoundTripBuilder, messages: list[Any], bad: WarnFunction, where: str) -> None:
    for position, message in enumerate(messages):
        place = f"{where}.messages[{position}]"
        role = text_or_none(get_path(message, "role"))
        if role is None:
            bad(place, "a message is an object with a role")
        elif role == "tool":
            _read_result(builder, message)
        else:
            _read_turn(builder, message, role)


def _read_result(builder: RoundTripBuilder, message: dict[str, Any]) -> None:
    seen = Observation(
        text_or_none(message.get("content")) or "",
        text_or_none(message.get("id")),
        error=message.get("error") is True,
    )
    builder.add_answer(seen, message)


def _read_turn(builder: RoundTripBuilder, message: dict[str, Any], role: str) -> None:
    calls = message.get("tool_calls")
    found = [
        tool_call(text_or_none(call.get("id")) or "", text_or_none(call.get("name")) or "", call.get("arguments"))
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict)
    ]
    usage, cost = message.get("usage"), number(message.get("cost"))
    call_id = (
        f"call-{len(builder.steps)}" if isinstance(usage, dict) or (cost is not None and role == "assistant") else None
    )
    if call_id is not None:
        recorded = Usage(
            count_or_none(get_path(usage, "prompt_tokens")), count_or_none(get_path(usage, "completion_tokens"))
        )
        builder.add_call(ModelCall(call_id, "openai-chat", "unknown", {}, {}, usage=recorded, cost_usd=cost))
    step = builder.add_step(
        actor_of(role),
        text_or_none(message.get("content")),
        tool_calls=tuple(found),
        call=call_id,
        started=parse_time(message.get("timestamp")),
        extra={"role": role} if role not in {"user", "assistant"} else {},
    )
    builder.keep_item(message, "message", step)


def _render_item(step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
    kind, _, position = part.partition(" ")
    if kind == "result":
        seen = step.observations[int(position)]
        requestor = "user" if step.actor == "user" else "assistant"
        recorded = {"id": seen.call_id, "role": "tool", "content": seen.content, "requestor": requestor}
        return {**recorded, "error": seen.error}
    role = role_of(step, "system")
    calls = [
        {"id": c.id, "name": c.name, "arguments": c.parsed if c.parsed is not None else {}, "requestor": role}
        for c in step.tool_calls
    ]
    item: dict[str, Any] = {"role": role, "content": step.message, "tool_calls": calls or None}
    if call is not None:
        counted = {"prompt_tokens": call.usage.prompt_tokens, "completion_tokens": call.usage.completion_tokens}
        item |= {"cost": call.cost_usd, "usage": counted}
    return item


def _judge(builder: RoundTripBuilder, run: dict[str, Any]) -> None:
    recorded = run.get("reward_info")
    reward = builder.read_reward(get_path(recorded, "reward"))
    if reward is None or not isinstance(recorded, dict):
        builder.add_verdict("unknown", None, "no reward was recorded by tau2-bench")
        return
    evidence = [builder.add_evidence("reward", {"values": {"reward": reward}})]
    checks = {key: value for key, value in recorded.items() if key != "reward" and value is not None}
    if checks:
        evidence.append(builder.add_evidence("expectation", checks))
    status: VerdictStatus = "pass" if abs(reward - 1.0) <= 1e-6 else "fail"
    if run.get("termination_reason") == "infrastructure_error":
        status = "unknown"
    builder.add_verdict(status, reward, "as recorded by tau2-bench", tuple(evidence), {"reward": reward})


def _finish(builder: RoundTripBuilder, run: dict[str, Any], info: Any, key: str) -> ImportedTrajectory:
    reason = text_or_none(run.get("termination_reason"))
    costs = {name: number(run.get(name)) for name in ("agent_cost", "user_cost", "duration")}
    ended = AttemptEnded(
        ended=reason if reason in {"agent_stop", "user_stop"} else None,
        stopped=_STOPS.get(reason or ""),
        broke=_BROKE.get(reason or ""),
        error=reason if reason in _BROKE else None,
        metrics={name: value for name, value in costs.items() if value is not None},
        at=parse_time(run.get("end_time")),
    )
    agent = get_path(info, "agent_info")
    task = run.get("task_id")
    return builder.finish(
        f"{key}: task {task} trial {run.get('trial')}",
        ended=ended,
        task=str(task) if isinstance(task, str | int) else None,
        agent=text_or_none(get_path(agent, "implementation")) or "unknown",
        model=text_or_none(get_path(agent, "llm")),
        number=count_or_none(run.get("trial")) or 0,
        seed=count_or_none(run.get("seed")) or 0,
        at=parse_time(run.get("start_time")),
    )
