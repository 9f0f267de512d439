"""Rollouts of NeMo Gym, JSON lines: `responses_create_params` (the request), `response` (with tool calls and their
results in line, as items of the Responses API), `reward`, and data that its resource server adds.

Written and read from the published description alone. What the request quotes of earlier turns is the environment's,
since the policy did not say it in this rollout; the model's turns are those of the response. Token ids and
log-probabilities of the training models are kept as sampled; the prompt of a call is stored as what it adds to the call
before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin, tool_call
from assay.formats.shared.json_stream import WarnFunction, json_lines, parse_time, warn_in
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.messages import actor_of
from assay.formats.shared.output_files import new_file, prompt_tokens
from assay.formats.shared.round_trip import restore_items
from assay.formats.shared.round_trip_builder import (
    RoundTripBuilder,
    count_or_none,
    file_origin,
    is_imported_from,
    named_rewards,
    number,
    source_fields,
    text_or_none,
)
from assay.formats.shared.sniffing import sniff
from assay.records import AttemptEnded, ModelCall, Observation, Step, Trajectory, Usage, VerdictStatus

LARGEST_LINE = 512 << 20
_TOKENS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
_USAGE = {
    "prompt_tokens": ("input_tokens", "prompt_tokens"),
    "completion_tokens": ("output_tokens", "completion_tokens"),
}
"""Metrics by the names that servers give them: those of the Responses API, or of Chat Completions."""
_CALL = "assay_call"
"""Key of the call whose tokens were removed from an item."""


class NemoGymFormat:
    name: ClassVar[str] = "nemo-gym"
    title: ClassVar[str] = "NeMo Gym rollouts"
    provenance: ClassVar[Provenance] = "specification"
    writes: ClassVar[bool] = True

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        told = {"response", "reward", "_ng_task_index"} & seen.paths
        return seen.shape in ("lines", "object") and seen.has("responses_create_params") and bool(told)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """Yields one trajectory for each line."""
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for line, row in json_lines(path, bad, largest=LARGEST_LINE):
            if isinstance(row, dict) and isinstance(row.get("responses_create_params"), dict):
                with skip_unreadable(bad, f"line {line}"):
                    yield _Rollout(row, origin, reading, bad, f"line {line}").read()
            else:
                bad(f"line {line}", "expected a rollout: an object with `responses_create_params`")

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        with new_file(target) as out:
            for trajectory in trajectories:
                mine = is_imported_from(trajectory, self.name)
                row = _restore_row(trajectory, writing) if mine else _render_row(trajectory, writing)
                back = None if mine else _Rollout(row, Origin(self.name, "", ""), THROWAWAY, lambda *_: None, "").read()
                added = {"response.output[].id, status": "required: made of the step's number; `completed`"}
                report_losses(trajectory, back, writing, self.name, added=added)
                out.write(msgspec.json.encode(row) + b"\n")


class _Rollout:
    """Reads one rollout."""

    def __init__(
        self, row: dict[str, Any], origin: Origin, reading: ImportContext, bad: WarnFunction, where: str
    ) -> None:
        self._builder = RoundTripBuilder(origin, reading, _fresh_item)
        self._row, self._bad, self._where = row, bad, where
        self._open_step: Step | None = None
        self._before: tuple[int, ...] = ()

    def read(self) -> ImportedTrajectory:
        row, asked = self._row, self._row["responses_create_params"]
        response = row.get("response") if isinstance(row.get("response"), dict) else {}
        assert isinstance(response, dict)
        instructions = text_or_none(asked.get("instructions"))
        if instructions:
            self._builder.add_step("environment", instructions, extra={"role": "system"})
        if isinstance(asked.get("input"), str):
            self._builder.add_step("user", asked["input"])
        self._items(asked.get("input"), "input")
        self._items(response.get("output"), "output")
        fields = {**row, "responses_create_params": _without(asked, "input")}
        self._builder.fields = {"row": fields | ({"response": _without(response, "output")} if response else {})}
        self._judge()
        return self._finish(response)

    def _items(self, items: Any, list_name: str) -> None:
        for position, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                self._item(item, list_name)
            else:
                self._bad(f"{self._where}.{list_name}[{position}]", f"expected an item, found {type(item).__name__}")
        self._open_step = None

    def _item(self, item: dict[str, Any], list_name: str) -> None:
        kind, role = item.get("type", "message"), str(item.get("role", "assistant"))
        if kind == "function_call_output":
            self._open_step = None
            seen = Observation(_text(item.get("output")), text_or_none(item.get("call_id")))
            self._builder.add_answer(seen, item, list_name)
        elif kind == "message" and role != "assistant":
            self._open_step = None
            extra = {} if role == "user" else {"role": role}
            step = self._builder.add_step(actor_of(role), _text(item.get("content")), extra=extra)
            self._builder.keep_item(item, "message", step, list_name)
        elif kind in ("message", "reasoning", "function_call"):
            self._turn(item, kind, list_name)
        else:
            self._builder.keep_item(item, "other", None, list_name)

    def _turn(self, item: dict[str, Any], kind: str, list_name: str) -> None:
        """Adds an item to the model's turn, in the order reasoning, message, calls; else begins a new turn."""
        step = self._open_step
        full = step is not None and (step.message is not None or bool(step.tool_calls))
        if step is None or (kind == "reasoning" and full) or (kind == "message" and full):
            quoted = list_name == "input"
            step = self._builder.add_step(
                "environment" if quoted else "agent", None, extra={"role": "assistant"} if quoted else {}
            )
        part = kind
        if kind == "reasoning":
            said = [_text(item.get("summary")), _text(item.get("content"))]
            before = [step.reasoning] if step.reasoning else []
            step = self._builder.change_step(step, reasoning="\n".join([*before, *(t for t in said if t)]) or None)
            part = "other"
        elif kind == "message":
            step = self._builder.change_step(step, message=_text(item.get("content")))
        else:
            id_ = text_or_none(item.get("call_id")) or text_or_none(item.get("id")) or ""
            made = tool_call(id_, str(item.get("name") or ""), item.get("arguments"))
            part = f"call {len(step.tool_calls)}"
            step = self._builder.add_calls(step, made)
        if list_name == "output":
            step, item = self._tokens(step, item)
        self._open_step = step
        self._builder.keep_item(item, part, step, list_name)

    def _tokens(self, step: Step, item: dict[str, Any]) -> tuple[Step, dict[str, Any]]:
        """Moves an item's tokens to a call, which the item then names."""
        prompt, sampled, logprobs = (item.get(name) for name in _TOKENS)
        fit = isinstance(prompt, list) and isinstance(sampled, list) and _ids(prompt) and _ids(sampled)
        given = isinstance(logprobs, list) and isinstance(sampled, list) and len(logprobs) == len(sampled)
        given = given and all(map(_is_number, logprobs or ()))
        if not fit or step.call is not None or not (given or logprobs is None):
            return step, item
        whole, completion = tuple[int, ...](prompt or ()), tuple[int, ...](sampled or ())
        shared = len(self._before) if self._before and whole[: len(self._before)] == self._before else 0
        last = self._builder.calls[-1].id if self._builder.calls and shared else None
        call = ModelCall(
            id=f"c{len(self._builder.calls)}",
            dialect="responses",
            model=str((self._row.get("response") or {}).get("model") or ""),
            request={},
            response=None,
            usage=Usage(len(whole), len(completion)),
            prompt_token_ids=whole[shared:],
            completion_token_ids=completion,
            logprobs=tuple(map(float, logprobs)) if logprobs is not None else None,
            parent=last,
            shared_tokens=shared,
        )
        self._before = whole + completion
        self._builder.add_call(call)
        kept = {key: value for key, value in item.items() if key not in _TOKENS}
        return self._builder.change_step(step, call=call.id), {**kept, _CALL: call.id}

    def _judge(self) -> None:
        self._builder.place = self._where
        reward = self._builder.read_reward(self._row.get("reward"))
        if reward is None:
            self._builder.add_verdict("unknown", None, "no reward was recorded by NeMo Gym")
            return
        fact = self._builder.add_evidence("reward", {"values": {"reward": reward}})
        status: VerdictStatus = "pass" if reward >= 1 else "fail"
        self._builder.add_verdict(status, reward, "the reward as recorded by NeMo Gym", (fact,), {"reward": reward})

    def _finish(self, response: dict[str, Any]) -> ImportedTrajectory:
        row = self._row
        task, rollout = row.get("_ng_task_index"), count_or_none(row.get("_ng_rollout_index"))
        agent = row.get("agent_ref")
        name = agent.get("name") if isinstance(agent, dict) else None
        error, cut = response.get("error"), response.get("incomplete_details")
        reason = cut.get("reason") if isinstance(cut, dict) else None
        usage = response.get("usage")
        counted = usage if isinstance(usage, dict) else {}
        metrics: dict[str, float] = {}
        for metric, keys in _USAGE.items():
            known = [n for key in keys if (n := number(counted.get(key))) is not None]
            metrics |= {metric: known[0]} if known else {}
        ended = AttemptEnded(
            ended=text_or_none(response.get("status")) if not error and not reason else None,
            stopped="tokens" if reason == "max_output_tokens" else text_or_none(reason),
            broke="provider" if error else None,
            error=_text(error)[:4000] or None if error else None,
            metrics=metrics,
        )
        return self._builder.finish(
            f"{self._where}: task {task} rollout {rollout}",
            ended=ended,
            agent=str(name or "unknown"),
            model=text_or_none(response.get("model")) or None,
            number=rollout or 0,
            at=parse_time(response.get("created_at")) or None,
            **({"task": str(task)} if task is not None else {}),
        )


