"""The JSON Schema of a tool's arguments, from the Struct that reads them."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["flat_schema"]


def flat_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """One flat object, as model servers want it: no title, and no description, which is the tool's own."""
    schema = msgspec.json.schema(kind)
    flat = dict(schema["$defs"][kind.__name__])
    flat.pop("title", None)
    flat.pop("description", None)
    return flat
