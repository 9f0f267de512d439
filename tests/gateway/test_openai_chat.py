from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from assay.errors import ProviderError, UserError
from assay.gateway.backends._retry import ClientOptions
from assay.gateway.backends.openai_chat import OpenAIChatBackend
from assay.gateway.backends.pricing import Price, Prices
from assay.gateway.interface import ModelBackend, ModelRequest

pytestmark = pytest.mark.quick
KEY = "sk-very-secret-credential-123"
FAST = ClientOptions(back_off_s=0.001, timeout_s=5, max_tries=3)
HELLO = ModelRequest(messages=[{"role": "user", "content": "hi"}], sampling={"temperature": 0.5})


@pytest.fixture
async def client(upstream: Any) -> AsyncIterator[OpenAIChatBackend]:
    backend = OpenAIChatBackend("openai:m", upstream.url, KEY, model="m", options=FAST)
    yield backend
    await backend.close()


async def failure(backend: OpenAIChatBackend) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await backend.complete(HELLO)
    assert KEY not in str(caught.value)
    return caught.value


async def test_an_answer_is_read_whole(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.says(200, kinds.completion("hello")))
    reply = await client.complete(HELLO)
    assert isinstance(client, ModelBackend)
    assert reply.message == {"role": "assistant", "content": "hello"}
    assert (reply.finish_reason, reply.model, reply.tries, reply.cost_usd) == ("stop", "m-1", 1, None)
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.cached_tokens) == (7, 3, None)
    assert reply.request == upstream.bodies[0] == {"temperature": 0.5, "model": "m", "messages": HELLO.messages}
    assert upstream.headers[0]["Authorization"] == f"Bearer {KEY}"


async def test_tools_are_sent_only_when_there_are_any(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.says(200, kinds.completion()))
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    await client.complete(msgspec.structs.replace(HELLO, tools=[tool]))
    await client.complete(HELLO)
    assert upstream.bodies[0]["tools"] == [tool]
    assert "tools" not in upstream.bodies[1]


async def test_token_ids_logprobs_and_usage_details_are_taken(
    upstream: Any, kinds: Any, client: OpenAIChatBackend
) -> None:
    logprobs = {"content": [{"token": "he", "logprob": -0.25}, {"token": "llo", "logprob": -1}]}
    choice = {"token_ids": [5, 6], "logprobs": logprobs}
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }
    upstream.answers(kinds.says(200, kinds.completion(prompt_token_ids=[1, 2, 3], choice=choice, usage=usage)))
    reply = await client.complete(HELLO)
    assert (reply.prompt_token_ids, reply.completion_token_ids, reply.logprobs) == ((1, 2, 3), (5, 6), (-0.25, -1.0))
    assert (reply.usage.cached_tokens, reply.usage.reasoning_tokens) == (4, 1)


async def test_token_ids_written_as_tokens_are_read(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    logprobs = {"content": [{"token": "token_id:11", "logprob": -0.5}, {"token": "token_id:12", "logprob": -0.5}]}
    upstream.answers(kinds.says(200, kinds.completion(choice={"logprobs": logprobs})))
    assert (await client.complete(HELLO)).completion_token_ids == (11, 12)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
async def test_passing_trouble_is_retried(upstream: Any, kinds: Any, client: OpenAIChatBackend, status: int) -> None:
    upstream.answers(kinds.says(status, {"error": {"message": "busy"}}), kinds.says(200, kinds.completion()))
    assert (await client.complete(HELLO)).tries == 2


async def test_a_broken_connection_is_retried(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.hangs_up, kinds.says(200, kinds.completion()))
    assert (await client.complete(HELLO)).tries == 2


async def test_tries_are_bounded(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.says(500, b"oops"))
    error = await failure(client)
    assert (error.status, error.retryable, len(upstream.bodies)) == (500, True, 3)
    assert "answered 500: oops" in str(error)


async def test_retry_after_is_waited_for(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.says(429, b"{}", {"Retry-After": "0.2"}), kinds.says(200, kinds.completion()))
    started = asyncio.get_running_loop().time()
    assert (await client.complete(HELLO)).tries == 2
    assert asyncio.get_running_loop().time() - started >= 0.2


async def test_too_long_a_retry_after_is_an_error_at_once(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.says(429, b"{}", {"Retry-After": "9999"}))
    error = await failure(client)
    assert (error.status, error.retry_after_s, error.retryable, len(upstream.bodies)) == (429, 9999, True, 1)


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (400, {"error": {"message": "bad temperature", "code": "invalid"}}, "answered 400 invalid: bad temperature"),
        (401, {"error": {"message": f"wrong key {KEY}"}}, "wrong key [credential]; check OPENAI_API_KEY"),
        (404, {"error": "no such model"}, "does it serve 'm', and does the URL end in /v1?"),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}, "insufficient_quota: pay"),
        (501, b"", "answered 501"),
    ],
)
async def test_what_stays_wrong_is_not_retried(
    upstream: Any, kinds: Any, client: OpenAIChatBackend, status: int, body: Any, text: str
) -> None:
    upstream.answers(kinds.says(status, body))
    error = await failure(client)
    assert (error.status, error.retryable, len(upstream.bodies)) == (status, False, 1)
    assert text in str(error)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too long", "code": "context_length_exceeded"}},
        {"object": "error", "message": "This model's maximum context length is 4096 tokens. However, ...", "code": 400},
        {"error": {"message": "the request exceeds the available context size"}},
    ],
)
async def test_a_prompt_that_is_too_long_is_recognised(
    upstream: Any, kinds: Any, client: OpenAIChatBackend, body: Any
) -> None:
    upstream.answers(kinds.says(400, body))
    error = await failure(client)
    assert (error.status, error.retryable) == (400, False)
    assert "context_length_exceeded" in str(error)


