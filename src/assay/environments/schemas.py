"""Descriptions of tools for model servers: argument schemas and Chat Completions definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from assay.environments.interface import ToolSpec

_DEFINITIONS: Final = "#/$defs/"
_LITERAL: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, not schemas."""
_LEFT_OUT: Final = frozenset({"title", "discriminator"})
"""Keywords that say nothing of the form that the others do not say."""

Schema = Mapping[str, Any]


def flat_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the schema as one object without references, as model servers expect it, without title and description.

    Only types that contain themselves are referred to; their definitions are in `$defs`.
    """
    whole = msgspec.json.schema(kind)
    definitions: dict[str, Schema] = whole["$defs"]
    root = whole["$ref"].removeprefix(_DEFINITIONS)
    recursive = {name for name in definitions if name in _reachable(name, definitions)}
    used: set[str] = set()

    def resolve(name: str) -> dict[str, Any]:
        if name in recursive:
            used.add(name)
            return {"$ref": _DEFINITIONS + name}
        return expand(name)

    def expand(name: str) -> dict[str, Any]:
        return _map_references({k: v for k, v in definitions[name].items() if k not in _LEFT_OUT}, resolve)

    flat = expand(root)
    flat.pop("description", None)
    kept: dict[str, Any] = {}
    while missing := sorted(used - kept.keys()):
        kept |= {name: expand(name) for name in missing}
    return flat | ({"$defs": kept} if kept else {})


def split_definitions(schema: Schema, prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a schema for a place inside of an OpenAPI document, and its definitions for `components.schemas`.

    Args:
        schema: Schema of arguments.
        prefix: What the names of its definitions begin with in the document.
    """

    def resolve(name: str) -> dict[str, Any]:
        return {"$ref": f"#/components/schemas/{prefix}{name}"}

    definitions = schema.get("$defs", {})
    moved = {prefix + name: _map_references(found, resolve) for name, found in definitions.items()}
    return _map_references({k: v for k, v in schema.items() if k != "$defs"}, resolve), moved


def _map_references(schema: Schema, resolve: Callable[[str], Schema]) -> dict[str, Any]:
    """Returns a schema in which each reference to a definition is replaced by what `resolve` returns of its name.

    Keywords beside a reference, such as its own description, win over those of the replacement.
    """
    mapped: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "$ref" and isinstance(value, str):
            mapped = {**resolve(value.removeprefix(_DEFINITIONS)), **mapped}
        elif keyword in _LITERAL:
            mapped[keyword] = value
        elif keyword == "properties":
            mapped[keyword] = {name: _map_references(field, resolve) for name, field in value.items()}
        elif isinstance(value, Mapping):
            mapped[keyword] = _map_references(value, resolve)
        elif isinstance(value, list):
            parts = [_map_references(part, resolve) if isinstance(part, Mapping) else part for part in value]
            mapped[keyword] = parts
        else:
            mapped[keyword] = value
    return mapped


def _reachable(name: str, definitions: Mapping[str, Schema]) -> set[str]:
    """Returns the names of all definitions that a definition refers to, directly or through others."""
    found: set[str] = set()
    waiting = [name]

    def note(other: str) -> Schema:
        if other not in found:
            found.add(other)
            waiting.append(other)
        return {}

    while waiting:
        _map_references(definitions[waiting.pop()], note)
    return found


def tool_definitions(specs: tuple[ToolSpec, ...]) -> list[dict[str, Any]]:
    """Converts tools to Chat Completions definitions."""
    return [
        {
            "type": "function",
            "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters},
        }
        for spec in specs
    ]
