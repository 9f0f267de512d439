"""The message graph of a verifiers trace: the position of each node, and the call of each sampled one."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.formats.shared.json_stream import parse_time
from assay.formats.shared.round_trip_builder import count_or_none, get_path, list_or_empty, number, text_or_none
from assay.records import ModelCall, Usage


def chat_of(message: dict[str, Any]) -> dict[str, Any]:
    """Converts a message's tool calls to Chat Completions."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    made = [
        {"id": c.get("id"), "type": "function", "function": {"name": c.get("name"), "arguments": c.get("arguments")}}
        for c in calls
        if isinstance(c, dict)
    ]
    return {**message, "tool_calls": made}


class _NodePosition(NamedTuple):
    """The position of a node on its path."""

    parent: int | None
    depth: int
    """Messages on the path, this one included."""
    tokens: int
    """Tokens on the path, this node's included."""
    call: int | None
    """The nearest sampled node on the path, this one included."""


class MessageGraph:
    """Reads the nodes of a trace."""

    def __init__(self, nodes: list[Any], calls: dict[int, Any], model: str | None) -> None:
        self.model = model
        self._nodes, self._calls = nodes, calls
        self._places: dict[int, _NodePosition] = {}
        self._call_by_node: dict[int, ModelCall] = {}

    def add_node(self, index: int, node: dict[str, Any]) -> ModelCall | None:
        """Adds a node; returns its call if a model wrote it."""
        parent = node.get("parent")
        above = self._places.get(parent) if isinstance(parent, int) else None
        tokens = node.get("token_ids")
        count = len(tokens) if isinstance(tokens, list) else 0
        sampled = node.get("sampled") is True and node["message"].get("role") == "assistant"
        before = above or _NodePosition(None, 0, 0, None)
        nearest = index if sampled else before.call
        self._places[index] = _NodePosition(parent if above else None, before.depth + 1, before.tokens + count, nearest)
        return self._call(index, node, before.call) if sampled else None

    def _call(self, index: int, node: dict[str, Any], above: int | None) -> ModelCall:
        fields = self._calls.get(index, {})
        path = self._path(index, above)
        parent = None if above is None else self._call_by_node[above]
        request: dict[str, Any] = {"messages": [chat_of(self._nodes[n]["message"]) for n in path]}
        tools = self._nodes[path[0]].get("tools") if path and above is None else None
        request |= {"tools": [_tool(t) for t in tools]} if isinstance(tools, list) and tools else {}
        choice = {"index": 0, "message": chat_of(node["message"]), "finish_reason": fields.get("finish_reason")}
        asked = count_or_none(get_path(fields, "usage", "prompt_tokens"))
        cached = count_or_none(get_path(fields, "usage", "cached_input_tokens"))
        call = ModelCall(
            id=f"n{index}",
            dialect=text_or_none(fields.get("endpoint")) or "unknown",
            model=text_or_none(fields.get("model")) or self.model or "",
            request=request,
            response={"choices": [choice]},
            usage=Usage(
                None if asked is None else asked + (cached or 0),
                count_or_none(get_path(fields, "usage", "completion_tokens")),
                cached,
                count_or_none(get_path(fields, "usage", "reasoning_tokens")),
            ),
            cost_usd=number(get_path(fields, "usage", "cost")),
            sampling=fields["sampling"] if isinstance(fields.get("sampling"), dict) else {},
            parent=None if parent is None else parent.id,
            started=parse_time(get_path(fields, "time", "start")),
            ended=parse_time(get_path(fields, "time", "end")),
            shared_messages=0 if above is None else self._places[above].depth,
            shared_fields=("tools",)
            if parent is not None and ("tools" in parent.request or parent.shared_fields)
            else (),
            **self._tokens(node, path, parent, above),
        )
        self._call_by_node[index] = call
        return call

    def _path(self, index: int, above: int | None) -> list[int]:
        """Returns the nodes between a call and the one above it, in order."""
        found: list[int] = []
        at = self._places[index].parent
        while at is not None and at != above:
            found.append(at)
            at = self._places[at].parent
        return found[::-1]

    def _tokens(
        self, node: dict[str, Any], path: list[int], parent: ModelCall | None, above: int | None
    ) -> dict[str, Any]:
        """Returns the token fields of a call; empty where the path's are unknown, or the sampled ones are not the
        node's tail."""
        own, mask = list_or_empty(node.get("token_ids")), list_or_empty(node.get("mask"))
        known = parent is None or parent.prompt_token_ids is not None
        sampled = sum(map(bool, mask))
        if not own or not known or not sampled or len(mask) != len(own) or not all(mask[-sampled:]):
            return {}
        before = [t for n in path for t in list_or_empty(self._nodes[n].get("token_ids"))]
        if not all(isinstance(t, int) and not isinstance(t, bool) and 0 <= t < 1 << 31 for t in (*before, *own)):
            return {}
        logprobs = node.get("logprobs")
        given = isinstance(logprobs, list) and len(logprobs) == sampled and all(number(p) is not None for p in logprobs)
        return {
            "prompt_token_ids": (*before, *own[:-sampled]),
            "completion_token_ids": tuple(own[-sampled:]),
            "logprobs": tuple(map(float, logprobs)) if given and isinstance(logprobs, list) else None,
            "shared_tokens": 0 if above is None else self._places[above].tokens,
        }


def _tool(tool: Any) -> dict[str, Any]:
    held = tool if isinstance(tool, dict) else {}
    return {"type": "function", "function": {k: v for k, v in held.items() if k != "type"}}
