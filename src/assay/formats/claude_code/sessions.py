"""How lines of a Claude Code session become steps, and steps become lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from assay.formats.interface import Imported
from assay.formats.shared.building import tool_call
from assay.formats.shared.messages import content_text, iso_time
from assay.formats.shared.mirrored import MOST, Mirrored, number, text_or_none, whole_number, word
from assay.formats.shared.reading import seconds
from assay.records import Actor, AttemptEnded, ModelCall, Observation, Step, ToolCall, Usage

__all__ = ["Session", "Tree", "fresh", "plan", "tree_of"]

_EXIT = re.compile(r"(?:<[a-z_]+>)?(?:Error: )?Exit code (-?[0-9]{1,9})(?:\n|$)")
_BROKEN = "__unparsedToolInput"
"""Under this it keeps arguments that are no JSON."""
_TEXTS = {"text": "text", "thinking": "thinking"}


class Tree(NamedTuple):
    """Which lines lead to the end of the session, and whether all of it is a side chain's."""

    kept: frozenset[str]
    """Ids of lines, of their messages and of their prompts."""
    aside: bool


def tree_of(lines: Iterable[Any]) -> Tree:
    """Follows the last line to the root."""
    parents: dict[str, str | None] = {}
    names: dict[str, tuple[str, ...]] = {}
    last, aside = None, []
    for line in lines:
        if not isinstance(line, dict) or not isinstance(uuid := line.get("uuid"), str):
            continue
        parent = line.get("parentUuid") or line.get("logicalParentUuid")
        parents[uuid] = parent if isinstance(parent, str) else None
        message = line.get("message")
        said = message.get("id") if isinstance(message, dict) else None
        names[uuid] = (uuid, *([said] if isinstance(said, str) else []))
        if word(line.get("type")) in {"user", "assistant"}:
            aside.append(line.get("isSidechain") is True)
            last = last if line.get("isSidechain") is True and not all(aside) else uuid
    kept: set[str] = set()
    while last is not None and last in names and last not in kept:
        kept.update(names[last])
        last = parents[last]
    return Tree(frozenset(kept), bool(aside) and all(aside))


