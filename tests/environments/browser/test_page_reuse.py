"""A page that is kept between attempts: the next attempt can read nothing of the one before."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from assay.environments.browser.context import BrowserContext
from assay.environments.browser.miniwob.world import MiniWobWorld, find_pages
from assay.environments.browser.page_reuse import PageKey, keep_page, take_page
from assay.environments.browser.screen import Screen
from assay.environments.browser.site_world import SiteWorld
from assay.environments.browser.tools import BrowserTools
from assay.errors import UserError
from assay.http.messages import RequestHead, Response
from assay.synthesis.services.family import ServiceTasks

from .conftest import HOME, open_pages
from .test_acts import act, number

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("browsers")]
KEY = PageKey(HOME, 800, 600, is_constant=True)
LEAVE = """
localStorage.setItem('left', 'local'); sessionStorage.setItem('left', 'session'); document.cookie = 'left=cookie';
window.name = 'left name'; globalThis.left = 'global'; history.pushState({left: 1}, '', '/#left');
navigator.clipboard && navigator.clipboard.writeText('left').catch(() => 0);
addEventListener('pagehide', () => { localStorage.setItem('late', '1'); sessionStorage.setItem('late', '1'); });
window.open('/other', 'left window');
indexedDB.open('left').onsuccess = () => { document.title = 'left all'; };
"""
LOOK = """
indexedDB.databases().then((databases) => { document.title = JSON.stringify([
  localStorage.length, sessionStorage.length, document.cookie,
  window.name, typeof globalThis.left, history.length, history.state, databases.length, document.referrer,
  navigator.serviceWorker === undefined, typeof caches, window.opener]); });
"""
CLEAN = r"[0,0,\"\",\"\",\"undefined\",1,null,0,\"\",true,\"undefined\",null]"
STYLE = "<style>button { background: #ddd } button:hover { background: red } a:visited { color: red }</style>"
PAGE = (
    f"<title>home</title>{STYLE}<button onclick=\"leave()\">Leave</button><button onclick=\"look()\">Look</button>"
    f"<a href='/other'>Other</a><input aria-label=Text>"
    f"<script>function leave() {{{LEAVE}}} function look() {{{LOOK}}}</script>"
)  # fmt: skip
PAGES = {"/": PAGE, "/other": "<title>other</title><p>Other</p>"}


@pytest.fixture(autouse=True)
def kept_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps pages longer than a busy machine needs for an attempt."""
    monkeypatch.setattr("assay.environments.browser.page_reuse.KEPT_S", 600.0)
    monkeypatch.setattr("assay.environments.browser.page_reuse._EMPTYING_S", 120.0)


async def serve(origin: str, head: RequestHead, body: bytes) -> Response | None:
    page = PAGES.get(head.target) if f"{origin}/" == HOME else None
    return None if page is None else Response(200, page.encode(), {"Content-Type": "text/html"})


async def begin(context: BrowserContext) -> BrowserTools:
    tools = BrowserTools(context, HOME)
    await tools.open_home()
    return tools


async def look(tools: BrowserTools) -> tuple[str, str, bytes | None]:
    """Returns what the page can read, the tree and the picture of a start page."""
    seen: list[Screen] = []
    tools.observer.on_screen = seen.append
    tree = await act(tools, "read_page")
    await act(tools, "screenshot")
    await act(tools, "click", bid=number(tree, 'button "Look"'))
    return await titled(tools, "["), tree, seen[0].image


async def titled(tools: BrowserTools, beginning: str) -> str:
    """Returns the tree once the page has that title: no act waits for its databases, and a busy machine is slow."""
    until = time.monotonic() + 60
    while f'Page: "{beginning}' not in (tree := await act(tools, "read_page")):
        assert time.monotonic() < until, tree
        await asyncio.sleep(0.05)
    return tree


