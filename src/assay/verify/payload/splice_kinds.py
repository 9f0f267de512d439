"""Kinds of things that an answer may be and hold: an iterator or an instance is true, whatever it contains.

Part of `splice_client`. No method of an object is called. Each object of a call is looked into once, and again after it
has changed, so that this takes no longer than reading the messages.
"""

from __future__ import annotations

import collections

from splice_changes import SCALARS, elements_of, fields_of  # type: ignore[import-not-found]  # a sibling of this file
from splice_codec import field_names  # type: ignore[import-not-found]
from splice_decoder import RefusedReply  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["AnswerKinds"]

_CONTAINERS = (
    *(list, tuple, dict, set, frozenset),
    *(collections.deque, collections.OrderedDict, collections.Counter, collections.defaultdict),
)


class AnswerKinds:
    """Refuses kinds that the reference's answers never are or hold.

    Args:
        call: Active call.
        use: `answers` and `inside`, as in `EntryUse`.
    """

    def __init__(self, call: Any, use: dict[str, Any]) -> None:
        self._call = call
        self._answers: Sequence[str] | None = use["answers"]
        self._inside: Sequence[str] | None = use["inside"]
        self._known: dict[int, Any] = {}
        """Objects that were looked into."""

    def require_answer(self, value: Any) -> None:
        """Checks an answer with all that it holds."""
        self._require(value, self._answers, "returns")
        self._require_parts(self._open(value))

    def require_yielded(self, value: Any) -> None:
        """Checks a value of a worker's iterator, if those of the reference's iterators are recorded."""
        if self._inside is not None and "unread" not in self._inside:
            self._require_parts([value])

    def require_changed(self, targets: list[Any]) -> None:
        """Checks objects that have changed since they were part of an answer."""
        again = [target for target in targets if self._known.pop(id(target), None) is not None]
        self._require_parts([part for target in again for part in self._open(target)])

    def _require(self, value: Any, recorded: Sequence[str] | None, does: str) -> None:
        kind = type(value)
        names = {"iterator"} if hasattr(kind, "__next__") else set()
        if self._call.heap.is_of_package(kind) and not isinstance(value, type):
            names.update(f"{cls.__module__}:{cls.__qualname__}" for cls in kind.__mro__)
        if names and recorded is not None and names.isdisjoint(recorded):
            raise RefusedReply(f"an answer of type {kind.__qualname__}, which the reference never {does}")

    def _require_parts(self, todo: list[Any]) -> None:
        while todo:
            value = todo.pop()
            if type(value) not in SCALARS:
                self._require(value, self._inside, "returns inside another")
                todo += self._open(value)

    def _open(self, value: Any) -> list[Any]:
        """Returns the parts of an object that was not looked into; instances that are as the test sent them are not
        opened."""
        kind = type(value)
        if self._inside is None or id(value) in self._known:
            return []
        if kind in _CONTAINERS:
            self._known[id(value)] = value
            return elements_of(value)
        if isinstance(value, type) or not self._call.heap.is_of_package(kind) or self._is_untouched(value):
            return []
        self._known[id(value)] = value
        computed, slots = field_names(kind)
        fields = fields_of(value)
        return [*elements_of(value), *(part for name, part in fields.items() if name in slots or name not in computed)]

    def _is_untouched(self, value: Any) -> bool:
        permitted = self._call.permitted
        may_change = self._call.is_made_by_worker(value) or permitted.is_whole(value) or permitted.fields(value)
        return not may_change
