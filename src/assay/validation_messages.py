"""Messages for values of a wrong type: expected type, actual value, and an example in the notation of the author.

`msgspec` says "Expected `array`, got `str`": correct, but no help to an author of TOML or options. Here a value is "the
string 'a'", a type "a list of strings", and the example holds the given value if that can be meant.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import inspect

_EXAMPLES: dict[type, Any] = {
    inspect.BoolType: True,
    inspect.IntType: 1,
    inspect.FloatType: 1.0,
    inspect.VarTupleType: ["text"],
    inspect.ListType: ["text"],
    inspect.DictType: {"NAME": "value"},
}
_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "array": "a list", "object": "a table"}
Notation = Literal["toml", "python", "option"]
"""How a reader writes values: `a = ["b"]`, `a=['b']`, or `a=["b"]` as an option of the command line."""


class InvalidValue(NamedTuple):
    """Why `msgspec` refused a value."""

    field: str
    """Path such as `limits.turns`; empty for the whole."""
    message: str


def describe_value(value: object, notation: Notation = "toml") -> str:
    """Describes a value briefly, for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {shorten(repr(value))}"
    if isinstance(value, int | float):
        return f"the number {_number(value)}"
    if isinstance(value, list):
        return "an empty list" if not value else f"a list of {len(value)}"
    if isinstance(value, dict):
        return "a dict" if notation == "python" else "a table"
    return "nothing" if value is None else f"a {type(value).__name__}"


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Returns the most similar name, or None."""
    if len(name) > 100:
        return None
    return next(iter(difflib.get_close_matches(name, names, n=1)), None)


def describe_invalid(
    exc: msgspec.ValidationError, kind: Any, data: object, notation: Notation = "toml", *, name: str = ""
) -> InvalidValue:
    """Returns the field of which `msgspec.convert` complained, and its complaint: with the expected type, the value and
    an example; for an unknown field with the nearest name; for a text with the ones that are allowed.

    Args:
        exc: The error.
        kind: The type that `data` was converted to.
        data: What was converted.
        notation: Notation of the example.
        name: Name of `data` where it is one value.
    """
    what, _, place = str(exc).partition(" - at `$")
    place = place.rstrip("`").removeprefix(".")
    field, value = _find(get_type_info(kind), data, place)
    message = f"{what[:1].lower()}{what[1:]}"
    options = [] if field is None else alternatives(field)
    if unknown := re.search("unknown field `(.*)`", what):
        records = [option for option in options if isinstance(option, inspect.StructType)]
        names = [one.encode_name for record in records for one in record.fields]
        near = nearest(unknown[1], names)
        message = f"there is no option {unknown[1]}" if notation == "option" else message
        return InvalidValue(place, f"{message}; {f'did you mean {near}?' if near else 'known: ' + ', '.join(names)}")
    allowed = [str(v) for option in options if isinstance(option, inspect.LiteralType) for v in option.values]
    if field is not None and re.match(r"Expected `[^`]*`, got `", what):
        key = "" if place.endswith("]") else place.rpartition(".")[2] or name
        message = f"expected {describe_type(field, notation)}, got {describe_value(value, notation)}"
        return InvalidValue(place, f"{message}; {_write(key, field, value, notation)}")
    if field is not None and re.match(r"Expected `\w+` (of length )?[<>=]", what):
        bounded = re.sub(r"`(\w+)`", lambda found: _WORDS.get(found[1], found[0]), message)
        return InvalidValue(place, f"{bounded}, got {describe_value(value, notation)}")
    return InvalidValue(place, f"{message}; use {', '.join(allowed)}" if allowed else message)


def _write(key: str, kind: inspect.Type, value: object, notation: Notation) -> str:
    meant = _like(kind, value)
    assigned = f"{key} = " if notation == "toml" else f"{key}="
    if meant is not None:
        return f"write {assigned if key else ''}{_format(meant, notation)}"
    return f"write for example {assigned if key else ''}{example_of(kind, notation)}"


def _like(kind: inspect.Type, value: object) -> Any:
    """Returns the value in the wanted type, where it can be meant so; else None."""
    for option in alternatives(kind):
        if isinstance(option, inspect.VarTupleType | inspect.ListType) and isinstance(value, str):
            items = [_plain(one) for one in alternatives(option.item_type)]
            if value and any(isinstance(one, inspect.StrType | inspect.AnyType) for one in items):
                return [value]
        if isinstance(option, inspect.IntType | inspect.FloatType) and isinstance(value, str) and len(value) < 20:
            try:
                return int(value) if isinstance(option, inspect.IntType) else float(value)
            except ValueError:
                continue
        if isinstance(option, inspect.BoolType) and isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if isinstance(option, inspect.StrType) and isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
    return None


def _find(kind: inspect.Type | None, value: object, place: str) -> tuple[inspect.Type | None, object]:
    """Returns type and value at a path of `msgspec` (`limits.turns`, `[0]`, `[...]` for a key or value of a table);
    None for a type that the path does not lead to."""
    for name, index in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", place):
        options = [] if kind is None else alternatives(kind)
        kind = None
        for option in options:
            if name and isinstance(option, inspect.StructType):
                kind = next((one.type for one in option.fields if one.encode_name == name), None)
            elif index == "..." and isinstance(option, inspect.DictType):
                kind = option.value_type
            elif index and isinstance(option, inspect.VarTupleType | inspect.ListType):
                kind = option.item_type
            if kind is not None:
                break
        value = _item(value, name, index, kind)
    return kind, value


def _item(value: object, name: str, index: str, kind: inspect.Type | None) -> object:
    if isinstance(value, dict):
        if name:
            return value.get(name)
        return next((item for item in value.values() if kind is None or not _accepts(kind, item)), None)
    if isinstance(value, list | tuple) and index.isdecimal() and int(index) < len(value):
        return value[int(index)]
    return None


def _accepts(kind: inspect.Type, value: object) -> bool:
    """Returns whether a type may be that of a text."""
    textual = inspect.StrType | inspect.AnyType | inspect.LiteralType
    return isinstance(value, str) and any(isinstance(one, textual) for one in alternatives(kind))


@lru_cache(maxsize=256)
def get_type_info(kind: Hashable) -> inspect.Type:
    """Returns the description of a type by `msgspec`."""
    return inspect.type_info(kind)


def alternatives(kind: inspect.Type) -> list[inspect.Type]:
    """Returns the types of a union without None, and any other type alone; metadata is removed."""
    kind = _plain(kind)
    types = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return [_plain(t) for t in types if not isinstance(_plain(t), inspect.NoneType)] or [kind]


def _plain(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def shorten(text: str) -> str:
    """Returns at most 60 characters of a text."""
    return text if len(text) <= 60 else text[:57] + "..."


def _number(value: int | float) -> str:
    if isinstance(value, int) and abs(value) >= 1 << 70:
        return f"of {value.bit_length()} bits"
    return str(value)


def describe_type(kind: inspect.Type, notation: Notation = "toml") -> str:
    """Describes a type, for a message."""
    found = " or ".join(_described_one(option) for option in alternatives(kind))
    return found.replace("table", "dict") if notation == "python" else found


def _described_one(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return "one of " + ", ".join(repr(v) for v in kind.values)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        word = "a whole number" if isinstance(kind, inspect.IntType) else "a finite number"
        bound = f" above {kind.gt:g}" if kind.gt is not None else ""
        return word + (f" of at least {kind.ge:g}" if kind.ge is not None else bound)
    if isinstance(kind, inspect.StrType):
        return "a non-empty string" if kind.min_length else "a string"
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return f"a list of {_plural(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return "a table" if isinstance(kind.value_type, inspect.AnyType) else f"a table of {_plural(kind.value_type)}"
    if isinstance(kind, inspect.StructType):
        return "a table"
    return "true or false" if isinstance(kind, inspect.BoolType) else "a value"


def _plural(kind: inspect.Type) -> str:
    words = {inspect.StrType: "strings", inspect.StructType: "tables", inspect.FloatType: "numbers"}
    return " or ".join(words.get(type(option), "values") for option in alternatives(kind))


def example_of(kind: inspect.Type, notation: Notation = "toml") -> str:
    """Returns an example of a type, as written in a notation."""
    if isinstance(kind, inspect.Metadata) and kind.extra_json_schema and "examples" in kind.extra_json_schema:
        return str(kind.extra_json_schema["examples"][0])
    if isinstance(kind, inspect.UnionType):
        return example_of(next(one for one in kind.types if not isinstance(one, inspect.NoneType)), notation)
    option = alternatives(kind)[0]
    if isinstance(option, inspect.StructType):
        return "{ ... }"
    value = option.values[0] if isinstance(option, inspect.LiteralType) else _EXAMPLES.get(type(option), "text")
    return _format(value, notation)


def _format(value: Any, notation: Notation) -> str:
    if notation == "python":
        return repr(value)
    if isinstance(value, str) and notation == "option":
        return value
    if isinstance(value, dict) and notation == "toml":
        return "{ " + ", ".join(f"{key} = {_format(item, notation)}" for key, item in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
