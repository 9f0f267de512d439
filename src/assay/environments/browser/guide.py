"""Carries out a plan of tool calls by the pages of a site, as a person would: follow links, fill in forms, send them.

Each act is read off the page that is shown. No tool is called and no address is typed, so a plan that ends well shows
that the pages offer everything that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from assay.environments.services.pages.catalog import PageTool
from assay.environments.services.pages.controls import ADD
from assay.environments.services.pages.fields import PREFIX, Field, options_of, write_texts
from assay.environments.services.pages.site import Site
from assay.environments.services.plans import PlannedCall
from assay.environments.services.world import ServiceWorld
from assay.errors import EnvironmentFailure
from assay.records import ToolCall, canonical_bytes

from .tab import Tab
from .tree import Element

_MOST_ACTS: Final = 300
"""Acts for one call of a plan, beyond which the pages do not offer it."""
_MOST_FILLS: Final = 3
_MOST_READ: Final = 2000
"""Characters of a value that the tree shows."""


class _Control(NamedTuple):
    """An element with its number."""

    number: int
    element: Element

    @property
    def name(self) -> str:
        return self.element.node.attributes.get("name", "")

    @property
    def type(self) -> str:
        return self.element.node.attributes.get("type", "")

    @property
    def value(self) -> str:
        return self.element.node.attributes.get("value", "")


class FormAct(NamedTuple):
    """An act on a form."""

    name: str
    arguments: dict[str, Any]
    path: str = ""
    """Name of the control that it fills in; empty for a button."""
    label: str = ""
    text: str = ""


class FormFiller:
    """Fills in and sends one form of a site, act by act, read off the page that is shown."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._fills: dict[str, int] = {}

    def next_act(self, tool: PageTool, texts: Mapping[str, str], tab: Tab) -> tuple[str, dict[str, Any]] | None:
        """Returns the next act on a form: it fills in a control, or sends the form; None where the page has none of it.

        Args:
            tool: Tool whose form it is.
            texts: Texts of its controls by name; those that are absent become empty.
            tab: Tab that is shown, whose page has been read.

        Raises:
            EnvironmentFailure: A control does not take its text, or the form has no button.
        """
        act = next(self.due_acts(tool, texts, tab), None)
        if act is None:
            return None
        if act.path:
            self._fills[act.path] = self._fills.get(act.path, 0) + 1
            if self._fills[act.path] > _MOST_FILLS:
                raise EnvironmentFailure(f"the field {act.label!r} of the page does not take {act.text[:80]!r}")
        return act.name, act.arguments

    def due_acts(self, tool: PageTool, texts: Mapping[str, str], tab: Tab) -> Iterator[FormAct]:
        """Yields the acts on a form of which any may be the next one: an entry is added where one is missing, else
        controls are filled in, else the form is sent. Raises `EnvironmentFailure` if the form has no button."""
        address = self._site.tool_address(tool)
        form = [one for one in _controls(tab) if one.element.node.attributes.get("form") == address]
        by_name: dict[str, list[_Control]] = {}
        for one in form:
            by_name.setdefault(one.name, []).append(one)
        inputs = [name for name in by_name if name.startswith(PREFIX)]
        if inputs and (missing := self._missing_entry(texts, by_name)):
            yield FormAct("click", {"bid": str(missing.number)})
            return
        is_filled = True
        for path, field in _leaves(self._site.fields(tool.name), PREFIX, inputs):
            act = self._difference(field, path, texts.get(path, ""), by_name[path])
            if act is not None:
                is_filled = False
                yield FormAct(*act, path, field.label, texts.get(path, ""))
        if form and is_filled:
            yield FormAct("click", {"bid": str(_submit_button(form).number)})

    def _missing_entry(self, texts: Mapping[str, str], by_name: dict[str, list[_Control]]) -> _Control | None:
        """Returns the button that adds an entry to a list which needs another one; None if none does."""
        for path in texts:
            if not path.startswith(PREFIX) or path in by_name or not texts[path]:
                continue
            for button in by_name.get(ADD, ()):
                if path.startswith(f"{button.value}/"):
                    return button
        return None

    def _difference(
        self, field: Field, path: str, text: str, controls: list[_Control]
    ) -> tuple[str, dict[str, Any]] | None:
        first = controls[0]
        node, bid = first.element.node, str(first.number)
        if node.r == "radio":
            radio = next((one for one in controls if one.value == text), None)
            if radio is None or "checked" in radio.element.node.s:
                return None
            return "click", {"bid": str(radio.number)}
        if node.r == "checkbox":
            return ("click", {"bid": bid}) if ("checked" in node.s) != (text == "on") else None
        if node.r in ("combobox", "listbox"):
            labels = {option.text: option.label for option in options_of(field)}
            label = labels.get(text, node.o[0] if node.o else "")
            return ("select_option", {"bid": bid, "options": label}) if node.v != label else None
        if field.widget == "file":
            is_chosen = not text or (node.v or "") == text
            return None if is_chosen else ("upload_file", {"bid": bid, "file": text})
        if (node.v or "")[:_MOST_READ] == text[:_MOST_READ] or (len(text) > _MOST_READ and path in self._fills):
            return None
        return "fill", {"bid": bid, "value": text}


