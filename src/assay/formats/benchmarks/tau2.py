"""Results of tau2-bench: one document with the run's `info`, its `tasks` and its `simulations`.

A simulated user may call tools of its own there: its turns then have tool calls as the agent's have. Rewards and the
checks behind them (database, environment assertions, actions, communicated facts) are kept as recorded. Reads and
writes; the simulations of a large document are read one at a time, beside `info` and the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import Imported, Provenance, Reading, Writing
from assay.formats.shared.building import Origin, tool_call
from assay.formats.shared.losses import THROWAWAY, tell_losses
from assay.formats.shared.messages import actor_of, chat_plan, said_by
from assay.formats.shared.mirror import items_of
from assay.formats.shared.mirrored import (
    Mirrored,
    fields_of,
    is_object,
    number,
    origin_of,
    own,
    rewards_of,
    text_or_none,
    whole_number,
)
from assay.formats.shared.reading import Bad, at_place, json_fields, json_items, seconds
from assay.formats.shared.sniffing import sniff
from assay.formats.shared.writing import new_file
from assay.records import AttemptEnded, ModelCall, Observation, Step, Trajectory, Usage, VerdictStatus

__all__ = ["Tau2Format"]

_STOPS = {"max_steps": "turns", "timeout": "wall_s", "too_many_errors": "errors"}
_BROKE = {"agent_error": "agent", "user_error": "environment", "infrastructure_error": "environment"}


class Tau2Format:
    """See the module."""

    name: ClassVar[str] = "tau2"
    title: ClassVar[str] = "tau2-bench results"
    provenance: ClassVar[Provenance] = "specification"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        return is_object(seen) and (
            seen.has("info.agent_info", "info.user_info")
            or seen.has("simulations[].task_id", "simulations[].messages")
            or seen.has("tasks[].user_scenario", "info.num_trials")
        )

    def read(self, path: Path, reading: Reading) -> Iterator[Imported]:
        bad = at_place(reading, path.name)
        top = json_fields(path, ("tasks", "simulations"), bad)
        info = top.get("info")
        tasks = {str(t.get("id")): t for _, t in json_items(path, ("tasks",), bad) if isinstance(t, dict)}
        origin = origin_of(self.name, path, text_or_none(_at(info, "git_commit")) or "")
        for position, run in json_items(path, ("simulations",), bad):
            where = f"simulations[{position}]"
            if not isinstance(run, dict) or not isinstance(run.get("messages"), list):
                bad(where, "a simulation is an object with a list of messages")
                continue
            built = Mirrored(origin, reading, _item)
            _read_messages(built, run["messages"], bad, where)
            built.fields = {"info": info} if isinstance(info, dict) else {}
            built.fields |= {"task": task} if (task := tasks.get(str(run.get("task_id")))) is not None else {}
            built.fields["simulation"] = {key: value for key, value in run.items() if key != "messages"}
            _judge(built, run)
            yield _finished(built, run, info, f"simulation {position}")

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: Writing) -> None:
        """See `Format.write`. The first trajectory's `info` is that of the document."""
        tasks: dict[str, Any] = {}
        wrote = False
        with new_file(target) as stream:
            for position, trajectory in enumerate(trajectories):
                if position == 0:
                    info = fields_of(trajectory).get("info") if own(trajectory, self.name) else _fresh_info(trajectory)
                    head = b'{"info": ' + msgspec.json.encode(info) + b', "simulations": [\n'
                    stream.write(head)
                run, wrote = self._run(trajectory, writing), True
                task = fields_of(trajectory).get("task") if own(trajectory, self.name) else {"id": run.get("task_id")}
                if task is not None:
                    tasks.setdefault(str(run.get("task_id")), task)
                stream.write((b",\n" if position else b"") + msgspec.json.encode(run))
            start = b"" if wrote else b'{"info": {"agent_info": {}, "user_info": {}}, "simulations": ['
            stream.write(start + b'\n], "tasks": ' + msgspec.json.encode(list(tasks.values())) + b"}\n")

    def _run(self, trajectory: Trajectory, writing: Writing) -> dict[str, Any]:
        mine = own(trajectory, self.name)
        messages = items_of(trajectory, _item, chat_plan, writing, own=mine)
        fields = fields_of(trajectory).get("simulation") if mine else None
        run = {**(fields if isinstance(fields, dict) else _fresh_run(trajectory)), "messages": list(messages)}
        tell_losses(trajectory, None if mine else _again(run, _fresh_info(trajectory)), writing, self.name)
        return run


def _again(run: dict[str, Any], info: dict[str, Any]) -> Imported:
    built = Mirrored(Origin(Tau2Format.name, "", ""), THROWAWAY, _item)
    _read_messages(built, run["messages"], lambda *_: None, "")
    _judge(built, run)
    return _finished(built, run, info, "")


def _at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _fresh_info(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "num_trials": 1,
        "agent_info": {"implementation": trajectory.agent, "llm": trajectory.model},
        "user_info": {"implementation": "unknown"},
    }


