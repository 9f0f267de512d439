"""Converts plain data to records and reports every misfit with path, expected and actual value.

`msgspec.convert` stops at the first misfit; an author wants all of them. Rules between fields are in `harbor_rules`.
Invariant: results have the declared types and finite numbers only; an invalid field is reported and replaced by its
default, and an invalid record becomes None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar, cast

from msgspec import inspect

from assay.validation_messages import (
    alternatives,
    describe_type,
    describe_value,
    example_of,
    get_type_info,
    nearest,
    shorten,
)

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
    value = _read(get_type_info(cast(Hashable, kind)), data, at, report)
    return None if value is _BAD else value


def _read(kind: inspect.Type, value: object, at: str, report: Callable[[Misfit], None]) -> Any:
    options = alternatives(kind)
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
                report(Misfit(where, "is required and missing", f"add {key} = {example_of(field.type)}"))
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
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else shorten(repr(key))


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
    options = alternatives(kind)
    if isinstance(value, int) and abs(value) >= _INT64:
        report(
            Misfit(
                at, f"is {describe_value(value)}, too large to be kept", f"write for example {key} = {example_of(kind)}"
            )
        )
        return
    literal = next((o for o in options if isinstance(o, inspect.LiteralType)), None)
    near = nearest(value, [str(v) for v in literal.values]) if literal and isinstance(value, str) else None
    in_list = at.endswith("]")
    fix = f"for example {example_of(kind)}" if in_list else f"write for example {key} = {example_of(kind)}"
    message = f"expected {describe_type(kind)}, got {describe_value(value)}"
    report(Misfit(at, message, f"did you mean {near!r}?" if near else fix))
