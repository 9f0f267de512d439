"""Changes of the judge's objects while a worker answers a call: only parts that the reference changed may change.

Part of `splice_client`. Objects are compared by the identity of what they hold; no method of theirs is called.
"""

from __future__ import annotations

import contextlib

import splice_codec  # type: ignore[import-not-found]  # the folder of this file, on the path when it is loaded
from splice_decoder import RefusedReply  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["change_fields", "permitted_changes", "unchanged"]


def change_fields(call: Any, target: Any, entry: list[Any], permitted: set[str] | None) -> None:
    """Sets the fields of an instance that differ. `permitted` None: all that were sent or recorded."""
    cls = type(target)
    if len(entry) != 3 or type(entry[2]) is not dict or not hasattr(target, "__dict__"):
        raise RefusedReply(f"a change of an instance of {cls.__qualname__}, which is more than its fields")
    computed = splice_codec.field_names(cls)[0]
    recorded = call.decoder.recorded(cls)
    own = vars(target)
    changed = False
    for name, raw in entry[2].items():
        value = call.decoder.value(raw)
        if name in own and (own[name] is value or (type(value) in _SCALARS and _same(own[name], value))):
            continue
        if name in computed:
            raise RefusedReply(f"the computed attribute {name[:60]} of {cls.__qualname__}")
        if (permitted is None and (name in own or name in recorded)) or (permitted is not None and name in permitted):
            own[name] = value
            changed = True
        elif name in own or name in recorded:
            raise RefusedReply(f"a change of {cls.__qualname__}.{name[:60]}, which the reference leaves as it is")
    for name in [name for name in own if name not in entry[2] and name not in computed]:
        if permitted is not None and name not in permitted:
            raise RefusedReply(f"{cls.__qualname__}.{name[:60]} taken away, which the reference leaves as it is")
        del own[name]
        changed = True
    if changed:  # what the class caches in the instance was made from the old fields
        for name in [name for name in own if name in computed]:
            del own[name]


_SCALARS = (type(None), bool, int, float, str, bytes, complex)


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    return repr(one) == repr(other) if type(one) in (float, complex) else bool(one == other)


def permitted_changes(call: Any) -> tuple[dict[int, Any], dict[int, set[str]]]:
    """The objects that may change whole, by their ids, and names of fields that may, by the id of their instance."""
    whole: dict[int, Any] = {}
    fields: dict[int, set[str]] = {}
    for change in call.changes:
        if change["name"] not in call.named:
            continue
        values = [call.named[change["name"]]]
        path = list(change.get("path", ()))
        while path:
            step = path.pop(0)
            if step == "*":
                values = [part for value in values for part in _elements(value)]
                continue
            holders = [value for value in values if hasattr(value, "__dict__")]
            if not path:
                for holder in holders:
                    fields.setdefault(id(holder), set()).add(step)
            values = [vars(holder)[step] for holder in holders if step in vars(holder)]
        _reach(values, whole)
    return whole, fields


@contextlib.contextmanager
def unchanged(call: Any, arguments: list[Any]) -> Iterator[None]:
    """Refuses that a function of the test's, which a worker calls, changes objects of the judge's among its arguments
    that the reference leaves as they are: the worker chose which they are."""
    whole, fields = permitted_changes(call)
    reached: dict[int, Any] = {}
    _reach(arguments, reached)
    own = [target for key, target in reached.items() if key not in whole and call.owns(call.heap.number_of(target))]
    before = [_content(target, fields.get(id(target), set())) for target in own]
    try:
        yield
    finally:
        for target, content in zip(own, before):
            after = _content(target, fields.get(id(target), set()))
            if len(after) != len(content) or any(one is not other for one, other in zip(content, after)):
                raise RefusedReply(
                    f"a function of the test's was made to change an argument that the reference leaves as it is "
                    f"({type(target).__name__})"
                )


def _content(target: Any, but: set[str]) -> list[Any]:
    """Returns the elements and fields of an object, without some fields; a changed object has another one in them."""
    if type(target) is bytearray:
        return list(target)
    cached = splice_codec.field_names(type(target))[0]
    fields = [item for item in getattr(target, "__dict__", {}).items() if item[0] not in but | cached]
    return [*_elements(target), *(part for item in fields for part in item)]


def _reach(values: list[Any], reached: dict[int, Any]) -> None:
    """Adds all objects at and below some values, by their ids."""
    todo = list(values)
    while todo:
        value = todo.pop()
        if type(value) in _SCALARS or isinstance(value, type) or callable(value) or id(value) in reached:
            continue
        reached[id(value)] = value
        todo += _elements(value)
        todo += list(getattr(value, "__dict__", {}).values())


def _elements(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque" else []
