"""Places each model call in the tree of a session's calls: which conversation it continues, or why it begins a branch.

Clients resend the whole conversation and rewrite assistant turns on the way (arguments re-serialised, reasoning
dropped, content turned from text into parts). An assistant turn is therefore recognised by its tool-call ids, or by its
text if it has none; every other message by its content. A request that continues a known answer is its child; a
repeated request is a sibling; any other begins a new branch with a cause.

Not for tokens: the certificate covers the effect of rewriting on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from assay.records import BranchCause

from .interface import ModelRequest
from .json_equality import has_numbers, has_same_text, is_same_json, json_key, text_memory

Message = dict[str, Any]
_WRITTEN_ID = re.compile(r"\bcall_[0-9A-Za-z]{8,64}\b")
"""Tool-call ids in the text of clients that write calls as text (smolagents does)."""


class _PrefixLog:
    """Messages with the hash of each prefix. Only appended to, so that a length names a prefix for ever.

    Conversations that begin alike share the beginning: a log may go on from the first messages of another one.
    """

    __slots__ = ("base", "keys", "messages", "start")

    def __init__(self, base: _PrefixLog | None = None, start: int = 0) -> None:
        self.base = base
        self.start = start
        """Number of messages that are those of `base`."""
        self.messages: list[Message] = []
        self.keys: list[int] = []

    def __len__(self) -> int:
        return self.start + len(self.messages)

    def append(self, length: int, messages: Sequence[Message], keys: Sequence[int]) -> _PrefixLog:
        """Returns the log that holds the first `length` messages and the new ones: this one, or one that branches."""
        log = self if len(self) == length else _PrefixLog(self, length)
        log.messages += messages
        log.keys += keys
        return log

    def key_at(self, position: int) -> int:
        """Returns the hash of the prefix that ends with the message at `position`."""
        log = self
        while log.base is not None and position < log.start:
            log = log.base
        return log.keys[position - log.start]

    def first(self, count: int) -> list[Message]:
        """Returns the first messages; the list is the caller's."""
        parts: list[list[Message]] = []
        log: _PrefixLog | None = self
        while log is not None:
            parts.append(log.messages[: max(0, count - log.start)])
            count, log = min(count, log.start), log.base
        return [message for part in reversed(parts) for message in part] if len(parts) > 1 else parts[0]


class _Extension(msgspec.Struct, frozen=True, gc=False):
    """A request's messages as the first ones of a log and new ones."""

    log: _PrefixLog
    length: int
    """Messages taken from the log."""
    keys: tuple[int, ...]
    """Hashes of the prefixes that end with the new messages."""

    def __len__(self) -> int:
        return self.length + len(self.keys)

    def key_at(self, position: int) -> int:
        return self.log.key_at(position) if position < self.length else self.keys[position - self.length]

    @property
    def last_key(self) -> int | None:
        """Returns the hash of all messages; None without one."""
        if self.keys:
            return self.keys[-1]
        return self.log.key_at(self.length - 1) if self.length else None


class CallNode(msgspec.Struct, frozen=True, gc=False):
    """A finished call."""

    id: str
    branch: str
    parent: str | None
    log: _PrefixLog
    length: int
    """Number of messages of the request, which are the first of `log`."""
    tool_list: list[dict[str, Any]]
    answer: Message | None
    """The assistant message; None if the call got no answer."""
    tools: int
    lineage: Mapping[str, str]

    @property
    def messages(self) -> list[Message]:
        """Returns the messages of the request, in a new list."""
        return self.log.first(self.length)

    @property
    def request(self) -> ModelRequest:
        """Returns the messages and the tools of the request."""
        return ModelRequest(self.messages, self.tool_list)

    @property
    def last_key(self) -> int:
        return self.log.key_at(self.length - 1) if self.length else 0


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
    extension: _Extension
    tools: int
    lineage: Mapping[str, str]


