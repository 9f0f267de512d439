"""A fake model server on the loopback interface: what it answers is a list of behaviours, one a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Upstream:
    """Answers request i with behaviour i (the last one for ever) and keeps what it was asked."""

    def __init__(self) -> None:
        self.behaviours: list[Behaviour] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.connections: set[Any] = set()
        self.url = ""

    def answers(self, *behaviours: Behaviour) -> Upstream:
        self.behaviours = list(behaviours)
        return self

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(json.loads(await request.read()))
        self.headers.append(dict(request.headers))
        self.connections.add(request.transport)
        return await self.behaviours[min(len(self.bodies), len(self.behaviours)) - 1](request)


def says(status: int, body: Any, headers: dict[str, str] | None = None) -> Behaviour:
    async def behave(request: web.Request) -> web.StreamResponse:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=data, headers=headers)

    return behave


def completion(content: str | None = "hello", **extra: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {
        "id": "c1",
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **extra.pop("choice", {})}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        **extra,
    }


def streams(*pieces: bytes, cut: bool = False) -> Behaviour:
    """Server-sent events, each piece in a write of its own."""

    async def behave(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0.01)
        if cut:
            assert request.transport is not None
            request.transport.close()
        return response

    return behave


async def hangs(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


async def hangs_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def floods(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(1000):
        await response.write(b" " * 65536)
    return response


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    fake = Upstream()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", fake.handle)
    app.router.add_post("/v1/messages", fake.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield fake
    await runner.cleanup()


@pytest.fixture
def kinds() -> Any:
    """The behaviours, for tests that cannot import this file by name."""

    class Kinds:
        pass

    for item in (says, completion, streams, hangs, hangs_up, floods):
        setattr(Kinds, item.__name__, staticmethod(item))
    return Kinds
