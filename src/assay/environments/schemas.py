"""JSON Schema of a tool's arguments, generated from the Struct that parses them."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["flat_schema"]


def flat_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the schema as one flat object, as model servers expect it, without title and description."""
    schema = msgspec.json.schema(kind)
    flat = dict(schema["$defs"][kind.__name__])
    flat.pop("title", None)
    flat.pop("description", None)
    return flat