class CallTree:
    """The calls of one session. Memory grows with their new messages: what calls share is held once.

    `measure` gives the size of a message or of tools in bytes.
    """

    def __init__(self, measure: Callable[[Any], int] | None = None) -> None:
        self.size = 0
        """Bytes of all messages and tools that are held, by `measure`; 0 without it."""
        self._measure = measure
        self._numeric: set[int] = set()
        """Identities of the held messages with numbers or booleans: `==` alone does not tell whether they are the
        same."""
        self._nodes: dict[str, CallNode] = {}
        self._by_answer: dict[int, str] = {}
        """Key of a request and its answer, to the call."""
        self._by_request: dict[int, str] = {}
        """Key of a request with its tools, to the last call that asked it."""
        self._continued: set[str] = set()
        self._branches_by_prefix: dict[int, str | set[str]] = {}
        """Key of a prefix, to the branch or the branches that begin so."""
        self._last_by_branch: dict[str, CallNode] = {}
        """The last call of each branch, the branch that was added to last at the end."""
        self._latest: CallNode | None = None
        """The last call with an answer."""
        self._answer_keys: tuple[int, ...] = ()
        """Keys of that answer."""

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, call_id: str) -> CallNode:
        """A call that was added."""
        return self._nodes[call_id]

    def locate(self, request: ModelRequest, lineage: Mapping[str, str] | None = None) -> Placement:
        """Returns the placement of `request` without changing the tree."""
        named_lineage = dict(lineage or {})
        last = self._latest
        leading = 0 if last is None else self._common_prefix_length(_messages_of(last), request.messages)
        follows = False
        if last is not None and leading == last.length:
            new = request.messages[leading:]
            follows = self._follows_answer(new)
            first = self._answer_keys[0] if follows else None  # the same text need not be hashed again
            extension = _Extension(last.log, leading, _prefix_keys(new, last.last_key, first))
        else:
            extension = _Extension(_PrefixLog(), 0, _prefix_keys(request.messages))
        tools = last.tools if last is not None and last.tool_list is request.tools else json_key(request.tools)
        twin = self._twin(extension, tools)
        if twin is not None:
            parent = self._nodes[twin.parent] if twin.parent is not None else None
            shared = self._shared_message_count(parent, request.messages)
            return Placement(parent, None, "resample", len(request.messages), shared, extension, tools, named_lineage)
        parent = last if follows else self._find_parent(request.messages, extension)
        if parent is None:
            cause, differs_at = self._branch_cause(request, extension, named_lineage)
            return Placement(None, None, cause, differs_at, 0, extension, tools, named_lineage)
        shared = (
            leading + 1
            if follows
            else self._shared_message_count(parent, request.messages, leading if parent is last else None)
        )
        if tools != parent.tools:
            return Placement(parent, None, "tools", 0, shared, extension, tools, named_lineage)
        if parent.id in self._continued:
            return Placement(parent, None, "rewritten", parent.length + 1, shared, extension, tools, named_lineage)
        return Placement(parent, parent.branch, None, None, shared, extension, tools, named_lineage)

    def _follows_answer(self, new: Sequence[Message]) -> bool:
        """Returns whether the messages after those of the latest call begin with its answer, and hold no other: then it
        is the call with the longest beginning."""
        last = self._latest
        if last is None or not new or new[0].get("role") != "assistant":
            return False
        if not is_same_json(new[0], last.answer):
            return False
        if any(message.get("role") == "assistant" for message in new[1:]):
            return False
        return _assistant_keys(new[0]) == self._answer_keys  # else the answer was changed in place

    def locate_next(self, parent: str, count: int, new: Sequence[Message]) -> Placement | None:
        """Returns the placement of a request that resends the latest call's and its answer and goes on: it costs what
        is new.

        Args:
            parent: Id of the call whose request begins this one.
            count: Number of messages of that request.
            new: The messages after those; the first is the answer.

        Returns:
            What `locate` returns for the whole request; None if only `locate` can tell.
        """
        last = self._latest
        if last is None or last.id != parent or last.length != count or parent in self._continued:
            return None
        extension = _Extension(last.log, count, _prefix_keys(new, last.last_key))
        if self._twin(extension, last.tools) is not None or self._find_parent(new, extension, count) is not last:
            return None
        shared = count + is_same_json(new[0], last.answer)
        return Placement(last, last.branch, None, None, shared, extension, last.tools, {})

    def add(self, call_id: str, placement: Placement, request: ModelRequest, answer: Message | None) -> CallNode:
        """Adds a finished call, with or without an answer."""
        extension = placement.extension
        return self._add(call_id, placement, request.messages[extension.length :], request.tools, answer)

    def add_next(self, call_id: str, placement: Placement, new: Sequence[Message], answer: Message | None) -> CallNode:
        """Adds a finished call that `locate_next` placed; `new` as there."""
        parent = placement.parent
        return self._add(call_id, placement, new, parent.tool_list if parent is not None else [], answer)

    def _add(
        self,
        call_id: str,
        placement: Placement,
        new: Sequence[Message],
        tools: list[dict[str, Any]],
        answer: Message | None,
    ) -> CallNode:
        branch = placement.branch or call_id
        parent = placement.parent.id if placement.parent is not None else None
        relative = self._twin(placement.extension, placement.tools) or placement.parent
        log = self._with_shared_objects(placement, relative, new)
        if relative is not None and relative.tools == placement.tools:
            tools = relative.tool_list
        elif self._measure is not None:
            self.size += self._measure(tools)
        node = CallNode(
            call_id, branch, parent, log, len(placement.extension), tools, answer, placement.tools, placement.lineage
        )
        self._nodes[call_id] = node
        self._index(node)
        if node.length:
            self._by_request[hash((node.last_key, node.tools))] = call_id
        if answer is None:
            return node
        before = node.last_key
        self._answer_keys = _assistant_keys(answer)
        for key in self._answer_keys:
            self._by_answer[hash((before, key))] = call_id
        if parent is not None and placement.cause is None:
            self._continued.add(parent)
        self._latest = node
        return node

    def _twin(self, extension: _Extension, tools: int) -> CallNode | None:
        """Returns the last call with the same messages and tools."""
        key = extension.last_key
        found = None if key is None else self._by_request.get(hash((key, tools)))
        return None if found is None else self._nodes[found]

    def _index(self, node: CallNode) -> None:
        last = self._last_by_branch.pop(node.branch, None)
        begins = last is not None and 0 < last.length <= node.length
        known = last.length if last is not None and begins and node.log.key_at(last.length - 1) == last.last_key else 0
        for position in range(known, node.length):
            key = node.log.key_at(position)
            branches = self._branches_by_prefix.setdefault(key, node.branch)
            if isinstance(branches, set):
                branches.add(node.branch)
            elif branches != node.branch:
                self._branches_by_prefix[key] = {branches, node.branch}
        self._last_by_branch[node.branch] = node

    def settle(self, placement: Placement, request: ModelRequest) -> Placement:
        """Updates the placement of a finished call for calls that finished meanwhile, such as a client's retry of the
        same request after a timeout."""
        if placement.cause not in {None, "root"} or not len(placement.extension):
            return placement
        if self._twin(placement.extension, placement.tools) is not None:
            return replace(placement, branch=None, cause="resample", differs_at=len(request.messages))
        if placement.parent is not None and placement.parent.id in self._continued:
            return replace(placement, branch=None, cause="rewritten", differs_at=placement.parent.length + 1)
        return placement

    def _with_shared_objects(
        self, placement: Placement, relative: CallNode | None, new: Sequence[Message]
    ) -> _PrefixLog:
        """Returns the log of the request, with message objects shared with related calls, so that each is stored
        once."""
        extension = placement.extension
        known, keys, own = extension.length, extension.keys, [*new]
        log = extension.log
        if relative is None:
            return self._append(log, known, own, keys)
        begins = known > 0 and relative.length == known and relative.log.key_at(known - 1) == log.key_at(known - 1)
        if begins or relative.length == 0:
            if own and relative.answer is not None and is_same_json(own[0], relative.answer):
                own[0] = relative.answer
        elif not known:
            count, answer = self._common_prefix_length(relative.messages, own), relative.answer
            if count == relative.length and answer is not None and is_same_json(own[count : count + 1], [answer]):
                own[count] = answer
            if count and relative.log.key_at(count - 1) == keys[count - 1]:
                return self._append(relative.log, count, own[count:], keys[count:])
        return self._append(log, known, own, keys)

    def _append(self, log: _PrefixLog, length: int, messages: Sequence[Message], keys: Sequence[int]) -> _PrefixLog:
        for message in messages:
            size = text_memory(message)
            if size is None and has_numbers(message):
                self._numeric.add(id(message))
            if self._measure is not None:
                self.size += self._measure(message) if size is None else size
        return log.append(length, messages, keys)

    def _common_prefix_length(self, held: Sequence[Message], other: Sequence[Message]) -> int:
        """Returns the number of leading messages that are the same JSON; `held` are those of a call."""
        equal = _equal_prefix_length(held, other)
        if not self._numeric:
            return equal
        pairs = enumerate(zip(held[:equal], other, strict=False))
        return next((at for at, (one, two) in pairs if id(one) in self._numeric and not has_same_text(one, two)), equal)

    def _shared_message_count(
        self, parent: CallNode | None, messages: Sequence[Message], alike: int | None = None
    ) -> int:
        """Returns the number of base messages shared with the parent and its answer; `alike` is the first part if
        known."""
        if parent is None:
            return 0
        count = self._common_prefix_length(_messages_of(parent), messages) if alike is None else alike
        if count == parent.length < len(messages) and is_same_json(messages[count], parent.answer):
            count += 1
        return count

    def _find_parent(self, messages: Sequence[Message], extension: _Extension, offset: int = 0) -> CallNode | None:
        """Returns the call whose request and answer are the longest prefix of these messages; `offset` messages before
        them are not searched."""
        for position in range(offset + len(messages) - 1, offset - 1, -1):
            message = messages[position - offset]
            if message.get("role") != "assistant":
                continue
            before = extension.key_at(position - 1) if position else 0
            for key in _assistant_keys(message):
                found = self._by_answer.get(hash((before, key)))
                if found is not None:
                    return self._nodes[found]
        return None

    def _branch_cause(
        self, request: ModelRequest, extension: _Extension, lineage: Mapping[str, str]
    ) -> tuple[BranchCause, int | None]:
        """Returns the cause of a new branch and the first differing message, against the conversation with the longest
        common prefix."""
        if self._latest is None:
            return "root", None
        common = len(extension)
        while common and extension.key_at(common - 1) not in self._branches_by_prefix:
            common -= 1
        found = self._branches_by_prefix[extension.key_at(common - 1)] if common else self._last_by_branch.keys()
        alike = {found} if isinstance(found, str) else found
        best = self._last_by_branch[next(branch for branch in reversed(self._last_by_branch) if branch in alike)]
        own, others = _system_prompt(request.messages), _system_prompt(best.messages)
        is_other_agent = any(
            lineage.get(key) != best.lineage.get(key) for key in ("agent", "thread", "parent") if key in lineage
        )
        if is_other_agent:
            return "sub_agent", common
        if own != others:
            return "sub_agent", common
        if common > len(_leading_system_messages(request.messages)):
            shorter = len(request.messages) < best.length
            return ("compaction" if shorter else "rewritten"), common
        return "compaction" if len(request.messages) <= best.length else "unjoined", common


