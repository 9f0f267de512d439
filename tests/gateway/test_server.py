"""The server, with a real client over a real socket."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import aiohttp
import pytest

from assay.errors import LimitReached, ProviderError
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall, ScriptedError
from assay.gateway.dialects.openai_chat import OpenAIChat
from assay.gateway.interface import Exchange, ModelRequest
from assay.gateway.model import PlainModel
from assay.gateway.server import Gateway, GatewayOptions
from assay.gateway.session import GatewaySession

pytestmark = pytest.mark.quick

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAMED = ASKED | {"stream": True, "stream_options": {"include_usage": True}}
CALLING = Reply(content="I look.", reasoning="Hm.", tool_calls=(ScriptedCall("shell", {"command": "ls"}),))


class Hooks:
    """Keeps what it is told; refuses where it is told to."""

    def __init__(self, calls: int = 1000) -> None:
        self.calls = calls
        self.begun: list[str] = []
        self.ended: list[Exchange] = []

    async def before(self, request: ModelRequest, parent: str | None) -> str:
        if len(self.begun) >= self.calls:
            limit = "calls"
            raise LimitReached(limit, self.calls, self.calls)
        self.begun.append(f"c{len(self.begun) + 1}")
        return self.begun[-1]

    async def after(self, exchange: Exchange) -> None:
        self.ended.append(exchange)


class Running(NamedTuple):
    """A gateway with one session and a client."""

    gateway: Gateway
    session: GatewaySession
    hooks: Hooks
    client: aiohttp.ClientSession
    url: str

    async def post(self, body: Any, *, key: str | None = None, path: str | None = None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {self.session.key if key is None else key}"}
        url = self.url if path is None else self.url.replace(f"/s/{self.session.id}", path)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(url, data=data, headers=headers) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def running(script: Any, hooks: Hooks | None = None, **options: Any) -> AsyncIterator[Running]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    hooks = hooks or Hooks()
    async with Gateway(GatewayOptions(**options)) as gateway, aiohttp.ClientSession() as client:
        await gateway.listen(listener)
        session = gateway.open(PlainModel(ScriptedBackend(script)), hooks)
        yield Running(gateway, session, hooks, client, f"http://127.0.0.1:{port}/s/{session.id}/v1/chat/completions")


def events(text: str) -> list[Any]:
    """The JSON data of a stream, `[DONE]` left out."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


async def test_a_whole_answer_is_recorded_and_given() -> None:
    async with running([CALLING]) as it:
        status, text = await it.post(ASKED)
    message = json.loads(text)["choices"][0]["message"]
    assert (status, message["content"], message["tool_calls"][0]["function"]["name"]) == (200, "I look.", "shell")
    (exchange,) = it.hooks.ended
    assert (exchange.id, exchange.cause, exchange.delivered, exchange.error) == ("c1", "root", True, None)
    assert json.loads(exchange.raw_request) == ASKED
    assert exchange.raw_response.decode() == text


