"""Changes of the judge's objects while a worker answers a call: only parts that the reference changed may change.

Part of `splice_client`. Objects are compared by the identity of what they hold; no method of theirs is called.
"""

from __future__ import annotations

import collections
import functools
import types

import splice_codec  # type: ignore[import-not-found]  # the folder of this file, on the path when it is loaded
from splice_decoder import RefusedReply  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "SCALARS",
    "ArgumentGuard",
    "MovedObjects",
    "PermittedChanges",
    "change_fields",
    "elements_of",
    "fields_of",
    "require_short_text",
]

MAX_COMPARED = 20_000_000
"""Parts of arguments that are compared in one call."""
MAX_RAISED = 1_000_000
"""Parts inside an exception's arguments, counted as often as they occur: its text shows each."""


def change_fields(call: Any, target: Any, entry: list[Any], permitted: set[str] | None) -> list[Any]:
    """Sets the fields of an instance that differ, and returns their values. `permitted` None: all that were sent or
    recorded."""
    cls = type(target)
    if len(entry) != 3 or type(entry[2]) is not dict or not hasattr(target, "__dict__"):
        raise RefusedReply(f"a change of an instance of {cls.__qualname__}, which is more than its fields")
    computed = splice_codec.field_names(cls)[0]
    recorded = call.decoder.recorded(cls)
    own = vars(target)
    changed: list[Any] = []
    for name, raw in entry[2].items():
        value = call.decoder.value(raw)
        if name in own and _is_same(own[name], value):
            continue
        if name in computed:
            raise RefusedReply(f"the computed attribute {name[:60]} of {cls.__qualname__}")
        if (permitted is None and (name in own or name in recorded)) or (permitted is not None and name in permitted):
            own[name] = value
            changed.append(value)
        elif name in own or name in recorded:
            raise RefusedReply(f"a change of {cls.__qualname__}.{name[:60]}, which the reference leaves as it is")
    for name in [name for name in own if name not in entry[2] and name not in computed]:
        if permitted is not None and name not in permitted:
            raise RefusedReply(f"{cls.__qualname__}.{name[:60]} taken away, which the reference leaves as it is")
        changed.append(own.pop(name))
    if changed:  # what the class caches in the instance was made from the old fields
        for name in [name for name in own if name in computed]:
            del own[name]
    return changed


SCALARS = (type(None), bool, int, float, str, bytes, complex)


def _is_same(one: Any, other: Any) -> bool:
    """Returns whether two values are one object, or equal values of an immutable type that is sent by value."""
    if one is other or type(one) is not type(other):
        return one is other
    if type(one) in SCALARS:
        return repr(one) == repr(other) if type(one) in (float, complex) else bool(one == other)
    if type(one) in (range, slice):
        return all(_is_same(getattr(one, name), getattr(other, name)) for name in ("start", "stop", "step"))
    plain = splice_codec.write_plain(one)
    return plain is not None and bool(plain == splice_codec.write_plain(other))


class PermittedChanges:
    """The parts of a call's arguments that may change, fixed when the call begins: nothing that a worker moves below
    such a part later is added, and nothing that it moved there in an earlier call.

    Args:
        named: The arguments by their parameters' names, as the test passed them.
        changes: As in `Client.call`.
        moved: What the worker moved in earlier calls of the test.
    """

    def __init__(self, named: dict[str, Any], changes: Sequence[dict[str, Any]], moved: MovedObjects) -> None:
        self._moved = moved
        self._whole: dict[int, Any] = {}  # holds the objects, so that their ids stay theirs
        self._fields: dict[int, tuple[Any, set[str]]] = {}
        for change in changes:
            if change["name"] in named:
                self._add(named[change["name"]], list(change.get("path", ())))

    def _add(self, argument: Any, path: list[str]) -> None:
        values = [argument]
        while path:
            step = path.pop(0)
            if step == "*":
                values = [part for value in values for part in self._moved.without(value, elements_of(value))]
                continue
            holders = [value for value in values if hasattr(value, "__dict__")]
            if not path:
                for holder in holders:
                    self._fields.setdefault(id(holder), (holder, set()))[1].add(step)
            parts = [(holder, vars(holder)[step]) for holder in holders if step in vars(holder)]
            values = [part for holder, value in parts for part in self._moved.without(holder, [value])]
        _reach(values, self._whole, self._moved)

    def is_whole(self, value: Any) -> bool:
        """Returns whether all of an object may change."""
        return id(value) in self._whole

    def fields(self, value: Any) -> set[str]:
        """Returns the names of an object's fields that may change."""
        return self._fields.get(id(value), (None, set()))[1]


