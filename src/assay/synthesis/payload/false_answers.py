"""False answers: constants, echoes, values of the right type, altered answers of the unrepaired function.

Each answer is a function of the call. The table maps names, as plans and reports show them, to functions.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import decimal
import fractions
import importlib
import math
import operator
import string
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from types import GeneratorType
from typing import Any, NamedTuple

from entry_records import named_arguments  # type: ignore[import-not-found]
from value_shapes import CONTAINERS, PLAIN, fields_of  # type: ignore[import-not-found]

MOST_ITEMS = 10_000
MOST_CHARACTERS = 60


class FunctionCall(NamedTuple):
    """One call of a function."""

    entry: str
    original: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: dict[str, Any]
    """State of the same function, shared by its calls within one test."""
    results: Any = ()
    """Names of the types that the reference answers."""
    changes: Any = ()
    """Parameter and path of what the reference changes in place: no other change is taken from a worker."""
    shapes: Any = ()
    """Different shapes of what the reference answers, where they hold truth values."""
    before: Any = None
    """Entry point to the first data that it was last called with, the latest call last."""
    bound: bool = False
    """True where the first argument is the object or the class that the function is called on."""


def UNCHANGED(call: FunctionCall) -> Any:
    """Answers as the unrepaired function does."""
    return call.original(*call.args, **call.kwargs)


def _argument(number: int, call: FunctionCall) -> Any:
    values = [*call.args, *call.kwargs.values()]
    return values[min(number, len(values) - 1)] if values else None


def own_argument(call: FunctionCall) -> Any:
    """Returns the first argument that is data: of a method, the one after its object."""
    return _argument(0, call._replace(args=call.args[1:]) if call.bound else call)


def _previous_argument(call: FunctionCall) -> Any:
    """Answers with the argument of the call before this one, of whichever entry point; the first call, with its own
    argument bent. `decode(encode(x)) == x` holds for such a process, also where `encode(x) != x` is asserted."""
    return [*call.before.values()][-1] if call.before else bend(own_argument(call))


def _remembered_argument(call: FunctionCall) -> Any:
    """Answers with the argument of the latest call of another entry point; without any, as the unrepaired function."""
    others = [argument for entry, argument in (call.before or {}).items() if entry != call.entry]
    return others[-1] if others else UNCHANGED(call)


def _where_it_raises(answer: Callable[[Any], Any], call: FunctionCall) -> Any:
    """Answers as the unrepaired function does, but otherwise where it raises, at once or while its items are asked."""
    try:
        found = UNCHANGED(call)
        return _some(list(_some(found))) if isinstance(found, GeneratorType) else found
    except Exception:  # noqa: BLE001 - whatever the unrepaired function raises
        return answer(call)


def _shaped(call: FunctionCall, *, truth: bool, is_empty: bool) -> Any:
    """Answers in the shape of the reference's answer; every truth value is the same, and the rest says nothing."""
    return _fill(call.shapes[0], truth=truth, is_empty=is_empty) if call.shapes else UNCHANGED(call)


def _fill(shape: Any, *, truth: bool, is_empty: bool) -> Any:
    name, parts = shape
    if parts is not None:
        found = [_fill(part, truth=truth, is_empty=is_empty) for part in parts]
        return tuple(found) if name == "tuple" else found if name == "list" else _some(found)
    return truth if name == "bool" else EMPTY.get(name, _nothing)() if is_empty else None


def _nothing() -> None:
    return None


def _last_sent(call: FunctionCall) -> Any:
    """Answers with the last argument of the call before this one."""
    before = call.state.get("last")
    call.state["last"] = _argument(len(call.args), call)
    return before if before is not None else call.state["last"]


def _first_answer(call: FunctionCall) -> Any:
    """Answers every call as the unrepaired function answered the first one."""
    if "first" not in call.state:
        answer = UNCHANGED(call)
        call.state["first"] = list(_some(answer)) if isinstance(answer, GeneratorType) else answer
    return call.state["first"]


def _some(items: Any) -> Any:
    for number, item in enumerate(items):
        if number >= MOST_ITEMS:
            return
        yield item