async def test_a_streamed_answer_holds_the_same() -> None:
    async with running([CALLING]) as it:
        status, text = await it.post(STREAMED)
    chunks = events(text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert status == 200
    assert "".join(d.get("content") or "" for d in deltas) == "I look."
    assert "".join(d.get("reasoning_content") or "" for d in deltas) == "Hm."
    assert [c["function"]["arguments"] for d in deltas for c in d.get("tool_calls", ())] == ['{"command":"ls"}']
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert it.hooks.ended[0].raw_response.decode() == text


async def test_the_end_is_sent_only_after_the_call_was_recorded() -> None:
    async with running(["done"]) as it:
        sure = asyncio.Event()

        async def slow(exchange: Exchange) -> None:
            await sure.wait()

        it.hooks.after = slow  # type: ignore[method-assign]
        asked = asyncio.ensure_future(it.post(STREAMED))
        await asyncio.sleep(0.1)
        assert not asked.done()
        sure.set()
        assert (await asked)[0] == 200


@pytest.mark.parametrize("body", [ASKED, STREAMED], ids=["whole", "stream"])
async def test_wrong_and_missing_keys_reach_nothing(body: Any) -> None:
    async with running(["done"]) as it:
        other = it.gateway.open(PlainModel(ScriptedBackend(["x"])), Hooks())
        assert (await it.post(body, key="wrong"))[0] == 401
        assert (await it.post(body, key=""))[0] == 401
        assert (await it.post(body, key=other.key))[0] == 401
        assert (await it.post(body, path=f"/s/{other.id}"))[0] == 401
        assert (await it.post(body, path="/s/nobody"))[0] == 404
        assert (await it.post(body, path=""))[0] == 404
    assert it.hooks.begun == []


async def test_a_closed_session_is_unknown() -> None:
    async with running(["done"]) as it:
        it.gateway.close(it.session)
        assert (await it.post(ASKED))[0] == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", None),
        (b"[]", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        ({"model": "m"}, None),
        (ASKED | {"messages": []}, "messages"),
        (ASKED | {"messages": [{"role": "king", "content": ""}]}, "messages[0].role"),
        (ASKED | {"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        (ASKED | {"n": 2}, "n"),
        (ASKED | {"tools": [{"function": {}}]}, "tools[0].function"),
    ],
)
async def test_a_malformed_request_is_refused_with_its_field(body: Any, field: str | None) -> None:
    async with running(["done"]) as it:
        status, text = await it.post(body)
    assert status == 400
    assert json.loads(text)["error"]["param"] == field
    assert it.hooks.begun == []


async def test_a_spent_budget_is_told_as_the_dialect_tells_it() -> None:
    async with running(["one", "two"], Hooks(calls=1)) as it:
        await it.post(ASKED)
        status, text = await it.post(ASKED | {"messages": [*ASKED["messages"], {"role": "user", "content": "on"}]})
    assert (status, json.loads(text)["error"]["code"]) == (429, "insufficient_quota")
    assert len(it.hooks.ended) == 1


def said(text: str) -> dict[str, Any]:
    return ASKED | {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize("extra", ["messages", "names", "tools", "user"])
async def test_what_a_sessions_calls_leave_in_memory_is_bounded(extra: str) -> None:
    failing = [Reply(error=ScriptedError("no", status=400))]
    made = {
        "messages": lambda text: said(text),
        "names": lambda text: ASKED | {"messages": [{"role": "user", "content": "hello", text: "x"}]},
        "tools": lambda text: ASKED | {"tools": [{"type": "function", "function": {"name": text}}]},
        "user": lambda text: ASKED | {"user": text},
    }[extra]
    async with running(failing, max_session_bytes=100_000) as it:
        answers = [(await it.post(made(f"{number}" + "x" * 20_000)))[0] for number in range(10)]
    refused = answers.index(429)
    assert (set(answers[:refused]), set(answers[refused:])) == ({400}, {429})
    assert 3 <= refused <= 5
    assert len(it.hooks.begun) == refused


async def test_what_calls_share_counts_once() -> None:
    async with running(lambda _: "done", max_session_bytes=100_000) as it:
        messages = said("x" * 20_000)["messages"]
        for number in range(10):
            assert (await it.post(ASKED | {"messages": messages}))[0] == 200
            answer = {"role": "assistant", "content": "done"}
            messages = [*messages, answer, {"role": "user", "content": f"go on {number}"}]


@pytest.mark.parametrize(
    ("given", "status"), [(429, 429), (500, 502), (None, 502), (400, 400)], ids=["busy", "broken", "gone", "refused"]
)
async def test_a_failure_upstream_keeps_its_own_status_also_for_streams(given: int | None, status: int) -> None:
    failing = [Reply(error=ScriptedError("no", status=given))]
    async with running(failing) as it:
        assert (await it.post(ASKED))[0] == status
        assert (await it.post(STREAMED))[0] == status
    assert [e.error for e in it.hooks.ended] == ["no", "no"]
    assert [e.cause for e in it.hooks.ended] == ["root", "resample"]


class Unwritable(OpenAIChat):
    """A dialect that cannot write its answers."""

    def reply(self, *_: Any) -> bytes:
        raise KeyError("type")

    def stream(self, *given: Any) -> Any:
        writer = super().stream(*given)
        writer.end = self.reply  # type: ignore[method-assign]
        return writer


@pytest.mark.parametrize("body", [ASKED, STREAMED], ids=["whole", "streamed"])
async def test_a_call_whose_answer_cannot_be_written_is_recorded_as_failed(body: Any) -> None:
    hooks, listener = Hooks(), socket.create_server(("127.0.0.1", 0))
    async with Gateway(dialects=(Unwritable(),)) as gateway, aiohttp.ClientSession() as client:
        await gateway.listen(listener)
        session = gateway.open(PlainModel(ScriptedBackend(lambda _: "done")), hooks)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/s/{session.id}/v1/chat/completions"
        with suppress(aiohttp.ClientError):
            async with client.post(url, json=body, headers={"Authorization": f"Bearer {session.key}"}) as answer:
                assert body is STREAMED or answer.status == 500
                await answer.read()
    assert [one.error for one in hooks.ended] == ["the answer could not be written: KeyError: 'type'"]
    assert session.busy == 0


async def test_a_silent_model_is_covered_by_real_events() -> None:
    async def slow(request: ModelRequest) -> Reply:
        await asyncio.sleep(0.35)
        return Reply(content="at last")

    async with running(slow, keep_alive_s=0.1) as it:
        _, text = await it.post(STREAMED)
    chunks = events(text)
    assert sum(c["choices"] != [] and c["choices"][0]["delta"] == {} for c in chunks) >= 3
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == "at last"


async def test_a_failure_after_the_first_event_is_an_event() -> None:
    async def fails(request: ModelRequest) -> Reply:
        await asyncio.sleep(0.3)
        message = "the server went away"
        raise ProviderError(message, status=500)

    async with running(fails, keep_alive_s=0.1) as it:
        status, text = await it.post(STREAMED)
    assert status == 200
    assert "the server went away" in text
    assert "[DONE]" not in text


async def test_a_client_that_left_does_not_lose_the_call() -> None:
    async def slow(request: ModelRequest) -> Reply:
        await asyncio.sleep(0.3)
        return Reply(content="nobody hears this")

    async with running(slow) as it:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await it.post(STREAMED)
        await asyncio.sleep(0.5)
    (exchange,) = it.hooks.ended
    assert exchange.reply is not None
    assert exchange.delivered is False


async def test_streams_of_a_slow_model_are_kept_alive() -> None:
    async def slow(request: ModelRequest) -> Reply:
        await asyncio.sleep(0.3)
        return Reply(content="done")

    async with running(slow, keep_alive_s=0.1) as it:
        assert (await it.post(STREAMED))[1].count('"delta":{}') >= 2


async def test_a_model_list_is_no_call() -> None:
    async with running(["done"]) as it:
        url = it.url.replace("/chat/completions", "/models")
        async with it.client.get(url, headers={"x-api-key": it.session.key}) as answer:
            assert (await answer.json())["data"][0]["id"] == "scripted"
    assert it.hooks.begun == []


async def test_garbage_is_looked_for_as_before_once_the_gateway_has_ended(thresholds: tuple[int, int, int]) -> None:
    async with Gateway():
        assert gc.get_threshold() == (10_000, *thresholds[1:])
    assert gc.get_threshold() == thresholds
