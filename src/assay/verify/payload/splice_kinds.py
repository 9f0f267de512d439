"""Kinds of things that an answer may be and hold: an iterator or an instance is true, whatever it contains, and of a
class so is every property that the test asks for.

Part of `splice_client`. No method of an object is called. Each object of a call is looked into once, and again after it
has changed, so that this takes no longer than reading the messages.
"""

from __future__ import annotations

import collections
import functools
import operator
import types

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
    """Refuses kinds that the reference's answers never are or hold, and that reach the test in no other way.

    Args:
        call: Active call.
        use: `answers`, `inside` and `handed`, as in `EntryUse`.
    """

    def __init__(self, call: Any, use: dict[str, Any]) -> None:
        self._call = call
        self._answers: Sequence[str] | None = use["answers"]
        self._held = _Parts(call, use["inside"], "returns inside another", type_names=self._answers)
        self._handed = _Parts(call, use["handed"], "puts there", type_names=use["handed"], only_made=True)

    def require_answer(self, value: Any) -> None:
        """Checks an answer with all that it holds."""
        _require_kind(self._call, value, self._answers, "returns")
        if isinstance(value, (type, *_FUNCTIONS)):
            _require_type(value, self._answers, "returns")
        self._held.require(self._held.open(value))

    def require_yielded(self, value: Any) -> None:
        """Checks a value of a worker's iterator, if those of the reference's iterators are recorded."""
        if not (self._held.are_unread() or self._handed.are_unread()):
            self._held.require([value])

    def require_handed(self, values: list[Any]) -> None:
        """Checks values that reach the test otherwise than as an answer, as far as the worker made them."""
        self._handed.require(list(values))

    def require_changed(self, targets: list[Any]) -> None:
        """Checks objects that have changed since they were looked into."""
        self._held.require_again(targets)
        self._handed.require_again(targets)


class _Parts:
    """Kinds that values of some origin may have and hold.

    Args:
        call: Active call.
        recorded: Kinds; None: any.
        does: Verb and place for the refusal.
        type_names: Types of values of that origin, with those of the classes that they hold; None: any.
        only_made: Objects of the test's, except for classes, are neither checked nor opened.
    """

    def __init__(
        self,
        call: Any,
        recorded: Sequence[str] | None,
        does: str,
        *,
        type_names: Sequence[str] | None = None,
        only_made: bool = False,
    ) -> None:
        self._call = call
        self._type_names = type_names
        self._only_made = only_made
        self._recorded = recorded
        self._does = does
        self._known: dict[int, Any] = {}
        """Objects that were looked into."""

    def are_unread(self) -> bool:
        """Returns whether there are iterators whose values are not recorded."""
        return self._recorded is not None and "unread" in self._recorded

    def require(self, todo: list[Any]) -> None:
        """Checks values with all that they hold."""
        while todo:
            value = todo.pop()
            is_class = isinstance(value, type)
            if type(value) in SCALARS or not (is_class or not self._only_made or self._call.is_made_by_worker(value)):
                continue
            _require_kind(self._call, value, self._recorded, self._does)
            if is_class:
                _require_type(value, self._type_names, self._does)
            todo += self.open(value)

    def require_again(self, targets: list[Any]) -> None:
        """Checks what has changed since it was looked into."""
        again = [target for target in targets if self._known.pop(id(target), None) is not None]
        self.require([part for target in again for part in self.open(target)])

    def open(self, value: Any) -> list[Any]:
        """Returns the parts of an object that was not looked into; instances that are as the test sent them are not
        opened."""
        kind = type(value)
        if self._recorded is None or id(value) in self._known:
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


_FUNCTIONS = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType),
    *(functools.partial, operator.itemgetter, operator.attrgetter),
)


def _require_type(value: Any, recorded: Sequence[str] | None, does: str) -> None:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}:{kind.__qualname__}"
    if recorded is not None and ("type" if isinstance(value, type) else name) not in recorded:
        raise RefusedReply(f"an answer of type {kind.__qualname__}, which the reference never {does}")


def _require_kind(call: Any, value: Any, recorded: Sequence[str] | None, does: str) -> None:
    kind = type(value)
    names = {"iterator"} if hasattr(kind, "__next__") else set()
    if call.heap.is_of_package(kind) and not isinstance(value, type):
        names.update(f"{cls.__module__}:{cls.__qualname__}" for cls in kind.__mro__)
    if names and recorded is not None and names.isdisjoint(recorded):
        raise RefusedReply(f"an answer of type {kind.__qualname__}, which the reference never {does}")
