"""Schemas of tools: every reference in them leads somewhere, at every interface that shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from assay.environments.interface import ToolSpec
from assay.environments.schemas import flat_schema, tool_definitions
from assay.environments.services.declaration import Service
from assay.environments.services.http import openapi
from assay.environments.services.mcp import McpServer
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.transaction import Transaction
from assay.environments.services.world import ServiceWorld

pytestmark = pytest.mark.newest


class Leaf(msgspec.Struct, frozen=True):
    """A leaf."""

    title: str
    size: int = 3


class Branch(msgspec.Struct, frozen=True):
    """A branch."""

    leaf: Leaf
    parts: list[Branch] = []


class Order(msgspec.Struct, frozen=True):
    described: Annotated[Leaf, Meta(description="The first one.")]
    several: list[Leaf]
    optional: Leaf | None = None
    given: Leaf = Leaf("oak")


class Tree(msgspec.Struct, frozen=True):
    trunk: Branch
    label: str


orchard = Service("orchard", "Trees.")


@orchard.action()
def plant(tx: Transaction, trunk: Branch, label: str) -> str:
    """Plants a tree."""
    return label


def references(schema: Any) -> Iterator[str]:
    """Yields all references to a place of the same document."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for part in schema.values():
            yield from references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from references(part)


def dangling(document: dict[str, Any]) -> list[str]:
    found = []
    for reference in references(document):
        place: Any = document if reference.startswith("#/") else None
        for name in reference.removeprefix("#/").split("/"):
            place = place.get(name) if isinstance(place, dict) else None
        if place is None:
            found.append(reference)
    return found


def test_nested_types_are_inlined() -> None:
    leaf = {
        "description": "A leaf.",
        "type": "object",
        "properties": {"title": {"type": "string"}, "size": {"type": "integer", "default": 3}},
        "required": ["title"],
    }
    assert flat_schema(Order) == {
        "type": "object",
        "properties": {
            "described": leaf | {"description": "The first one."},
            "several": {"type": "array", "items": leaf},
            "optional": {"anyOf": [leaf, {"type": "null"}], "default": None},
            "given": leaf | {"default": {"title": "oak", "size": 3}},
        },
        "required": ["described", "several"],
    }


@pytest.mark.parametrize("kind", [Tree, Branch])
def test_a_type_that_contains_itself_is_defined_once(kind: type[msgspec.Struct]) -> None:
    schema = flat_schema(kind)
    assert not dangling(schema)
    assert list(schema["$defs"]) == ["Branch"]
    assert schema["$defs"]["Branch"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Branch"}
    assert schema["$defs"]["Branch"]["properties"]["leaf"]["properties"]["title"] == {"type": "string"}


async def test_references_of_recursive_types_hold_at_each_interface() -> None:
    tools = ServedTools(ServiceWorld.of([orchard]))
    document = openapi(tools)
    assert not dangling(document)
    assert list(references(document["paths"]["/actions/plant"]["post"]["requestBody"])) == [
        "#/components/schemas/plant.Branch"
    ]
    reply = await McpServer(tools).handle(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}')
    assert not any(dangling(tool["inputSchema"]) for tool in json.loads(reply.body)["result"]["tools"])
    assert not any(dangling(tool["function"]["parameters"]) for tool in tool_definitions(tools.specs))


@pytest.mark.parametrize("name", [entry.name for entry in entry_points(group="assay.services")])
def test_every_reference_of_every_installed_tool_leads_somewhere(name: str) -> None:
    (entry,) = entry_points(group="assay.services", name=name)
    specs: list[ToolSpec] = [action.spec for action in entry.load().actions.values()]
    assert {spec.name: found for spec in specs if (found := dangling(spec.parameters))} == {}


def test_the_fields_of_nested_arguments_are_shown() -> None:
    (entry,) = entry_points(group="assay.services", name="tau2-airline")
    properties = entry.load().actions["book_reservation"].parameters["properties"]
    assert properties["flights"]["items"]["required"] == ["flight_number", "date"]
