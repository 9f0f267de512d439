"""Shared by the tests in a real Chromium: a browser, and contexts with servers of the tests' own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from assay.environments.browser.chromium import find_program
from assay.environments.browser.context import BrowserContext
from assay.environments.browser.pool import browser_pool, close_browsers
from assay.environments.browser.tools import BrowserTools
from assay.errors import UserError
from assay.http.messages import RequestHead, Response

HOME = "http://page.test/"
Page = str | Callable[[RequestHead], str]
"""HTML, or what makes it at each request."""
OpenPages = Callable[[Mapping[str, Page]], Awaitable[BrowserTools]]


@pytest.fixture(scope="session", autouse=True)
def chromium() -> str:
    try:
        return find_program()
    except UserError as exc:
        pytest.skip(str(exc))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browsers(chromium: str) -> AsyncIterator[None]:
    yield
    await close_browsers()


async def open_pages(pages: Mapping[str, Page], **options: bool) -> BrowserTools:
    """Opens a context of its own, in which `HOME` has these pages by path, on which scripts may run."""

    async def serve(origin: str, head: RequestHead, body: bytes) -> Response | None:
        page = pages.get(head.target)
        if f"{origin}/" != HOME or page is None:
            return None
        text = page if isinstance(page, str) else page(head)
        return Response(200, text.encode(), {"Content-Type": "text/html; charset=utf-8"})

    lease = await browser_pool().lease()
    context = await BrowserContext.open(lease, serve, 800, 600, HOME)
    tools = BrowserTools(context, HOME, **options)
    try:
        await tools.open_home()
    except BaseException:
        await context.close()
        raise
    return tools


@pytest_asyncio.fixture(loop_scope="session")
async def pages(browsers: None) -> AsyncIterator[OpenPages]:
    async with AsyncExitStack() as opened:

        async def open_one(found: Mapping[str, Page]) -> BrowserTools:
            tools = await open_pages(found)
            opened.push_async_callback(tools.context.close)
            return tools

        yield open_one
