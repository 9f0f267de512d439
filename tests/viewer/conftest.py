"""A served store and a real Chromium, for tests of the pages."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.viewer.server import open_viewer
from scripts.showcase import make_showcase
from tests.viewer import made

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
"""Debian's Chromium as root has no sandbox of its own; containers have little shared memory."""
WAIT_MS = 15_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A running browser; the test skips where there is none.

    Of one file, because Playwright keeps an event loop of its own running, beside which no asynchronous test can run.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    place = os.environ.get("ASSAY_CHROMIUM") or next((found for n in NAMES if (found := shutil.which(n))), None)
    if place is None:
        pytest.skip("no Chromium here: `sh scripts/system-packages.sh` installs Debian's; ASSAY_CHROMIUM names another")
    sync_api.expect.set_options(timeout=WAIT_MS)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=list(OPTIONS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an ordinary run, a hostile one and an admission. Tests add runs of their own and change none."""
    root = tmp_path_factory.mktemp("viewer") / "store"
    made.ordinary(root)
    made.hostile(root)
    made.admission(root)
    make_showcase(root)
    return root


@pytest.fixture(scope="package")
def address(store: Path) -> Iterator[str]:
    """Where the store is served."""
    with Served(store) as url:
        yield url


class Served:
    """A viewer in a thread of its own, until the block is left."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ready, self._url = threading.Event(), ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        async with open_viewer(self._root, notes=True) as viewer:
            self._loop, self._stop, self._url = asyncio.get_running_loop(), asyncio.Event(), viewer.url
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> str:
        self._thread.start()
        assert self._ready.wait(20), "the server did not start"
        return self._url

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)


EMPTY = "/empty-page"
"""Answered inside the browser, with an icon: else the browser asks the server for one when it likes."""


class Look:
    """A page that notes what it must never do: an error of a script, a request elsewhere, something refused."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        empty = '<!doctype html><link rel="icon" href="data:,">'
        self.page.route(f"**{EMPTY}", lambda route: route.fulfill(body=empty, content_type="text/html"))
        self.base = base
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)
        self.page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self.wrong.append(f"console: {message.text} ({message.location['url']})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.base.removesuffix("index.html"), "data:", "blob:")):
            self.wrong.append(f"request to {request.url}")

    def empty(self) -> None:
        """Forgets the page and what it has stored."""
        self.page.goto(f"{self.base.rstrip('/')}{EMPTY}")
        self.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        self.page.emulate_media(color_scheme=None, reduced_motion=None)
        self.wrong.clear()

    def go(self, route: str) -> Page:
        """Opens a page and waits until it has loaded what it shows."""
        self._leave()
        self.page.goto(f"{self.base}{route}")
        return self.ready()

    def follow(self, link: Locator) -> Page:
        """Clicks on what leads to another page, and waits for that."""
        self._leave()
        link.click()
        return self.ready()

    def press(self, key: str) -> Page:
        """Presses a key that leads to another page, and waits for that."""
        self._leave()
        self.page.keyboard.press(key)
        return self.ready()

    def _leave(self) -> None:
        """So that what was ready before is not taken for what comes."""
        self.page.evaluate("document.documentElement.dataset.state = 'left'")

    def ready(self) -> Page:
        """Waits for the page that is being opened."""
        self.page.wait_for_selector("html[data-state=ready], html[data-state=failed]", state="attached")
        state = self.page.evaluate("document.documentElement.dataset.state")
        assert state == "ready", self.page.inner_text("main")[:500]
        return self.page


@pytest.fixture(scope="module")
def shared_page(chromium: Browser, address: str) -> Iterator[Look]:
    """One page for the tests of a file: a renderer process of its own costs more than most of these tests."""
    with Opened(chromium, address) as look:
        yield look


@pytest.fixture
def look(shared_page: Look) -> Iterator[Look]:
    """An empty page on the served store, without storage; whatever it did that no page may do fails the test."""
    shared_page.empty()
    yield shared_page
    wrong, shared_page.wrong = shared_page.wrong, []
    assert wrong == []


class Opened:
    """A page in a context of its own."""

    def __init__(self, browser: Browser, base: str, **options: Any) -> None:
        self._context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        self.look = Look(self._context, base)

    def __enter__(self) -> Look:
        return self.look

    def __exit__(self, kind: object, *_: object) -> None:
        self._context.close()
        if kind is None:
            assert self.look.wrong == []


@pytest.fixture
def looking(chromium: Browser, address: str) -> Callable[..., Opened]:
    """Opens further pages, with options of the browser's context."""
    return lambda base=None, **options: Opened(chromium, base or address, **options)
