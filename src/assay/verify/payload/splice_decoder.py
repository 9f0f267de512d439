"""Decodes a worker's messages for the judge: exact builtin types and instances of the original package's classes.

Nothing here trusts the bytes. An instance is made without its constructor and filled through its dictionary, by names
that the plan recorded; no name that its class computes or caches is taken. Immutable parts are built first, so that
only complete values are hashed. Every violation is a `RefusedReply`.
"""

from __future__ import annotations

import builtins
import collections

import splice_codec  # type: ignore[import-not-found]  # the folder of this file, on the path when it is loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

MAX_CHAIN = 150
"""Nesting depth of tuples and frozen sets, which C hashes by recursion, and of queues and default dictionaries, which C
frees by recursion."""
MAX_EXPANDED = 10_000_000
"""Parts inside a tuple or frozen set, counted as often as they occur: hashing visits each."""
MAX_HASHED = 50_000_000
"""Parts that all hashes of one call visit: a tuple's hash is computed anew each time."""
MAX_EQUAL_HASHES = 200
"""Keys of one container with equal hashes: each look-up compares with all of them."""
MAX_DIGITS = 20_000
MAX_BASES = 50
MAX_PLACE = 1_000_000
"""Lines and columns of a syntax error: its text marks the columns from one to another."""
_PLACES = {"filename": str, "text": str, "lineno": int, "offset": int, "end_lineno": int, "end_offset": int}
_FREED_BY_RECURSION = (collections.deque, collections.defaultdict)
_MUTABLE = {"l": list, "d": dict, "s": set, "od": collections.OrderedDict, "cn": collections.Counter, "ba": bytearray}
_FACTORIES = {"list": list, "dict": dict, "set": set, "int": int, "float": float, "str": str, "tuple": tuple}
_EXCEPTIONS = frozenset(
    {
        *("ArithmeticError", "AttributeError", "BufferError", "EOFError", "Exception", "FloatingPointError"),
        *("ImportError", "IndexError", "KeyError", "LookupError", "MemoryError", "ModuleNotFoundError", "NameError"),
        *("NotImplementedError", "OverflowError", "RecursionError", "ReferenceError", "RuntimeError", "SyntaxError"),
        *("TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError"),
    }
)
"""Without `StopIteration`: raised by a function, it ends a test's own `map` or `for` early."""
_NEVER_RAISED = (AssertionError, OSError, StopIteration, StopAsyncIteration)


class RefusedReply(Exception):
    """Raised if a worker sent a value that the plan does not allow."""