class MovedObjects:
    """Objects of the test's that a worker put below others where they could not change: a later call that may change
    those would let it change them too."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], Any] = {}  # holds the objects, so that their ids stay theirs

    def add_made(self, call: Any, values: list[Any]) -> None:
        """Adds the objects that may not change in a call, below values of the worker's. What it made is walked once in
        a call: later changes of it are added by `add_changed`."""
        todo = list(values)
        while todo:
            value = todo.pop()
            if call.is_made_by_worker(value) and id(value) not in call.walked:
                call.walked.add(id(value))
                todo += self._add_parts(call, value, parts_of(value))

    def add_changed(self, call: Any, target: Any, parts: list[Any]) -> None:
        """Adds the objects that may not change in a call among the new parts of something that the worker changed, and
        below those that it made."""
        self.add_made(call, self._add_parts(call, target, parts))

    def _add_parts(self, call: Any, holder: Any, parts: list[Any]) -> list[Any]:
        """Adds some parts of an object, and returns those that the worker made."""
        held = [part for part in parts if not (type(part) in SCALARS or isinstance(part, _NAMED))]
        made = [part for part in held if call.is_made_by_worker(part)]
        for part in held:
            if call.owns_object(part) and not call.permitted.is_whole(part):
                self._found[id(holder), id(part)] = (holder, part)
        return made

    def without(self, holder: Any, parts: list[Any]) -> list[Any]:
        """Returns the parts of an object that no worker put there."""
        return [part for part in parts if (id(holder), id(part)) not in self._found] if self._found else parts


class ArgumentGuard:
    """The arguments of a call, with everything below them, before functions of the test run for a worker.

    The worker chooses what these functions get, when they run, and which of their results it calls again: so everything
    that the reference leaves as it is, is compared, whatever the functions were given.
    """

    def __init__(self, call: Any) -> None:
        permitted = call.permitted
        reached: dict[int, Any] = {}
        _reach(list(call.named.values()), reached, MovedObjects())
        guarded = [one for one in reached.values() if not (permitted.is_whole(one) or call.is_made_by_worker(one))]
        self._content = [(target, permitted.fields(target)) for target in guarded]
        self._before = [_content(*one) for one in self._content]
        call.compared += sum(map(len, self._before))
        if call.compared > MAX_COMPARED:
            raise RefusedReply("arguments too large to be compared after each of the test's functions")

    def require_unchanged(self) -> None:
        """Raises `RefusedReply` for what has changed."""
        for one, before in zip(self._content, self._before):
            after = _content(*one)
            if len(after) != len(before) or not all(map(_is_same, before, after)):
                raise RefusedReply(
                    "a function of the test's was made to change an argument that the reference leaves as it is "
                    f"({type(one[0]).__name__})"
                )


def _content(target: Any, but: set[str]) -> list[Any]:
    """Returns the elements and fields of an object, without some fields and those that its class computes."""
    if type(target) is bytearray:
        return [bytes(target)]
    computed, slots = splice_codec.field_names(type(target))
    left_out = but | (computed - set(slots))
    fields = [item for item in fields_of(target).items() if item[0] not in left_out]
    return [*elements_of(target), *(part for item in fields for part in item)]


def _reach(values: list[Any], reached: dict[int, Any], moved: MovedObjects) -> None:
    """Adds all objects at and below some values, by their ids, but those that a worker put there."""
    todo = list(values)
    while todo:
        value = todo.pop()
        kind = type(value)
        if kind in SCALARS or isinstance(value, _NAMED) or id(value) in reached:
            continue
        if isinstance(value, splice_codec.BOUND_METHODS):
            todo.append(value.__self__)
        elif kind is functools.partial:
            todo += [value.func, *value.args, *value.keywords.values()]
        else:
            reached[id(value)] = value
            if len(reached) > MAX_COMPARED:
                raise RefusedReply("arguments with too many parts to be compared")
            todo += moved.without(value, parts_of(value))


_NAMED = (type, types.ModuleType, types.FunctionType)


def parts_of(value: Any) -> list[Any]:
    """Returns the elements and fields of an object."""
    return [*elements_of(value), *fields_of(value).values()]


def fields_of(value: Any) -> dict[str, Any]:
    """The stored fields of an object: its dictionary and its slots."""
    found = dict(getattr(value, "__dict__", {}))
    for name in splice_codec.field_names(type(value))[1]:
        part = splice_codec.read_slot(type(value), name, value)
        if name not in ("__dict__", "__weakref__") and part is not splice_codec.MISSING:
            found[name] = part
    return found


def elements_of(value: Any) -> list[Any]:
    """Returns the elements of a container, keys and values of a dictionary; none of other objects."""
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    for base in (list, tuple, set, frozenset, collections.deque):
        if isinstance(value, base):
            return list(base.__iter__(value))  # type: ignore[arg-type]
    return []


def require_short_text(arguments: tuple[Any, ...]) -> None:
    """Refuses containers whose text is too long to write, or that hold themselves, as arguments of an exception."""
    sizes: dict[int, int] = {}
    above: set[int] = set()
    todo: list[tuple[Any, list[Any] | None]] = [(arguments, None)]
    while todo:
        value, parts = todo.pop()
        if parts is not None:
            above.discard(id(value))
            sizes[id(value)] = 1 + sum(sizes.get(id(part), 1) for part in parts)
            if sizes[id(value)] > MAX_RAISED:
                raise RefusedReply("an exception with too many parts in its parts")
        elif id(value) in above:
            raise RefusedReply("an exception with a container that holds itself")
        elif id(value) not in sizes:
            above.add(id(value))
            parts = elements_of(value)
            todo += [(value, parts), *((part, None) for part in parts if type(part) not in SCALARS)]
