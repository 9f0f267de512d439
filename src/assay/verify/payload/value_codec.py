"""Encodes Python values as JSON trees of scalars and tagged lists, and decodes them. Standard library, Python 3.8.

Programs beside this one import it inside a sandbox. The host reads the same trees with a decoder of its own
(`verify.calls.answers`), which trusts none of this output. Tags: `i` large integer, `f` float, `c` complex, `s`
text with surrogates, `y` bytes, `l t S F` list, tuple, set, frozenset, `d` dict, `r` range, `o` result of an earlier
operation, `g` module-level name, `v` value of another standard type as in `plain_values`, `I` prefix of an iterator,
`x` instance.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from plain_values import PLAIN_TYPES, read_input, write_plain  # type: ignore[import-not-found]  # a sibling

MAX_NODES = 20_000
MAX_DEPTH = 24
MAX_ITEMS = 200
"""Limit of the encoded items of an iterator or an instance."""
SMALL = 1 << 53
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
        instances: Encode instances by their contents; else they raise `EncodingError`.
    """

    def __init__(self, handle_of: Handle, name_of: Callable[[Any], Any], *, instances: bool = True) -> None:
        self._handle_of = handle_of
        self._name_of = name_of
        self._instances = instances
        self._nodes = 0

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
        if isinstance(value, BaseException):
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
        if isinstance(value, Iterator):
            items = [self.encode(item, depth + 1) for item in itertools.islice(value, MAX_ITEMS)]
            return ["I", len(items) < MAX_ITEMS, *items]
        if isinstance(value, Mapping):
            return ["d", *self._pairs(itertools.islice(value.items(), MAX_ITEMS), depth)]
        if hasattr(type(value), "__iter__") and hasattr(type(value), "__len__"):
            items = [self.encode(item, depth + 1) for item in itertools.islice(iter(value), MAX_ITEMS)]
            return (["l"] if hasattr(type(value), "index") else ["x", type(value).__name__, len(value)]) + items
        if callable(getattr(value, "tolist", None)):  # arrays and scalars of numerical libraries
            return self.encode(value.tolist(), depth + 1)
        return ["x", type(value).__name__, 0]


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
