"""Random arguments that a tool's JSON Schema allows, for agents without knowledge."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from assay.environments.interface import ToolSpec

from .interface import Act

_DEEPEST = 8
_WORDS = ("alpha", "beta", "gamma", "1", "")


def sampled_act(tools: Sequence[ToolSpec], draw: random.Random) -> Act | None:
    """Returns a call of a random tool; None without tools."""
    if not tools:
        return None
    tool = draw.choice(tools)
    arguments = sampled_value(tool.parameters, draw)
    return tool.name, arguments if isinstance(arguments, dict) else {}


def sampled_value(schema: dict[str, Any], draw: random.Random, depth: int = 0) -> Any:
    """Returns a value of the usual schema types; None for an unknown one."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return draw.choice(list(schema["enum"]))
    kind = schema.get("type")
    kind = draw.choice(kind) if isinstance(kind, list) and kind else kind
    if kind == "object":
        given = schema.get("properties", {})
        wanted = [name for name in given if name in schema.get("required", ()) or draw.random() < 0.5]
        return {name: sampled_value(given[name], draw, depth + 1) for name in wanted} if depth < _DEEPEST else {}
    if kind == "array":
        count = draw.randint(schema.get("minItems", 0), schema.get("maxItems", 3)) if depth < _DEEPEST else 0
        return [sampled_value(schema.get("items", {}), draw, depth + 1) for _ in range(count)]
    if kind in {"integer", "number"}:
        return draw.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 9)))
    if kind == "boolean":
        return draw.random() < 0.5
    return draw.choice(_WORDS) if kind == "string" else None
