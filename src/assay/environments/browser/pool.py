"""Browsers shared by the attempts of an event loop, started at first use and closed when they are idle.

A browser that crashed or is full is not given out: the next attempt starts another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final
from weakref import WeakKeyDictionary

from assay.environments.interface import Backend
from assay.environments.workspace.choose import choose_backend
from assay.errors import UserError

from .chromium import Chromium

MOST_ATTEMPTS: Final = 8
"""Attempts that share a browser at a time, so that the tabs of all fit into its memory."""
IDLE_S: Final = 10.0
"""Seconds after which a browser without attempts is closed."""


class BrowserLease:
    """A browser for one attempt; `release` gives it back."""

    def __init__(self, pool: BrowserPool, browser: Chromium, *, is_own: bool) -> None:
        self.browser = browser
        self._pool = pool
        self._is_own = is_own
        self._is_released = False

    async def release(self) -> None:
        """Gives the browser back; one of the attempt's own is closed. Idempotent."""
        if self._is_released:
            return
        self._is_released = True
        if self._is_own:
            await self.browser.close()
        await self._pool.returned(self.browser)


class BrowserPool:
    """Browsers of one event loop."""

    def __init__(self) -> None:
        self._backend: Backend | None = None
        self._shared: Chromium | None = None
        self._leases: dict[int, int] = {}
        self._lock = asyncio.Lock()
        self._closing: asyncio.TimerHandle | None = None
        self._end: AsyncGenerator[None, None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def lease(self, *, is_own: bool = False) -> BrowserLease:
        """Returns a browser.

        Args:
            is_own: True for one that no other attempt uses.

        Raises:
            UserError: Chromium's headless shell is not installed, or no sandbox works here.
            EnvironmentFailure: It could not be started.
        """
        async with self._lock:
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None
            if self._end is None:
                self._end = _until_the_end(self)
                await anext(self._end)
            if self._backend is None:
                self._backend = await _open_backend()
            if is_own:
                browser = await Chromium.start(self._backend)
            else:
                if self._shared is not None and not self._shared.is_open and not self._leases.get(id(self._shared)):
                    await self._shared.close()
                if self._shared is None or not self._shared.is_open or self._is_full(self._shared):
                    self._shared = await Chromium.start(self._backend)
                browser = self._shared
            self._leases[id(browser)] = self._leases.get(id(browser), 0) + 1
            return BrowserLease(self, browser, is_own=is_own)

    def _is_full(self, browser: Chromium) -> bool:
        return self._leases.get(id(browser), 0) >= MOST_ATTEMPTS

    async def returned(self, browser: Chromium) -> None:
        """Takes note that a lease ended."""
        left = self._leases.pop(id(browser), 1) - 1
        if left > 0:
            self._leases[id(browser)] = left
        elif browser is not self._shared:
            await browser.close()
        if not self._leases and self._closing is None:
            self._closing = asyncio.get_running_loop().call_later(IDLE_S, self._close_later)

    def _close_later(self) -> None:
        self._closing = None
        task = asyncio.ensure_future(self._close_idle())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_idle(self) -> None:
        async with self._lock:
            if not self._leases:
                await self._close_all()

    async def close(self) -> None:
        """Closes all browsers. Idempotent."""
        async with self._lock:
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None
            await self._close_all()

    async def _close_all(self) -> None:
        shared, self._shared = self._shared, None
        backend, self._backend = self._backend, None
        try:
            if shared is not None:
                await shared.close()
        finally:
            if backend is not None:
                await backend.close()


async def _until_the_end(pool: BrowserPool) -> AsyncGenerator[None, None]:
    """Closes browsers that are still open when their event loop ends, which closes its generators (`asyncio.run`)."""
    try:
        yield
    finally:
        await pool.close()


async def _open_backend() -> Backend:
    try:
        backend, _ = await choose_backend()
    except UserError as exc:
        raise UserError(f"The browser runs in a sandbox alone, and none works here: {exc}") from exc
    return backend


_POOLS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, BrowserPool]] = WeakKeyDictionary()


def browser_pool() -> BrowserPool:
    """Returns the pool of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _POOLS.get(loop)
    if found is None:
        found = _POOLS[loop] = BrowserPool()
    return found


async def close_browsers() -> None:
    """Closes the browsers of the running event loop; the end of a run does this."""
    found = _POOLS.pop(asyncio.get_running_loop(), None)
    if found is not None:
        await found.close()
