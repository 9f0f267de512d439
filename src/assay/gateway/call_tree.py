"""Places each model call in the tree of a session's calls: which conversation it continues, or why it begins a branch.

Clients resend the whole conversation and rewrite assistant turns on the way (arguments re-serialised, reasoning
dropped, content turned from text into parts). An assistant turn is therefore recognised by its tool-call ids, or by its
text if it has none; every other message by its content. A request that continues a known answer is its child; a
repeated request is a sibling; any other begins a new branch with a cause.

Not for tokens: the certificate covers the effect of rewriting on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from assay.records import BranchCause

from .interface import ModelRequest

Message = dict[str, Any]
_WRITTEN_ID = re.compile(r"\bcall_[0-9A-Za-z]{8,64}\b")
"""Tool-call ids in the text of clients that write calls as text (smolagents does)."""


class CallNode(msgspec.Struct, frozen=True, gc=False):
    """A finished call."""

    id: str
    branch: str
    parent: str | None
    request: ModelRequest
    answer: Message | None
    """The assistant message; None if the call got no answer."""
    keys: tuple[int, ...]
    """Hash of each prefix of the request."""
    tools: int
    lineage: Mapping[str, str]


class Placement(msgspec.Struct, frozen=True, gc=False):
    """Position of a new call in the tree."""

    parent: CallNode | None
    branch: str | None
    """None: the call's own id names a new branch."""
    cause: BranchCause | None
    differs_at: int | None
    """The first message that differs from the conversation left."""
    shared_messages: int
    """Number of leading messages equal to the parent's request and its answer."""
    keys: tuple[int, ...]
    tools: int
    lineage: Mapping[str, str]


class CallTree:
    """The calls of one session. Memory grows with the calls; message objects are shared."""

    def __init__(self) -> None:
        self._nodes: dict[str, CallNode] = {}
        self._by_answer: dict[int, str] = {}
        """Key of a request and its answer, to the call."""
        self._by_request: dict[int, str] = {}
        """Key of a request with its tools, to the last call that asked it."""
        self._continued: set[str] = set()
        self._branches_by_prefix: dict[int, dict[str, None]] = {}
        """Key of a prefix, to the branches that begin so."""
        self._last_by_branch: dict[str, CallNode] = {}
        """The last call of each branch, the branch that was added to last at the end."""
        self._latest: str | None = None

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, call_id: str) -> CallNode:
        """A call that was added."""
        return self._nodes[call_id]

    def locate(self, request: ModelRequest, lineage: Mapping[str, str] | None = None) -> Placement:
        """Returns the placement of `request` without changing the tree."""
        named_lineage = dict(lineage or {})
        last = self._nodes.get(self._latest or "")
        leading = 0 if last is None else _common_prefix_length(last.request.messages, request.messages)
        keys = _prefix_keys(request.messages, last.keys if last is not None and leading == len(last.keys) else ())
        same_tools = last is not None and last.request.tools == request.tools
        tools = last.tools if last is not None and same_tools else hash(repr(request.tools))
        twin_id = self._by_request.get(hash((keys[-1], tools))) if keys else None
        if twin_id is not None:
            twin = self._nodes[twin_id]
            parent = self._nodes[twin.parent] if twin.parent is not None else None
            shared = _shared_message_count(parent, request.messages)
            return Placement(parent, None, "resample", len(request.messages), shared, keys, tools, named_lineage)
        parent = self._find_parent(request.messages, keys)
        if parent is None:
            cause, differs_at = self._branch_cause(request, keys, named_lineage)
            return Placement(None, None, cause, differs_at, 0, keys, tools, named_lineage)
        shared = _shared_message_count(parent, request.messages, leading if parent is last else None)
        if tools != parent.tools:
            return Placement(parent, None, "tools", 0, shared, keys, tools, named_lineage)
        if parent.id in self._continued:
            return Placement(parent, None, "rewritten", len(parent.keys) + 1, shared, keys, tools, named_lineage)
        return Placement(parent, parent.branch, None, None, shared, keys, tools, named_lineage)

    def add(self, call_id: str, placement: Placement, request: ModelRequest, answer: Message | None) -> CallNode:
        """Adds a finished call, with or without an answer."""
        branch = placement.branch or call_id
        parent = placement.parent.id if placement.parent is not None else None
        stored_request = self._with_shared_objects(placement, request)
        node = CallNode(
            call_id, branch, parent, stored_request, answer, placement.keys, placement.tools, placement.lineage
        )
        self._nodes[call_id] = node
        self._index(node)
        if node.keys:
            self._by_request[hash((node.keys[-1], node.tools))] = call_id
        if answer is None:
            return node
        before = node.keys[-1] if node.keys else 0
        for key in _assistant_keys(answer):
            self._by_answer[hash((before, key))] = call_id
        if parent is not None and placement.cause is None:
            self._continued.add(parent)
        self._latest = call_id
        return node

    def _index(self, node: CallNode) -> None:
        last = self._last_by_branch.pop(node.branch, None)
        leading = last.keys if last is not None and node.keys[: len(last.keys)] == last.keys else ()
        for key in node.keys[len(leading) :]:
            self._branches_by_prefix.setdefault(key, {})[node.branch] = None
        self._last_by_branch[node.branch] = node

    def settle(self, placement: Placement, request: ModelRequest) -> Placement:
        """Updates the placement of a finished call for calls that finished meanwhile, such as a client's retry of the
        same request after a timeout."""
        if placement.cause not in {None, "root"} or not placement.keys:
            return placement
        if hash((placement.keys[-1], placement.tools)) in self._by_request:
            return replace(placement, branch=None, cause="resample", differs_at=len(request.messages))
        if placement.parent is not None and placement.parent.id in self._continued:
            return replace(placement, branch=None, cause="rewritten", differs_at=len(placement.parent.keys) + 1)
        return placement

    def _with_shared_objects(self, placement: Placement, request: ModelRequest) -> ModelRequest:
        """Returns the request with message objects shared with related calls, so that each is stored once."""
        twin_id = self._by_request.get(hash((placement.keys[-1], placement.tools))) if placement.keys else None
        relative = placement.parent if twin_id is None else self._nodes[twin_id]
        if relative is None:
            return request
        base, shared = relative.request.messages, placement.shared_messages
        if twin_id is not None:
            shared = _common_prefix_length(base, request.messages)
        elif shared > len(base) and relative.answer is not None:
            base = [*base, relative.answer]
        messages = base[:shared] + request.messages[shared:]
        tools = relative.request.tools if relative.request.tools == request.tools else request.tools
        return replace(request, messages=messages, tools=tools)

    def _find_parent(self, messages: Sequence[Message], keys: tuple[int, ...]) -> CallNode | None:
        """Returns the call whose request and answer are the longest prefix of these messages."""
        for position in range(len(messages) - 1, -1, -1):
            if messages[position].get("role") != "assistant":
                continue
            before = keys[position - 1] if position else 0
            for key in _assistant_keys(messages[position]):
                found = self._by_answer.get(hash((before, key)))
                if found is not None:
                    return self._nodes[found]
        return None

    def _branch_cause(
        self, request: ModelRequest, keys: tuple[int, ...], lineage: Mapping[str, str]
    ) -> tuple[BranchCause, int | None]:
        """Returns the cause of a new branch and the first differing message, against the conversation with the longest
        common prefix."""
        if self._latest is None:
            return "root", None
        common = len(keys)
        while common and keys[common - 1] not in self._branches_by_prefix:
            common -= 1
        alike = self._branches_by_prefix[keys[common - 1]] if common else self._last_by_branch
        best = self._last_by_branch[next(branch for branch in reversed(self._last_by_branch) if branch in alike)]
        own, others = _system_prompt(request.messages), _system_prompt(best.request.messages)
        is_other_agent = any(
            lineage.get(key) != best.lineage.get(key) for key in ("agent", "thread", "parent") if key in lineage
        )
        if is_other_agent:
            return "sub_agent", common
        if own != others:
            return "sub_agent", common
        if common > len(_leading_system_messages(request.messages)):
            shorter = len(request.messages) < len(best.request.messages)
            return ("compaction" if shorter else "rewritten"), common
        return "compaction" if len(request.messages) <= len(best.request.messages) else "unjoined", common