async def test_a_hanging_server_times_out(upstream: Any, kinds: Any) -> None:
    upstream.answers(kinds.hangs)
    options = ClientOptions(timeout_s=0.1, max_tries=2, back_off_s=0.001)
    backend = OpenAIChatBackend("m", upstream.url, KEY, options=options)
    error = await failure(backend)
    assert "did not answer in 0.1 s" in str(error)
    assert len(upstream.bodies) == 2
    await backend.close()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>gateway</html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        pytest.param(b"[" * 100_000, "not JSON", id="deep"),
        (b"[]", "not a JSON object"),
        pytest.param(b'{"a":' + b"[" * 800 + b"]" * 800 + b"}", "nested too deeply", id="depth"),
        ({}, "missing required field `choices`"),
        ({"choices": []}, "$.choices"),
        ({"choices": [{"message": None}]}, "$.choices[0].message"),
        ({"choices": [{"message": {"content": 3}}]}, "$.choices[0].message.content"),
        ({"choices": [{"message": {"tool_calls": "rm"}}]}, "$.choices[0].message.tool_calls"),
        ({"choices": [{"message": {}}], "usage": {"prompt_tokens": -5}}, "$.usage.prompt_tokens"),
        ({"choices": [{"message": {}, "token_ids": ["a"]}]}, "$.choices[0].token_ids[0]"),
    ],
)
async def test_a_hostile_reply_names_the_field(
    upstream: Any, kinds: Any, client: OpenAIChatBackend, body: Any, text: str
) -> None:
    upstream.answers(kinds.says(200, body))
    error = await failure(client)
    assert text in str(error)
    assert (error.retryable, len(upstream.bodies)) == (False, 1)


async def test_an_error_with_status_200_is_an_error(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(
        kinds.says(200, {"error": {"message": "overloaded", "code": 502}}),
        kinds.says(200, {"error": {"message": "no credits left", "code": 402}}),
    )
    error = await failure(client)
    assert (error.status, error.retryable, len(upstream.bodies)) == (402, False, 2)
    assert "answered 200 with an error: no credits left" in str(error)


async def raw_server(data: bytes) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 50_000,
        b"HTTP/1.1 99999 \x00\r\n\r\n",
        b"",
    ],
    ids=["banner", "cut", "chunks", "headers", "status", "nothing"],
)
async def test_broken_http_is_a_provider_error(data: bytes) -> None:
    server = await raw_server(data)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1?token=abc-secret"
    backend = OpenAIChatBackend("m", url, KEY, options=FAST)
    error = await failure(backend)
    assert error.retryable
    assert "abc-secret" not in str(error)
    await backend.close()
    server.close()


async def test_a_cancelled_call_leaves_the_client_usable(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.hangs, kinds.says(200, kinds.completion()))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.complete(HELLO), 0.05)
    assert (await client.complete(HELLO)).tries == 1


async def test_a_key_with_a_line_break_is_refused() -> None:
    with pytest.raises(UserError, match="OPENAI_API_KEY holds") as caught:
        OpenAIChatBackend("m", "http://h/v1", "sk-abc\nX-Evil: 1")
    assert "sk-abc" not in str(caught.value)


async def test_a_flood_is_cut_off(upstream: Any, kinds: Any) -> None:
    upstream.answers(kinds.floods)
    backend = OpenAIChatBackend("m", upstream.url, options=ClientOptions(max_reply_bytes=100_000))
    assert "longer than 100000 bytes" in str(await failure(backend))
    await backend.close()


async def test_a_packed_reply_is_refused(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.says(200, b"x", {"Content-Encoding": "gzip"}))
    assert "Content-Encoding 'gzip'" in str(await failure(client))
    assert upstream.headers[0]["Accept-Encoding"] == "identity"


