"""Serves the pages on loopback.

Covered: every address begins with a secret token, which excludes other users and programs of this machine; the Host
header must be ours, which excludes sites rebound to 127.0.0.1 (DNS rebinding); a content security policy restricts a
page to its own files; only GET and HEAD, and POST for people's notes, which a viewer opened with `notes` takes from its
own pages alone (JSON, `Origin`); names of views are looked up, never joined to a path. Not covered: anyone who
reads the token from the terminal, the browser's history, the process's memory or, while a browser is being opened, the
list of processes.

Invariant: at most `AT_ONCE` views and a slow one are made at a time, and at most `CACHE_BYTES` of them are cached.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from assay.errors import BoundaryError, StoreError, UserError
from assay.gc_tuning import raised_thresholds

from .assets import POLICY, TYPES, read_assets, render_index
from .cache import CachedView, ViewCache
from .interface import json_bytes
from .live import watch
from .notes import MOST_NOTE, add_annotation

if TYPE_CHECKING:
    from aiohttp import web

HOST = "127.0.0.1"
AT_ONCE = 2
"""Threads that make views; more would share one processor and use more memory."""
_SLOW = ("card", "figures", "soundness", "/failures", "/annotations")
_OVER_RUNS = ("find/", "overlay/", "task/")
"""Views computed over a whole run, or several, made one at a time in a thread of their own."""
CACHE_BYTES = 48 << 20
MOST_STREAMS = 32
LONGEST_LINE = 64 << 10
"""Longest address in bytes: names of chains may be long."""
_NODES = re.compile(r"data/run/([^/]+)/nodes")
ReadNodes = Callable[[str], Awaitable[object]]
"""Returns the state of a run's nodes, which is encoded as JSON. Raises `UserError` and `BoundaryError`."""
ReadService = Callable[[], object]
"""Returns the state of the store's rollout service, which is encoded as JSON; None without one. Blocking. Raises
`StoreError`."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Server": "assay",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Viewer:
    """Answers requests for one store."""

    def __init__(
        self,
        root: Path,
        token: str,
        *,
        notes: bool = False,
        read_nodes: ReadNodes | None = None,
        read_service: ReadService | None = None,
    ) -> None:
        self.root = root
        self._takes_notes, self._read_nodes, self._read_service = notes, read_nodes, read_service
        self.token = token
        self.port = 0
        self._cache = ViewCache(root, CACHE_BYTES)
        self._makers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="view")
        self._slow = ThreadPoolExecutor(1, thread_name_prefix="slow-view")
        self._streams = 0

    @property
    def url(self) -> str:
        """Returns the address of the pages."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        if request.method not in ("GET", "HEAD") and not (self._takes_notes and request.method == "POST"):
            return _plain(405, "only GET and HEAD are supported", {"Allow": "GET, HEAD"})
        if request.headers.getall("Host", []) not in ([f"{HOST}:{self.port}"], [f"localhost:{self.port}"]):
            return _plain(421, "the Host header does not name this server")
        path, _, query = request.raw_path.partition("?")
        token, _, rest = path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return _plain(404, "the address lacks the token that `assay view` printed")
        if request.method == "POST":
            return await self._note(request, rest)
        if path == f"/{self.token}":
            return _plain(308, "", {"Location": f"/{self.token}/"})
        if rest.startswith("data/"):
            if rest == "data/viewer":
                return _json(200, {"notes": self._takes_notes})
            if rest == "data/service":
                return await self._service()
            nodes = _NODES.fullmatch(rest)
            if nodes is not None:
                return await self._nodes(unquote(nodes[1]))
            return await self._view(request, rest.removeprefix("data/"))
        if rest == "events" or rest.startswith("events/"):
            return await self._events(request, rest.removeprefix("events").removeprefix("/"), query)
        return _file(rest)

    def close(self) -> None:
        """Stops without waiting for views in progress."""
        for makers in (self._makers, self._slow):
            makers.shutdown(wait=False, cancel_futures=True)

    async def warm(self, name: str) -> None:
        """Makes a view in advance."""
        with contextlib.suppress(UserError, StoreError):
            await self._cached(name)

    async def _cached(self, name: str) -> CachedView | None:
        slow = name.endswith(_SLOW) or "/find/" in name or name.startswith(_OVER_RUNS)
        makers = self._slow if slow else self._makers
        return await asyncio.get_running_loop().run_in_executor(makers, self._cache.get, name)

    async def _view(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        from aiohttp import web

        try:
            found = await self._cached(name)
        except UserError as exc:
            return _json(404, {"error": str(exc)})
        except StoreError as exc:
            return _json(500, {"error": str(exc)})
        if found is None:
            return _json(404, {"error": f"unknown view {name[:200]!r}"})
        headers = {**_HEADERS, "Cache-Control": "no-cache", "ETag": found.tag}
        if request.headers.get("If-None-Match") == found.tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.body, headers={**headers, "Content-Type": "application/json; charset=utf-8"})

    async def _nodes(self, run: str) -> web.StreamResponse:
        """Returns the state of a run's nodes as it is now, which no store holds: `data/run/RUN/nodes`."""
        if self._read_nodes is None:
            return _json(200, {"run": run, "status": None, "is_live": False})
        try:
            status = await self._read_nodes(run)
        except UserError as exc:
            return _json(404, {"error": str(exc)})
        except BoundaryError as exc:
            return _json(500, {"error": str(exc)})
        return _json(200, {"run": run, "status": status, "is_live": True})

    async def _service(self) -> web.StreamResponse:
        """Returns the state of the store's rollout service as it is now: `data/service`."""
        if self._read_service is None:
            return _json(200, {"state": None, "is_live": False})
        try:
            state = await asyncio.get_running_loop().run_in_executor(self._slow, self._read_service)
        except StoreError as exc:
            return _json(500, {"error": str(exc)})
        return _json(200, {"state": state, "is_live": True})

    async def _note(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        """Adds a person's note to an attempt: `POST data/run/RUN/attempt/CHAIN/annotations`."""
        own = (f"http://{HOST}:{self.port}", f"http://localhost:{self.port}")
        if request.headers.get("Origin") not in own or request.content_type != "application/json":
            return _json(403, {"error": "notes are taken as JSON from the viewer's own pages alone"})
        if request.content_length is None or request.content_length > MOST_NOTE:
            return _json(413, {"error": f"a note has at most {MOST_NOTE} bytes"})
        body = await request.read()
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._slow, add_annotation, self.root, name.removeprefix("data/"), body
            )
        except UserError as exc:
            return _json(400, {"error": str(exc)})
        except StoreError as exc:
            return _json(409, {"error": str(exc)})
        return _json(200, {})

    async def _events(self, request: web.BaseRequest, run: str, query: str) -> web.StreamResponse:
        """Sends server-sent events of a run, or of the list of runs."""
        from aiohttp import web

        if self._streams >= MOST_STREAMS:
            return _json(503, {"error": f"{MOST_STREAMS} pages are being kept up to date already: close some"})
        headers = {**_HEADERS, "Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store"}
        response = web.StreamResponse(headers=headers)
        self._streams += 1
        try:
            await response.prepare(request)
            if request.method == "HEAD":
                return response
            async for message in watch(self.root, run, _parse_after(query), self._makers):
                await response.write(message)
        except (ConnectionError, BoundaryError, UserError) as exc:
            with contextlib.suppress(ConnectionError):
                await response.write(b"event: failed\ndata: " + json_bytes({"error": str(exc)}) + b"\n\n")
        finally:
            self._streams -= 1
        return response


