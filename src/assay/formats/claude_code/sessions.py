"""Converts lines of a Claude Code session to steps, and steps to lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from assay.formats.interface import ImportedTrajectory
from assay.formats.shared.builder import tool_call
from assay.formats.shared.content_parts import read_parts
from assay.formats.shared.json_stream import parse_time
from assay.formats.shared.messages import content_text, iso_time
from assay.formats.shared.round_trip_builder import (
    MOST,
    RoundTripBuilder,
    count_or_none,
    number,
    text_or_empty,
    text_or_none,
)
from assay.records import Actor, AttemptEnded, ModelCall, Observation, Step, ToolCall, Usage

_EXIT = re.compile(r"(?:<[a-z_]+>)?(?:Error: )?Exit code (-?[0-9]{1,9})(?:\n|$)")
_BROKEN = "__unparsedToolInput"
"""The key of arguments that are not valid JSON."""
_TEXTS = {"text": "text", "thinking": "thinking"}
_STOPPED = {"error_max_turns": "turns", "error_max_budget_usd": "cost_usd"}
"""Limits by the result's subtype."""


class MainBranch(NamedTuple):
    """The lines that lead to the end of the session."""

    line_ids: frozenset[str]
    """Ids of these lines and of their messages."""
    is_side_chain: bool


def find_main_branch(lines: Iterable[Any]) -> MainBranch:
    """Follows the last line to the root; lines that name no parents (`claude -p`) are no tree, and all stay."""
    parents: dict[str, str | None] = {}
    names: dict[str, tuple[str, ...]] = {}
    last, is_side_chain, is_tree = None, [], False
    for line in lines:
        if not isinstance(line, dict) or not isinstance(uuid := line.get("uuid"), str):
            continue
        is_tree = is_tree or "parentUuid" in line
        parent = line.get("parentUuid") or line.get("logicalParentUuid")
        parents[uuid] = parent if isinstance(parent, str) else None
        message = line.get("message")
        said = message.get("id") if isinstance(message, dict) else None
        names[uuid] = (uuid, *([said] if isinstance(said, str) else []))
        if text_or_empty(line.get("type")) in {"user", "assistant"}:
            is_side_chain.append(line.get("isSidechain") is True)
            last = last if line.get("isSidechain") is True and not all(is_side_chain) else uuid
    line_ids: set[str] = set()
    while is_tree and last is not None and last in names and last not in line_ids:
        line_ids.update(names[last])
        last = parents[last]
    return MainBranch(frozenset(line_ids), bool(is_side_chain) and all(is_side_chain))


