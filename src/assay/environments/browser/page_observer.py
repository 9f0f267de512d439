"""Reads the pages of an attempt once they have come to rest: trees, pictures and headings for its tools.

A page is read after two frames. The second one is drawn for the picture anyway, so the tree waits for it at the same
time; what a script did in it, such as loading another page, is waited for and read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from .context import BrowserContext
from .page_picture import NO_IMAGE, PageImage, take_image
from .page_snapshot import capture
from .picture_options import PictureOptions
from .screen import Point, PointedElement, Screen
from .tab import ActProblem, PageState, Tab
from .tree import PageTree, quote, render_changes, render_tree

Observe = Literal["tree", "changes"]
_BACKGROUND_S: Final = 2.0
"""Longest wait for a page that is not shown."""
_MOST_READS: Final = 5
"""Times that a page is read that goes on to another one meanwhile."""
_MOST_TEXT: Final = 60_000


class _Reading(NamedTuple):
    """A page that came to rest."""

    tab: Tab
    before: PageState | None
    """The page as it was read before."""
    state: PageState
    image: PageImage


class ActTarget(NamedTuple):
    """Where an act was done."""

    tab: Tab | None
    point: Point | None
    hit: PointedElement | None
    """Element at the coordinates of a click."""


class PageObserver:
    """Observes the pages of one context.

    Args:
        context: The context.
        observe: Form of what an act returns: the whole tree, or what changed since the last one.
        pictures: What is taken after each act.
    """

    def __init__(self, context: BrowserContext, observe: Observe, pictures: PictureOptions) -> None:
        self.on_screen: Callable[[Screen], None] | None = None
        """Called with each page that is read after an act, and its picture; None takes no pictures."""
        self._context, self._observe, self._pictures = context, observe, pictures

    async def observe_act(self, name: str, target: ActTarget) -> str:
        """Returns the page after an act, and shows its picture."""
        tab, before, state, image = await self._read_drawn()
        await self._keep(tab, target.tab)
        shown = None
        if self._observe == "changes" and before is not None and before.tree.title == state.tree.title:
            shown = render_changes(before.lines, state.lines)
        self._show(name, state, image, target)
        return "\n".join([*self._heading(tab, state.tree), render_tree(state.lines) if shown is None else shown])

    async def read_text(self) -> str:
        """Returns the text of the page, cut where it is long."""
        tab = self._context.current_tab()
        await tab.settle()
        text = str(await tab.evaluate("text"))
        return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}\n... {len(text) - _MOST_TEXT} more characters"

    async def read_tree(self, *, with_boxes: bool) -> str:
        """Returns the tree of the page, with the places of its elements if asked."""
        tab = self._context.current_tab()
        await tab.settle()
        state = await tab.read(with_boxes=with_boxes)
        await capture(self._context)
        return "\n".join([*self._heading(tab, state.tree), render_tree(state.lines)])

    async def take_screenshot(self) -> str:
        """Takes a picture of the page, shows it, and returns what it is."""
        tab = self._context.current_tab()
        await tab.settle()
        state = await tab.read()
        image, marks = taken = await take_image(tab, self._context, self._pictures)
        self._show("screenshot", state, taken)
        size = f"{self._context.width} x {self._context.height} pixels"
        marked = "" if marks is None else f" Marked elements: {', '.join(map(str, marks)) or 'none'}."
        return f"A picture of {size} was taken ({len(image or b'')} bytes).{marked}"

    async def keep_what_failed(self) -> None:
        """Notes what the page holds after an act that failed, of which no tree is read."""
        tab = self._context.current
        if tab is None or tab.last is None:
            return
        try:
            await tab.settle()
            tab.content = await tab.evaluate("capture")
            await capture(self._context)
        except ActProblem:
            return  # the page is gone

    async def _keep(self, tab: Tab, acted_on: Tab | None) -> None:
        """Notes what is needed to restore the tab that was read, and the one that the act was done in."""
        await capture(self._context)
        if acted_on is not None and acted_on is not tab and acted_on in self._context.tabs:
            with suppress(ActProblem, TimeoutError):  # a page in the background may be busy
                acted_on.content = await asyncio.wait_for(acted_on.evaluate("capture"), _BACKGROUND_S)

    async def _read_drawn(self) -> _Reading:
        for _ in range(_MOST_READS - 1):
            tab = await self._rest()
            before, document = tab.last, tab.document
            try:
                reading = await self._read_once(tab)
            except ActProblem:
                if not self._has_moved(tab, document):
                    raise
                continue
            if not self._has_moved(tab, document):
                return reading
            tab.last = before
        return await self._read_once(await self._rest())

    async def _read_once(self, tab: Tab) -> _Reading:
        before = tab.last
        if self._pictures.marks:  # marks need the numbers of the tree
            state = await tab.read(frames=1)
            return _Reading(tab, before, state, await self._picture(tab))
        picture = asyncio.ensure_future(self._picture(tab))
        try:
            state = await tab.read(frames=1)
        finally:
            image = await picture
        return _Reading(tab, before, state, image)

    async def _rest(self) -> Tab:
        """Returns the tab that is shown once nothing is loading or answered."""
        first = self._context.current_tab()
        await first.settle(frames=1)
        await self._context.settle()
        tab = self._context.current_tab()  # another one, if the act opened or closed a tab
        if tab is not first or tab.is_busy:
            await tab.settle(frames=1)
        return tab

    def _has_moved(self, tab: Tab, document: int) -> bool:
        return tab.is_busy or tab.document != document or tab is not self._context.current

    def _heading(self, tab: Tab, tree: PageTree) -> list[str]:
        lines = [f"Page: {quote(tree.title)}", f"Address: {quote(tree.url)}"]
        tabs = self._context.tabs
        if len(tabs) > 1:
            lines.append(f"Tab {tabs.index(tab)} of 0 to {len(tabs) - 1}")
        height = tree.size[1]
        if height > self._context.height:
            lines.append(f"Scrolled to {tree.scroll[1]} of {height - self._context.height}")
        if tree.dialog:
            lines.append("A dialog is open; only it is shown.")
        if tree.cut:
            lines.append("The page is long: its end is not shown.")
        return lines + self._context.take_notes()

    async def _picture(self, tab: Tab) -> PageImage:
        """Returns a picture of a page; none if none is wanted, or none can be taken."""
        if self.on_screen is not None and self._pictures.pictures:
            with suppress(ActProblem):
                return await take_image(tab, self._context, self._pictures)
        return NO_IMAGE

    def _show(self, name: str, state: PageState, image: PageImage, target: ActTarget | None = None) -> None:
        if self.on_screen is not None:
            point, hit = (target.point, target.hit) if target is not None else (None, None)
            url, title, lines = state.tree.url, state.tree.title, "\n".join(state.lines)
            self.on_screen(Screen(name, url, title, lines, image.image, point, hit, image.marks))
