"""Describes values without running their code: fingerprints that change with the value, and the types it contains.

Only methods of exact builtin types are called. Depth and number of parts are limited.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import decimal
import fractions
import hashlib
import inspect
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any

STANDARD = (
    *(decimal.Decimal, fractions.Fraction, uuid.UUID, datetime.date, datetime.time, datetime.datetime),
    *(datetime.timedelta, datetime.timezone),
)
"""The types of `verify/payload/plain_values.py`."""
PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, bytearray, range, slice, type(...), type(NotImplemented)),
    *STANDARD,
)
CONTAINERS = (list, tuple, dict, set, frozenset)
OTHER_CONTAINERS = (collections.deque, collections.OrderedDict, collections.Counter, collections.defaultdict)
MOST_PARTS = 200_000
MOST_PARTS_IN_ALL = 2_000_000
"""Parts of all values of one origin in one test; after these no more are looked at."""
MOST_DEPTH = 200
MOST_SHAPED, DEEPEST_SHAPE = 8, 3
"""Lists and tuples with more parts, and those that lie deeper, have no shape but their type."""


class TooLarge(Exception):
    """The value exceeds the maximum number of parts or depth."""


def fields_of(value: Any) -> dict[str, Any]:
    """Returns the stored fields of an instance, in its dictionary and slots, without what its class answers itself (a
    method, a property, a cached property)."""
    kind, fields = type(value), {}
    stored = inspect.getattr_static(value, "__dict__", None)
    if isinstance(stored, (dict, types.GetSetDescriptorType)):
        with contextlib.suppress(AttributeError):
            fields.update(object.__getattribute__(value, "__dict__"))
    for base in kind.__mro__:
        for name, member in base.__dict__.items():
            if isinstance(member, types.MemberDescriptorType) and name not in ("__dict__", "__weakref__"):
                try:
                    fields.setdefault(name, member.__get__(value, kind))
                except AttributeError:
                    continue
    return {name: part for name, part in fields.items() if isinstance(name, str) and not _is_computed(kind, name)}


def _is_computed(kind: type, name: str) -> bool:
    member = inspect.getattr_static(kind, name, None)
    if isinstance(member, types.MemberDescriptorType):
        return False
    return hasattr(type(member), "__get__") and member is not None


def fingerprint(value: Any) -> str:
    """Returns a digest that changes where the value, or anything that it holds, changes. Raises `TooLarge`."""
    hasher, parts = hashlib.sha256(), 0
    numbers: dict[int, int] = {}
    pending: list[tuple[int, Any]] = [(0, value)]
    while pending:
        depth, part = pending.pop()
        parts += 1
        if parts > MOST_PARTS or depth > MOST_DEPTH:
            raise TooLarge
        kind = type(part)
        hasher.update(f"|{depth} {kind.__module__}.{kind.__qualname__} ".encode("utf-8", "replace"))
        if kind in PLAIN:
            hasher.update(repr(part).encode("utf-8", "backslashreplace"))
            continue
        is_new = id(part) not in numbers
        hasher.update(str(numbers.setdefault(id(part), len(numbers))).encode())
        if is_new:
            pending += [(depth + 1, inner) for inner in reversed(list(inner_parts(part)))]
    return hasher.hexdigest()


def inner_parts(value: Any) -> Iterator[Any]:
    """Yields the parts of a container or instance, in an order that does not depend on addresses."""
    kind = type(value)
    if kind is dict:
        for name, part in dict.items(value):
            yield name
            yield part
    elif kind in (list, tuple, collections.deque):
        yield from value
    elif kind in (set, frozenset):
        yield from sorted(value, key=lambda part: (type(part).__qualname__, repr(part) if type(part) in PLAIN else ""))
    elif not isinstance(value, (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType)):
        if isinstance(value, dict):
            for name, part in dict.items(value):
                yield name
                yield part
        elif isinstance(value, list):
            yield from list.__iter__(value)
        elif isinstance(value, tuple):
            yield from tuple.__iter__(value)
        for name, part in fields_of(value).items():
            yield name
            yield part


def shape_of(value: Any, depth: int = DEEPEST_SHAPE) -> list[Any]:
    """Returns the name of a value's type and, of a short list or tuple, the shapes of its parts; None otherwise."""
    kind = type(value)
    if kind in (list, tuple) and len(value) <= MOST_SHAPED and depth:
        return [kind.__name__, [shape_of(part, depth - 1) for part in value]]
    return [type_name(kind), None]


