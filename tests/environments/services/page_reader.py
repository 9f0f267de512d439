"""Reads pages as a browser without scripts does: elements, links, and what a form would send."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import urlencode

from assay.environments.services.pages.fields import write_texts
from assay.environments.services.pages.site import FORM_TYPE, Site
from assay.http.messages import RequestHead, Response

VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Element(NamedTuple):
    tag: str
    attributes: Mapping[str, str]


class Page(HTMLParser):
    """A parsed page. Raises `AssertionError` for tags that are not closed in order."""

    def __init__(self, markup: bytes) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.texts: list[str] = []
        self.controls: dict[str, str] = {}
        """Returns the fields that the form sends as it stands."""
        self._open: list[str] = []
        self._area = self._select = ""
        self.feed(markup.decode())
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        assert len(given) == len(attrs), attrs
        self.elements.append(Element(tag, given))
        if tag not in VOID:
            self._open.append(tag)
        name, kind = given.get("name", ""), given.get("type", "")
        if tag == "input" and (kind not in ("radio", "checkbox") or "checked" in given):
            self.controls[name] = given.get("value", "on")
        elif tag == "textarea":
            self._area = name
            self.controls[name] = ""
        elif tag == "select":
            self._select = name
        elif tag == "option" and "selected" in given:
            self.controls[self._select] = given["value"]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag
        if tag == "textarea":
            # A parser of a browser drops the first newline of a text area, and sends line ends as CR LF.
            self.controls[self._area] = self.controls[self._area].removeprefix("\n").replace("\n", "\r\n")
            self._area = ""

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._area:
            self.controls[self._area] += data

    def find(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    @property
    def text(self) -> str:
        return "".join(self.texts)


async def get(site: Site, target: str) -> Response:
    return await site.answer(RequestHead("GET", target, {}))


async def post(site: Site, target: str, controls: Mapping[str, str], **headers: str) -> Response:
    sent: dict[str, Any] = {"content-type": FORM_TYPE, "host": "x.test", "origin": "http://x.test", **headers}
    return await site.answer(RequestHead("POST", target, sent), urlencode(controls).encode())


async def call_by_form(site: Site, name: str, arguments: Mapping[str, Any]) -> Response:
    """Opens the page of a tool with a form that is filled in, and sends the form, as often as it asks to confirm."""
    tool = site.catalog.tools[name]
    texts = write_texts(site.fields(name), arguments)
    page = Page((await get(site, f"{site.tool_address(tool)}?{urlencode(texts)}")).body)
    if tool.is_view and not tool.properties:
        return Response(200, b"", {})  # opening the page was the call
    if tool.is_view:
        page.controls["_form"] = "1"
        return await get(site, f"{site.tool_address(tool)}?{urlencode(page.controls)}")
    response = await post(site, site.tool_address(tool), page.controls)
    if response.status == 200:
        response = await post(site, site.tool_address(tool), Page(response.body).controls)
    return response
