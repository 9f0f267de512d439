"""Frame of every page: title, landmarks, navigation and the stylesheet."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote

from blake3 import blake3

from .catalog import Application, Catalog, PageTool
from .markup import Content, Html, document, element, join
from .theme import Theme

OWN: Final = "/-/"
"""Beginning of the paths of pages that are not those of a tool."""
POLICY: Final = f"{OWN}policy"


class Layout(NamedTuple):
    """Renders pages around their content."""

    catalog: Catalog
    theme: Theme
    base: str
    """Path under which the site is, without a slash at its end."""
    has_policy: bool

    @property
    def style_path(self) -> str:
        """Path of the stylesheet, which its digest is a part of."""
        return f"{OWN}{blake3(self.theme.stylesheet()).hexdigest()[:16]}.css"

    def address(self, path: str) -> str:
        """Returns the address of a path of the site."""
        return self.base + path

    def application_address(self, name: str) -> str:
        return self.address(f"/{quote(name, safe='')}")

    def tool_address(self, tool: PageTool) -> str:
        """Returns the address of a tool's page."""
        return f"{self.application_address(tool.application)}/{quote(tool.name, safe='')}"

    def render(self, title: str, *content: Content, application: str = "") -> bytes:
        """Returns a page.

        Args:
            title: Its heading, and the beginning of its title.
            content: What follows the heading.
            application: Name of the application whose pages the navigation lists.
        """
        theme, name = self.theme, self.theme.name
        head = element(
            "head",
            None,
            element("meta", {"charset": "utf-8"}),
            element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
            element("title", None, f"{title} - {self.catalog.title}"),
            element("link", {"rel": "stylesheet", "href": self.address(self.style_path)}),
        )
        main = element("main", {"id": "main", "tabindex": "-1"}, element("h1", None, title), content)
        menu = self._menu(application)
        skip = element("a", {"class": name("skip"), "href": "#main"}, "Skip to content")
        # In the layout `end` the menu comes last in the markup, too, so that the order of reading is that of the eye.
        frame = element("div", {"class": name("frame")}, (main, menu) if theme.layout == "end" else (menu, main))
        return document(head, element("body", None, skip, self._bar(), frame))

    def _bar(self) -> Html:
        links = [element("a", {"href": self.address("/")}, f"Start: {self.catalog.title}")]
        links += [
            element("a", {"href": self.application_address(one.name)}, one.title)
            for one in self.catalog.applications
            if len(self.catalog.applications) > 1
        ]
        if self.has_policy:
            links.append(element("a", {"href": self.address(POLICY)}, "Rules"))
        bar = element("nav", {"aria-label": "Site"}, links)
        return element("header", {"class": self.theme.name("bar")}, bar)

    def _menu(self, application: str) -> Html | None:
        shown = next((one for one in self.catalog.applications if one.name == application), None)
        if shown is None:
            return None
        sections = [self._section("Look up", shown.views), self._section("Do", shown.actions)]
        return element("nav", {"class": self.theme.name("menu"), "aria-label": shown.title}, sections)

    def _section(self, title: str, tools: tuple[PageTool, ...]) -> Html | None:
        return join(element("h2", None, title), self.tool_list(tools)) if tools else None

    def tool_list(self, tools: tuple[PageTool, ...]) -> Html:
        """Returns links to pages of tools."""
        links = [element("li", None, element("a", {"href": self.tool_address(tool)}, tool.title)) for tool in tools]
        return element("ul", None, links)

    def overview(self, application: Application) -> Html:
        """Returns the pages of an application with what each is for."""
        sections = []
        for title, tools in (("Look up", application.views), ("Do", application.actions)):
            terms = [
                join(
                    element("dt", None, element("a", {"href": self.tool_address(tool)}, tool.title)),
                    element("dd", None, tool.description.partition(". ")[0].rstrip(".") + "."),
                )
                for tool in tools
            ]
            if terms:
                sections.append(join(element("h2", None, title), element("dl", None, terms)))
        return join(sections)
