"""A small S3 server in this process, whose answers a test chooses: to conditions, conflicts, failures, lost answers."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

from aiohttp import web
from aiohttp.test_utils import TestServer

__all__ = ["S3Server", "etag", "serve_s3"]


def etag(data: bytes) -> str:
    """Returns the tag that S3 gives to an object."""
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


class S3Server:
    """One bucket. `script` has words for the next creations: a status, `"lost"` or `"conflict"`, or the ETag
    of an answer to another request."""

    def __init__(self, *, honours_conditions: bool = True) -> None:
        self.objects: dict[str, bytes] = {}
        self.script: list[int | str] = []
        self.puts = 0
        self.stalls_from: int | None = None
        """The number of the first creation that is not answered."""
        self._honours_conditions = honours_conditions

    async def put(self, request: web.Request) -> web.StreamResponse:
        key, data = request.match_info["key"], await request.read()
        self.puts += 1
        if self.stalls_from is not None and self.puts >= self.stalls_from:
            await asyncio.sleep(60)
        word = self.script.pop(0) if self.script else None
        if word == "conflict":
            return web.Response(status=409, text="<Error><Code>ConditionalRequestConflict</Code></Error>")
        if isinstance(word, int):
            return web.Response(status=word, text="<Error><Code>SlowDown</Code></Error>")
        if word is not None and not isinstance(word, int) and word.startswith('"'):
            return web.Response(headers={"ETag": word})
        if self._honours_conditions and request.headers.get("If-None-Match") == "*" and key in self.objects:
            return web.Response(status=412, text="<Error><Code>PreconditionFailed</Code></Error>")
        self.objects[key] = data
        if word == "lost" and request.transport is not None:
            request.transport.abort()
        return web.Response(headers={"ETag": etag(data)})

    async def get(self, request: web.Request) -> web.StreamResponse:
        data = self.objects.get(request.match_info["key"])
        if data is None:
            return web.Response(status=404, text="<Error><Code>NoSuchKey</Code></Error>")
        return web.Response(body=data, headers={"ETag": etag(data), "Last-Modified": "Sat, 28 Nov 2026 05:00:00 GMT"})

    async def list(self, request: web.Request) -> web.StreamResponse:
        prefix = request.query.get("prefix", "")
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size>"
            f"<LastModified>{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}.000Z</LastModified></Contents>"
            for key, data in sorted(self.objects.items())
            if key.startswith(prefix)
        )
        text = f"<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
        return web.Response(text=text, content_type="application/xml")

    async def delete(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        keys = [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]
        for key in keys:
            self.objects.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return web.Response(text=f"<DeleteResult>{deleted}</DeleteResult>", content_type="application/xml")


@asynccontextmanager
async def serve_s3(server: S3Server, *, certificate: Path | None = None, key: Path | None = None) -> AsyncIterator[str]:
    """Serves the bucket `bucket`, with a certificate as `localhost`, and returns the endpoint."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_put("/bucket/{key:.+}", server.put)
    app.router.add_get("/bucket/{key:.+}", server.get)
    app.router.add_get("/bucket", server.list)
    app.router.add_post("/bucket", server.delete)
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
    server_of_tests = TestServer(app, scheme="http" if context is None else "https")
    await server_of_tests.start_server(ssl=context)
    try:
        url = str(server_of_tests.make_url("/")).rstrip("/")
        yield url if context is None else url.replace("127.0.0.1", "localhost")
    finally:
        await server_of_tests.close()