class Session:
    """A session while its lines are read."""

    def __init__(self, built: Mirrored, tree: Tree) -> None:
        self._built, self._tree = built, tree
        self._said: dict[str, int] = {}
        """Of each of the model's answers, its step."""
        self._calls: dict[str, int] = {}
        """And its model call."""
        self._known: dict[str, Any] = {}
        self._model: str | None = None
        self._first: float | None = None
        self._last: float | None = None
        self._cost: float | None = None
        self._stop: str | None = None

    def line(self, line: dict[str, Any]) -> None:
        """Reads one."""
        at = seconds(line.get("timestamp"))
        self._first = at if self._first is None else self._first
        self._last = at if at is not None else self._last
        for key in ("sessionId", "version", "cwd", "gitBranch", "agentId"):
            if isinstance(value := line.get(key), str):
                self._known.setdefault(key, value)
        message, kind = line.get("message"), line.get("type")
        if kind == "assistant" and isinstance(message, dict):
            self._answer(line, message, at)
        elif kind == "user" and isinstance(message, dict):
            self._told(line, message, at)
        else:
            if kind == "cost-state":
                self._cost = number(line.get("totalCostUSD"))
            self._built.item(line)

    def _answer(self, line: dict[str, Any], message: dict[str, Any], at: float | None) -> None:
        """A part of one of the model's answers."""
        self._model = text_or_none(message.get("model")) or self._model
        self._stop = text_or_none(message.get("stop_reason")) or self._stop
        name = text_or_none(message.get("id"))
        index = self._said.get(name) if name is not None else None
        step = self._built.steps[index] if index is not None else None
        blocks = message.get("content")
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        parts: list[str] = []
        for block in blocks if isinstance(blocks, list) else ():
            if step is None or self._built.full(step) or len(parts) % MOST == MOST - 1:
                step = self._begun(line, at)
            step, part = self._block(step, block)
            parts.append(part)
        step = step if step is not None else self._begun(line, at)
        step = self._usage(step, name, message)
        if name is not None:
            self._said[name] = step.index
        self._built.item(line, parts[0] if len(parts) == 1 else "other", step)

    def _begun(self, line: dict[str, Any], at: float | None) -> Step:
        actor: Actor = "other_agent" if self._aside(line) else "agent"
        return self._built.step(actor, started=at, extra=self._branch(line))

    def _block(self, step: Step, block: Any) -> tuple[Step, str]:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            arguments = block.get("input")
            if isinstance(arguments, dict) and isinstance(broken := arguments.get(_BROKEN), dict):
                arguments = text_or_none(broken.get("raw")) or arguments
            call = tool_call(text_or_none(block.get("id")) or "", text_or_none(block.get("name")) or "", arguments)
            return self._built.grow(step, tool_calls=(*step.tool_calls, call)), f"call {len(step.tool_calls)}"
        text = text_or_none(block.get(_TEXTS.get(str(kind), ""))) if isinstance(block, dict) else None
        if text is None:
            return step, "other"
        if kind == "thinking":
            joined = text if step.reasoning is None else f"{step.reasoning}\n\n{text}"
            return self._built.grow(step, reasoning=joined), "reasoning" if joined == text else "other"
        joined = text if step.message is None else f"{step.message}\n\n{text}"
        return self._built.grow(step, message=joined), "message" if joined == text else "other"

    def _usage(self, step: Step, name: str | None, message: dict[str, Any]) -> Step:
        """Each line of an answer repeats its usage; the last one is the whole."""
        usage = message.get("usage")
        if not isinstance(usage, dict) or name is None:
            return step
        cached = whole_number(usage.get("cache_read_input_tokens"))
        written = whole_number(usage.get("cache_creation_input_tokens"))
        fresh_tokens = whole_number(usage.get("input_tokens"))
        prompt = None if fresh_tokens is None else fresh_tokens + (cached or 0) + (written or 0)
        told = Usage(prompt, whole_number(usage.get("output_tokens")), cached)
        made = ModelCall(name, "anthropic-messages", self._model or "unknown", {}, {}, usage=told)
        if name in self._calls:
            self._built.calls[self._calls[name]] = made
            return step
        self._calls[name] = len(self._built.calls)
        return self._built.change(step, call=self._built.call(made))

    def _told(self, line: dict[str, Any], message: dict[str, Any], at: float | None) -> None:
        """What was said to the model: results of tools, or a message."""
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        results = [b for b in blocks if isinstance(b, dict) and b.get("type") == "tool_result"]
        answered = [self._result(line, block, at) for block in results]
        rest = [b for b in blocks if not (isinstance(b, dict) and b.get("type") == "tool_result")]
        if answered and not rest:
            step, part = answered[-1]
            self._built.item(line, part if len(answered) == 1 else "other", step)
            return
        text = content_text(rest if answered else content)
        made = self._built.step(self._teller(line, text), text, started=at, extra=self._branch(line))
        self._built.item(line, "other" if answered else "message", made)

    def _teller(self, line: dict[str, Any], text: str | None) -> Actor:
        if self._aside(line):
            return "other_agent"
        told = line.get("isMeta") is True or line.get("isCompactSummary") is True
        return "environment" if told or (text or "").startswith("<local-command-") else "user"

    def _result(self, line: dict[str, Any], block: dict[str, Any], at: float | None) -> tuple[Step, str]:
        text = content_text(block.get("content")) or ""
        error = block.get("is_error") is True
        code = _EXIT.match(text) if error else None
        known = line.get("toolUseResult")
        known = known if isinstance(known, dict) else {}
        seen = Observation(
            text,
            text_or_none(block.get("tool_use_id")),
            exit_code=int(code[1]) if code else None,
            error=error,
            stderr=text_or_none(known.get("stderr")) or "",
            timed_out=known.get("interrupted") is True,
        )
        step = self._built.result(seen, started=at)
        return step, f"result {len(step.observations) - 1}"

    def _aside(self, line: dict[str, Any]) -> bool:
        return line.get("isSidechain") is True and not self._tree.aside

    def _branch(self, line: dict[str, Any]) -> dict[str, Any]:
        if self._aside(line):
            return {"branch": "side chain"}
        message = line.get("message")
        names = line.get("uuid"), message.get("id") if isinstance(message, dict) else None
        known = {name for name in names if isinstance(name, str)}
        return {} if not known or not self._tree.kept or known & self._tree.kept else {"branch": "left"}

    def finished(self, name: str) -> Imported:
        """The trajectory."""
        self._built.fields = {"session": self._known} if self._known else {}
        ended = {"end_turn": "the model ended its turn", "stop_sequence": "the model ended its turn"}
        metrics = {} if self._cost is None else {"cost_usd": self._cost}
        return self._built.done(
            f"session {self._known.get('agentId') or self._known.get('sessionId') or name}",
            ended=AttemptEnded(ended=ended.get(self._stop or ""), metrics=metrics, at=self._last),
            agent="claude-code",
            model=self._model,
            at=self._first,
        )


def plan(step: Step) -> Iterator[str]:
    """The lines that a step of ours is written as."""
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


def fresh(step: Step, part: str, call: ModelCall | None) -> dict[str, Any]:
    """A line of a step."""
    kind, _, position = part.partition(" ")
    made: dict[str, Any] = {"isSidechain": step.actor == "other_agent"}
    if (when := iso_time(step.started)) is not None:
        made["timestamp"] = when
    if kind == "result":
        return {**made, **_result_line(step.observations[int(position)])}
    if kind == "message" and step.actor not in {"agent", "other_agent"}:
        meta = {"isMeta": True} if step.actor == "environment" else {}
        return {**made, **meta, "type": "user", "message": {"role": "user", "content": step.message}}
    message: dict[str, Any] = {"type": "message", "role": "assistant"}
    message["content"] = [_block(step, kind, int(position or 0))]
    message["id"] = call.id if call is not None else f"msg-{step.index}"
    if call is not None:
        counts = call.usage
        prompt = None if counts.prompt_tokens is None else counts.prompt_tokens - (counts.cached_tokens or 0)
        usage = {"input_tokens": prompt, "cache_read_input_tokens": counts.cached_tokens}
        message |= {"model": call.model, "usage": {**usage, "output_tokens": counts.completion_tokens}}
    return {**made, "type": "assistant", "message": message}


def _block(step: Step, kind: str, at: int) -> dict[str, Any]:
    if kind == "call":
        call: ToolCall = step.tool_calls[at]
        given = call.parsed if call.parsed is not None else {_BROKEN: {"raw": call.arguments}}
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}
    if kind == "reasoning":
        return {"type": "thinking", "thinking": step.reasoning}
    return {"type": "text", "text": step.message or ""}


def _result_line(seen: Observation) -> dict[str, Any]:
    block = {"tool_use_id": seen.call_id, "type": "tool_result", "content": seen.content, "is_error": seen.error}
    told = {"stderr": seen.stderr, "interrupted": seen.timed_out}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "toolUseResult": told}