async def test_an_attempt_leaves_nothing_in_a_kept_page() -> None:
    first = await open_pages(PAGES)
    fresh = await look(await begin(first.context))
    assert CLEAN in fresh[0]
    target = first.context.current_tab().target
    tree = await act(first, "read_page")
    await act(first, "click", bid=number(tree, 'link "Other"'))
    await act(first, "go_back")
    tree = await act(first, "read_page")
    await act(first, "fill", bid=number(tree, 'textbox "Text"'), value="left text")
    await act(first, "press", bid=number(tree, 'textbox "Text"'), key_comb="Control+a")
    await act(first, "press", bid=number(tree, 'textbox "Text"'), key_comb="Control+c")
    left = await act(first, "click", bid=number(tree, 'button "Leave"'))
    assert "Tab 1 of 0 to 1" in left
    await act(first, "tab_focus", index=0)
    await titled(first, "left all")
    assert first.context.clipboard.text == "left text"
    await keep_page(first.context, KEY)
    await keep_page(first.context, KEY)  # of an attempt that has ended: nothing
    context = await take_page(KEY, serve)
    assert context is not None
    try:
        assert context.current_tab().target == target
        assert context.clipboard.text == ""
        assert await take_page(KEY, serve) is None
        tools = await begin(context)
        assert (await tools.call("go_back", {})).error
        assert await look(tools) == fresh
        assert (await first.call("read_page", {})).error  # the ended attempt reaches the page no more
    finally:
        await context.close()


@pytest.mark.parametrize(
    "script", ["while (1);", "onbeforeunload = () => 'stay'; setInterval(() => window.open('/other'), 1)"]
)
async def test_a_page_that_resists_is_not_kept_or_is_clean(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.environments.browser.page_reuse._EMPTYING_S", 4.0)
    monkeypatch.setattr("assay.environments.browser.tab.SETTLE_S", 3.0)
    monkeypatch.setattr("assay.environments.browser.tab.SCRIPT_S", 2.0)
    tools = await open_pages({**PAGES, "/": f'<title>x</title><button onclick="{script}">Go</button>'})
    await tools.call("click", {"bid": "1"})
    await keep_page(tools.context, KEY)
    context = await take_page(KEY, serve)
    if context is not None:
        try:
            assert len(context.tabs) == 1
        finally:
            await context.close()


async def episode(page: str, seed: int, **options: Any) -> tuple[str, list[str]]:
    world = MiniWobWorld({"page": page, **options}, seed)
    try:
        tools = await world.open()
        last = tools.context.current_tab().last
        assert last is not None
        return world.utterance, last.lines
    finally:
        await world.close()


async def test_episodes_of_miniwob_begin_in_the_page_of_the_one_before() -> None:
    try:
        find_pages()
    except UserError as exc:
        pytest.skip(str(exc))
    for page in ("click-checkboxes", "book-flight"):
        for seed in (1, 2):
            assert await episode(page, seed, reuse_page=True) == await episode(page, seed), (page, seed)
    key = PageKey("http://miniwob.test/miniwob/book-flight.html", 332, 214, is_constant=True)
    context = await take_page(key, serve)
    assert context is not None
    await context.close()


def site(seed: int, options: Mapping[str, Any]) -> SiteWorld:
    (task,) = ServiceTasks(app="shop", interface="pages", level="explicit", writes=1).tasks(1, seed=seed)
    return SiteWorld({**task.environment.parameters, "site": options}, task.environment.seed)


async def test_a_site_begins_in_the_page_of_another_attempt() -> None:
    found, targets = list[list[Any]](), list[str]()
    for seed, reuse in ((3, True), (4, False), (4, True)):
        world, screens = site(seed, {"reuse_page": reuse}), list[Screen]()
        world.on_screen = screens.append
        try:
            targets.append((await world.open()).context.current_tab().target)
            for _ in range(4):
                call = world.advice()
                assert call is not None
                assert not (await world.call(call.name, call.parsed or {})).error
            found.append([screens, world.facts()["browser"], await world.digest()])
        finally:
            await world.close()
    assert targets[0] == targets[2] != targets[1]
    assert found[1] == found[2] != found[0]


def test_a_page_of_a_browser_of_its_own_is_not_reused() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        site(3, {"reuse_page": True, "browser_per_attempt": True})