class SessionReader:
    """Reads the lines of a session."""

    def __init__(self, builder: RoundTripBuilder, tree: MainBranch) -> None:
        self._builder, self._tree = builder, tree
        self._answer_steps: dict[str, int] = {}
        """Step of each answer of the model."""
        self._calls: dict[str, int] = {}
        """Model call of each answer."""
        self._session_fields: dict[str, Any] = {}
        self._sessions: set[str] = set()
        self._model: str | None = None
        self._first: float | None = None
        self._last: float | None = None
        self._cost: float | None = None
        self._stop: str | None = None
        self._result_line: dict[str, Any] = {}
        """The last message of `claude -p`."""

    def line(self, line: dict[str, Any]) -> None:
        at = parse_time(line.get("timestamp"))
        self._first = at if self._first is None else self._first
        self._last = at if at is not None else self._last
        for key in ("sessionId", "session_id", "version", "claude_code_version", "cwd", "gitBranch", "agentId"):
            if isinstance(value := line.get(key), str):
                self._session_fields.setdefault("sessionId" if key == "session_id" else key, value)
        self._remark_on_session(line.get("sessionId"))
        message, kind = line.get("message"), line.get("type")
        if kind == "assistant" and isinstance(message, dict):
            self._answer(line, message, at)
        elif kind == "user" and isinstance(message, dict):
            self._user_line(line, message, at)
        else:
            self._other_line(line, text_or_empty(kind))
            self._builder.keep_item(line)

    def _remark_on_session(self, name: Any) -> None:
        """Tells once of each further session whose lines the file holds, as a resumed or a joined one does."""
        if isinstance(name, str) and name not in self._sessions:
            self._sessions.add(name)
            if len(self._sessions) > 1:
                self._builder.remark(
                    f"session {name[:60]}", "begins within another session: it is read as part of that"
                )

    def _other_line(self, line: dict[str, Any], kind: str) -> None:
        """Reads the facts of a line other than a turn: the start, the cost, the result."""
        if kind == "cost-state":
            self._cost = number(line.get("totalCostUSD"))
        elif kind == "system" and line.get("subtype") == "init":
            self._model = text_or_none(line.get("model")) or self._model
            self._session_fields |= {key: line[key] for key in ("tools", "permissionMode") if key in line}
        elif kind == "result":
            self._result_line = line
            self._cost = number(line.get("total_cost_usd"))
            if not self._builder.steps and isinstance(line.get("result"), str):  # --output-format json: nothing else
                self._builder.add_step("agent", line["result"])

    def _answer(self, line: dict[str, Any], message: dict[str, Any], at: float | None) -> None:
        """Reads a part of an answer of the model."""
        self._model = text_or_none(message.get("model")) or self._model
        self._stop = text_or_none(message.get("stop_reason")) or self._stop
        name = text_or_none(message.get("id"))
        index = self._answer_steps.get(name) if name is not None else None
        step = self._builder.steps[index] if index is not None else None
        blocks = message.get("content")
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        parts: list[str] = []
        for block in blocks if isinstance(blocks, list) else ():
            if step is None or self._builder.is_full(step) or len(parts) % MOST == MOST - 1:
                step = self._new_step(line, at)
            step, part = self._block(step, block)
            parts.append(part)
        step = step if step is not None else self._new_step(line, at)
        step = self._usage(step, name, message)
        if name is not None:
            self._answer_steps[name] = step.index
        self._builder.keep_item(line, parts[0] if len(parts) == 1 else "other", step)

    def _new_step(self, line: dict[str, Any], at: float | None) -> Step:
        actor: Actor = "other_agent" if self._aside(line) else "agent"
        return self._builder.add_step(actor, started=at, extra=self._branch(line))

    def _block(self, step: Step, block: Any) -> tuple[Step, str]:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            arguments = block.get("input")
            if isinstance(arguments, dict) and isinstance(broken := arguments.get(_BROKEN), dict):
                arguments = text_or_none(broken.get("raw")) or arguments
            call = tool_call(text_or_none(block.get("id")) or "", text_or_none(block.get("name")) or "", arguments)
            return self._builder.extend_step(step, tool_calls=(*step.tool_calls, call)), f"call {len(step.tool_calls)}"
        text = text_or_none(block.get(_TEXTS.get(str(kind), ""))) if isinstance(block, dict) else None
        if text is None:
            for unknown in read_parts([block]).unknown:
                self._builder.remark(f"step {step.index}", f"a block of kind {unknown[:50]!r} is kept and not read")
            return step, "other"
        if kind == "thinking":
            joined = text if step.reasoning is None else f"{step.reasoning}\n\n{text}"
            return self._builder.extend_step(step, reasoning=joined), "reasoning" if joined == text else "other"
        joined = text if step.message is None else f"{step.message}\n\n{text}"
        return self._builder.extend_step(step, message=joined), "message" if joined == text else "other"

    def _usage(self, step: Step, name: str | None, message: dict[str, Any]) -> Step:
        """Adds the usage of an answer: each of its lines repeats it, the last one is complete."""
        usage = message.get("usage")
        if not isinstance(usage, dict) or name is None:
            return step
        cached = count_or_none(usage.get("cache_read_input_tokens"))
        written = count_or_none(usage.get("cache_creation_input_tokens"))
        fresh_tokens = count_or_none(usage.get("input_tokens"))
        prompt = None if fresh_tokens is None else fresh_tokens + (cached or 0) + (written or 0)
        told = Usage(prompt, count_or_none(usage.get("output_tokens")), cached)
        made = ModelCall(name, "anthropic-messages", self._model or "unknown", {}, {}, usage=told)
        if name in self._calls:
            self._builder.calls[self._calls[name]] = made
            return step
        self._calls[name] = len(self._builder.calls)
        return self._builder.change_step(step, call=self._builder.add_call(made))

    def _user_line(self, line: dict[str, Any], message: dict[str, Any], at: float | None) -> None:
        """Reads tool results or a message to the model."""
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        results = [b for b in blocks if isinstance(b, dict) and b.get("type") == "tool_result"]
        answered = [self._result(line, block, at) for block in results]
        rest = [b for b in blocks if not (isinstance(b, dict) and b.get("type") == "tool_result")]
        if answered and not rest:
            step, part = answered[-1]
            self._builder.keep_item(line, part if len(answered) == 1 else "other", step)
            return
        text = content_text(rest if answered else content)
        made = self._builder.add_step(self._user_actor(line, text), text, started=at, extra=self._branch(line))
        self._builder.keep_item(line, "other" if answered else "message", made)

    def _user_actor(self, line: dict[str, Any], text: str | None) -> Actor:
        if self._aside(line):
            return "other_agent"
        told = line.get("isMeta") is True or line.get("isCompactSummary") is True
        return "environment" if told or (text or "").startswith("<local-command-") else "user"

    def _result(self, line: dict[str, Any], block: dict[str, Any], at: float | None) -> tuple[Step, str]:
        text = content_text(block.get("content")) or ""
        error = block.get("is_error") is True
        code = _EXIT.match(text) if error else None
        known = line.get("toolUseResult", line.get("tool_use_result"))
        known = known if isinstance(known, dict) else {}
        obs = Observation(
            text,
            text_or_none(block.get("tool_use_id")),
            exit_code=int(code[1]) if code else None,
            error=error,
            stderr=text_or_none(known.get("stderr")) or "",
            timed_out=known.get("interrupted") is True,
        )
        step = self._builder.add_result(obs, started=at)
        return step, f"result {len(step.observations) - 1}"

    def _aside(self, line: dict[str, Any]) -> bool:
        side_chain = line.get("isSidechain") is True and not self._tree.is_side_chain
        return side_chain or isinstance(line.get("parent_tool_use_id"), str)

    def _branch(self, line: dict[str, Any]) -> dict[str, Any]:
        if self._aside(line):
            return {"branch": "side chain"}
        message = line.get("message")
        names = line.get("uuid"), message.get("id") if isinstance(message, dict) else None
        known = {name for name in names if isinstance(name, str)}
        return {} if not known or not self._tree.line_ids or known & self._tree.line_ids else {"branch": "left"}

    def finish(self, name: str) -> ImportedTrajectory:
        self._builder.fields = {"session": self._session_fields} if self._session_fields else {}
        session = self._session_fields.get("agentId") or self._session_fields.get("sessionId") or name
        unnamed = bool(self._result_line) and not any(step.actor == "user" for step in self._builder.steps)
        if unnamed:
            self._builder.remark("", "the messages do not hold the prompt: the session's id names the task")
        return self._builder.finish(
            f"session {session}",
            ended=self._end(),
            task=f"session-{session}" if unnamed else None,
            agent="claude-code",
            model=self._model,
            at=self._first,
        )

    def _end(self) -> AttemptEnded:
        """Returns the end as the result says, else as the last answer does."""
        ended = {"end_turn": "the model ended its turn", "stop_sequence": "the model ended its turn"}
        last = self._result_line
        millis = number(last.get("duration_ms"))
        counts = {"cost_usd": self._cost, "wall_s": None if millis is None else millis / 1000}
        counts["turns"] = number(last.get("num_turns"))
        metrics = {name: value for name, value in counts.items() if value is not None}
        kind = text_or_empty(last.get("subtype"))
        if kind.startswith("error") or last.get("is_error") is True:
            errors = last.get("errors") if isinstance(last.get("errors"), list) else []
            said = [text for text in (last.get("result"), *(errors or ())) if isinstance(text, str)]
            error = "; ".join(said)[:4000] or kind
            stopped = _STOPPED.get(kind)
            return AttemptEnded(None, stopped, None if stopped else "agent", error, metrics, at=self._last)
        stop = text_or_none(last.get("stop_reason")) or self._stop or ("end_turn" if kind == "success" else "")
        return AttemptEnded(ended=ended.get(stop), metrics=metrics, at=self._last)