async def test_a_redirect_is_not_followed(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.says(307, b"", {"Location": f"{upstream.url}/elsewhere"}))
    error = await failure(client)
    assert (error.status, len(upstream.bodies)) == (307, 1)
    assert "/elsewhere: name that URL instead" in str(error)


async def test_a_credential_that_is_echoed_is_in_no_record(
    upstream: Any, kinds: Any, client: OpenAIChatBackend
) -> None:
    upstream.answers(kinds.says(200, kinds.completion(f"your key is {KEY}", echo=KEY)))
    reply = await client.complete(HELLO)
    assert KEY.encode() not in msgspec.json.encode(reply)
    assert reply.message["content"] == "your key is [credential]"
    assert KEY not in repr(client)


@pytest.mark.parametrize("written", [KEY.replace("k", "\\u006b"), KEY.replace("-", "\\u002D"), "\\u0073" + KEY[1:]])
@pytest.mark.parametrize("status", [200, 400])
async def test_a_credential_that_is_echoed_with_escapes_is_in_no_record(
    upstream: Any, kinds: Any, client: OpenAIChatBackend, written: str, status: int
) -> None:
    answer = kinds.completion("your key is KEY") if status == 200 else {"error": {"message": "your key is KEY"}}
    upstream.answers(kinds.says(status, json.dumps(answer).replace("KEY", written).encode()))
    said = (await client.complete(HELLO)).message["content"] if status == 200 else str(await failure(client))
    assert "your key is [credential]" in said


async def test_a_key_with_slashes_is_known_as_other_servers_write_them(upstream: Any, kinds: Any) -> None:
    key = "abcdef/0123456789/xyz"
    piece = f'data: {{"choices": [{{"index": 0, "delta": {{"content": "{key}"}}}}]}}\n\n'.replace("/", "\\/").encode()
    said = json.dumps(kinds.completion(f"{key} http://h/")).replace("/", "\\/").encode()
    upstream.answers(kinds.says(200, said), kinds.streams(piece, b"data: [DONE]\n\n"))
    backend, deltas = OpenAIChatBackend("m", upstream.url, key), list[Any]()

    async def take(some: Any) -> None:
        deltas.extend(some)

    assert (await backend.complete(HELLO)).message["content"] == "[credential] http://h/"
    assert (await backend.complete(HELLO, take)).message["content"] == "[credential]"
    assert [delta.text for delta in deltas] == ["[credential]"]
    await backend.close()


async def test_a_credential_in_a_header_of_the_reply_is_in_no_error(upstream: Any, kinds: Any, client: Any) -> None:
    for status, header in ((200, "Content-Encoding"), (307, "Location")):
        upstream.answers(kinds.says(status, b"x", {header: KEY}))
        assert "[credential]" in str(await failure(client))


async def test_a_key_that_is_no_secret_changes_no_reply(upstream: Any, kinds: Any) -> None:
    upstream.answers(kinds.says(200, kinds.completion("the list is EMPTY")))
    backend = OpenAIChatBackend("m", upstream.url, "EMPTY")
    assert (await backend.complete(HELLO)).message["content"] == "the list is EMPTY"
    await backend.close()


async def test_connections_are_kept(upstream: Any, kinds: Any, client: OpenAIChatBackend) -> None:
    upstream.answers(kinds.says(200, kinds.completion()))
    for _ in range(5):
        await client.complete(HELLO)
    assert len(upstream.connections) == 1


async def test_a_server_that_is_down_is_named() -> None:
    backend = OpenAIChatBackend("m", "http://127.0.0.1:9/v1", KEY, options=FAST)
    error = await failure(backend)
    assert "http://127.0.0.1:9" in str(error)
    assert error.retryable
    await backend.close()
    await backend.close()


async def test_streaming_is_refused(client: OpenAIChatBackend) -> None:
    with pytest.raises(UserError, match="not a sampling option"):
        await client.complete(msgspec.structs.replace(HELLO, sampling={"stream": True}))


async def test_a_known_price_gives_a_cost(upstream: Any, kinds: Any) -> None:
    upstream.answers(kinds.says(200, kinds.completion()))
    prices = Prices(own={"m": Price(input=1.0, output=2.0)})
    backend = OpenAIChatBackend("m", upstream.url, prices=prices)
    assert (await backend.complete(HELLO)).cost_usd == pytest.approx((7 * 1.0 + 3 * 2.0) / 1e6)
    await backend.close()


@pytest.mark.parametrize("wrong", [{"max_tries": 0}, {"timeout_s": 0.0}, {"back_off_s": float("nan")}])
def test_impatient_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"max_tries|above 0"):
        ClientOptions(**wrong)