@contextlib.asynccontextmanager
async def open_viewer(
    root: Path,
    port: int = 0,
    token: str | None = None,
    *,
    notes: bool = False,
    read_nodes: ReadNodes | None = None,
    read_service: ReadService | None = None,
) -> AsyncIterator[Viewer]:
    """Runs a viewer of a store on loopback while the context is open, on a free port if it is 0, with a new token if
    None. With `notes` its pages add people's notes to attempts. `read_nodes` returns the state of a run's nodes, or
    None for a run without nodes; without it the pages show none. `read_service` does the same for a rollout service.

    Raises:
        UserError: The port is in use, or not permitted.
    """
    import pyarrow as pa
    from aiohttp import web

    pa.set_memory_pool(pa.system_memory_pool())  # the others keep more of what was given back
    with raised_thresholds(100_000, 50, 100):  # views are many small objects without cycles
        token = token or secrets.token_urlsafe(24)
        viewer = Viewer(root, token, notes=notes, read_nodes=read_nodes, read_service=read_service)
        log = logging.getLogger(f"{__name__}.requests")
        log.addFilter(_is_viewer_error)
        server = web.Server(viewer.answer, access_log=None, logger=log, max_line_size=LONGEST_LINE)
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, HOST, port)
            try:
                await site.start()
            except OSError as exc:
                raise UserError(
                    f"port {port} of {HOST} cannot be used: {exc.strerror or exc}; choose another with --port"
                ) from exc
            viewer.port = runner.addresses[0][1]
            yield viewer
        finally:
            await runner.cleanup()
            viewer.close()


def _is_viewer_error(record: logging.LogRecord) -> bool:
    """Returns whether a log record is the viewer's; malformed requests are rejected without being logged."""
    from aiohttp.http_exceptions import HttpProcessingError

    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _file(name: str) -> web.Response:
    from aiohttp import web

    if name in ("", "index.html"):
        body, kind = render_index(), TYPES["html"]
    elif name in read_assets():
        body, kind = read_assets()[name], TYPES[name.rpartition(".")[2]]
    else:
        return _plain(404, "page not found")
    return web.Response(body=body, headers={**_HEADERS, "Content-Type": kind, "Cache-Control": "no-cache"})


def _plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, text=text, headers={**_HEADERS, **(headers or {})})


def _json(status: int, value: object) -> web.Response:
    from aiohttp import web

    return web.Response(
        status=status, body=json_bytes(value), headers={**_HEADERS, "Content-Type": "application/json; charset=utf-8"}
    )


def _parse_after(query: str) -> int:
    """Parses `after=N`, the last event that the page has."""
    name, _, value = query.partition("=")
    return int(value) if name == "after" and value.isascii() and value.isdecimal() and len(value) < 19 else 0
