"""Definitions of tools in the form of Chat Completions: of a recorded attempt, and of any request."""

from __future__ import annotations

from typing import Any

from assay.formats.shared.round_trip_builder import get_path, list_or_empty, objects_in, source_fields
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
    return [known for tool in found for known in ([tool] if _is_definition(tool) else tool_definitions([tool]))]


def _is_definition(tool: dict[str, Any]) -> bool:
    return isinstance(tool.get("function"), dict)


def tool_definitions(value: Any) -> list[dict[str, Any]]:
    """Returns the tools of a request (of OpenAI's APIs, Anthropic or Gemini) in the form of Chat Completions."""
    found = []
    for tool in objects_in(value):
        inner = tool["function"] if _is_definition(tool) else tool
        for one in objects_in(list_or_empty(tool.get("function_declarations")) or [inner]):
            if isinstance(one.get("name"), str):
                schemas = (one[key] for key in ("parameters", "input_schema") if isinstance(one.get(key), dict))
                about = {"name": one["name"], "description": one.get("description"), "parameters": next(schemas, None)}
                function = {key: held for key, held in about.items() if held is not None}
                found.append({"type": "function", "function": function})
    return found
