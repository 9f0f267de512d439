"""Where a call stands among the calls before it: which conversation it goes on with, and where it left it.

Clients resend the whole conversation and rewrite what the model said on the way (arguments re-serialised, reasoning
dropped, content turned from text into parts). So an assistant turn is known again by its tool-call ids, or by its text
where it has none; every other message by what it says. A request that goes on with a known answer is its child; one
that asks again what was asked is its sibling; the rest begins a new branch, with its cause.

Not for tokens: what a client's rewriting means for them is said by the certificate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from assay.records import BranchCause

from .interface import ModelRequest

__all__ = ["Forest", "Node", "Placement", "text_of"]

Message = dict[str, Any]
_WRITTEN_ID = re.compile(r"\bcall_[0-9A-Za-z]{8,64}\b")
"""Ids of tool calls in the text of a client that writes its calls as text (smolagents does)."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """A finished call."""

    id: str
    branch: str
    parent: str | None
    request: ModelRequest
    answer: Message | None
    """The assistant message; None where no answer came."""
    keys: tuple[int, ...]
    """Of each prefix of the request."""
    tools: int
    lineage: Mapping[str, str]


class Placement(msgspec.Struct, frozen=True, gc=False):
    """Where a new call stands."""

    parent: Node | None
    branch: str | None
    """None: the call's own id names a new branch."""
    cause: BranchCause | None
    differs_at: int | None
    """The first message that differs from the conversation left."""
    shared_messages: int
    """How many leading messages are, value for value, those of the parent's request and its answer."""
    keys: tuple[int, ...]
    tools: int
    lineage: Mapping[str, str]


class Forest:
    """The calls of one session. Memory grows with the calls; texts are shared with the requests."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._answers: dict[int, str] = {}
        """Key of a request and its answer, to the call."""
        self._asked: dict[int, str] = {}
        """Key of a request with its tools, to the last call that asked it."""
        self._extended: set[str] = set()
        self._beginnings: dict[int, dict[str, None]] = {}
        """Key of a prefix, to the branches that begin so."""
        self._newest: dict[str, Node] = {}
        """The last call of each branch, the branch that was added to last at the end."""
        self._last: str | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, call_id: str) -> Node:
        """A call that was added."""
        return self._nodes[call_id]

    def place(self, request: ModelRequest, lineage: Mapping[str, str] | None = None) -> Placement:
        """Finds where `request` belongs. Changes nothing."""
        said = dict(lineage or {})
        last = self._nodes.get(self._last or "")
        known = 0 if last is None else _alike(last.request.messages, request.messages)
        keys = _keys(request.messages, last.keys if last is not None and known == len(last.keys) else ())
        same_tools = last is not None and last.request.tools == request.tools
        tools = last.tools if last is not None and same_tools else hash(repr(request.tools))
        again = self._asked.get(hash((keys[-1], tools))) if keys else None
        if again is not None:
            twin = self._nodes[again]
            parent = self._nodes[twin.parent] if twin.parent is not None else None
            shared = _shared(parent, request.messages)
            return Placement(parent, None, "resample", len(request.messages), shared, keys, tools, said)
        parent = self._extends(request.messages, keys)
        if parent is None:
            cause, differs_at = self._why_new(request, keys, said)
            return Placement(None, None, cause, differs_at, 0, keys, tools, said)
        shared = _shared(parent, request.messages, known if parent is last else None)
        if tools != parent.tools:
            return Placement(parent, None, "tools", 0, shared, keys, tools, said)
        if parent.id in self._extended:
            return Placement(parent, None, "rewritten", len(parent.keys) + 1, shared, keys, tools, said)
        return Placement(parent, parent.branch, None, None, shared, keys, tools, said)

    def add(self, call_id: str, placement: Placement, request: ModelRequest, answer: Message | None) -> Node:
        """Adds a call that has ended, with or without an answer."""
        branch = placement.branch or call_id
        parent = placement.parent.id if placement.parent is not None else None
        kept = self._kept(placement, request)
        node = Node(call_id, branch, parent, kept, answer, placement.keys, placement.tools, placement.lineage)
        self._nodes[call_id] = node
        self._index(node)
        if node.keys:
            self._asked[hash((node.keys[-1], node.tools))] = call_id
        if answer is None:
            return node
        before = node.keys[-1] if node.keys else 0
        for key in _echo_keys(answer):
            self._answers[hash((before, key))] = call_id
        if parent is not None and placement.cause is None:
            self._extended.add(parent)
        self._last = call_id
        return node

    def _index(self, node: Node) -> None:
        """Makes a call the last one of its branch, which begins as the call does."""
        last = self._newest.pop(node.branch, None)
        known = last.keys if last is not None and node.keys[: len(last.keys)] == last.keys else ()
        for key in node.keys[len(known) :]:
            self._beginnings.setdefault(key, {})[node.branch] = None
        self._newest[node.branch] = node

    def settle(self, placement: Placement, request: ModelRequest) -> Placement:
        """The placement of a call that has ended, in view of those that ended while it was under way: a client that
        lost its patience asks the same again before it got an answer."""
        if placement.cause not in {None, "root"} or not placement.keys:
            return placement
        if hash((placement.keys[-1], placement.tools)) in self._asked:
            return replace(placement, branch=None, cause="resample", differs_at=len(request.messages))
        if placement.parent is not None and placement.parent.id in self._extended:
            return replace(placement, branch=None, cause="rewritten", differs_at=len(placement.parent.keys) + 1)
        return placement

    def _kept(self, placement: Placement, request: ModelRequest) -> ModelRequest:
        """The request with the very objects of the call that it shares messages with, so that each is held once."""
        again = self._asked.get(hash((placement.keys[-1], placement.tools))) if placement.keys else None
        relative = placement.parent if again is None else self._nodes[again]
        if relative is None:
            return request
        known, shared = relative.request.messages, placement.shared_messages
        if again is not None:
            shared = _alike(known, request.messages)
        elif shared > len(known) and relative.answer is not None:
            known = [*known, relative.answer]
        messages = known[:shared] + request.messages[shared:]
        tools = relative.request.tools if relative.request.tools == request.tools else request.tools
        return replace(request, messages=messages, tools=tools)

    def _extends(self, messages: Sequence[Message], keys: tuple[int, ...]) -> Node | None:
        """The call whose request and answer are the longest known beginning of these messages."""
        for position in range(len(messages) - 1, -1, -1):
            if messages[position].get("role") != "assistant":
                continue
            before = keys[position - 1] if position else 0
            for key in _echo_keys(messages[position]):
                found = self._answers.get(hash((before, key)))
                if found is not None:
                    return self._nodes[found]
        return None

    def _why_new(
        self, request: ModelRequest, keys: tuple[int, ...], lineage: Mapping[str, str]
    ) -> tuple[BranchCause, int | None]:
        """Why a request goes on with nothing, judged against the conversation it shares most with."""
        if self._last is None:
            return "root", None
        common = len(keys)
        while common and keys[common - 1] not in self._beginnings:
            common -= 1
        alike = self._beginnings[keys[common - 1]] if common else self._newest
        best = self._newest[next(branch for branch in reversed(self._newest) if branch in alike)]
        own, others = _system(request.messages), _system(best.request.messages)
        told_apart = any(
            lineage.get(key) != best.lineage.get(key) for key in ("agent", "thread", "parent") if key in lineage
        )
        if told_apart:
            return "sub_agent", common
        if own != others:
            return "sub_agent", common
        if common > len(_leading_system(request.messages)):
            shorter = len(request.messages) < len(best.request.messages)
            return ("compaction" if shorter else "rewritten"), common
        return "compaction" if len(request.messages) <= len(best.request.messages) else "unjoined", common


def text_of(content: Any) -> str:
    """The text of a content: itself, or its text parts one after the other; of other parts, their form."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else repr(part) for part in content
    )