class PlanGuide:
    """Knows the next act of a plan.

    Args:
        service: World in which the plan is carried out; its log says which calls were made.
        site: Its pages.
        began: Number of calls before the plan; default: all that were made.
    """

    def __init__(self, service: ServiceWorld, site: Site, began: int | None = None) -> None:
        self._service = service
        self._site = site
        self.began = service.answered if began is None else began
        self._acts = 0
        self._at = 0
        self._filler = FormFiller(site)
        self._made = 0

    def next_act(self, tab: Tab | None) -> ToolCall | None:
        """Returns the next act; None once the plan is carried out.

        Args:
            tab: Tab that is shown; None before the browser is open.

        Raises:
            EnvironmentFailure: The pages do not offer what the plan needs.
        """
        done = self._service.answered - self.began
        if done != self._at:
            self._at, self._acts, self._filler = done, 0, FormFiller(self._site)
        if done >= len(self._service.plan):
            return None
        planned = self._service.plan[done]
        self._acts += 1
        if self._acts > _MOST_ACTS:
            raise EnvironmentFailure(f"the pages do not lead to the call {planned.action} of the plan")
        name, arguments = self._choose(planned, tab)
        self._made += 1
        return ToolCall(f"a{self._made}", name, canonical_bytes(arguments).decode(), arguments)

    def _choose(self, planned: PlannedCall, tab: Tab | None) -> tuple[str, dict[str, Any]]:
        if tab is None or tab.last is None or not tab.numbering.elements:
            return "read_page", {}
        tool = self._site.catalog.tools.get(planned.action)
        if tool is None:
            raise EnvironmentFailure(f"the site has no page for the call {planned.action} of the plan")
        act = self._filler.next_act(tool, write_texts(self._site.fields(tool.name), planned.arguments), tab)
        if act is not None:
            return act
        if tab.last.tree.dialog:
            raise EnvironmentFailure("a dialog of another form is open")
        return self._follow(tool, self._site.tool_address(tool), _controls(tab))

    def _follow(self, tool: PageTool, address: str, controls: list[_Control]) -> tuple[str, dict[str, Any]]:
        """Returns the click on the link that leads nearer to a page."""
        links = links_towards(self._site, tool, controls)
        if not links:
            raise EnvironmentFailure(f"no link of the page leads to {address}")
        return "click", {"bid": str(links[0].number)}


def links_towards(site: Site, tool: PageTool, controls: list[_Control]) -> list[_Control]:
    """Returns the links that lead to the page of a tool, or else nearer to it; all of them have one address."""
    for address in (site.tool_address(tool), site.application_address(tool.application), site.base + "/"):
        found = [one for one in controls if one.element.node.attributes.get("href") == address]
        if found:
            return found
    return []


def due_elements(site: Site, planned: PlannedCall, tab: Tab) -> frozenset[int]:
    """Returns the numbers of the elements of a page of which any may be used next to make a call; empty where the page
    offers no way to it."""
    tool = site.catalog.tools.get(planned.action)
    if tool is None or tab.last is None:
        return frozenset()
    texts = write_texts(site.fields(tool.name), planned.arguments)
    try:
        acts = [int(act.arguments["bid"]) for act in FormFiller(site).due_acts(tool, texts, tab)]
    except EnvironmentFailure:  # a form without a button
        return frozenset()
    links = [] if acts or tab.last.tree.dialog else links_towards(site, tool, _controls(tab))
    return frozenset(acts or [one.number for one in links])


def _controls(tab: Tab) -> list[_Control]:
    return [_Control(number, element) for number, element in tab.numbering.elements.items()]


def link_to(address: str, tab: Tab) -> tuple[str, dict[str, Any]] | None:
    """Returns the click on the first link of a page to an address; None without one."""
    found = (one for one in _controls(tab) if one.element.node.attributes.get("href") == address)
    link = next(found, None)
    return None if link is None else ("click", {"bid": str(link.number)})


def _leaves(fields: tuple[Field, ...], prefix: str, names: list[str]) -> Iterator[tuple[str, Field]]:
    """Yields the controls of a form that are on the page, with their fields."""
    for field in fields:
        path = prefix + field.name
        if field.widget == "group":
            yield from _leaves(field.fields, f"{path}/", names)
        elif field.widget == "list" and field.item is not None:
            entries = sorted(
                {int(name[len(path) + 1 :].split("/")[0]) for name in names if name.startswith(f"{path}/")}
            )
            for at in entries:
                yield from _leaves((field.item._replace(name=str(at)),), f"{path}/", names)
        elif path in names:
            yield path, field


def _submit_button(form: list[_Control]) -> _Control:
    """Returns the button that sends a form, or that asks whether to send it."""
    buttons = [one for one in form if one.element.node.r == "button" and one.name != ADD and one.type != "file"]
    submits = [one for one in buttons if one.type == "submit"]
    found = submits or buttons
    if not found:
        raise EnvironmentFailure("a form of the page has no button")
    return found[0]
