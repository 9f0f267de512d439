"""The tools that an attempt offered, wherever its record has them."""

from __future__ import annotations

from typing import Any

from assay.formats.shared.round_trip_builder import get_path, objects_in, source_fields
from assay.records import Trajectory

_PLACES = (("tools",), ("agent", "tool_definitions"), ("row", "tools"), ("row", "responses_create_params", "tools"))
"""Places of tools in the data of an importer's source."""


def recorded_tools(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Returns the definitions of tools in the form of Chat Completions: of the first model call that offered any, else
    of the imported source; empty where none are recorded.
    """
    offered = (objects_in(call.request.get("tools")) for call in trajectory.calls)
    fields = source_fields(trajectory)
    beside = (objects_in(get_path(fields, *place)) for place in _PLACES)
    found = next((tools for tools in (*offered, *beside) if tools), [])
    return [definition for tool in found if (definition := _definition(tool)) is not None]


def _definition(tool: dict[str, Any]) -> dict[str, Any] | None:
    """Returns a tool in the form of Chat Completions, from that of Anthropic or of Responses where needed."""
    if isinstance(tool.get("function"), dict):
        return tool
    if not isinstance(tool.get("name"), str):
        return None
    schema = next((tool[key] for key in ("input_schema", "parameters") if isinstance(tool.get(key), dict)), None)
    function = {"name": tool["name"], "description": tool.get("description"), "parameters": schema}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}
