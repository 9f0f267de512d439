"""Transports of the tools of a world: HTTP on a listening socket (MCP at `/mcp`, web pages at `/site`, and `http`), and
lines on a pipe (MCP).

Bodies, lines, connections and times are bounded; a client that ends in the middle of a request has called nothing, and
one that ends before it has read the response has called once.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from assay.http.body_reader import AnswerBody, BodyReader, read_body
from assay.http.messages import RequestHead, Response
from assay.http.server import HttpServer, ServerLimits

from .http import HttpInterface, error
from .mcp import McpServer
from .pages.site import Site
from .served_tools import ServedTools

MCP_PATH: Final = "/mcp"
SITE_PATH: Final = "/site"
MOST_BODY: Final = 1 << 20
"""Largest body or line, in bytes."""
LIMITS: Final = ServerLimits(header_s=20.0, body_s=60.0, connections=64)
_LOCAL_ORIGIN: Final = re.compile(r"https?://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.ASCII)


class HostPages(NamedTuple):
    """Pages of a host of their own, which a client names in the header `Host`."""

    host: str
    answer: Callable[[RequestHead, bytes], Awaitable[Response]]


@asynccontextmanager
async def serve_http(
    tools: ServedTools, listener: socket.socket, site: Site | None = None, pages: HostPages | None = None
) -> AsyncIterator[None]:
    """Serves tools on a listening socket, which it closes at the end, together with all connections.

    Args:
        tools: The tools.
        listener: The socket.
        site: Web pages of the same tools, whose base is `SITE_PATH`; None for none.
        pages: Web pages of another host; None for none.
    """
    async with HttpServer(_ToolApp(tools, site, pages), LIMITS) as server:
        await server.listen(listener)
        yield


async def serve_lines(tools: ServedTools, reader: asyncio.StreamReader, write: Callable[[bytes], None]) -> None:
    """Serves MCP over lines until the input ends; an unfinished last line is dropped."""
    server, line, dropping = McpServer(tools), bytearray(), False
    while chunk := await reader.read(1 << 16):
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            line += part
            if not dropping and line.strip():
                answer = await server.handle(bytes(line) if len(line) <= MOST_BODY else b"")
                if answer.body:
                    write(answer.body + b"\n")
            line.clear()
            dropping = False
        line += rest
        if len(line) > MOST_BODY:
            line.clear()
            if not dropping:
                write((await server.handle(b"")).body + b"\n")
            dropping = True


class _ToolApp:
    """Implements `App`."""

    def __init__(self, tools: ServedTools, site: Site | None, pages: HostPages | None) -> None:
        self.mcp = McpServer(tools)
        self.http = HttpInterface(tools)
        self.site, self.pages = site, pages

    def accept(self, head: RequestHead) -> BodyReader | Response:
        pages = self.pages
        is_page = pages is not None and head.headers.get("host") == pages.host
        origin = head.headers.get("origin")
        if not is_page and origin is not None and _LOCAL_ORIGIN.fullmatch(origin) is None:
            return error(403, "forbidden", "Pages of other origins may not call this service")
        if head.headers.get("content-encoding", "identity").lower() != "identity":
            return error(415, "invalid", "Compressed bodies are not supported")
        if is_page and pages is not None:
            return _read(head, lambda body, _: pages.answer(head, body))
        site = self.site
        if site is not None and f"{head.target.partition('?')[0]}/".startswith(f"{site.base}/"):
            return _read(head, lambda body, _: site.answer(head, body))
        if head.target.partition("?")[0].rstrip("/") == MCP_PATH:
            if head.method != "POST":
                return error(405, "invalid", "MCP messages are sent by POST", "POST")
            return _read(head, lambda body, _: self._answer_message(body, head))
        route = self.http.route(head)
        return route if isinstance(route, Response) else _read(head, lambda body, _: self.http.call(route, body))

    async def _answer_message(self, body: bytes, head: RequestHead) -> Response:
        reply = await self.mcp.handle(body, head.headers)
        return Response(reply.status, reply.body, {})


def _read(head: RequestHead, answer: AnswerBody) -> BodyReader | Response:
    return read_body(head, answer, MOST_BODY, _body_error)


def _body_error(status: int, message: str) -> Response:
    return error(status, "invalid" if status == 413 else "unavailable", message.capitalize())