def plan_lines(step: Step) -> Iterator[str]:
    """Yields the parts that a step is written as."""
    if step.actor not in {"agent", "other_agent"}:
        if step.message is not None or not step.observations:
            yield "message"
    else:
        if step.reasoning is not None:
            yield "reasoning"
        if step.message is not None or not (step.tool_calls or step.reasoning or step.observations):
            yield "message"
        yield from (f"call {i}" for i in range(len(step.tool_calls)))
    yield from (f"result {i}" for i in range(len(step.observations)))


def render_line(step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
    kind, _, position = part.partition(" ")
    line: dict[str, Any] = {"isSidechain": step.actor == "other_agent"}
    if (when := iso_time(step.started)) is not None:
        line["timestamp"] = when
    if kind == "result":
        return {**line, **_result_line(step.observations[int(position)])}
    if kind == "message" and step.actor not in {"agent", "other_agent"}:
        meta = {"isMeta": True} if step.actor == "environment" else {}
        return {**line, **meta, "type": "user", "message": {"role": "user", "content": step.message}}
    message: dict[str, Any] = {"type": "message", "role": "assistant"}
    message["content"] = [_block(step, kind, int(position or 0))]
    message["id"] = call.id if call is not None else f"msg-{step.index}"
    if call is not None:
        counts = call.usage
        prompt = None if counts.prompt_tokens is None else counts.prompt_tokens - (counts.cached_tokens or 0)
        usage = {"input_tokens": prompt, "cache_read_input_tokens": counts.cached_tokens}
        message |= {"model": call.model, "usage": {**usage, "output_tokens": counts.completion_tokens}}
    return {**line, "type": "assistant", "message": message}


def _block(step: Step, kind: str, at: int) -> dict[str, Any]:
    if kind == "call":
        call: ToolCall = step.tool_calls[at]
        given = call.parsed if call.parsed is not None else {_BROKEN: {"raw": call.arguments}}
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}
    if kind == "reasoning":
        return {"type": "thinking", "thinking": step.reasoning}
    return {"type": "text", "text": step.message or ""}


def _result_line(obs: Observation) -> dict[str, Any]:
    block = {
        "tool_use_id": obs.call_id,
        "type": "tool_result",
        "content": obs.content,
        "is_error": obs.error,
    }
    told = {"stderr": obs.stderr, "interrupted": obs.timed_out}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "toolUseResult": told}
