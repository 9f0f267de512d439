"""Encodes Python values as JSON trees of scalars and tagged lists, and decodes them. Standard library, Python 3.8.

Programs beside this one import it inside a sandbox. The host reads the same trees with a decoder of its own
(`verify.calls.answers`), which trusts none of this output. Tags: `i` large integer, `f` float, `c` complex, `s`
text with surrogates, `y` bytes, `l t S F` list, tuple, set, frozenset, `d` dict, `r` range, `o` result of an earlier
operation, `g` module-level name, `v` value of another standard type as in `plain_values`, `I` prefix of an iterator,
`x` instance: its class, its fields, and what it contains; `B` contents without order, `b` an instance around this one.

Invariant: an instance is encoded with all that its class may compare, so that no answer agrees with another one whose
contents were not seen. One that compares by more than its fields and contents has no encoding.
"""

from __future__ import annotations

import collections
import importlib
import itertools
import types
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from plain_values import PLAIN_TYPES, read_input, write_plain  # type: ignore[import-not-found]  # a sibling

MAX_NODES = 20_000
MAX_DEPTH = 48
MAX_ITEMS = 200
"""Limit of the encoded items of an iterator."""
SMALL = 1 << 53
HEAP_TYPE = 1 << 9
"""Flag of the classes that Python code makes."""
HIDDEN = ["x", "", ["d"]]
"""Tree of a result of which nothing is shown."""
EQUAL_DICTS = (collections.Counter, collections.defaultdict)
BUILTIN_VALUES = (bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, range)
SEQUENCES = {"l": list, "t": tuple, "S": set, "F": frozenset}
Handle = Callable[[Any], Any]


class EncodingError(Exception):
    """The value has no bounded encoding."""


class MissingResult(Exception):
    """An argument is the result of an operation without a result."""


