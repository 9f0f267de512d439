"""Uses the pages of a world in this process, without a browser: follows links, fills in forms and sends them.

A client sees what a browser would be sent, and nothing else: links, forms, and what their controls hold. Where it
stands can be saved and loaded, with the state of the world; so a search over pages plays no act twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit

from assay.environments.services.pages.fields import SUBMITTED
from assay.environments.services.pages.site import CONFIRMED, FORM_TYPE, CallResult, Site
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.world import ServiceWorld
from assay.http.messages import RequestHead

ORIGIN: Final = "http://walk.test"


class Form(NamedTuple):
    """A form of a page."""

    action: str
    is_sent: bool
    """True for a form that is sent by POST."""
    texts: Mapping[str, str]
    """Texts of its controls by name, as the page fills them in."""


class PageContent(NamedTuple):
    """A page as it was served."""

    status: int
    links: tuple[str, ...]
    """Addresses of links, each once, in the order of the page."""
    forms: tuple[Form, ...]
    terms: tuple[tuple[str, str], ...] = ()
    """Terms that it lists, with their values."""


class SavedPage(NamedTuple):
    """A page and the state of the world behind it."""

    state: bytes
    address: str
    content: PageContent
    results: Mapping[int, CallResult]
    last: int
    """Number of the last result."""


class PageReader(Protocol):
    """A reader of one site, which stands on one page."""

    @property
    def world(self) -> ServiceWorld: ...

    @property
    def site(self) -> Site: ...

    @property
    def address(self) -> str:
        """Path and query of the page."""
        ...

    @property
    def content(self) -> PageContent: ...

    async def save(self) -> SavedPage:
        """Returns where the reader stands."""
        ...

    async def load(self, saved: SavedPage) -> None:
        """Puts the reader, and its world, where it stood."""
        ...

    async def follow(self, address: str) -> PageContent:
        """Follows the link to an address of the site; `/` is the start page."""
        ...

    async def send(self, form: Form, texts: Mapping[str, str]) -> PageContent:
        """Sends a form with some texts in place of its own, and answers yes where the page asks once more."""
        ...

    async def close(self) -> None:
        """Releases what the reader holds; its world cannot be used any more."""
        ...


class PageClient:
    """A reader of one site, which stands on one page.

    Args:
        world: World whose pages they are; the client owns it.
        theme: Seed of the looks.
    """

    def __init__(self, world: ServiceWorld, theme: int = 0) -> None:
        self.world = world
        self.site = Site(world, ServedTools(world), theme)
        self.address = "/"
        self.content = PageContent(0, (), ())

    async def save(self) -> SavedPage:
        """Returns where the client stands."""
        site = self.site
        return SavedPage(self.world.snapshot(), self.address, self.content, dict(site.results), site.count)

    async def load(self, saved: SavedPage) -> None:
        """Puts the client, and its world, where it stood."""
        self.world.restore(saved.state)
        self.address, self.content = saved.address, saved.content
        self.site.results, self.site.count = dict(saved.results), saved.last

    async def close(self) -> None:
        """Closes the world."""
        await self.world.close()

    async def follow(self, address: str) -> PageContent:
        """Loads an address of the site."""
        return await self._load("GET", address, "")

    async def send(self, form: Form, texts: Mapping[str, str]) -> PageContent:
        """Sends a form with some texts in place of its own, and answers yes where the page asks once more."""
        data = urlencode({**form.texts, **texts, SUBMITTED: "1"})
        if not form.is_sent:
            return await self._load("GET", f"{form.action}?{data}", "")
        content = await self._load("POST", form.action, data)
        again = next((one for one in content.forms if CONFIRMED in one.texts), None)
        return content if again is None else await self._load("POST", again.action, urlencode(again.texts))

    async def _load(self, method: str, address: str, body: str) -> PageContent:
        headers = {"host": urlsplit(ORIGIN).netloc, "origin": ORIGIN, "content-type": FORM_TYPE}
        response = await self.site.answer(RequestHead(method, address, headers), body.encode())
        if response.status == 303:  # a form that was sent leads to the page of its result
            address = response.headers["Location"]
            response = await self.site.answer(RequestHead("GET", address, headers))
        self.address, self.content = address, read_page(response.status, response.body.decode())
        return self.content


def read_page(status: int, text: str) -> PageContent:
    """Returns what a page offers."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    forms = tuple(Form(one.action, one.is_sent, one.texts) for one in reader.forms)
    return PageContent(status, tuple(dict.fromkeys(reader.links)), forms, tuple(reader.terms))


class _ReadForm:
    def __init__(self, action: str, *, is_sent: bool) -> None:
        self.action, self.is_sent = action, is_sent
        self.texts: dict[str, str] = {}


class _Reader(HTMLParser):
    """Collects links and forms; texts of text areas are read, and options that are chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[_ReadForm] = []
        self._form: _ReadForm | None = None
        self.terms: list[tuple[str, str]] = []
        self._area = ""
        self._list = ""
        self._listed = ""
        """Tag of the term or value that is open."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and given.get("href", "").startswith("/"):
            self.links.append(given["href"])
        elif tag == "form":
            self._form = _ReadForm(given.get("action", ""), is_sent=given.get("method") == "post")
            self.forms.append(self._form)
        elif self._form is not None and tag in ("input", "textarea", "select"):
            self._read_control(self._form, tag, given)
        elif self._form is not None and tag == "option" and self._list:
            self._read_option(self._form.texts, given)
        elif tag == "dt":
            self._listed = tag
            self.terms.append(("", ""))
        elif tag == "dd" and self.terms:
            self._listed = tag

    def _read_control(self, form: _ReadForm, tag: str, given: Mapping[str, str]) -> None:
        name = given.get("name", "")
        if tag == "textarea":
            self._area = name
            form.texts[name] = ""
        elif tag == "select":
            self._list = name
        elif given.get("type") in ("checkbox", "radio"):
            if "checked" in given:
                form.texts[name] = given.get("value", "on")
        elif name:
            form.texts[name] = given.get("value", "")

    def _read_option(self, texts: dict[str, str], given: Mapping[str, str]) -> None:
        if "selected" in given or self._list not in texts:  # a list begins with its first option
            texts[self._list] = given.get("value", "")

    def handle_data(self, data: str) -> None:
        if self._form is not None and self._area:
            self._form.texts[self._area] += data
        elif self._listed:
            term, value = self.terms[-1]
            self.terms[-1] = (term + data, value) if self._listed == "dt" else (term, value + data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea":
            self._area = ""
        elif tag == "select":
            self._list = ""
        elif tag == self._listed:
            self._listed = ""
