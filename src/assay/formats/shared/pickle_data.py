"""Reads the data in a pickle without unpickling it: no class is looked up, no function is called.

The opcodes are carried out over plain values alone. A class or function is a name (`PickledName`); an object that a
pickle would make by calling one is a `PickledObject` with that name, its arguments and its state. What such a call
would have done is never known here.

Covered: opcodes that could reach outside (persistent identifiers, extension codes, buffers outside of the pickle, the
opcodes of old instances) are refused; bytes, opcodes and the size of what is read out are bounded; a value that holds
itself is refused when it is read out.
"""

from __future__ import annotations

import io
import math
import pickletools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.errors import UserError
from assay.formats.shared.archives import DAMAGED, compression_of, open_compressed

MOST_BYTES: Final = 64 << 20
"""Bytes of a pickle, unpacked."""
MOST_OPCODES: Final = 2_000_000
_MOST_VALUES: Final = 500_000
"""Values that are read out of one pickle."""
_DEEPEST: Final = 60
_LONGEST_NAME: Final = 300
"""Characters of the name of a module, class or function: each object that is named so holds them once more."""
_LONGEST_KEY: Final = 1_000
_MOST_NUMBERS: Final = 16
"""Numbers of an array that are read out."""
_MARK: Final = object()
_NUMBERS: Final = {
    "f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i", "i2": "<h", "i1": "<b", "u8": "<Q", "u4": "<I", "u2": "<H",
    "u1": "<B", "b1": "<?",
}  # fmt: skip


class PickledName(NamedTuple):
    """Name of a class or function, which was not looked up."""

    module: str
    name: str


class PickledObject:
    """An object that was not made.

    Attributes:
        name: Name of what would have made it, such as `pathlib.PosixPath`.
        arguments: Arguments of the call.
        state: State that it would have been given; None without one.
        items: Items of a mapping.
        values: Items of a list or set.
    """

    __slots__ = ("arguments", "items", "name", "state", "values")

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments = name, arguments
        self.state: Any = None
        self.items: dict[Any, Any] = {}
        self.values: list[Any] = []


def read_pickle(path: Path) -> Any:
    """Returns the data of a file, which may be compressed. Raises `UserError` for what is refused or damaged."""
    with path.open("rb") as stream:
        is_packed = compression_of(stream.read(8)) is not None
    try:
        with open_compressed(path) if is_packed else path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (*DAMAGED, ValueError) as exc:
        raise UserError(f"{path.name} is damaged: {exc}") from exc
    if len(data) > MOST_BYTES:
        raise UserError(f"{path.name} is larger than the {MOST_BYTES:,} bytes that are read at most")
    return load_pickled_data(data)