def content_text(content: Any) -> str:
    """Returns content as text: its text parts joined; other parts as their repr."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else repr(part) for part in content
    )


def _common_prefix_length(one: Sequence[Message], other: Sequence[Message]) -> int:
    if one == other[: len(one)]:
        return len(one)
    differing = (n for n, message in enumerate(one) if n >= len(other) or message != other[n])
    return next(differing, len(one))  # a tuple of the same messages is not equal to their list


def _prefix_keys(messages: Sequence[Message], leading: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Returns one hash per prefix; those of leading messages may be given."""
    found = list(leading)
    key = leading[-1] if leading else 0
    for message in messages[len(leading) :]:
        key = hash((key, _assistant_keys(message)[0] if message.get("role") == "assistant" else _message_key(message)))
        found.append(key)
    return tuple(found)


def _message_key(message: Message) -> int:
    role = message.get("role")
    return hash((role, message.get("tool_call_id") if role == "tool" else None, content_text(message.get("content"))))


def _assistant_keys(message: Message) -> tuple[int, ...]:
    """Returns hashes that identify an assistant turn: its call ids, else its text and the call ids in it."""
    calls = message.get("tool_calls") or ()
    ids = tuple(sorted(str(call.get("id")) for call in calls if isinstance(call, dict) and call.get("id")))
    if ids:
        return (hash(("calls", ids)),)
    text = content_text(message.get("content")).strip()
    written = tuple(sorted(set(_WRITTEN_ID.findall(text)))) if "call_" in text else ()
    return (hash(("text", text)), hash(("calls", written))) if written else (hash(("text", text)),)


def _leading_system_messages(messages: Sequence[Message]) -> Sequence[Message]:
    count = 0
    while count < len(messages) and messages[count].get("role") in {"system", "developer"}:
        count += 1
    return messages[:count]


def _system_prompt(messages: Sequence[Message]) -> str:
    return "\n".join(content_text(message.get("content")) for message in _leading_system_messages(messages))


def _shared_message_count(parent: CallNode | None, messages: Sequence[Message], alike: int | None = None) -> int:
    """Returns the number of base messages shared with the parent and its answer; `alike` is the first part if
    known."""
    if parent is None:
        return 0
    base = parent.request.messages
    count = _common_prefix_length(base, messages) if alike is None else alike
    if count == len(base) < len(messages) and messages[count] == parent.answer:
        count += 1
    return count