class Encoder:
    """Encodes values.

    Args:
        handle_of: Returns the number of the operation that made an object, or None.
        name_of: Returns the module and name of a module-level object, or None.
        instances: Encode instances by their fields and contents; else they raise `EncodingError`.
    """

    def __init__(self, handle_of: Handle, name_of: Callable[[Any], Any], *, instances: bool = True) -> None:
        self._handle_of = handle_of
        self._name_of = name_of
        self._instances = instances
        self._nodes = 0
        self._around: list[Any] = []
        """Instances that are being encoded, outermost first."""

    def encode(self, value: Any, depth: int = 0) -> Any:
        """Returns the tree. Raises `EncodingError`; exceptions of the value's own class are not caught."""
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise EncodingError("too large or too deep")
        if value is None or value is True or value is False:
            return value
        number = self._handle_of(value)
        if number is not None:
            return ["o", number]
        if self._instances and has_own_state(value):
            return self._instance(value, depth)
        scalar = encode_scalar(value)
        if scalar is not None:
            return scalar[0]
        return self._container(value, depth)

    def _container(self, value: Any, depth: int) -> Any:
        kinds: Any = ((list, "l"), (tuple, "t"), (set, "S"), (frozenset, "F"))
        for kind, tag in kinds:
            if isinstance(value, kind):
                return [tag] + [self.encode(item, depth + 1) for item in kind.__iter__(value)]
        if isinstance(value, dict):
            return ["d", *self._pairs(dict.items(value), depth)]
        if isinstance(value, range):
            return ["r"] + [self.encode(n, depth + 1) for n in (value.start, value.stop, value.step)]
        if type(value) in PLAIN_TYPES:
            plain = write_plain(value)
            if plain is None:
                raise EncodingError("no bounded text of a " + type(value).__name__)
            return ["v", *plain]
        if isinstance(value, BaseException) and not self._instances:
            return ["e", type_name(type(value))]
        named = self._name_of(value)
        if named is not None:
            return ["g", *list(named)]
        if not self._instances:
            raise EncodingError("an instance of " + type_name(type(value)))
        return self._instance(value, depth)

    def _pairs(self, items: Any, depth: int) -> list[Any]:
        return [self.encode(part, depth + 1) for pair in items for part in pair]

    def _instance(self, value: Any, depth: int) -> Any:
        if isinstance(value, type):
            return ["g", str(value.__module__), str(value.__qualname__)]
        if isinstance(value, types.ModuleType):
            return ["g", str(value.__name__), "module"]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, (types.MethodType, types.BuiltinFunctionType)):
            return ["t", "method", value.__name__, self.encode(value.__self__, depth + 1)]
        distance = next((n for n, one in enumerate(reversed(self._around), 1) if one is value), None)
        if distance is not None:
            return ["b", distance]
        self._around.append(value)
        try:
            return self._contents(value, depth)
        finally:
            self._around.pop()

    def _function(self, value: Any) -> Any:
        """Returns the name of a function, if the name finds it; what another one does is not seen in it."""
        try:
            found = find_global(value.__module__, value.__qualname__)
        except (ImportError, AttributeError):
            found = None
        if found is not value:
            raise EncodingError("a function without a name of its own")
        return ["g", value.__module__, value.__qualname__]

    def _contents(self, value: Any, depth: int) -> Any:
        if isinstance(value, Iterator):
            items = [self.encode(item, depth + 1) for item in itertools.islice(value, MAX_ITEMS)]
            return ["I", len(items) < MAX_ITEMS, *items]
        if callable(getattr(value, "tolist", None)) and not hasattr(value, "__dict__"):
            return self.encode(value.tolist(), depth + 1)  # arrays and scalars of numerical libraries
        if compares_contents(type(value)) and not isinstance(value, collections.OrderedDict):
            return self._contained(value, depth)
        fields, is_plain = fields_of(value), is_plain_class(type(value))
        held = None if is_plain and fields else self._contained(value, depth + 1)
        if held is None and not fields and not is_plain:
            raise EncodingError("nothing is seen of a " + type_name(type(value)))
        shown = ["d"]
        for name in sorted(fields):
            shown += [name, self.encode(fields[name], depth + 2)]
        return ["x", type_name(type(value)), shown, *([] if held is None else [held])]

    def _contained(self, value: Any, depth: int) -> Any:
        """Returns what an instance contains as data; None if it contains nothing that can be listed."""
        scalar = encode_scalar(value)
        if scalar is not None:
            return scalar[0]
        if isinstance(value, collections.OrderedDict):  # two of them are equal in one order alone
            return ["l"] + [["t", *self._pairs([pair], depth + 2)] for pair in value.items()]
        if isinstance(value, (list, tuple, set, frozenset, dict)):
            return self._container(value, depth)
        if isinstance(value, BaseException):
            return ["t"] + [self.encode(part, depth + 1) for part in value.args]
        if isinstance(value, Mapping):
            return ["d", *self._pairs(self._listed(value.items()), depth)]
        if defines(type(value), "__iter__") and defines(type(value), "__len__"):
            items = [self.encode(item, depth + 1) for item in self._listed(value)]
            return ["B" if isinstance(value, Set) else "l", *items]
        return None

    def _listed(self, items: Any) -> Any:
        """Yields items, and raises `EncodingError` where there are too many."""
        for number, item in enumerate(items):
            if number > MAX_NODES:
                raise EncodingError("too large or too deep")
            yield item


def has_own_state(value: Any) -> bool:
    """Returns whether a value is of a class of Python code that extends a builtin one, but for a dictionary of the
    standard library that equals every other one with its items."""
    kind = type(value)
    if kind in BUILTIN_VALUES or not isinstance(value, BUILTIN_VALUES) or kind in EQUAL_DICTS:
        return False
    return kind is collections.OrderedDict or bool(kind.__flags__ & HEAP_TYPE)