def load_pickled_data(data: bytes) -> Any:
    """Returns the data of a pickle. Raises `UserError`."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(data))):
            if count >= MOST_OPCODES:
                raise UserError(f"the pickle has more than {MOST_OPCODES:,} opcodes")
            if opcode.name == "STOP":
                return machine.top()
            machine.run(opcode.name, argument)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, struct.error) as exc:
        raise UserError(f"the pickle is damaged: {type(exc).__name__}: {str(exc)[:200]}") from exc
    raise UserError("the pickle has no end")


class _Machine:
    """Carries out opcodes over plain values."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def top(self) -> Any:
        return self._stack[-1]

    def run(self, opcode: str, argument: Any) -> None:
        if opcode in _LITERALS:
            self._stack.append(argument)
        elif opcode in _CONSTANTS:
            self._stack.append(_CONSTANTS[opcode]())
        else:
            act = _ACTS.get(opcode)
            if act is None:
                raise UserError(f"the pickle is refused: {opcode} is not an opcode of plain data")
            act(self, argument)

    def _since_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        found = self._stack[at + 1 :]
        del self._stack[at:]
        return found

    def _skip(self, _: Any) -> None:
        pass

    def _pop_mark(self, _: Any) -> None:
        self._since_mark()

    def _pop(self, _: Any) -> None:
        self._stack.pop()

    def _duplicate(self, _: Any) -> None:
        self._stack.append(self._stack[-1])

    def _memoize(self, argument: Any) -> None:
        self._memo[len(self._memo) if argument is None else int(argument)] = self._stack[-1]

    def _recall(self, argument: Any) -> None:
        self._stack.append(self._memo[int(argument)])

    def _tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _tuple_of(self, count: int) -> None:
        found = tuple(self._stack[-count:])
        if len(found) < count:
            raise ValueError("too few values for a tuple")
        self._stack[-count:] = [found]

    def _list(self, _: Any) -> None:
        self._stack.append(self._since_mark())

    def _dict(self, _: Any) -> None:
        found: dict[Any, Any] = {}
        pairs = self._since_mark()
        self._stack.append(found)
        _set_items(found, pairs)

    def _append(self, _: Any) -> None:
        value = self._stack.pop()
        _values_of(self._stack[-1]).append(value)

    def _append_all(self, _: Any) -> None:
        found = self._since_mark()
        _values_of(self._stack[-1]).extend(found)

    def _set_item(self, _: Any) -> None:
        pair = self._stack[-2:]
        del self._stack[-2:]
        _set_items(self._stack[-1], pair)

    def _set_all(self, _: Any) -> None:
        found = self._since_mark()
        _set_items(self._stack[-1], found)

    def _global(self, argument: Any) -> None:
        module, _, name = str(argument).partition(" ")
        self._stack.append(_name(module, name))

    def _stack_global(self, _: Any) -> None:
        module, name = self._stack[-2:]
        self._stack[-2:] = [_name(module, name)]

    def _call(self, _: Any) -> None:
        function, arguments = self._stack[-2:]
        self._stack[-2:] = [_make(function, arguments)]

    def _call_with_names(self, _: Any) -> None:
        function, arguments, _named = self._stack[-3:]
        self._stack[-3:] = [_make(function, arguments)]

    def _build(self, _: Any) -> None:
        state = self._stack.pop()
        built = self._stack[-1]
        if not isinstance(built, PickledObject):
            raise TypeError("a state is of no object")
        built.state = state


def _name(module: Any, name: Any) -> PickledName:
    for part in (module, name):
        if not isinstance(part, str) or len(part) > _LONGEST_NAME or not part.isprintable():
            raise TypeError("a name is not text, or too long")
    return PickledName(module, name)


def _make(function: Any, arguments: Any) -> PickledObject:
    if not isinstance(function, PickledName) or not isinstance(arguments, tuple):
        raise TypeError("a call is of no name")
    if function == PickledName("copy_reg", "_reconstructor") or function == PickledName("copyreg", "_reconstructor"):
        function, arguments = arguments[0], ()
        if not isinstance(function, PickledName):
            raise TypeError("a call is of no name")
    return PickledObject(f"{function.module}.{function.name}", arguments)


def _values_of(target: Any) -> list[Any]:
    if isinstance(target, PickledObject):
        return target.values
    if isinstance(target, list):
        return target
    raise TypeError("items are added to no list")


def _set_items(target: Any, pairs: list[Any]) -> None:
    items = target.items if isinstance(target, PickledObject) else target
    if not isinstance(items, dict) or len(pairs) % 2:
        raise TypeError("items are set in no mapping")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if not isinstance(key, str | int | float | bool | bytes | None) or _is_large(key):
            key = f"<{type(key).__name__}>"  # of large numbers, many have one hash
        items[key] = value


_LITERALS: Final = frozenset(
    ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "STRING", "BINSTRING", "SHORT_BINSTRING",
     "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE",
     "BINUNICODE8", "FLOAT", "BINFLOAT")
)  # fmt: skip
_CONSTANTS: Final[dict[str, Callable[[], Any]]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_SET": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: _MARK,
}
_Act = Callable[[_Machine, Any], None]
_ACTS: Final[dict[str, _Act]] = {
    "PROTO": _Machine._skip,
    "FRAME": _Machine._skip,
    "POP": _Machine._pop,
    "POP_MARK": _Machine._pop_mark,
    "DUP": _Machine._duplicate,
    "PUT": _Machine._memoize,
    "BINPUT": _Machine._memoize,
    "LONG_BINPUT": _Machine._memoize,
    "MEMOIZE": _Machine._memoize,
    "GET": _Machine._recall,
    "BINGET": _Machine._recall,
    "LONG_BINGET": _Machine._recall,
    "TUPLE": _Machine._tuple,
    "TUPLE1": lambda machine, _: machine._tuple_of(1),
    "TUPLE2": lambda machine, _: machine._tuple_of(2),
    "TUPLE3": lambda machine, _: machine._tuple_of(3),
    "LIST": _Machine._list,
    "FROZENSET": _Machine._list,
    "DICT": _Machine._dict,
    "APPEND": _Machine._append,
    "APPENDS": _Machine._append_all,
    "ADDITEMS": _Machine._append_all,
    "SETITEM": _Machine._set_item,
    "SETITEMS": _Machine._set_all,
    "GLOBAL": _Machine._global,
    "STACK_GLOBAL": _Machine._stack_global,
    "REDUCE": _Machine._call,
    "NEWOBJ": _Machine._call,
    "NEWOBJ_EX": _Machine._call_with_names,
    "BUILD": _Machine._build,
}


