"""One attempt's part of a browser: cookies, storage and tabs of its own, and one server that answers all its requests.

Covered: requests are answered by `serve` in this process, whatever their host, and reach no network; an origin that is
not served is refused. Downloads and file choosers are refused; `uploads` chooses files. Tabs are bounded in number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from assay.environments.services.files import FileStore
from assay.errors import EnvironmentFailure

from .cdp import CdpError
from .chromium import Chromium
from .pool import BrowserLease
from .tab import ActProblem, Clipboard, Serve, Tab
from .tree import Counter

MOST_TABS: Final = 10
MOST_REFUSED: Final = 30
"""Tabs too many that a page may open before its own tab is closed."""
_MOST_NOTES: Final = 20
_OPEN_S: Final = 60.0
BLANK: Final = "about:blank"
_COOKIE: Final = frozenset({"name", "value", "domain", "path", "expires", "httpOnly", "secure", "sameSite"})
"""Fields of a cookie that can be set."""


class BrowserContext:
    """A browser's context for one attempt. `open` makes one.

    Attributes:
        tabs: Open tabs, in the order in which they were opened.
        current: Tab that acts go to.
    """

    def __init__(self, lease: BrowserLease, identifier: str, serve: Serve, width: int, height: int) -> None:
        self.browser: Chromium = lease.browser
        self.connection = lease.browser.connection
        self.clipboard = Clipboard()
        self.files: FileStore | None = None
        """Files that the agent can choose in pages; None without any."""
        self.serve = serve
        self.width, self.height = width, height
        self.numbers = Counter()
        self.has_cookies = False
        """True once a response set one, or a page has scripts that may."""
        self.cookies: list[dict[str, Any]] = []
        """Cookies as they were read last."""
        self.tabs: list[Tab] = []
        self.current: Tab | None = None
        self._lease = lease
        self._identifier = identifier
        self._notes: list[str] = []
        self._arrivals: dict[str, asyncio.Future[Tab]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._refused = 0
        self._is_opening = False
        """True while a tab is opened that no page asked for."""
        self._first = BLANK
        """Address that it is opened with."""

    @classmethod
    async def open(
        cls, lease: BrowserLease, serve: Serve, width: int, height: int, address: str = BLANK
    ) -> BrowserContext:
        """Opens a context with one tab; the context owns the lease. A tab that is opened with an address is there a
        fifth sooner than an empty one that is sent to it. Raises `EnvironmentFailure`."""
        context: BrowserContext | None = None
        try:
            made = await lease.browser.call("Target.createBrowserContext", disposeOnDetach=True)
            context = cls(lease, str(made.get("browserContextId")), serve, width, height)
            lease.browser.owners[context._identifier] = context
            denied = lease.browser.connection.send(  # before the browser is asked for a tab
                "Browser.setDownloadBehavior", behavior="deny", browserContextId=context._identifier
            )
            await context.new_tab(address)
            await denied
        except (CdpError, ActProblem, TimeoutError) as exc:
            await (lease.release() if context is None else context.close())
            raise EnvironmentFailure(f"the browser opened no context: {exc}") from exc
        except BaseException:
            await (lease.release() if context is None else context.close())
            raise
        return context

    # `TargetOwner` and `TabOwner`.

    def attached(self, session: str, target: dict[str, Any], *, is_waiting: bool) -> None:
        identifier = str(target.get("targetId"))
        if target.get("type") != "page" or len(self.tabs) >= MOST_TABS:
            self.connection.send("Target.closeTarget", targetId=identifier)
            self._refuse(str(target.get("openerId")))
            return
        tab = Tab(self, identifier, session)
        self.tabs.append(tab)
        if self._is_opening and self._first != BLANK:
            tab.opened_with, tab.awaits_first = self._first, True
        if not self._is_opening:
            self.note(f"A page opened tab {len(self.tabs)}, which is shown now.")
        task = asyncio.ensure_future(self._take_in(tab, is_waiting=is_waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse(self, opener: str) -> None:
        """Counts a tab too many; the page that opens too many of them loses its own."""
        self._refused += 1
        if self._refused == 1:
            self.note(f"A page opened a tab too many: there are at most {MOST_TABS}, and further ones are closed.")
        tab = next((tab for tab in self.tabs if tab.target == opener), None)
        if self._refused > MOST_REFUSED and tab is not None:
            self.note("The page that opened them was closed.")
            self.connection.send("Runtime.terminateExecution", tab.session)
            self.connection.send("Target.closeTarget", targetId=opener)
            self.detached(tab.session)

    async def settle(self) -> None:
        """Waits until the tabs that pages opened are taken in, and no request of any tab is being answered."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=_OPEN_S)
        for tab in tuple(self.tabs):
            await tab.answer_all()

    async def _take_in(self, tab: Tab, *, is_waiting: bool) -> None:
        arrival = self._arrivals.pop(tab.target, None)
        try:
            await tab.set_up(is_waiting=is_waiting)
        except (CdpError, EnvironmentFailure) as exc:
            tab.close()
            if tab in self.tabs:
                self.tabs.remove(tab)
            if arrival is not None and not arrival.done():
                arrival.set_exception(ActProblem(f"No tab could be opened: {exc}"))
            return
        self.current = tab
        if arrival is not None and not arrival.done():
            arrival.set_result(tab)

    def detached(self, session: str) -> None:
        gone = next((tab for tab in self.tabs if tab.session == session), None)
        if gone is not None:
            gone.close()
            self.tabs.remove(gone)
            if self.current is gone:
                self.current = self.tabs[-1] if self.tabs else None

    def note(self, text: str) -> None:
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(text)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that were not taken yet."""
        return tuple(self._notes)

    def take_notes(self) -> list[str]:
        """Returns what happened since the last call, and forgets it."""
        notes, self._notes = self._notes, []
        return notes

    def hand_over(self, tab: Tab) -> BrowserContext:
        """Returns the context of the next attempt, with the one tab and the lease of this one, which is at its end. All
        that is noted here about pages stays behind; what the browser holds is not changed."""
        successor = BrowserContext(self._lease, self._identifier, self.serve, self.width, self.height)
        self._is_closed = True
        for former in self.tabs:
            former.close()
        successor.current = Tab(successor, tab.target, tab.session)
        successor.tabs = [successor.current]
        successor.current.listen()
        self.browser.owners[self._identifier] = successor
        return successor

    async def forget_grants(self) -> None:
        """Deletes the cookies of the attempt and takes back what its pages were permitted. Raises `CdpError`."""
        await self.browser.call("Storage.clearCookies", browserContextId=self._identifier)
        await self.browser.call("Browser.resetPermissions", browserContextId=self._identifier)

    # Cookies.

    async def read_cookies(self) -> None:
        """Reads the cookies of the attempt. Raises `CdpError`."""
        found = await self.browser.call("Storage.getCookies", browserContextId=self._identifier)
        self.cookies = [one for one in found.get("cookies") or () if isinstance(one, dict)]

    async def write_cookies(self, cookies: Iterable[dict[str, Any]]) -> None:
        """Sets cookies as they were read. Raises `CdpError`."""
        wanted = [{name: value for name, value in one.items() if name in _COOKIE} for one in cookies]
        if wanted:
            await self.browser.call("Storage.setCookies", browserContextId=self._identifier, cookies=wanted)
            self.has_cookies, self.cookies = True, wanted

    # Tabs.

    async def new_tab(self, address: str = BLANK) -> Tab:
        """Opens a tab and shows it. Raises `ActProblem`."""
        if len(self.tabs) >= MOST_TABS:
            raise ActProblem(f"There are {MOST_TABS} tabs, and no more are possible: close one.")
        self._is_opening, self._first = True, address
        try:
            created = await self.browser.call("Target.createTarget", url=address, browserContextId=self._identifier)
            identifier = str(created.get("targetId"))
            # The event of the new target may come before the answer that names it.
            tab = next((tab for tab in self.tabs if tab.target == identifier), None)
            if tab is None:
                self._arrivals[identifier] = asyncio.get_running_loop().create_future()
                try:
                    tab = await asyncio.wait_for(self._arrivals[identifier], _OPEN_S)
                finally:
                    self._arrivals.pop(identifier, None)
        finally:
            self._is_opening = False
        self.current = tab
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=_OPEN_S)  # until it is set up
        await asyncio.wait_for(tab.load(), _OPEN_S)
        return tab

    async def close_tab(self, tab: Tab) -> None:
        """Closes a tab; without any, an empty one is opened. Raises `ActProblem`."""
        self.connection.send("Target.closeTarget", targetId=tab.target)
        self.detached(tab.session)
        if not self.tabs:
            await self.new_tab()

    def current_tab(self) -> Tab:
        """Returns the tab that acts go to. Raises `ActProblem` without one."""
        if self.current is None:
            raise ActProblem("No tab is open: open one.")
        return self.current

    async def close(self) -> None:
        """Closes all tabs, deletes cookies and storage, and gives the browser back. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in tuple(self._tasks):
            task.cancel()
        for tab in self.tabs:
            tab.close()
        self.browser.owners.pop(self._identifier, None)
        try:
            if self.browser.is_open:
                await self.browser.call("Target.disposeBrowserContext", browserContextId=self._identifier)
        except (CdpError, TimeoutError, EnvironmentFailure):
            pass  # a browser that is gone has no context
        finally:
            await self._lease.release()
