"""Validates tool arguments against the tool's JSON Schema.

Supports `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `minItems`, `maxItems`,
`minimum`, `maximum`, `minLength`, `maxLength`, `anyOf`, `oneOf`, `allOf`; other keywords are ignored. Recursion is
bounded by the schema's depth, never the value's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_BOUNDS: tuple[tuple[str, str, Callable[[Any, float], bool], tuple[type, ...]], ...] = (
    ("minimum", "at least", lambda value, bound: value >= bound, (int, float)),
    ("maximum", "at most", lambda value, bound: value <= bound, (int, float)),
    ("minLength", "at least as long as", lambda value, bound: len(value) >= bound, (str,)),
    ("maxLength", "at most as long as", lambda value, bound: len(value) <= bound, (str,)),
    ("minItems", "at least as many items as", lambda value, bound: len(value) >= bound, (list,)),
    ("maxItems", "at most as many items as", lambda value, bound: len(value) <= bound, (list,)),
)
_EXACT = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": float}
_BOUND_WORDS = frozenset(word for word, *_ in _BOUNDS)
_COMBINING_WORDS = frozenset({"allOf", "anyOf", "oneOf"})
_FURTHER_WORDS = frozenset({"enum", "const"}) | _BOUND_WORDS | _COMBINING_WORDS
"""Words beside the type and the parts: most schemas have none."""


def validate(schema: Mapping[str, Any], value: Any, where: str = "arguments") -> str | None:
    """Returns one sentence for the model about the first violation; None if `value` is valid."""
    wanted = schema.get("type")
    exact = type(wanted) is str and type(value) is _EXACT.get(wanted)
    if not exact and wanted is not None and not _is_type(value, wanted):
        names = wanted if isinstance(wanted, str) else " or ".join(map(str, wanted))
        return f"{where}: expected {names}, got {_NAMES.get(type(value), 'null')}"
    plain = _FURTHER_WORDS.isdisjoint(schema)
    found = None if plain else _enumeration(schema, value, where) or _bounds(schema, value, where)
    if found is None and isinstance(value, dict):
        found = _object(schema, value, where)
    if found is None and isinstance(value, list) and isinstance(schema.get("items"), dict):
        found = _first(validate(schema["items"], item, f"{where}[{i}]") for i, item in enumerate(value))
    return found or (None if plain else _combined(schema, value, where))


def _is_type(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list | tuple):
        return any(_is_type(value, one) for one in wanted)
    if wanted == "integer":
        return (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and value.is_integer()
        )
    if wanted == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if wanted == "null":
        return value is None
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool}
    return not isinstance(wanted, str) or wanted not in kinds or isinstance(value, kinds[wanted])


def _enumeration(schema: Mapping[str, Any], value: Any, where: str) -> str | None:
    allowed = schema.get("enum")
    if isinstance(allowed, list | tuple) and value not in allowed:
        return f"{where}: expected one of {', '.join(repr(one) for one in allowed)[:300]}"
    if "const" in schema and value != schema["const"]:
        return f"{where}: expected {schema['const']!r}"
    return None


def _bounds(schema: Mapping[str, Any], value: Any, where: str) -> str | None:
    if _BOUND_WORDS.isdisjoint(schema):
        return None
    for word, text, holds, kinds in _BOUNDS:
        if word in schema and isinstance(value, kinds) and not isinstance(value, bool):
            bound = schema[word]
            if isinstance(bound, int | float) and not holds(value, bound):
                return f"{where}: must be {text} {bound}"
    return None


def _object(schema: Mapping[str, Any], value: dict[str, Any], where: str) -> str | None:
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where}: {name!r} is missing"
    known = schema.get("properties", {})
    extra = schema.get("additionalProperties")
    for name, item in value.items():
        part = known.get(name, extra)
        if name not in known and extra is False:
            return f"{where}: unknown {name[:80]!r}; known: {', '.join(known) or 'none'}"
        if isinstance(part, dict):
            found = validate(part, item, f"{where}.{name[:80]}")
            if found is not None:
                return found
    return None


def _combined(schema: Mapping[str, Any], value: Any, where: str) -> str | None:
    if _COMBINING_WORDS.isdisjoint(schema):
        return None
    found = _first(validate(part, value, where) for part in schema.get("allOf", ()))
    for word in ("anyOf", "oneOf"):
        parts = schema.get(word)
        if found is None and parts:
            problems = [validate(part, value, where) for part in parts]
            if None not in problems:
                found = (
                    problems[0] if len(problems) == 1 else f"{where}: fits none of the {len(problems)} allowed forms"
                )
            elif word == "oneOf" and problems.count(None) > 1:
                found = f"{where}: fits more than one of the forms of which exactly one is allowed"
    return found


def _first(problems: Any) -> str | None:
    return next((found for found in problems if found is not None), None)