# From pickled data to JSON data.


class PlainReader:
    """Reads values out of one pickle as JSON data, within bounds that hold for all of them together."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES
        self._characters = MOST_BYTES

    def read(self, value: Any, depth: int = 0) -> Any:
        """Returns a value as JSON data.

        An object is its state, items or values; a number of NumPy is a number and a short array a list; any other
        object is the name of its class. Raises `UserError` for what is too large, too deep or holds itself.
        """
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise UserError("the pickle holds too many values, or a value that holds itself")
        if isinstance(value, str):
            return self._text(value)
        if _is_large(value) or (isinstance(value, float) and not math.isfinite(value)):
            return f"<{type(value).__name__}>"  # which JSON has not
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, bytes | bytearray):
            return f"<{len(value)} bytes>"
        if isinstance(value, PickledName):
            return f"<{value.module}.{value.name}>"[:300]
        if isinstance(value, list | tuple):
            return [self.read(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._text(_key_text(key)): self.read(item, depth + 1) for key, item in value.items()}
        if not isinstance(value, PickledObject):
            raise UserError("the pickle is damaged: a mark is used as a value")
        return self._read_object(value, depth)

    def _text(self, value: str) -> str:
        self._characters -= len(value)  # one text may be named many times
        if self._characters < 0:
            raise UserError("the pickle holds too many values, or a value that holds itself")
        return value if value.isascii() else value.encode("utf-8", "replace").decode()

    @property
    def characters_left(self) -> int:
        """Characters of texts that may still be read."""
        return self._characters

    def _read_object(self, value: PickledObject, depth: int) -> Any:
        numbers = _numbers_of(value)
        if numbers is not None:
            return self.read(numbers, depth + 1)
        for inner in (fields_of(value), value.items, value.values):
            if inner:
                return self.read(inner, depth + 1)
        return f"<{value.name}>"[:300]


def _key_text(key: Any) -> str:
    if isinstance(key, bytes):
        key = key[:_LONGEST_KEY]  # one key may be named many times
    return str(key)[:_LONGEST_KEY]


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and value.bit_length() > 63


def fields_of(value: Any) -> dict[Any, Any]:
    """Returns the attributes that an object would have; empty for one without, and for other values."""
    state = value.state if isinstance(value, PickledObject) else None
    if isinstance(state, tuple) and len(state) == 2:  # of a class with slots
        parts = [part for part in state if isinstance(part, dict)]
        return {key: item for part in parts for key, item in part.items()}
    return state if isinstance(state, dict) else {}


def _numbers_of(value: PickledObject) -> Any:
    """Returns the number or numbers of a value of NumPy; None for other values and long arrays."""
    if value.name.endswith(".multiarray.scalar") and len(value.arguments) == 2:
        found = _unpack(*value.arguments)
        return found[0] if found else None
    if not value.name.endswith(".multiarray._reconstruct") or not isinstance(value.state, tuple):
        return None
    return _unpack(value.state[2], value.state[4]) if len(value.state) == 5 else None


def _unpack(kind: Any, data: Any) -> list[float] | None:
    name = kind.arguments[0] if isinstance(kind, PickledObject) and kind.arguments else None
    form = _NUMBERS.get(name) if isinstance(name, str) else None
    if form is None or not isinstance(data, bytes):
        return None
    size = struct.calcsize(form)
    if len(data) % size or len(data) > size * _MOST_NUMBERS:
        return None
    return [found[0] for found in struct.iter_unpack(form, data)]