def _fresh_run(trajectory: Trajectory) -> dict[str, Any]:
    rewards = rewards_of(trajectory)
    reward = rewards.get("reward", next(iter(rewards.values()), None))
    return {
        "id": f"{trajectory.attempt}.{trajectory.retry}",
        "task_id": trajectory.task,
        "trial": trajectory.number,
        "seed": trajectory.seed,
        "termination_reason": "agent_stop" if trajectory.finished and trajectory.finished.ended else "max_steps",
        "reward_info": {"reward": reward} if reward is not None else None,
    }


def _read_messages(built: Mirrored, messages: list[Any], bad: Bad, where: str) -> None:
    for position, message in enumerate(messages):
        place = f"{where}.messages[{position}]"
        role = text_or_none(_at(message, "role"))
        if role is None:
            bad(place, "a message is an object with a role")
        elif role == "tool":
            _read_result(built, message)
        else:
            _read_turn(built, message, role)


def _read_result(built: Mirrored, message: dict[str, Any]) -> None:
    seen = Observation(
        text_or_none(message.get("content")) or "",
        text_or_none(message.get("id")),
        error=message.get("error") is True,
    )
    built.answer(seen, message)


def _read_turn(built: Mirrored, message: dict[str, Any], role: str) -> None:
    calls = message.get("tool_calls")
    found = [
        tool_call(text_or_none(call.get("id")) or "", text_or_none(call.get("name")) or "", call.get("arguments"))
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict)
    ]
    usage, cost = message.get("usage"), number(message.get("cost"))
    call_id = (
        f"call-{len(built.steps)}" if isinstance(usage, dict) or (cost is not None and role == "assistant") else None
    )
    if call_id is not None:
        told = Usage(whole_number(_at(usage, "prompt_tokens")), whole_number(_at(usage, "completion_tokens")))
        built.call(ModelCall(call_id, "openai-chat", "unknown", {}, {}, usage=told, cost_usd=cost))
    step = built.step(
        actor_of(role),
        text_or_none(message.get("content")),
        tool_calls=tuple(found),
        call=call_id,
        started=seconds(message.get("timestamp")),
        extra={"role": role} if role not in {"user", "assistant"} else {},
    )
    built.item(message, "message", step)


def _item(step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
    kind, _, position = part.partition(" ")
    if kind == "result":
        seen = step.observations[int(position)]
        requestor = "user" if step.actor == "user" else "assistant"
        told = {"id": seen.call_id, "role": "tool", "content": seen.content, "requestor": requestor}
        return {**told, "error": seen.error}
    role = said_by(step, "system")
    calls = [
        {"id": c.id, "name": c.name, "arguments": c.parsed if c.parsed is not None else {}, "requestor": role}
        for c in step.tool_calls
    ]
    made: dict[str, Any] = {"role": role, "content": step.message, "tool_calls": calls or None}
    if call is not None:
        counted = {"prompt_tokens": call.usage.prompt_tokens, "completion_tokens": call.usage.completion_tokens}
        made |= {"cost": call.cost_usd, "usage": counted}
    return made


def _judge(built: Mirrored, run: dict[str, Any]) -> None:
    told = run.get("reward_info")
    reward = number(_at(told, "reward"))
    if reward is None or not isinstance(told, dict):
        built.verdict("unknown", None, "no reward was recorded by tau2-bench")
        return
    evidence = [built.evidence("reward", {"values": {"reward": reward}})]
    checks = {key: value for key, value in told.items() if key != "reward" and value is not None}
    if checks:
        evidence.append(built.evidence("expectation", checks))
    status: VerdictStatus = "pass" if abs(reward - 1.0) <= 1e-6 else "fail"
    if run.get("termination_reason") == "infrastructure_error":
        status = "unknown"
    built.verdict(status, reward, "as recorded by tau2-bench", tuple(evidence), {"reward": reward})


def _finished(built: Mirrored, run: dict[str, Any], info: Any, key: str) -> Imported:
    reason = text_or_none(run.get("termination_reason"))
    costs = {name: number(run.get(name)) for name in ("agent_cost", "user_cost", "duration")}
    ended = AttemptEnded(
        ended=reason if reason in {"agent_stop", "user_stop"} else None,
        stopped=_STOPS.get(reason or ""),
        broke=_BROKE.get(reason or ""),
        error=reason if reason in _BROKE else None,
        metrics={name: value for name, value in costs.items() if value is not None},
        at=seconds(run.get("end_time")),
    )
    agent = _at(info, "agent_info")
    task = run.get("task_id")
    return built.done(
        f"{key}: task {task} trial {run.get('trial')}",
        ended=ended,
        task=str(task) if isinstance(task, str | int) else None,
        agent=text_or_none(_at(agent, "implementation")) or "unknown",
        model=text_or_none(_at(agent, "llm")),
        number=whole_number(run.get("trial")) or 0,
        seed=whole_number(run.get("seed")) or 0,
        at=seconds(run.get("start_time")),
    )
