"""Pages that are kept between attempts, so that the next attempt begins without a new context of the browser.

When an attempt ends, its tab is emptied and kept for a short time: other tabs are closed, the document is replaced by
an empty one of the same origin, and storage, cookies, cache, permissions, the name of the window and the history are
cleared. All state on our side (numbers of elements, notes, clipboard, history) is that of new objects. This happens
while the ended attempt is closed. A start page that is the same for all attempts is then loaded, too, and the next
attempt takes it as it is; another one is loaded when that begins.

Invariant: a page that could not be emptied, for whatever reason, is not kept. Only attempts with the same start page
and the same viewport share a page, one after the other.

Not covered: the renderer process stays, so one that was compromised meets the next attempt, as it meets other attempts
of the same browser anyway.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from assay.errors import EnvironmentFailure
from assay.http.messages import RequestHead, Response

from . import acts
from .cdp import CdpError
from .context import BrowserContext
from .screen import Point
from .tab import ActProblem, Serve, Tab

MOST_KEPT: Final = 4
"""Pages that an event loop keeps at a time; each counts as an attempt of its browser."""
KEPT_S: Final = 30.0
"""Seconds after which a page that no attempt takes is closed."""
_EMPTYING_S: Final = 10.0
_EMPTY: Final = "/-/empty"
_EMPTY_PAGE: Final = Response(
    200, b"<!doctype html><title>-</title><body>", {"Content-Type": "text/html", "Cache-Control": "no-store"}
)
_OUTSIDE: Final = Point(-1, -1)


class PageKey(NamedTuple):
    """The part that attempts which share a page have in common."""

    home: str
    width: int
    height: int
    is_constant: bool
    """True if the start page is the same for all of them, and is loaded before the next one begins."""


class _CachedPage(NamedTuple):
    key: PageKey
    context: BrowserContext
    expiry: asyncio.TimerHandle


class _PageCache:
    """Emptied pages of one event loop, the oldest first."""

    def __init__(self) -> None:
        self.pages: list[_CachedPage] = []
        self.tasks: set[asyncio.Task[None]] = set()

    async def put(self, key: PageKey, context: BrowserContext) -> None:
        expiry = asyncio.get_running_loop().call_later(KEPT_S, self._expire, context)
        self.pages.append(_CachedPage(key, context, expiry))
        while len(self.pages) > MOST_KEPT:
            oldest = self.pages.pop(0)
            oldest.expiry.cancel()
            await oldest.context.close()

    async def take(self, key: PageKey) -> BrowserContext | None:
        while (kept := next((one for one in reversed(self.pages) if one.key == key), None)) is not None:
            self.pages.remove(kept)
            kept.expiry.cancel()
            tab = kept.context.current
            if kept.context.browser.is_open and tab is not None and not tab.has_crashed and len(kept.context.tabs) == 1:
                return kept.context
            await kept.context.close()
        return None

    def _expire(self, context: BrowserContext) -> None:
        self.pages = [one for one in self.pages if one.context is not context]
        task = asyncio.ensure_future(context.close())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


_KEPT: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _PageCache]] = WeakKeyDictionary()


def _kept_pages() -> _PageCache:
    return _KEPT.setdefault(asyncio.get_running_loop(), _PageCache())


async def take_page(key: PageKey, serve: Serve) -> BrowserContext | None:
    """Returns a context whose only tab shows the start page, unless none is kept.

    Args:
        key: Start page and viewport.
        serve: Answers the requests of its pages from now on.

    Raises:
        ActProblem: The start page could not be loaded.
    """
    context = await _kept_pages().take(key)
    if context is None:
        return None
    context.serve = serve
    if not key.is_constant:
        try:
            await _load_start_page(context, key.home)
        except BaseException:
            await context.close()
            raise
    return context


async def keep_page(context: BrowserContext, key: PageKey) -> None:
    """Ends an attempt's use of a context: empties its tab and keeps it, or else closes it. Idempotent.

    Args:
        context: Context of the attempt, which is not to be used again.
        key: Start page and viewport.
    """
    successor: BrowserContext | None = None
    try:
        tab = context.current
        if tab is not None and not (tab.has_crashed or tab.is_closed or tab.is_held) and context.browser.is_open:
            async with asyncio.timeout(_EMPTYING_S):
                await _close_others(context, tab)
                successor = context.hand_over(tab)
                await _empty(successor, key)
            await _kept_pages().put(key, successor)
            return
    except (ActProblem, CdpError, TimeoutError, EnvironmentFailure):
        pass  # a page that could not be emptied is closed
    except BaseException:
        await (successor or context).close()
        raise
    await (successor or context).close()


async def _close_others(context: BrowserContext, tab: Tab) -> None:
    await context.settle()
    for other in [one for one in context.tabs if one is not tab]:
        await context.close_tab(other)


async def _empty(context: BrowserContext, key: PageKey) -> None:
    """Removes what the earlier attempt left in the page and loads a constant start page.

    Raises:
        ActProblem: The page does not follow.
        CdpError: The browser refuses.
    """
    split = urlsplit(key.home)
    origin = f"{split.scheme}://{split.netloc}"
    tab, serve = context.current_tab(), context.serve

    async def serve_empty(asked: str, head: RequestHead, _: bytes) -> Response | None:
        return _EMPTY_PAGE if (asked, head.target) == (origin, _EMPTY) else None

    context.serve = serve_empty
    await _go(tab, f"{origin}{_EMPTY}")  # handlers of the old document that run as it is left write before the clearing
    await asyncio.gather(
        tab.evaluate("forget"),
        acts.move(tab, _OUTSIDE),
        tab.call("Storage.clearDataForOrigin", origin=origin, storageTypes="all"),
        tab.call("Network.clearBrowserCache"),
        context.forget_grants(),
    )
    tab.pointer = None
    context.serve = serve
    if key.is_constant:
        await _load_start_page(context, key.home)
    if len(context.tabs) != 1 or tab.is_busy:
        raise ActProblem("The page opened another tab.")
    context.take_notes()


async def _load_start_page(context: BrowserContext, home: str) -> None:
    """Makes the start page the only entry of the history. Raises `ActProblem`."""
    tab = context.current_tab()
    await _go(tab, home)
    await tab.call("Page.resetNavigationHistory")
    await tab.read()  # gives the elements their numbers, as it is done in a new context
    tab.opened_with = home


async def _go(tab: Tab, address: str) -> None:
    await acts.go(tab, address)
    await tab.settle(frames=0)
    if tab.url != address:
        raise ActProblem("The page went on to another address.")
