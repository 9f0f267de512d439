"""The protocol of judge and worker: frames of JSON, object graphs as flat tables of numbered objects.

A value is a JSON scalar, `[number]` for an object, or `{tag: ...}` for a special scalar. Objects are entries of a heap
that both ends number alike, because they take turns: identity, sharing and cycles are preserved, and depth needs no
recursion. Encoding looks at exact types and instance dictionaries; it calls no method of an object.

Covered here: what both ends do (frames, encoding). Each end has its own decoder: `splice_client` trusts nothing.
"""

from __future__ import annotations

import collections
import functools
import json
import operator
import os
import random
import select
import struct
import sys
import time
import types

from plain_values import read_plain, write_plain  # type: ignore[import-not-found]  # a sibling of this file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = [
    "BOUND_METHODS",
    "BUILTIN_TYPES",
    "MAX_FRAME",
    "MISSING",
    "ChannelError",
    "EncodeError",
    "Heap",
    "add_pairs",
    "field_names",
    "pairs_of",
    "parse_frame",
    "read_body",
    "read_frame",
    "read_plain",
    "read_slot",
    "resolve_name",
    "unwrap",
    "wrapper_layers",
    "write_frame",
    "write_plain",
]

MAX_FRAME = 24 << 20
MAX_OBJECTS = 2_000_000
MAX_LAYERS = 100
SMALL = 1 << 63
BUILTIN_TYPES = {
    t.__name__: t
    for t in (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, object, type(None))
}
_HEADER = struct.Struct(">I")
_TYPE_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
BOUND_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
_INSTALLED = tuple(os.path.realpath(path) + os.sep for path in {sys.prefix, sys.base_prefix})


class ChannelError(Exception):
    """The other end is gone, late, or violated the protocol; `kind` is `time`, `closed` or `protocol`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class EncodeError(Exception):
    """A value that cannot be sent."""


# Frames


def write_frame(fd: int, message: dict[str, Any], deadline: float | None = None) -> None:
    """Writes one message. With a deadline (monotonic seconds) the descriptor must be non-blocking."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    if len(body) > MAX_FRAME:
        raise EncodeError(f"a message of {len(body)} bytes")
    data = memoryview(_HEADER.pack(len(body)) + body)
    while data:
        _wait(fd, deadline, write=True)
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            continue
        except OSError as exc:
            raise ChannelError("closed", "the other process is gone") from exc


def read_frame(fd: int, deadline: float | None = None) -> dict[str, Any]:
    """Reads one message; nothing beyond it is taken from the pipe.

    Raises:
        ChannelError: The end of the stream, a missed deadline, or a malformed message.
    """
    return parse_frame(read_body(fd, deadline))


def read_body(fd: int, deadline: float | None = None) -> bytes:
    """Reads one message's bytes. Raises `ChannelError`."""
    (size,) = _HEADER.unpack(_read_exactly(fd, _HEADER.size, deadline))
    if size > MAX_FRAME:
        raise ChannelError("protocol", f"a frame of {size} bytes")
    return _read_exactly(fd, size, deadline)


def parse_frame(body: bytes) -> dict[str, Any]:
    """Returns the message in some bytes. Raises `ChannelError`."""
    try:
        message = json.loads(body.decode("ascii"))
    except (ValueError, RecursionError) as exc:  # also integers of more digits than Python converts
        raise ChannelError("protocol", "a frame that is not a message") from exc
    if type(message) is not dict:
        raise ChannelError("protocol", "a frame that is not a message")
    return message


def _read_exactly(fd: int, size: int, deadline: float | None) -> bytes:
    parts, left = [], size
    while left:
        _wait(fd, deadline, write=False)
        try:
            part = os.read(fd, min(left, 1 << 20))
        except BlockingIOError:
            continue
        except OSError as exc:
            raise ChannelError("closed", "the other process is gone") from exc
        if not part:
            raise ChannelError("closed", "the other process is gone")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _wait(fd: int, deadline: float | None, *, write: bool) -> None:
    if deadline is None:
        return
    left = deadline - time.monotonic()
    reading, writing = ([], [fd]) if write else ([fd], [])
    if left <= 0 or not any(select.select(reading, writing, [], left)):
        raise ChannelError("time", "the time limit of one answer was met")