class Shapes:
    """Collects the kinds of things that some values hold; `owns_class` tells the package's classes, `is_test` test
    files."""

    def __init__(self, owns_class: Callable[[type], bool]) -> None:
        self._owns_class = owns_class
        self.types: set[str] = set()
        self.classes: dict[str, set[str]] = {}
        self.callbacks = 0
        self.iterators = 0
        self.opaque: set[str] = set()
        self.inside: set[str] = set()
        """Kinds of the parts of values, as in `EntryUse.inside`."""
        self.parts = 0
        """Parts that were looked at."""

    @property
    def is_whole(self) -> bool:
        """Returns whether all values were looked at."""
        return self.parts <= MOST_PARTS_IN_ALL

    def add(self, value: Any, *, is_part: bool = False) -> None:
        """Adds a value and all its parts; `is_part`: it is itself a part, a value of an iterator."""
        self.parts += 1
        if not self.is_whole:
            return
        self.types.add(type_name(type(value)))
        if _is_iterator(value) and not isinstance(value, types.GeneratorType):
            self.inside.add("unread")  # the values of a generator are added one by one
        visited: set[int] = set()
        pending = [(0, value)]
        while pending:
            depth, part = pending.pop()
            if type(part) in PLAIN:
                continue
            if depth or is_part:
                self._add_kind_inside(part)
            if id(part) in visited:
                continue
            visited.add(id(part))
            self.parts += 1
            if len(visited) > MOST_PARTS or depth > MOST_DEPTH:
                self.opaque.add("too large")
                return
            if self._add_part(part):
                pending += [(depth + 1, inner) for inner in inner_parts(part)]

    def _add_part(self, part: Any) -> bool:
        """Adds one part; returns True if its own parts have to be added too."""
        kind = type(part)
        if kind in CONTAINERS:
            return True
        if isinstance(part, type):
            self.types.add("type")
            if not self._owns_class(part) and part.__module__ != "builtins":
                self.opaque.add(f"class {type_name(part)}")
        elif isinstance(part, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)) or kind.__name__ in (
            "partial",
            "itemgetter",
            "attrgetter",
        ):
            self.callbacks += 1
        elif _is_iterator(part):
            self.iterators += 1
        elif self._owns_class(kind):
            self.classes.setdefault(type_name(kind), set()).update(fields_of(part))
            return True
        elif isinstance(part, BaseException):
            return True
        else:
            self.opaque.add(type_name(kind))
            return kind in OTHER_CONTAINERS
        return False

    def _add_kind_inside(self, part: Any) -> None:
        kind = type(part)
        if _is_iterator(part):
            self.inside |= {"iterator", "unread"}
        elif kind.__module__ not in ("builtins", "collections") and not isinstance(part, type):
            self.inside.add(type_name(kind))

    def describe(self) -> dict[str, Any]:
        """Returns all of it, sorted, as a reply holds it."""
        return {
            "types": sorted(self.types),
            "classes": {name: sorted(fields) for name, fields in sorted(self.classes.items())},
            "callbacks": self.callbacks,
            "iterators": self.iterators,
            "opaque": sorted(self.opaque),
            "inside": sorted(self.inside),
        }


def _is_iterator(value: Any) -> bool:
    kind = type(value)
    return isinstance(value, types.GeneratorType) or (hasattr(kind, "__next__") and kind.__module__ != "io")


def type_name(kind: type) -> str:
    """Returns a type as `module:qualified.name`; of builtins the name alone."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}:{kind.__qualname__}"