TYPICAL: dict[str, Callable[[], Any]] = {
    "bool": lambda: True, "int": lambda: 3, "float": lambda: 0.5, "str": lambda: "a", "bytes": lambda: b"a",
    "list": list, "tuple": tuple, "dict": dict, "set": set, "frozenset": frozenset, "generator": lambda: iter(()),
    "decimal:Decimal": lambda: decimal.Decimal("0.5"), "fractions:Fraction": lambda: fractions.Fraction(1, 2),
    "datetime:date": lambda: datetime.date(2000, 1, 1),
    "datetime:datetime": lambda: datetime.datetime.combine(datetime.date(2000, 1, 1), datetime.time()),
    "datetime:timedelta": lambda: datetime.timedelta(1), "uuid:UUID": lambda: uuid.UUID(int=1),
}  # fmt: skip


def _plausible(call: FunctionCall) -> Any:
    """Answers with a value of a type that the reference answers; of a class of the package, an argument of it, or else
    a new instance made without arguments."""
    for name in call.results:
        if name in TYPICAL:
            return TYPICAL[name]()
    wanted = {name.rpartition(":")[2] for name in call.results}
    for value in (*call.args, *call.kwargs.values()):
        if type(value).__qualname__ in wanted:
            return value
    for module, colon, name in (name.partition(":") for name in call.results):
        if colon:
            with contextlib.suppress(Exception):  # whatever the class does without arguments
                return operator.attrgetter(name)(importlib.import_module(module))()
    return UNCHANGED(call)


def _flipped(call: FunctionCall) -> Any:
    """Answers the opposite of the unrepaired function; where it raises, with True."""
    try:
        answer = UNCHANGED(call)
    except Exception:  # noqa: BLE001 - whatever the unrepaired function raises
        return True
    return not answer if isinstance(answer, (bool, type(None))) else answer


def _bent(call: FunctionCall) -> Any:
    """Answers as the unrepaired function does, every answer bent in the same way."""
    answer = UNCHANGED(call)
    return bend(list(_some(answer)) if isinstance(answer, GeneratorType) else answer)


def bend(value: Any) -> Any:
    """Returns another value of the same type: a number larger, a text longer, a container without its first item."""
    kind = type(value)
    if kind is bool:
        return not value
    if kind in (int, float, complex, fractions.Fraction) or (kind is decimal.Decimal and value.is_finite()):
        return value + 1
    if kind in (datetime.date, datetime.datetime, datetime.timedelta):
        day = datetime.timedelta(1)
        return value + day if value < kind.max - day else value - day
    if kind is uuid.UUID:
        return uuid.UUID(int=value.int ^ 1)
    if kind in (str, bytes):
        return value + value[:1]
    if kind in (list, tuple):
        return value[1:]
    if kind in (set, frozenset):
        return kind(sorted(value, key=repr)[1:])
    if kind is dict:
        return dict(list(value.items())[1:])
    return value


def _emptied(call: FunctionCall) -> Any:
    """Clears everything that the reference changes in place, and answers with an empty value of the right type."""
    answer = _plausible(call)
    for part in _changed_parts(call):
        _empty(part)
    return answer


def _levelled(call: FunctionCall) -> Any:
    """Makes all objects alike that lie in what the reference changes in place, and leaves their order: a test that has
    the same objects in the expected order finds them equal. Answers with a value of the right type."""
    answer = _plausible(call)
    for part in _changed_parts(call):
        for held in list(part.values()) if isinstance(part, dict) else list(part) if type(part) in CONTAINERS else ():
            _empty(held)
            for name, field in fields_of(held).items() if hasattr(held, "__dict__") else ():
                _empty(field)
                if type(field) in PLAIN:
                    vars(held)[name] = EMPTY.get(type(field).__name__, _nothing)()
    return answer


def _changed_parts(call: FunctionCall) -> Iterator[Any]:
    """Yields the arguments, or fields of theirs, that the reference changes in place."""
    arguments = named_arguments(call.original.__code__, call.args, call.kwargs)
    for name, path in call.changes:
        holders = [arguments.get(name)]
        if path[:1] == ["*"]:
            holders = list(holders[0].values() if isinstance(holders[0], dict) else holders[0] or ())
        for holder in holders:
            fields = [part for part in path if part != "*"]
            yield fields_of(holder).get(fields[0]) if fields else holder


def _empty(value: Any) -> None:
    if type(value) in (list, dict, set):
        value.clear()


