"""Finds the messages that a trajectory's calls share while reading, and restores them for writing.

Sources give every call its whole conversation, so that a record of them would grow with the square of its turns.
Invariant: `message_numbers` restores what `MessageTree` split, message by message.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from assay.errors import UserError
from assay.records import BranchCause, ModelCall

_TIPS = 8


class SharedPrefix(NamedTuple):
    """A call's position among those before it."""

    parent: str | None
    messages: int
    """Leading messages shared with the parent."""
    branch: str
    cause: BranchCause | None
    differs_at: int | None

    def fields(self) -> dict[str, Any]:
        named = {"parent": self.parent, "shared_messages": self.messages, "branch": self.branch}
        return named | {"cause": self.cause, "differs_at": self.differs_at}


class _Tip(NamedTuple):
    """A call's whole conversation: its messages and its answer."""

    call: str
    keys: list[int]
    node: int
    branch: str
    asked: int
    """Number of keys that belong to the request."""


class MessageTree:
    """A tree of the messages of all calls so far. A message is a number; equal messages share it."""

    def __init__(self) -> None:
        self._below: dict[tuple[int, int], int] = {}
        self._owner: list[str] = [""]
        self._request_lengths: dict[str, int] = {}
        self._tips: OrderedDict[str, _Tip] = OrderedDict()
        self._extended: set[str] = set()
        self._branches: dict[str, str] = {}

    def add(self, call: str, keys: Sequence[int], answer: int | None) -> SharedPrefix:
        """Adds a call that sent `keys` and got `answer` (None: no answer); returns its position."""
        whole = list(keys)
        node, depth = self._start(whole)
        while depth < len(whole) and (below := self._below.get((node, whole[depth]))) is not None:
            node, depth = below, depth + 1
        parent = self._owner[node] if depth else None
        shared = self._classify(call, parent, depth, len(whole))
        if answer is not None:
            whole.append(answer)
        for key in whole[depth:]:
            node = self._below.setdefault((node, key), len(self._owner))
            if node == len(self._owner):
                self._owner.append(call)
        self._request_lengths[call] = len(keys)
        self._branches[call] = shared.branch
        self._tips[call] = _Tip(call, whole, node, shared.branch, len(keys))
        while len(self._tips) > _TIPS:
            self._tips.popitem(last=False)
        return shared

    def _start(self, keys: list[int]) -> tuple[int, int]:
        """Returns the longest recent conversation that the new one extends, by list comparison; else the root."""
        for tip in reversed(self._tips.values()):
            if keys[: len(tip.keys)] == tip.keys:
                return tip.node, len(tip.keys)
        return 0, 0

    def _classify(self, call: str, parent: str | None, depth: int, length: int) -> SharedPrefix:
        if not parent:
            return SharedPrefix(None, 0, f"b-{call}", "root", None)
        asked = self._request_lengths[parent]
        if depth == asked + 1 and parent not in self._extended:
            self._extended.add(parent)
            return SharedPrefix(parent, depth, self._branches[parent], None, None)
        cause: BranchCause = "resample" if depth == asked == length else "rewritten"
        return SharedPrefix(parent, depth, f"b-{call}", cause, None if cause == "resample" else depth)


def first_message(response: Any) -> dict[str, Any] | None:
    """Returns the message of a response's first choice, or None."""
    choices = response.get("choices") if isinstance(response, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else None


def message_numbers(calls: Iterable[ModelCall], number: Callable[[dict[str, Any]], int]) -> dict[str, list[int]]:
    """Returns the numbers of all messages of each call.

    Raises:
        UserError: A call claims to share more than the call before it has.
    """
    by_id = {call.id: call for call in calls}
    found: dict[str, list[int]] = {}
    for call in by_id.values():
        line, seen = [call], {call.id}
        while line[-1].shared_messages and line[-1].id not in found:
            parent = by_id.get(line[-1].parent or "")
            if parent is None or parent.id in seen:
                raise UserError(
                    f"call {line[-1].id} shares messages with {line[-1].parent!r}, which is missing or builds on it"
                )
            seen.add(parent.id)
            line.append(parent)
        for one in reversed(line):
            if one.id not in found:
                found[one.id] = _join_messages(one, by_id, found, number)
    return found


def _join_messages(
    call: ModelCall, by_id: dict[str, ModelCall], numbers: dict[str, list[int]], number: Callable[[dict[str, Any]], int]
) -> list[int]:
    shared: list[int] = []
    if call.shared_messages:
        parent = by_id[call.parent or ""]
        answer = first_message(parent.response)
        before = [*numbers[parent.id], *([number(answer)] if answer is not None else [])]
        if not 0 <= call.shared_messages <= len(before):
            raise UserError(
                f"call {call.id} shares {call.shared_messages} messages with its parent, which has {len(before)}"
            )
        shared = before[: call.shared_messages]
    own = call.request.get("messages")
    return [*shared, *(number(m) for m in (own if isinstance(own, list) else ()) if isinstance(m, dict))]