def _alike(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many leading messages are the same, value for value."""
    if one == other[: len(one)]:
        return len(one)
    return next(n for n, message in enumerate(one) if n >= len(other) or message != other[n])


def _keys(messages: Sequence[Message], known: tuple[int, ...] = ()) -> tuple[int, ...]:
    """One number for each prefix; those of the first messages may be known."""
    found = list(known)
    key = known[-1] if known else 0
    for message in messages[len(known) :]:
        key = hash((key, _echo_keys(message)[0] if message.get("role") == "assistant" else _plain_key(message)))
        found.append(key)
    return tuple(found)


def _plain_key(message: Message) -> int:
    role = message.get("role")
    return hash((role, message.get("tool_call_id") if role == "tool" else None, text_of(message.get("content"))))


def _echo_keys(message: Message) -> tuple[int, ...]:
    """How an assistant turn may be known again: by the ids of its calls; else by its text, or by ids in that text."""
    calls = message.get("tool_calls") or ()
    ids = tuple(sorted(str(call.get("id")) for call in calls if isinstance(call, dict) and call.get("id")))
    if ids:
        return (hash(("calls", ids)),)
    text = text_of(message.get("content")).strip()
    written = tuple(sorted(set(_WRITTEN_ID.findall(text)))) if "call_" in text else ()
    return (hash(("text", text)), hash(("calls", written))) if written else (hash(("text", text)),)


def _leading_system(messages: Sequence[Message]) -> Sequence[Message]:
    count = 0
    while count < len(messages) and messages[count].get("role") in {"system", "developer"}:
        count += 1
    return messages[:count]


def _system(messages: Sequence[Message]) -> str:
    return "\n".join(text_of(message.get("content")) for message in _leading_system(messages))


def _shared(parent: Node | None, messages: Sequence[Message], alike: int | None = None) -> int:
    """How many leading messages are the parent's and its answer; `alike` of its own, where that is known."""
    if parent is None:
        return 0
    known = parent.request.messages
    count = _alike(known, messages) if alike is None else alike
    if count == len(known) < len(messages) and messages[count] == parent.answer:
        count += 1
    return count