class Decoder:
    """Reads replies into one heap.

    Args:
        heap: Heap of the call.
        classes: (module, qualname) of each class of which an instance may come back, to its recorded field names.
        package: Import name of the package under test.
        iterate: Returns the iterator that stays at the worker under a number.
    """

    def __init__(
        self,
        heap: Any,
        classes: dict[tuple[str, str], frozenset[str]],
        package: str,
        iterate: Callable[[int], Any],
    ) -> None:
        self._heap = heap
        self._iterate = iterate
        self._classes = classes
        self._package = package
        self._sizes: dict[int, int] = {}
        self._hashed = 0
        self._nested: list[Any] = []
        """Objects that the worker made and that C frees by recursion."""
        self._unchecked = False

    def add_entries(self, entries: Any) -> None:
        """Builds the objects of a message's heap."""
        if type(entries) is not list or len(entries) + len(self._heap.objects) > splice_codec.MAX_OBJECTS:
            raise RefusedReply("a malformed or too long table of objects")
        try:
            self._build(entries)
        finally:
            self.require_shallow()

    def _build(self, entries: list[Any]) -> None:
        base = len(self._heap.objects)
        for entry in entries:
            if type(entry) is not list or not entry or type(entry[0]) is not str:
                raise RefusedReply("an object without a kind")
            made = self._shell(entry)
            self._heap.add(made, entry[0])
            if entry[0] in ("q", "dd"):
                self._nested.append(made)
                self._unchecked = True
        self._build_immutable(base, entries)
        for number, entry in enumerate(entries, base):  # fields first: a hash may read them
            if entry[0] == "o":
                self._fill_instance(self._heap.objects[number], entry)
        for number, entry in enumerate(entries, base):
            if entry[0] in ("l", "q"):
                self._fill_sequence(self._heap.objects[number], entry)
        for number, entry in enumerate(entries, base):
            if entry[0] == "dd":
                self._set_factory(self._heap.objects[number], entry[1:2])
            if entry[0] in ("d", "s", "od", "cn", "dd"):
                self.fill(self._heap.objects[number], entry)

    def value(self, raw: Any) -> Any:
        """Returns the decoded value of a JSON value."""
        kind = type(raw)
        if raw is None or kind is str or kind is bool or kind is float or kind is int:
            return raw
        if kind is list:
            return self._heap.objects[self.number(raw)]
        if kind is dict and len(raw) == 1:
            ((tag, content),) = raw.items()
            return self._special(tag, content)
        raise RefusedReply("a malformed value")

    def number(self, raw: Any) -> int:
        """Returns the number in a reference."""
        if type(raw) is not list or len(raw) != 1 or type(raw[0]) is not int:
            raise RefusedReply("a malformed reference")
        if not 0 <= raw[0] < len(self._heap.objects):
            raise RefusedReply(f"a reference to the unknown object {raw[0]}")
        return raw[0]

    def fill(self, value: Any, entry: list[Any]) -> None:
        """Replaces the content of a container by an entry's."""
        kind = entry[0]
        self._unchecked = self._unchecked or kind in ("q", "dd")
        if kind in ("l", "q"):
            self._fill_sequence(value, entry)
        elif kind == "s":
            parts = [self.value(part) for part in entry[1:]]
            self._require_quick_keys(entry[1:], parts)
            self._replace(value, lambda: set.update(value, parts), len(parts))
        elif kind in ("d", "od", "cn", "dd"):
            raw = entry[2:] if kind == "dd" else entry[1:]
            if len(raw) % 2:
                raise RefusedReply("a dictionary with half a pair")
            parts = [self.value(part) for part in raw]
            pairs = list(zip(parts[::2], parts[1::2]))
            self._require_quick_keys(raw[::2], parts[::2])
            self._replace(value, lambda: splice_codec.add_pairs(value, pairs), len(pairs))
        elif kind == "ba":
            value[:] = _from_hex(entry[1] if len(entry) == 2 else None)
        else:
            raise RefusedReply(f"the content of an object of kind {kind[:20]!r}")

    def require_shallow(self) -> None:
        """Refuses queues and default dictionaries that lie too deep inside each other, and empties them all: freeing a
        deep chain of them ends the process."""
        if self._unchecked and len(self._nested) > MAX_CHAIN and not _is_shallow(self._nested):
            for held in self._nested:
                held.clear()
            raise RefusedReply("queues too deep inside each other")
        self._unchecked = False

    def recorded(self, cls: type) -> frozenset[str]:
        """Returns the field names that the plan records for a class."""
        return self._classes.get((cls.__module__, cls.__qualname__), frozenset())

    def exception(self, raw: Any) -> BaseException:
        """Returns the exception that a message describes: an allowed builtin or one of the original package."""
        if type(raw) is not dict or type(raw.get("a")) is not list or type(raw.get("f", {})) is not dict:
            raise RefusedReply("a malformed exception")
        name, cls = self._exception_class(raw.get("e"))
        arguments = tuple(self.value(part) for part in raw["a"])
        if name[0] == "builtins":
            return _require_short_place(cls(*arguments))
        if not issubclass(cls, Exception) or issubclass(cls, _NEVER_RAISED):
            raise RefusedReply(f"the exception {cls.__name__}")
        made = BaseException.__new__(cls, *arguments)
        made.args = arguments
        recorded = self._classes.get((name[0], name[1]), frozenset())
        computed = splice_codec.field_names(cls)[0]
        for field, part in raw.get("f", {}).items():
            if field in recorded and field not in computed:
                vars(made)[field] = self.value(part)
        return made

    def _exception_class(self, raw: Any) -> tuple[list[str], Any]:
        """Returns the first class of an exception's list of bases that the original package has, or the builtin one."""
        if type(raw) is not list or not 0 < len(raw) <= MAX_BASES:
            raise RefusedReply("an exception without a class")
        for name in raw[:-1]:
            try:
                return name, self._original_class(name)
            except RefusedReply:
                continue
        if type(raw[-1]) is list and len(raw[-1]) == 2 and raw[-1][0] == "builtins":
            if type(raw[-1][1]) is not str or raw[-1][1] not in _EXCEPTIONS:
                raise RefusedReply(f"the exception {str(raw[-1][1])[:60]}")
            return raw[-1], getattr(builtins, raw[-1][1])
        return raw[-1], self._original_class(raw[-1])

    # Building

    def _shell(self, entry: list[Any]) -> Any:
        """Returns an empty object to be filled, or a placeholder for one that is built later."""
        kind = entry[0]
        made = _MUTABLE.get(kind)
        if made is not None:
            if kind == "ba":
                return bytearray(_from_hex(entry[1] if len(entry) == 2 else None))
            return made()
        if kind == "q":
            limit = entry[1] if len(entry) > 1 else -1
            if limit is not None and (type(limit) is not int or not 0 <= limit <= splice_codec.MAX_OBJECTS):
                raise RefusedReply("a queue with an impossible length")
            return collections.deque(maxlen=limit)
        if kind == "dd":
            return collections.defaultdict(None)
        if kind == "o":
            return self._empty_instance(entry)
        if kind == "C":
            return self._original_class(entry[1:], must_be_recorded=True)
        if kind == "B":
            return self._builtin(entry)
        if kind == "it":
            return self._iterate(len(self._heap.objects))
        if kind in ("t", "f"):
            return _Placeholder()
        raise RefusedReply(f"an object of kind {kind[:20]!r}")

    def _empty_instance(self, entry: list[Any]) -> Any:
        if len(entry) != 3 or type(entry[2]) is not dict:
            raise RefusedReply("an instance without fields, or of a class that extends a builtin one")
        cls = self._original_class(entry[1], must_be_recorded=True)
        try:
            made = object.__new__(cls)
            fields = vars(made)
        except TypeError as exc:  # a builtin base with content, an abstract class, slots alone
            raise RefusedReply(f"an instance of {cls.__qualname__}, which is more than its fields") from exc
        if splice_codec.field_names(cls)[1] or type(fields) is not dict or type(made) is not cls:
            raise RefusedReply(f"an instance of {cls.__qualname__}, which has slots")
        return made

    def _fill_instance(self, instance: Any, entry: list[Any]) -> None:
        cls = type(instance)
        recorded = self._classes[cls.__module__, cls.__qualname__]
        computed = splice_codec.field_names(cls)[0]
        for name, raw in entry[2].items():
            if name in computed:
                raise RefusedReply(f"the computed attribute {name[:60]} of {cls.__qualname__}")
            if name in recorded:
                vars(instance)[name] = self.value(raw)

    def _original_class(self, name: Any, *, must_be_recorded: bool = False) -> Any:
        if type(name) is not list or [type(part) for part in name] != [str, str]:
            raise RefusedReply("a class without a name")
        module, qualname = name
        if must_be_recorded and (module, qualname) not in self._classes:
            raise RefusedReply(f"the class {module[:60]}.{qualname[:60]}, which the reference does not give")
        if module != self._package and not module.startswith(self._package + "."):
            raise RefusedReply(f"a class of {module[:60]}, which is not the package's")
        try:
            cls = splice_codec.resolve_name(module, qualname)
        except (KeyError, TypeError, AttributeError) as exc:
            raise RefusedReply(f"a class that the original package has not: {module[:60]}.{qualname[:60]}") from exc
        if not isinstance(cls, type) or (cls.__module__, cls.__qualname__) != (module, qualname):
            raise RefusedReply(f"{qualname[:60]} is not a class")
        return cls

    def _builtin(self, entry: list[Any]) -> Any:
        if len(entry) != 2 or type(entry[1]) is not str or entry[1] not in splice_codec.BUILTIN_TYPES:
            raise RefusedReply("a type that is not a plain builtin")
        return splice_codec.BUILTIN_TYPES[entry[1]]

    def _build_immutable(self, base: int, entries: list[list[Any]]) -> None:
        """Builds tuples and frozen sets, parts before wholes, without recursion."""
        depths: dict[int, int] = {}
        waiting = {n for n, entry in enumerate(entries, base) if entry[0] in ("t", "f")}
        for first in sorted(waiting):
            stack = [first]
            active: set[int] = set()
            while stack:
                number = stack[-1]
                if number not in waiting:
                    stack.pop()
                    continue
                active.add(number)
                parts = [part[0] for part in entries[number - base][1:] if type(part) is list and len(part) == 1]
                open_parts = [p for p in parts if type(p) is int and p in waiting]
                if any(p in active for p in open_parts):
                    raise RefusedReply("a tuple that holds itself")
                if open_parts:
                    stack += open_parts
                    continue
                depths[number] = 1 + max((depths.get(p, 0) for p in parts if type(p) is int), default=0)
                if depths[number] > MAX_CHAIN:
                    raise RefusedReply("tuples too deep inside each other")
                self._sizes[number] = 1 + sum(map(self._size, entries[number - base][1:]))
                if self._sizes[number] > MAX_EXPANDED:
                    raise RefusedReply("a tuple with too many parts in its parts")
                self._heap.replace(number, self._immutable(entries[number - base]))
                waiting.discard(number)
                active.discard(number)
                stack.pop()

    def _immutable(self, entry: list[Any]) -> Any:
        parts = tuple(self.value(part) for part in entry[1:])
        if entry[0] == "t":
            return parts
        self._require_quick_keys(entry[1:], parts)
        made = frozenset(parts)
        if len(made) != len(parts):
            raise RefusedReply("a set with one element twice")
        return made

    def _size(self, raw: Any) -> int:
        """Returns the number of parts that hashing a value visits; instances are hashed by identity."""
        if type(raw) is not list:
            return 1
        number = self.number(raw)
        held = self._heap.objects[number]
        return self._sizes.get(number, len(held) if type(held) is tuple else 1)

    def _require_quick_keys(self, raw: Sequence[Any], keys: Sequence[Any]) -> None:
        """Refuses unhashable keys, and keys with which a set or dictionary takes too long to build."""
        self._hashed += sum(map(self._size, raw))
        if self._hashed > MAX_HASHED:
            raise RefusedReply("keys that take too long to hash")
        try:
            most = max(collections.Counter(map(hash, keys)).values(), default=0)
        except Exception as exc:  # a hash of the package's own may raise anything
            raise RefusedReply(f"keys without a hash: {type(exc).__name__}") from exc
        if most > MAX_EQUAL_HASHES:
            raise RefusedReply("too many keys with one hash")

    def _fill_sequence(self, value: Any, entry: list[Any]) -> None:
        parts = [self.value(part) for part in entry[2 if entry[0] == "q" else 1 :]]
        value.clear()
        value.extend(parts)

    def _replace(self, value: Any, fill: Any, size: int) -> None:
        value.clear()
        try:
            fill()
        except Exception as exc:  # a hash of the package's own may raise anything
            raise RefusedReply(f"keys without a hash: {type(exc).__name__}") from exc
        if len(value) != size:
            raise RefusedReply("a key twice in one container")

    def _set_factory(self, value: Any, raw: list[Any]) -> None:
        factory = self.value(raw[0]) if raw else None
        if factory is not None and _FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
            raise RefusedReply("a default dictionary with a factory of its own")
        value.default_factory = factory

    def _special(self, tag: str, content: Any) -> Any:
        if tag == "i" and type(content) is str and len(content) <= MAX_DIGITS:
            try:
                return int(content, 16)
            except ValueError as exc:
                raise RefusedReply("a malformed integer") from exc
        if tag == "c" and type(content) is list and [type(part) for part in content] == [float, float]:
            return complex(*content)
        if tag == "b":
            return _from_hex(content)
        if tag in ("range", "slice") and type(content) is list and len(content) == 3:
            return self._span(tag, [self.value(part) for part in content])
        if tag == "v" and type(content) is list and len(content) == 2:
            try:
                return splice_codec.read_plain(*content)
            except ValueError as exc:
                raise RefusedReply(f"a plain value whose text is not canonical: {str(content[0])[:60]}") from exc
        if tag == "e" and content in ("Ellipsis", "NotImplemented"):
            return getattr(builtins, content)
        raise RefusedReply("a malformed value")

    def _span(self, tag: str, parts: list[Any]) -> Any:
        if any(type(part) is not int and not (part is None and tag == "slice") for part in parts):
            raise RefusedReply(f"a malformed {tag}")
        try:
            return range(*parts) if tag == "range" else slice(*parts)
        except ValueError as exc:
            raise RefusedReply(f"a malformed {tag}") from exc