def _without(container: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns an object without a list that became turns, with None in its place."""
    return {k: v for k, v in container.items() if k != name or not isinstance(v, list)} | (
        {name: None} if isinstance(container.get(name), list) else {}
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ids(value: list[Any]) -> bool:
    return all(type(n) is int and 0 <= n < 1 << 31 for n in value)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [p.get("text", p.get("refusal")) for p in content if isinstance(p, dict)]
        return "\n".join(str(p) for p in parts if isinstance(p, str))
    return "" if content is None else msgspec.json.encode(content).decode()


def _fresh_item(step: Step, part: str, _call: ModelCall | None = None) -> dict[str, Any]:
    kind, _, position = part.partition(" ")
    if kind == "result":
        seen = step.observations[int(position)]
        return {"type": "function_call_output", "call_id": seen.call_id or "", "output": seen.content}
    if kind == "call":
        call = step.tool_calls[int(position)]
        return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
    if kind == "reasoning":
        summary = [{"type": "summary_text", "text": step.reasoning or ""}]
        return {"type": "reasoning", "id": f"rs_{step.index}", "summary": summary}
    if step.actor in ("agent", "other_agent"):
        said = [{"type": "output_text", "text": step.message or "", "annotations": []}]
        return {
            "type": "message",
            "id": f"msg_{step.index}",
            "role": "assistant",
            "status": "completed",
            "content": said,
        }
    role = step.extra.get("role") if step.actor != "user" else "user"
    known = isinstance(role, str) and role in ("user", "system", "developer")
    return {"type": "message", "role": role if known else "system", "content": step.message or ""}


def _plan(step: Step) -> Iterator[str]:
    agent = step.actor in ("agent", "other_agent")
    if agent and step.reasoning is not None:
        yield "reasoning"
    if step.message is not None or (agent and not step.tool_calls and step.reasoning is None):
        yield "message"
    if agent:
        yield from (f"call {n}" for n in range(len(step.tool_calls)))
    yield from (f"result {n}" for n in range(len(step.observations)))


def _restore_row(trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
    """Restores a rollout."""
    prompts = prompt_tokens(trajectory)
    calls = {call.id: call for call in trajectory.calls}
    row = dict(source_fields(trajectory).get("row", {}))
    for name, list_name in (("responses_create_params", "input"), ("response", "output")):
        container = row.get(name)
        if isinstance(container, dict) and list_name in container and container[list_name] is None:
            items = restore_items(trajectory, _fresh_item, _plan, writing, own=True, list_name=list_name)
            row[name] = {**container, list_name: [_with_tokens(item, calls, prompts) for item in items]}
    return row


def _with_tokens(item: Any, calls: dict[str, ModelCall], prompts: dict[str, tuple[int, ...]]) -> Any:
    call = calls.get(str(item.get(_CALL))) if isinstance(item, dict) else None
    if call is None:
        return item
    whole = {"prompt_token_ids": prompts.get(call.id, ()), "generation_token_ids": call.completion_token_ids or ()}
    whole |= {"generation_log_probs": call.logprobs} if call.logprobs is not None else {}  # type: ignore[dict-item]
    return {key: value for key, value in item.items() if key != _CALL} | whole


def _fresh_items(trajectory: Trajectory, steps: tuple[Step, ...], writing: ExportContext) -> Iterator[dict[str, Any]]:
    """Yields the items of turns; the last model item of a turn has the tokens of its call."""
    prompts, calls = prompt_tokens(trajectory), {call.id: call for call in trajectory.calls}
    for step in steps:
        one = msgspec.structs.replace(trajectory, steps=(step,))
        items = list(restore_items(one, _fresh_item, _plan, writing, own=False))
        given = [n for n, item in enumerate(items) if item["type"] in ("message", "function_call")]
        call = calls.get(step.call or "")
        if call is not None and given and call.id in prompts and call.completion_token_ids:
            items[given[-1]] = _with_tokens({**items[given[-1]], _CALL: call.id}, calls, prompts)
        yield from items


def _render_row(trajectory: Trajectory, writing: ExportContext) -> dict[str, Any]:
    """Renders a rollout of another source."""
    first = next(
        (n for n, s in enumerate(trajectory.steps) if s.actor in ("agent", "other_agent")), len(trajectory.steps)
    )
    sides = (trajectory.steps[:first], trajectory.steps[first:])
    asked, gave = (list(_fresh_items(trajectory, side, writing)) for side in sides)
    reward = next(iter(named_rewards(trajectory).values()), None)
    response = {"id": trajectory.chain, "model": trajectory.model or "", "object": "response", "output": gave}
    row: dict[str, Any] = {"responses_create_params": {"input": asked}, "response": response}
    row |= {"reward": reward} if reward is not None else {}
    row |= {"_ng_task_index": trajectory.task, "_ng_rollout_index": trajectory.number}
    return row | {"agent_ref": {"type": "responses_api_agents", "name": trajectory.agent}}