# Names


def resolve_name(module: str, qualname: str) -> Any:
    """Returns the object at a dotted name in a loaded module, read only from dictionaries. Raises `KeyError` for
    none."""
    value: Any = sys.modules[module]
    for part in qualname.split("."):
        value = vars(value)[part]
    return value


def wrapper_layers(value: Any) -> list[list[str]]:
    """Returns the dispatchers and decorators around a plain function, outermost first."""
    layers: list[list[str]] = []
    value = _accessed(value)
    while len(layers) < MAX_LAYERS:
        layer, inner = _outer_layer(value)
        if layer is None:
            break
        layers.append(layer)
        value = _accessed(inner)
    return layers


def unwrap(value: Any, layers: list[list[str]]) -> Any:
    """Returns the function inside a property or method and inside the wrappers that `layers` names, outermost first."""
    value = _accessed(value)
    for expected in layers:
        layer, inner = _outer_layer(value)
        if layer != expected:
            break
        value = _accessed(inner)
    return value


def _accessed(value: Any) -> Any:
    """Returns the function of a property or method."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    return value.func if type(value).__name__ == "cached_property" else value


def _outer_layer(value: Any) -> tuple[list[str] | None, Any]:
    """Returns the description of the outermost wrapper and the object inside; None without a wrapper."""
    # Not by the code's name: there are wrappers that compile themselves when they are called first.
    place = getattr(value, "__globals__", {}).get("__name__", "")
    if "orig_func" in getattr(value, "__dict__", {}):
        return ["orig_func", type(value).__name__, place], value.orig_func
    if hasattr(value, "__wrapped__"):
        return ["__wrapped__", type(value).__name__, place], value.__wrapped__
    return None, value


@functools.lru_cache(maxsize=None)
def field_names(cls: Any) -> tuple[frozenset[str], tuple[str, ...]]:
    """Returns the names that are not fields of a class's instances, and its slots.

    A name that the class binds to a function, property, cached property or other descriptor that reads is computed or
    cached, never state. Data descriptors that only write (`__set__` without `__get__`) guard a plain field.
    """
    computed, slots = set(), []
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, types.MemberDescriptorType):
                slots.append(name)
            if hasattr(type(value), "__get__"):
                computed.add(name)
    return frozenset(computed), tuple(sorted(set(slots)))


class Heap:
    """The objects of one call, numbered; the same numbers stand for the same objects at both ends.

    Args:
        package: Import name of the package under test: instances of its classes are sent field by field.
    """

    def __init__(self, package: str) -> None:
        self.objects: list[Any] = []
        self.kinds: list[str] = []
        """Kind as which each object was sent or received."""
        self._package = package
        self._numbers: dict[int, int] = {}
        self._queue: list[int] = []
        self._handlers: dict[type, Callable[[Any], list[Any]]] = {
            list: lambda v: ["l", *map(self.value, v)],
            tuple: lambda v: ["t", *map(self.value, v)],
            set: lambda v: ["s", *map(self.value, v)],
            frozenset: lambda v: ["f", *map(self.value, v)],
            dict: lambda v: ["d", *self._pairs(v)],
            collections.OrderedDict: lambda v: ["od", *self._pairs(v)],
            collections.Counter: lambda v: ["cn", *self._pairs(v)],
            collections.defaultdict: lambda v: ["dd", self.value(v.default_factory), *self._pairs(v)],
            collections.deque: lambda v: ["q", v.maxlen, *map(self.value, v)],
            bytearray: lambda v: ["ba", v.hex()],
            random.Random: lambda v: ["ra", v.getstate()],
        }

    def add(self, value: Any, kind: str) -> int:
        """Appends an object under the next number and returns that."""
        number = len(self.objects)
        if number >= MAX_OBJECTS:
            raise EncodeError("too many objects")
        self.objects.append(value)
        self.kinds.append(kind)
        self._numbers[id(value)] = number
        return number

    def replace(self, number: int, value: Any) -> None:
        self._numbers.pop(id(self.objects[number]), None)
        self.objects[number] = value
        self._numbers[id(value)] = number

    def number_of(self, value: Any) -> int | None:
        """Returns an object's number; None if it has none."""
        return self._numbers.get(id(value))

    def value(self, value: Any) -> Any:
        """Returns a value as JSON; an object that is new gets a number and its entry follows from `take_entries`."""
        kind = type(value)
        if value is None or kind is str or kind is float or kind is bool:
            return value
        if kind is int:
            return value if -SMALL < value < SMALL else {"i": hex(value)}
        if kind is complex:
            return {"c": [value.real, value.imag]}
        if kind is bytes:
            return {"b": value.hex()}
        if kind is range or kind is slice:
            return {kind.__name__: [self.value(part) for part in (value.start, value.stop, value.step)]}
        if value is Ellipsis or value is NotImplemented:
            return {"e": repr(value)}
        plain = write_plain(value)
        if plain is not None:
            return {"v": list(plain)}
        number = self._numbers.get(id(value))
        if number is None:
            number = self.add(value, "")
            self._queue.append(number)
        return [number]

    def waiting(self) -> int:
        """Returns the number of objects without an entry yet."""
        return len(self._queue)

    def take_entries(self) -> list[list[Any]]:
        """Returns the entries of all objects that were numbered since the last call, in the order of their numbers."""
        first = self._queue[0] if self._queue else len(self.objects)
        entries = []
        position = 0
        while position < len(self._queue):  # entries reach more objects, which join the queue
            number = self._queue[position]
            entry = self.entry(self.objects[number])
            self.kinds[number] = entry[0]
            entries.append(entry)
            position += 1
        assert not entries or self._queue == list(range(first, first + len(entries)))
        self._queue = []
        return entries

    def entry(self, value: Any) -> list[Any]:
        """Returns the content of one object, its parts as values. Raises `EncodeError` if it cannot be sent."""
        handler = self._handlers.get(type(value))
        if handler is not None:
            return handler(value)
        if isinstance(value, type):
            return self._class(value)
        name = self._global_name(value)
        if name is not None:
            return name
        if self.is_of_package(type(value)):
            return self._instance(value)
        return self._foreign(value)

    def _pairs(self, mapping: dict[Any, Any]) -> Iterable[Any]:
        for key, value in pairs_of(mapping):
            yield self.value(key)
            yield self.value(value)

    def is_of_package(self, cls: type) -> bool:
        """Returns whether a class is one of the package under test."""
        module = getattr(cls, "__module__", None)
        return type(module) is str and (module == self._package or module.startswith(self._package + "."))

    def _class(self, cls: type) -> list[Any]:
        if BUILTIN_TYPES.get(cls.__name__) is cls:
            return ["B", cls.__name__]
        try:
            if resolve_name(cls.__module__, cls.__qualname__) is cls:
                return ["C", cls.__module__, cls.__qualname__]
        except (KeyError, TypeError, AttributeError):
            pass
        if _is_installed(getattr(sys.modules.get(cls.__module__), "__file__", None) or ""):
            raise EncodeError(f"a class that no test defines: {cls.__module__}.{cls.__qualname__}")
        return ["k"]  # a class that is local to somewhere: called where it lives

    def _global_name(self, value: Any) -> list[Any] | None:
        """Returns a reference to a function, dispatch object or module that a module holds under its own name."""
        if isinstance(value, types.ModuleType):
            return ["N", value.__name__]
        home = value.__objclass__ if isinstance(value, _TYPE_METHODS) else value  # `str.upper` has no module of its own
        module, qualname = getattr(home, "__module__", None), getattr(value, "__qualname__", None)
        if qualname is None and self.is_of_package(type(value)):
            qualname = vars(value).get("__name__") if hasattr(value, "__dict__") else None
        if type(module) is str and type(qualname) is str and module in sys.modules:
            try:
                if resolve_name(module, qualname) is value:
                    return ["F", module, qualname] if self._is_shared_module(module) else None
            except (KeyError, TypeError, AttributeError):
                return None
        return None

    def _is_shared_module(self, module: str) -> bool:
        inside = module == self._package or module.startswith(self._package + ".")
        tests = module.rpartition(".")[2].startswith(("test_", "conftest")) or ".tests" in module
        standard = module.partition(".")[0] in getattr(sys, "stdlib_module_names", ("builtins", "operator", "math"))
        return (inside and not tests) or standard

    def _instance(self, value: Any) -> list[Any]:
        cls: Any = type(value)
        if self._class(cls)[0] != "C":
            raise EncodeError(f"an instance of the local class {cls.__name__}")
        computed, slots = field_names(cls)
        plain = getattr(value, "__dict__", {})
        fields = {name: self.value(part) for name, part in plain.items() if name not in computed}
        for name in slots:
            if name not in ("__weakref__", "__dict__"):
                part = read_slot(cls, name, value)
                if part is not MISSING:
                    fields[name] = self.value(part)
        for base in (tuple, list, dict, set, frozenset):
            if isinstance(value, base):
                parts = self._pairs(value) if base is dict else map(self.value, base.__iter__(value))  # type: ignore[arg-type]
                return ["o", [cls.__module__, cls.__qualname__], fields, base.__name__, *parts]
        return ["o", [cls.__module__, cls.__qualname__], fields]

    def _foreign(self, value: Any) -> list[Any]:
        """Returns an object of the test's own as a method with owner and name, else as a handle."""
        owner = getattr(value, "__self__", None)
        is_bound = isinstance(value, BOUND_METHODS) and owner is not None
        known = type(owner) in self._handlers or type(owner) in BUILTIN_TYPES.values()
        if is_bound and (known or self.is_of_package(type(owner))):
            return ["m", self.value(owner), value.__name__]
        if hasattr(type(value), "__next__"):
            return ["it"]
        if callable(value):
            return self._callback(value)
        cls: Any = type(value)
        if cls.__eq__ is object.__eq__ and cls.__hash__ is object.__hash__:
            return self._sentinel(value) or ["x", cls.__name__]
        raise EncodeError(f"an instance of {cls.__module__}.{cls.__qualname__}")

    def _callback(self, value: Any) -> list[Any]:
        """A function that stays here. The other end chooses its arguments, so it must be one that the tests define."""
        function = value
        while isinstance(function, functools.partial):
            function = function.func
        if isinstance(function, (operator.itemgetter, operator.attrgetter)):
            return ["k"]
        if not isinstance(function, (types.FunctionType, types.MethodType)):
            function = next((vars(c)["__call__"] for c in type(function).__mro__ if "__call__" in vars(c)), None)
        code = getattr(function, "__code__", None)
        if code is None or _is_installed(code.co_filename):
            raise EncodeError(f"a function that no test defines: {type(value).__module__}.{type(value).__qualname__}")
        return ["k"]

    def _sentinel(self, value: Any) -> list[Any] | None:
        """Returns a reference to an object that a module of the package holds, for example a default's stand-in."""
        for module in sorted(name for name in sys.modules if self._is_shared_module(name)):
            if module.partition(".")[0] != self._package.partition(".")[0]:
                continue
            for name, held in list(vars(sys.modules[module]).items()):
                if held is value:
                    return ["F", module, name]
        return None