def _require_short_place(error: BaseException) -> BaseException:
    """Returns an exception; refuses a place in a source whose text, with marks under it, cannot be written."""
    places = [(name, getattr(error, name)) for name in _PLACES] if isinstance(error, SyntaxError) else []
    for name, held in places:
        if held is not None and (type(held) is not _PLACES[name] or (type(held) is int and abs(held) > MAX_PLACE)):
            raise RefusedReply(f"a syntax error with an impossible {name}")
    return error


class _Placeholder:
    """Stands for an object that is built later."""


def _from_hex(content: Any) -> bytes:
    try:
        return bytes.fromhex(content)
    except (TypeError, ValueError) as exc:
        raise RefusedReply("malformed bytes") from exc


def _is_shallow(nested: Sequence[Any]) -> bool:
    """Returns whether containers that C frees by recursion lie at most `MAX_CHAIN` deep inside each other, in no
    circle."""
    depths: dict[int, int] = {}
    for first in nested:
        stack, active = [first], set()
        while stack:
            held = stack[-1]
            if id(held) in depths:
                stack.pop()
                continue
            active.add(id(held))
            parts = held if type(held) is collections.deque else held.values()
            inner = [part for part in parts if type(part) in _FREED_BY_RECURSION]
            waiting = [part for part in inner if id(part) not in depths]
            if any(id(part) in active for part in waiting):
                return False
            if waiting:
                stack += waiting
                continue
            depths[id(held)] = 1 + max((depths[id(part)] for part in inner), default=0)
            if depths[id(held)] > MAX_CHAIN:
                return False
            active.discard(id(held))
            stack.pop()
    return True
