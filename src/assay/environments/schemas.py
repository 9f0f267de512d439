"""Descriptions of tools for model servers: argument schemas and Chat Completions definitions."""

from __future__ import annotations

from typing import Any

import msgspec

from assay.environments.interface import ToolSpec


def flat_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the schema as one flat object, as model servers expect it, without title and description."""
    schema = msgspec.json.schema(kind)
    flat = dict(schema["$defs"][kind.__name__])
    flat.pop("title", None)
    flat.pop("description", None)
    return flat


def tool_definitions(specs: tuple[ToolSpec, ...]) -> list[dict[str, Any]]:
    """Converts tools to Chat Completions definitions."""
    return [
        {
            "type": "function",
            "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters},
        }
        for spec in specs
    ]
