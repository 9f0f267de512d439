"""Pages of a site: one for each tool, grouped by application, with what is known of arguments and results.

Only the schema of a tool is needed. Where the tools are those of a world of services, the pages know more: which
arguments are identifiers, so that records can be linked, and which numbers are amounts.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from assay.environments.interface import Tools, ToolSpec
from assay.environments.services.declaration import Action, Scene
from assay.environments.services.files import FileStore, put_file
from assay.environments.services.served_tools import ServedTools

from .shapes import ANY, Shape, shape_of

OTHERS: Final = "tools"
"""Application of tools whose application is not known."""


@runtime_checkable
class DeclaresActions(Protocol):
    """Tools whose declarations are known."""

    @property
    def actions(self) -> Mapping[str, Action]:
        """Returns the declarations by name of the tool."""
        ...

    @property
    def summaries(self) -> Mapping[str, str]:
        """Returns the sentence about each application, in the order in which people use them."""
        ...


@runtime_checkable
class ShowsScenes(Protocol):
    """Tools of which an application may show one screen at a time."""

    def scene(self, application: str) -> Scene | None:
        """Returns the screen of an application; None for one without."""
        ...


class PageTool(NamedTuple):
    """A page."""

    name: str
    application: str
    title: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments."""
    is_view: bool
    takes: Mapping[str, str] = {}
    """Kind of identifier by argument."""
    units: Mapping[str, str] = {}
    """Unit by argument."""
    shape: Shape = ANY
    returns_text: bool = False

    @property
    def properties(self) -> Mapping[str, Any]:
        """Schemas of the arguments."""
        found: Mapping[str, Any] = self.parameters.get("properties", {})
        return found

    @property
    def required(self) -> frozenset[str]:
        return frozenset(self.parameters.get("required", ()))


class Application(NamedTuple):
    """A group of pages."""

    name: str
    title: str
    summary: str
    views: tuple[PageTool, ...]
    actions: tuple[PageTool, ...]


class Catalog(NamedTuple):
    """All pages of a site."""

    title: str
    applications: tuple[Application, ...]
    tools: Mapping[str, PageTool]

    def taking(self, kind: str) -> list[tuple[PageTool, str]]:
        """Returns the pages with an argument of a kind of identifier, and that argument."""
        found = []
        for tool in self.tools.values():
            argument = next((name for name, taken in tool.takes.items() if taken == kind), None)
            if argument is not None:
                found.append((tool, argument))
        return found


def read_catalog(tools: Tools, served: ServedTools) -> Catalog:
    """Returns the pages of a world's tools, or of any other tools."""
    actions: Mapping[str, Action] = tools.actions if isinstance(tools, DeclaresActions) else {}
    summaries: Mapping[str, str] = tools.summaries if isinstance(tools, DeclaresActions) else {}
    sending = (
        {put_file.__name__} if FileStore(tools).is_there else set()
    )  # pages send files by the fields that take them
    specs = [spec for spec in served.specs if spec.name not in sending]
    pages = {spec.name: _read_tool(spec, actions.get(spec.name), served) for spec in specs}
    order = dict.fromkeys([*summaries, *(page.application for page in pages.values())])
    applications = [_group(name, summaries.get(name, ""), pages.values()) for name in order]
    used = tuple(one for one in applications if one.views or one.actions)
    return Catalog(humanize(served.name.replace("+", " and ")), used, pages)


def _read_tool(spec: ToolSpec, action: Action | None, served: ServedTools) -> PageTool:
    is_view, is_text = spec.name in served.read_only, served.returns_text(spec.name)
    title = humanize(spec.name) if action is None or not action.title else action.title
    if action is None:
        return PageTool(spec.name, OTHERS, title, spec.description, spec.parameters, is_view, returns_text=is_text)
    returned = typing.get_type_hints(action.function, include_extras=True).get("return")
    return PageTool(
        spec.name,
        action.service,
        title,
        spec.description,
        spec.parameters,
        is_view,
        action.takes,
        action.units,
        shape_of(returned),
        is_text,
    )


def _group(name: str, summary: str, pages: Iterable[PageTool]) -> Application:
    own = [page for page in pages if page.application == name]
    views = tuple(page for page in own if page.is_view)
    actions = tuple(page for page in own if not page.is_view)
    return Application(name, humanize(name), summary, views, actions)


def humanize(name: str) -> str:
    """Returns the words of a name: `cancel_order` is `Cancel order`, `order_id` is `Order ID`."""
    words = [word for word in name.replace("-", "_").replace(" ", "_").split("_") if word]
    shown = ["ID" if word == "id" else word for word in words]
    text = " ".join(shown)
    return text[:1].upper() + text[1:]