def content_text(content: Any) -> str:
    """Returns content as text: its text parts joined; other parts as their repr."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else repr(part) for part in content
    )


def _equal_prefix_length(one: Sequence[Message], other: Sequence[Message]) -> int:
    if one == other[: len(one)]:
        return len(one)
    differing = (n for n, message in enumerate(one) if n >= len(other) or message != other[n])
    return next(differing, len(one))  # a tuple of the same messages is not equal to their list


def _messages_of(node: CallNode) -> Sequence[Message]:
    """Returns a request's messages to compare with, without a copy where its log holds nothing else."""
    log = node.log
    return log.messages if log.base is None and len(log.messages) == node.length else node.messages


def _prefix_keys(messages: Sequence[Message], before: int = 0, first: int | None = None) -> tuple[int, ...]:
    """Returns one hash per prefix; `before` is the one of the messages before these, 0 without any, and `first` the
    first message's own, if it is known."""
    found: list[int] = []
    key = before
    for message in messages:
        own = first if first is not None and not found else _key_of(message)
        key = hash((key, own))
        found.append(key)
    return tuple(found)


def _key_of(message: Message) -> int:
    return _assistant_keys(message)[0] if message.get("role") == "assistant" else _message_key(message)


def _message_key(message: Message) -> int:
    role = message.get("role")
    return hash((role, message.get("tool_call_id") if role == "tool" else None, content_text(message.get("content"))))


def _assistant_keys(message: Message) -> tuple[int, ...]:
    """Returns hashes that identify an assistant turn: its call ids, else its text and the call ids in it."""
    calls = message.get("tool_calls")
    if calls:
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
