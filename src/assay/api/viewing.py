"""The viewer beside a running program: served from a thread, on loopback."""

from __future__ import annotations

import asyncio
import html
import sys
import threading
import webbrowser
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from assay.settings import Settings
from assay.threads import start_thread
from assay.viewer.server import open_viewer


def open_page(url: str) -> None:
    """Opens a graphical browser, if there is a screen; a text browser would take over the terminal."""
    if sys.platform == "darwin" or Settings.named(("DISPLAY", "WAYLAND_DISPLAY")):
        webbrowser.open(url)


def serve_pages(store: Path, page: str, *, open_browser: bool) -> ViewerHandle:
    """Serves a store and writes the page's address to stderr; `open_browser` opens it where there is a screen."""
    handle = ViewerHandle(store, page)
    sys.stderr.write(f"viewer: {handle.url}\n")
    if open_browser:
        open_page(handle.url)
    return handle


class ViewerHandle:
    """A viewer that is served until `close`, or until the program ends. A context manager closes it."""

    def __init__(self, store: Path, page: str = "") -> None:
        self._ready, self._closed = threading.Event(), threading.Event()
        self._url = ""
        self._served = start_thread("assay-viewer", lambda: asyncio.run(self._serve(store, page)))
        self._served.add_done_callback(lambda _: self._ready.set())
        self._ready.wait()
        if self._served.done():
            self._served.result()

    @property
    def url(self) -> str:
        """The page's address. It holds a secret and works on this machine alone."""
        return self._url

    async def _serve(self, store: Path, page: str) -> None:
        loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop = loop
        from assay.rollout.cluster.live_status import LiveStatus  # late: most stores have no run on nodes

        settings = msgspec.structs.replace(Settings.from_environment(), store=store)
        status = LiveStatus(settings, settings.node_token)
        async with open_viewer(store, read_nodes=status.read) as viewer:
            self._url = viewer.url + page
            self._ready.set()
            await self._stop.wait()

    def wait(self) -> None:
        """Blocks until the viewer is closed or the program is interrupted (Ctrl-C), which closes it."""
        try:
            self._served.result()
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Stops serving. Idempotent."""
        if not self._served.done():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._served.exception(timeout=10)

    def __enter__(self) -> Self:
        """Returns the handle."""
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Stops serving."""
        self.close()

    def __repr__(self) -> str:
        """Shows the address."""
        return f"ViewerHandle({self.url})"

    def _repr_html_(self) -> str:
        """Links to the page, in a notebook."""
        address = html.escape(self.url)
        return f'<a href="{address}" target="_blank" rel="noopener">{address}</a>'