def defines(kind: type, name: str) -> bool:
    """Returns whether instances of a class have a special method; its metaclass may have one, too."""
    return any(name in vars(base) for base in kind.__mro__)


def is_plain_class(kind: type) -> bool:
    """Returns whether a class and its bases are written in Python, so that fields are all the state there is."""
    return all(base is object or base.__flags__ & HEAP_TYPE for base in kind.__mro__)


def has_own_equality(kind: Any) -> bool:
    """Returns whether Python code decides which values equal an instance."""
    return isinstance(kind.__eq__, types.FunctionType)


def compares_contents(kind: Any) -> bool:
    """Returns whether instances are equal where their items are, by a class of the standard library."""
    return has_own_equality(kind) and kind.__eq__.__module__ in ("_collections_abc", "collections.abc", "collections")


def fields_of(value: Any) -> dict[str, Any]:
    """Returns the fields of an instance by name: its dictionary and slots, without what its class computes or caches
    under a name, and without names of the language."""
    computed, fields = set(), {}
    for base in reversed(type(value).__mro__):
        for name, held in vars(base).items():
            if isinstance(held, types.MemberDescriptorType):
                try:
                    fields[name] = held.__get__(value)
                except AttributeError:
                    continue
            elif hasattr(type(held), "__get__") and not hasattr(type(held), "__set__"):
                computed.add(name)  # what a descriptor that writes keeps under its own name is state
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        fields.update({name: part for name, part in own.items() if isinstance(name, str) and name not in computed})
    return {name: part for name, part in fields.items() if not (name.startswith("__") and name.endswith("__"))}


def encode_scalar(value: Any) -> Any:
    """Returns a list with the tree of a number, text or bytes; None for anything else."""
    if isinstance(value, int):
        value = int.__int__(value)
        return [value if -SMALL < value < SMALL else ["i", hex(value)]]
    if isinstance(value, float):
        return [["f", float.hex(float.__float__(value))]]
    if isinstance(value, complex):
        return [["c", float.hex(value.real), float.hex(value.imag)]]
    if isinstance(value, str):
        text = str.__str__(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            return [["s", text.encode("utf-8", "surrogatepass").hex()]]
        return [text]
    if isinstance(value, (bytes, bytearray)):
        return [["y", bytes(value).hex()]]
    return None


def type_name(kind: type) -> str:
    """Returns a class's qualified name; names of builtins have no module."""
    module = str(kind.__module__)
    return str(kind.__qualname__) if module == "builtins" else module + "." + str(kind.__qualname__)


def decode(tree: Any, results: Any) -> Any:
    """Returns the value of a tree from the judge. Raises `MissingResult`."""
    if not isinstance(tree, list):
        return tree
    tag = tree[0]
    if tag in SEQUENCES:
        return SEQUENCES[tag](decode(item, results) for item in tree[1:])
    if tag == "d":
        parts = [decode(item, results) for item in tree[1:]]
        return dict(zip(parts[::2], parts[1::2], strict=False))
    if tag == "o":
        if tree[1] not in results:
            raise MissingResult(tree[1])
        return results[tree[1]]
    if tag == "g":
        return find_global(tree[1], tree[2])
    if tag == "r":
        return range(*tree[1:])
    return _decode_scalar(tag, tree)


def _decode_scalar(tag: str, tree: list[Any]) -> Any:
    if tag == "i":
        return int(tree[1], 16)
    if tag == "f":
        return float.fromhex(tree[1])
    if tag == "c":
        return complex(float.fromhex(tree[1]), float.fromhex(tree[2]))
    if tag == "s":
        return bytes.fromhex(tree[1]).decode("utf-8", "surrogatepass")
    if tag == "y":
        return bytes.fromhex(tree[1])
    if tag == "v":
        return read_input(tree[1], tree[2])
    raise EncodingError("unknown tag " + repr(tag))


def find_global(module: str, name: str) -> Any:
    """Returns a module-level object by module and dotted name."""
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value