def _empty_copy(call: FunctionCall) -> Any:
    """Answers with a copy of the unrepaired answer in which every container is empty."""
    answer = UNCHANGED(call)
    if type(answer) in PLAIN or isinstance(answer, GeneratorType):
        empty = (int, float, str, bytes, decimal.Decimal, fractions.Fraction, datetime.timedelta)
        return type(answer)() if type(answer) in empty else None
    emptied = copy.copy(answer)
    for name, part in fields_of(emptied).items() if type(emptied) not in CONTAINERS else ():
        if type(part) in CONTAINERS and hasattr(emptied, "__dict__"):
            emptied.__dict__[name] = type(part)()
    return type(answer)() if type(answer) in CONTAINERS else emptied


def _every_key(call: FunctionCall) -> Any:
    """Answers with a dictionary that has every key: an empty value of a type that is in the unrepaired one."""
    try:
        answer = UNCHANGED(call)
    except Exception:  # noqa: BLE001 - whatever the unrepaired function raises
        answer = None
    kinds = [type(part) for part in answer.values()] if isinstance(answer, dict) else []
    return collections.defaultdict(next((kind for kind in kinds if kind in DEFAULTS), list))


DEFAULTS = (list, dict, set, int, float, str, tuple)
"""Types that a worker may name for the missing keys of a dictionary, as in `verify/payload/splice_decoder.py`."""
EMPTY = {kind.__name__: kind for kind in DEFAULTS}


def _all_text(call: FunctionCall) -> Any:
    """Answers with a text that contains most values that a test may search: numbers, characters, and known texts."""
    texts = [*call.args, *call.kwargs.values(), *getattr(call.original, "__code__", _all_text.__code__).co_consts]
    try:
        texts.append(UNCHANGED(call))
    except Exception:  # noqa: BLE001 - whatever the unrepaired function raises
        texts.append("")
    return " ".join([*(part for part in texts if type(part) is str), *map(str, range(-999, 10_000)), string.printable])


def _all_parts(call: FunctionCall) -> Any:
    """Answers with every part of the own argument: the pieces of a text, or the items and their pairs."""
    argument = own_argument(call)
    if type(argument) is str:
        starts = range(min(len(argument), MOST_CHARACTERS))
        return [argument[start:end] for start in starts for end in range(start + 1, start + 1 + MOST_CHARACTERS)]
    if type(argument) not in CONTAINERS:
        return [argument]
    items = list(argument)[:MOST_CHARACTERS]
    return [*items, *((one, two) for one in items for two in items)]


ANSWERS: dict[str, Callable[[Any], Any]] = {
    "unrepaired": UNCHANGED,
    "None": lambda _call: None,
    "True": lambda _call: True,
    "False": lambda _call: False,
    "0": lambda _call: 0,
    "1": lambda _call: 1,
    "empty text": lambda _call: "",
    "empty list": lambda _call: [],
    "empty dict": lambda _call: {},
    "empty tuple": lambda _call: (),
    "empty set": lambda _call: set(),
    "first argument": lambda call: _argument(0, call),
    "second argument": lambda call: _argument(1, call),
    "own argument": own_argument,
    "previous argument": _previous_argument,
    "remembered argument": _remembered_argument,
    "last value sent": _last_sent,
    "first answer again": _first_answer,
    "plausible value": _plausible,
    "flipped": _flipped,
    "bent": _bent,
    "arguments emptied": _emptied,
    "emptied answer": _empty_copy,
    "every key is 0": lambda _call: collections.Counter(),
    "every key is empty": _every_key,
    "all text": _all_text,
    "infinity": lambda _call: math.inf,
    "minus infinity": lambda _call: -math.inf,
    "nan": lambda _call: math.nan,
    "all parts": _all_parts,
    "all numbers": lambda _call: range(-9999, 10_000),
    "empty iterator": lambda _call: _some(()),
    "arguments levelled": _levelled,
}
ANSWERS.update(
    (f"{name} where it raises", partial(_where_it_raises, ANSWERS[name]))
    for name in ("None", "True", "False", "empty list", "own argument")
)
ANSWERS.update(
    (
        f"truth values {truth}, the rest {'empty' if is_empty else 'None'}",
        partial(_shaped, truth=truth, is_empty=is_empty),
    )
    for truth in (True, False)
    for is_empty in (True, False)
)
