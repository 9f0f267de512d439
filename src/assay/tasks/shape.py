"""Converts plain data to records and reports every misfit with path, expected and actual value.

`msgspec.convert` stops at the first misfit; an author wants all of them. Rules between fields are in `harbor_rules`.
Invariant: results have the declared types and finite numbers only; an invalid field is reported and replaced by its
default, and an invalid record becomes None.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

T = TypeVar("T")
_BAD: Any = object()
_INT64 = 1 << 63
ITEMS_LIMIT = 10_000


class Misfit(NamedTuple):
    """An invalid value. `unknown` marks an unknown key."""

    field: str
    message: str
    fix: str
    unknown: bool = False
    strict: bool = False
    """The record forbids unknown keys."""


def read_record(kind: type[T], data: object, report: Callable[[Misfit], None], *, at: str = "") -> T | None:
    """Reads a table into a `msgspec.Struct`; reports misfits; None where a required field is missing or wrong."""
    value = _read(_info(cast(Hashable, kind)), data, at, report)
    return None if value is _BAD else value


def describe_value(value: object) -> str:
    """Describes a value briefly, for a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the string {_cut(repr(value))}"
    if isinstance(value, int | float):
        return f"the number {_number(value)}"
    if isinstance(value, list):
        return "an empty list" if not value else f"a list of {len(value)}"
    if isinstance(value, dict):
        return "a table"
    return f"a {type(value).__name__}"


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Returns the most similar name, or None."""
    if len(name) > 100:
        return None
    return next(iter(difflib.get_close_matches(name, names, n=1)), None)


def describe_invalid(exc: msgspec.ValidationError, struct: type[msgspec.Struct]) -> tuple[str, str]:
    """Returns the place in a struct of which `msgspec.convert` complained, empty for the whole, and its complaint, with
    the nearest name of an unknown field and the texts that a field may have."""
    what, _, place = str(exc).partition(" - at `$.")
    place = place.rstrip("`")
    message = f"{what[:1].lower()}{what[1:]}"
    hints = _hints_at(struct, place)
    if unknown := re.search("unknown field `(.*)`", what):
        records = [kind for hint in hints if isinstance(kind := get_origin(hint) or hint, type)]
        names = [name for kind in records for name in getattr(kind, "__struct_fields__", ())]
        near = nearest(unknown[1], names)
        return place, f"{message}; {f'did you mean {near}?' if near else 'known: ' + ', '.join(names)}"
    texts = [value for hint in hints for value in get_args(hint) if get_origin(hint) is Literal]
    allowed = ", ".join(value for value in texts if isinstance(value, str))
    return place, f"{message}; use {allowed}" if allowed else message


def _hints_at(struct: type[msgspec.Struct], place: str) -> tuple[Any, ...]:
    """Returns the type of a field (`limits.turns`, `[...]` for an item), and the types that it is made of."""
    hints: tuple[Any, ...] = (struct,)
    for name in filter(None, re.sub(r"\[[^\]]*\]", "", place).split(".")):
        owner = next((hint for hint in hints if name in getattr(hint, "__struct_fields__", ())), None)
        if owner is None:
            return ()
        hint = get_type_hints(owner)[name]
        hints = (hint, *get_args(hint))
    return hints


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _number(value: int | float) -> str:
    if isinstance(value, int) and abs(value) >= 1 << 70:
        return f"of {value.bit_length()} bits"
    return str(value)


@lru_cache(maxsize=256)
def _info(kind: Hashable) -> inspect.Type:
    return inspect.type_info(kind)


def _plain(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    kind = _plain(kind)
    types = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return [_plain(t) for t in types if not isinstance(_plain(t), inspect.NoneType)]


def _read(kind: inspect.Type, value: object, at: str, report: Callable[[Misfit], None]) -> Any:
    options = _alternatives(kind)
    for option in options:
        if isinstance(option, inspect.StructType) and isinstance(value, dict):
            return _read_struct(option, value, at, report)
        if isinstance(option, inspect.VarTupleType) and isinstance(value, list):
            return _read_items(option.item_type, value, at, report)
        if isinstance(option, inspect.DictType) and isinstance(value, dict):
            table = {k: _read(option.value_type, item, f"{at}.{_key(k)}", report) for k, item in value.items()}
            return _BAD if any(item is _BAD for item in table.values()) else table
    for option in options:
        found = _scalar(option, value)
        if found is not _BAD:
            return found
    _misfit(kind, value, at, report)
    return _BAD


def _read_struct(kind: inspect.StructType, data: dict[str, Any], at: str, report: Callable[[Misfit], None]) -> Any:
    known = {field.encode_name: field for field in kind.fields}
    _report_unknown(kind, list(data), list(known), at, report)
    values: dict[str, Any] = {}
    bad = False
    for key, field in known.items():
        where = f"{at}.{key}" if at else key
        if key not in data:
            if field.required:
                bad = True
                report(Misfit(where, "is required and missing", f"add {key} = {_example(field.type)}"))
            continue
        value = _read(field.type, data[key], where, report)
        if value is not _BAD:
            values[field.name] = value
        else:
            bad = bad or field.required
    return _BAD if bad else kind.cls(**values)


def _report_unknown(
    kind: inspect.StructType, keys: list[str], fields: list[str], at: str, report: Callable[[Misfit], None]
) -> None:
    strict = bool(getattr(kind.cls, "__struct_config__").forbid_unknown_fields)  # noqa: B009
    for key in keys:
        if key not in fields:
            near = nearest(key, fields)
            fix = f"did you mean {near}?" if near else f"remove it; known here: {', '.join(fields)}"
            where = f"{at}.{_key(key)}" if at else _key(key)
            report(Misfit(where, "is not a known key", fix, unknown=True, strict=strict))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _cut(repr(key))


def _read_items(kind: inspect.Type, items: list[Any], at: str, report: Callable[[Misfit], None]) -> Any:
    if len(items) > ITEMS_LIMIT:
        report(Misfit(at, f"is a list of {len(items)}", f"write at most {ITEMS_LIMIT}"))
        return _BAD
    read = [_read(kind, item, f"{at}[{index}]", report) for index, item in enumerate(items)]
    return _BAD if any(item is _BAD for item in read) else tuple(read)


def _scalar(kind: inspect.Type, value: object) -> Any:
    if isinstance(kind, inspect.AnyType):
        return value
    if isinstance(kind, inspect.BoolType):
        return value if isinstance(value, bool) else _BAD
    if isinstance(kind, inspect.LiteralType):
        return value if value in kind.values and isinstance(value, str) else _BAD
    if isinstance(kind, inspect.StrType) and isinstance(value, str):
        return value if _fits_text(kind, value) else _BAD
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _BAD
    if isinstance(kind, inspect.FloatType) and math.isfinite(value) and _fits_bounds(kind, value):
        return float(value)
    if isinstance(kind, inspect.IntType) and isinstance(value, int) and _fits_bounds(kind, value):
        return value
    return _BAD


def _fits_text(kind: inspect.StrType, value: str) -> bool:
    return len(value) >= (kind.min_length or 0) and (kind.pattern is None or bool(re.search(kind.pattern, value)))


def _fits_bounds(kind: inspect.IntType | inspect.FloatType, value: float) -> bool:
    return abs(value) < _INT64 and (kind.gt is None or value > kind.gt) and (kind.ge is None or value >= kind.ge)


def _misfit(kind: inspect.Type, value: object, at: str, report: Callable[[Misfit], None]) -> None:
    key = re.sub(r"\[\d+\]$", "", at).rpartition(".")[2]
    options = _alternatives(kind)
    if isinstance(value, int) and abs(value) >= _INT64:
        report(
            Misfit(
                at, f"is {describe_value(value)}, too large to be kept", f"write for example {key} = {_example(kind)}"
            )
        )
        return
    literal = next((o for o in options if isinstance(o, inspect.LiteralType)), None)
    near = nearest(value, [str(v) for v in literal.values]) if literal and isinstance(value, str) else None
    in_list = at.endswith("]")
    fix = f"for example {_example(kind)}" if in_list else f"write for example {key} = {_example(kind)}"
    report(
        Misfit(
            at, f"expected {_described(kind)}, got {describe_value(value)}", f"did you mean {near!r}?" if near else fix
        )
    )


def _described(kind: inspect.Type) -> str:
    return " or ".join(_described_one(option) for option in _alternatives(kind))


def _described_one(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return "one of " + ", ".join(repr(v) for v in kind.values)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        word = "a whole number" if isinstance(kind, inspect.IntType) else "a finite number"
        bound = f" above {kind.gt:g}" if kind.gt is not None else ""
        return word + (f" of at least {kind.ge:g}" if kind.ge is not None else bound)
    if isinstance(kind, inspect.StrType):
        return "a non-empty string" if kind.min_length else "a string"
    if isinstance(kind, inspect.VarTupleType):
        return f"a list of {_plural(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return "a table" if isinstance(kind.value_type, inspect.AnyType) else f"a table of {_plural(kind.value_type)}"
    if isinstance(kind, inspect.StructType):
        return "a table"
    return "true or false" if isinstance(kind, inspect.BoolType) else "a value"


def _plural(kind: inspect.Type) -> str:
    words = {inspect.StrType: "strings", inspect.StructType: "tables", inspect.FloatType: "numbers"}
    return " or ".join(words.get(type(option), "values") for option in _alternatives(kind))


def _example(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata) and kind.extra_json_schema and "examples" in kind.extra_json_schema:
        return str(kind.extra_json_schema["examples"][0])
    examples = {
        inspect.BoolType: "true",
        inspect.IntType: "1",
        inspect.FloatType: "1.0",
        inspect.StrType: '"text"',
        inspect.VarTupleType: '["text"]',
        inspect.DictType: '{ NAME = "value" }',
        inspect.StructType: "{ ... }",
    }
    if isinstance(kind, inspect.UnionType):
        return _example(next(t for t in kind.types if not isinstance(t, inspect.NoneType)))
    option = _plain(kind)
    if isinstance(option, inspect.UnionType):
        return _example(option)
    if isinstance(option, inspect.LiteralType):
        return f'"{option.values[0]}"'
    return examples.get(type(option), '"text"')