def _is_installed(path: str) -> bool:
    """Returns True for a file of the interpreter's own packages, and for code that has no file."""
    return not os.path.isabs(path) or "site-packages" in path or os.path.realpath(path).startswith(_INSTALLED)


def pairs_of(mapping: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Returns the keys and values of a dictionary in its order, without a method of a subclass."""
    if isinstance(mapping, collections.OrderedDict):  # it orders its keys beside the dictionary's own order
        return collections.OrderedDict.items(mapping)
    return dict.items(mapping)


def add_pairs(mapping: dict[Any, Any], pairs: Iterable[tuple[Any, Any]]) -> None:
    """Sets keys and values of a dictionary, without a method of a subclass."""
    if isinstance(mapping, collections.OrderedDict):  # of keys that only `dict` adds, it shows none
        for key, value in pairs:
            collections.OrderedDict.__setitem__(mapping, key, value)
    else:
        dict.update(mapping, pairs)


MISSING = object()


def read_slot(cls: type, name: str, value: Any) -> Any:
    """Returns what an instance has in a slot; `MISSING` where that is empty."""
    for base in cls.__mro__:
        found = vars(base).get(name)
        if isinstance(found, types.MemberDescriptorType):
            try:
                return found.__get__(value, cls)
            except AttributeError:
                return MISSING
    return MISSING
