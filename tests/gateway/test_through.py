"""From a client through the gateway to a streaming model server and back, in every dialect."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from assay.gateway.backends._retry import ClientOptions
from assay.gateway.backends.openai_chat import OpenAIChatBackend
from assay.gateway.model import PlainModel
from assay.gateway.server import Gateway, GatewayOptions
from tests.gateway.test_server import Hooks
from tests.gateway.test_streamed_replies import ANSWER, chunk

pytestmark = pytest.mark.quick
SECRET = "sk-upstream-credential-42"
HELLO = [{"role": "user", "content": "hi"}]
DIALECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-chat": ("/v1/chat/completions", {"model": "m", "messages": HELLO, "stream": True}),
    "anthropic-messages": (
        "/v1/messages?beta=true",
        {"model": "m", "max_tokens": 9, "messages": HELLO, "stream": True},
    ),
    "openai-responses": ("/v1/responses", {"model": "m", "input": HELLO, "stream": True}),
    "gemini": ("/v1beta/models/m:streamGenerateContent?alt=sse", {"contents": [{"parts": [{"text": "hi"}]}]}),
}
FAILED = {
    "openai-chat": '"error"',
    "anthropic-messages": "event: error",
    "openai-responses": "response.failed",
    "gemini": '"UNAVAILABLE"',
}
BEATS = {
    "openai-chat": '"delta":{}',
    "anthropic-messages": "event: ping",
    "openai-responses": "event: response.in_progress",
    "gemini": '"parts":[]',
}


class Through:
    """A gateway in front of a fake server, and a client."""

    def __init__(self, client: aiohttp.ClientSession, url: str, key: str, hooks: Hooks) -> None:
        self.hooks = hooks
        self._client, self._url, self._key = client, url, key

    async def ask(self, dialect: str, **changes: Any) -> tuple[int, str]:
        path, body = DIALECTS[dialect]
        headers = {"x-goog-api-key": self._key} if dialect == "gemini" else {"x-api-key": self._key}
        async with self._client.post(self._url + path, json=body | changes, headers=headers) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def through(upstream: Any, keep_alive_s: float = 10.0) -> AsyncIterator[Through]:
    listener = socket.create_server(("127.0.0.1", 0))
    options = ClientOptions(back_off_s=0.001, timeout_s=5, max_tries=2)
    backend = OpenAIChatBackend("openai:m", upstream.url, SECRET, model="m", options=options)
    async with Gateway(GatewayOptions(keep_alive_s=keep_alive_s)) as gateway, aiohttp.ClientSession() as client:
        await gateway.listen(listener)
        hooks = Hooks()
        session = gateway.open(PlainModel(backend), hooks)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/s/{session.id}"
        yield Through(client, url, session.key, hooks)
    await backend.close()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_servers_stream_reaches_the_client_and_the_record(upstream: Any, kinds: Any, dialect: str) -> None:
    upstream.answers(kinds.streams(*ANSWER))
    async with through(upstream) as it:
        status, text = await it.ask(dialect)
    (exchange,) = it.hooks.ended
    assert (status, "look." in text, "call_a" in text) == (200, True, True)
    assert exchange.raw_response.decode() == text
    assert (exchange.request.dialect, exchange.error) == (dialect, None)
    assert exchange.reply is not None
    assert exchange.reply.message["content"] == "I look."


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "gemini"])
async def test_a_client_that_wants_the_whole_is_not_streamed_for(upstream: Any, kinds: Any, dialect: str) -> None:
    upstream.answers(kinds.says(200, kinds.completion("hello")))
    async with through(upstream) as it:
        status, text = await it.ask(dialect, stream=False)
    assert (status, "hello" in text) == (200, True)
    assert "stream" not in upstream.bodies[0]
    json.loads(text)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_cut_stream_ends_with_the_dialects_error_and_is_recorded(
    upstream: Any, kinds: Any, dialect: str
) -> None:
    upstream.answers(kinds.streams(chunk({"content": "I "}), cut=True))
    async with through(upstream) as it:
        status, text = await it.ask(dialect)
    assert (status, FAILED[dialect] in text, len(upstream.bodies)) == (200, True, 1)
    assert it.hooks.ended[0].error is not None


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_before_the_first_piece_a_failure_has_its_own_status(upstream: Any, kinds: Any, dialect: str) -> None:
    upstream.answers(kinds.says(429, {"error": {"message": "slow"}}, {"Retry-After": "0.01"}))
    async with through(upstream) as it:
        status, text = await it.ask(dialect)
    assert (status, "slow" in text, len(upstream.bodies)) == (429, True, 2)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_silent_model_is_bridged_by_real_events(upstream: Any, kinds: Any, dialect: str) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.3)
        answer: web.StreamResponse = await kinds.streams(*ANSWER)(request)
        return answer

    upstream.answers(slow)
    async with through(upstream, keep_alive_s=0.05) as it:
        _, text = await it.ask(dialect)
    before, _, _ = text.partition("Hm.")
    assert before.count(BEATS[dialect]) >= 3
    assert it.hooks.ended[0].error is None


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [200, 401])
async def test_the_servers_credential_reaches_no_client_and_no_record(
    upstream: Any, kinds: Any, dialect: str, status: int
) -> None:
    said = chunk({"content": f"the key is {SECRET}"}) + chunk({}, "stop")
    upstream.answers(kinds.streams(said) if status == 200 else kinds.says(401, {"error": {"message": SECRET}}))
    async with through(upstream) as it:
        _, text = await it.ask(dialect)
    assert upstream.headers[0]["Authorization"] == f"Bearer {SECRET}"
    assert SECRET not in text
    assert SECRET not in repr(it.hooks.ended)
