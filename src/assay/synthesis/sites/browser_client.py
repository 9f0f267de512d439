"""Uses the pages of a world in a real browser: clicks links, fills in forms and sends them.

It implements the same `PageReader` as the client within this process, so that walks in a browser are those of the same
tree. Where it stands is saved with its pages; a saved page is loaded into a new context, and nothing is replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.environments.browser.guide import FormFiller, link_to
from assay.environments.browser.picture_options import SITE
from assay.environments.browser.pool import close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.environments.browser.tab import Tab
from assay.environments.services.pages.site import CONFIRMED, Site
from assay.environments.services.world import ServiceWorld
from assay.errors import EnvironmentFailure
from assay.http.messages import RequestHead, Response
from assay.records import Task

from .page_client import Form, PageContent, SavedPage, read_page
from .walk_family import WalkReport, WalkTasks

_MOST_ACTS: Final = 60
"""Acts for one form, beyond which the page does not take it."""


class BrowserClient:
    """A reader of one site in a context of the browser.

    Args:
        parameters: Parameters of the environment `sites`.
        seed: Its seed.
    """

    def __init__(self, parameters: Mapping[str, Any], seed: int) -> None:
        self._given = {**parameters, SITE: {"pictures": False}}, seed
        self._world = self._open()
        self.address = "/"
        self.content = PageContent(0, (), ())
        self._pages = 0
        """Pages that were served."""

    @property
    def world(self) -> ServiceWorld:
        """The world behind the pages."""
        return self._world.service

    @property
    def site(self) -> Site:
        return self._world.site

    def _open(self) -> SiteWorld:
        world = SiteWorld(*self._given)
        world.on_answer = self._read
        return world

    def _read(self, head: RequestHead, _: bytes, response: Response) -> None:
        if response.headers.get("Content-Type", "").startswith("text/html"):
            self.address, self._pages = head.target, self._pages + 1
            self.content = read_page(response.status, response.body.decode())

    async def save(self) -> SavedPage:
        """Returns where the client stands."""
        return SavedPage(self._world.snapshot(), self.address, self.content, {}, 0)

    async def load(self, saved: SavedPage) -> None:
        """Puts the client, and its world, where it stood, in a new context."""
        await self._world.close()
        self._world = self._open()
        self._world.restore(saved.state)
        await self._act("read_page", {})
        self.address, self.content = saved.address, saved.content

    async def close(self) -> None:
        """Closes the world and its context; the browser stays open."""
        await self._world.close()

    async def follow(self, address: str) -> PageContent:
        """Clicks the first link to an address; the start page is opened without one.

        Raises:
            EnvironmentFailure: The page has no such link, or it leads nowhere.
        """
        if address == "/" and not self._pages:
            await self._act("read_page", {})
            return self.content
        click, before = link_to(address, await self._tab()), self._pages
        if click is None:
            raise EnvironmentFailure(f"the page has no link to {address[:200]}")
        await self._act(*click)
        if self._pages == before:
            raise EnvironmentFailure(f"the link to {address[:200]} leads nowhere")
        return self.content

    async def send(self, form: Form, texts: Mapping[str, str]) -> PageContent:
        """Fills in a form, sends it, and answers yes where the page asks once more.

        Raises:
            EnvironmentFailure: The page does not take it.
        """
        catalog = self.site.catalog
        tool = next(one for one in catalog.tools.values() if self.site.tool_address(one) == form.action)
        filler, before = FormFiller(self.site), self._pages
        for _ in range(_MOST_ACTS):
            act = filler.next_act(tool, {**form.texts, **texts}, await self._tab())
            if act is None:
                break
            await self._act(*act)
            if self._pages == before:
                continue
            before = self._pages
            if not any(CONFIRMED in one.texts for one in self.content.forms):
                return self.content
        raise EnvironmentFailure(f"the page does not take the form {form.action[:200]}")

    async def _tab(self) -> Tab:
        current = (await self._world.open()).context.current
        if current is None:
            raise EnvironmentFailure("the browser shows no page")
        return current

    async def _act(self, name: str, arguments: dict[str, Any]) -> None:
        observation = await self._world.call(name, arguments)
        if observation.error:
            raise EnvironmentFailure(f"{name}: {observation.content[:200]}")


async def make_in_browser(family: WalkTasks, n: int, seed: int) -> tuple[Sequence[Task], WalkReport]:
    """Returns the tasks of a family, whose walks are made in a real browser, and the figures.

    Raises:
        UserError: Chromium's headless shell is not installed, or no sandbox works here.
        EnvironmentFailure: The pages do not offer in a browser what they offer otherwise.
    """
    try:
        return await family.make_with(n, seed, lambda walked: BrowserClient(walked.parameters, walked.world.seed))
    finally:
        await close_browsers()
