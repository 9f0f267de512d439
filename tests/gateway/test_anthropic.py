"""The client of Anthropic servers, with a real server on the loopback interface."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from assay.errors import ProviderError, UserError
from assay.gateway.backends import open_backend
from assay.gateway.backends._anthropic_body import anthropic_body
from assay.gateway.backends._anthropic_reply import MessageStream
from assay.gateway.backends._retry import ClientOptions
from assay.gateway.backends.anthropic import AnthropicBackend
from assay.gateway.dialects.anthropic_messages import AnthropicMessages
from assay.gateway.interface import Delta, ModelReply, ModelRequest
from assay.settings import Settings
from tests.gateway.dialects.test_anthropic_messages import CLAUDE, MARK, MESSAGES

pytestmark = pytest.mark.quick
KEY = "sk-ant-very-secret-credential"
FAST = ClientOptions(back_off_s=0.001, timeout_s=5, max_tries=3)
HELLO = ModelRequest(messages=[{"role": "user", "content": "hi"}])
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Hm.", "signature": "Eq"},
    {"type": "redacted_thinking", "data": "zz"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
]
USAGE = {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 2}
MESSAGE = {
    "type": "message",
    "model": "claude-x",
    "content": BLOCKS,
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": USAGE,
}


def event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps({"type": kind, **fields}).encode())


def grown(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> bytes:
    pieces = [event("content_block_delta", index=index, delta=delta) for delta in deltas]
    begun = event("content_block_start", index=index, content_block=block)
    return b"".join([begun, *pieces, event("content_block_stop", index=index)])


STREAM = (
    event(
        "message_start", message=MESSAGE | {"content": [], "stop_reason": None, "usage": USAGE | {"output_tokens": 1}}
    ),
    event("ping"),
    grown(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "Eq"},
    ),
    grown(1, BLOCKS[1]),
    grown(
        2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "I "}, {"type": "text_delta", "text": "look."}
    ),
    grown(
        3,
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a": '},
        {"type": "input_json_delta", "partial_json": "1}"},
    ),
    event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 3}),
    event("message_stop"),
)


@pytest.fixture
async def client(upstream: Any) -> AsyncIterator[AnthropicBackend]:
    backend = AnthropicBackend("anthropic:m", upstream.url.removesuffix("/v1"), KEY, model="m", options=FAST)
    yield backend
    await backend.close()


async def asked(client: AnthropicBackend) -> tuple[ModelReply, list[Delta]]:
    found: list[Delta] = []

    async def take(deltas: Sequence[Delta]) -> None:
        found.extend(deltas)

    return await client.complete(HELLO, take), found


def check(reply: ModelReply, arguments: str) -> None:
    message = reply.message
    assert (message["content"], message["reasoning_content"]) == ("I look.", "Hm.")
    assert message["thinking_blocks"] == BLOCKS[:2]
    assert message["tool_calls"] == [
        {"id": "t1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    ]
    usage = reply.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (17, 10, 3)
    assert (reply.finish_reason, reply.model) == ("tool_calls", "claude-x")


async def test_a_whole_answer(upstream: Any, kinds: Any, client: AnthropicBackend) -> None:
    upstream.answers(kinds.says(200, MESSAGE))
    check(await client.complete(HELLO), '{"a":1}')
    assert upstream.bodies[0] == {
        "model": "m",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert (upstream.headers[0]["x-api-key"], "Authorization" in upstream.headers[0]) == (KEY, False)
    assert upstream.headers[0]["anthropic-version"] == "2023-06-01"


async def test_a_streamed_answer(upstream: Any, kinds: Any, client: AnthropicBackend) -> None:
    upstream.answers(kinds.streams(*STREAM))
    reply, deltas = await asked(client)
    check(reply, '{"a": 1}')
    assert deltas[0] == Delta(reasoning="Hm.", prompt_tokens=17)
    assert deltas[1:3] == [Delta(sealed={"signature": "Eq"}), Delta(sealed=BLOCKS[1])]
    assert "".join(d.arguments for d in deltas) == '{"a": 1}'
    assert upstream.bodies[0]["stream"] is True


async def test_a_real_servers_blocks_reach_a_client_of_the_same_dialect(
    upstream: Any, kinds: Any, client: AnthropicBackend
) -> None:
    upstream.answers(kinds.streams(*STREAM), kinds.says(200, MESSAGE))
    dialect = AnthropicMessages()
    parsed = dialect.parse(MESSAGES, CLAUDE)
    streamed, _ = await asked(client)
    for reply in (streamed, await client.complete(HELLO)):
        assert json.loads(dialect.reply(parsed, reply, "id", 0))["content"] == BLOCKS


async def test_a_request_of_the_same_dialect_arrives_as_it_was(
    upstream: Any, kinds: Any, client: AnthropicBackend
) -> None:
    upstream.answers(kinds.says(200, MESSAGE))
    await client.complete(AnthropicMessages().parse(MESSAGES, CLAUDE).request)
    body = upstream.bodies[0]
    assert body["system"] == CLAUDE["system"]
    assert [message["role"] for message in body["messages"]] == ["user", "system", "assistant", "user"]
    results = body["messages"][3]["content"]
    assert [block["type"] for block in results] == ["tool_result", "tool_result", "text"]
    assert (results[0]["is_error"], results[1]["cache_control"]) == (True, MARK)
    assert body["messages"][1]["content"] == CLAUDE["messages"][1]["content"]
    assert body["tools"] == CLAUDE["tools"]
    for field in ("thinking", "metadata", "context_management", "output_config", "max_tokens"):
        assert body[field] == CLAUDE[field]
    assert upstream.headers[0]["anthropic-beta"] == "a-1,b-2"
    assert not {"tool_fields", "cache_marks", "anthropic_beta"} & set(body)


def test_a_request_of_another_dialect_is_translated() -> None:
    messages = [
        {"role": "developer", "content": "s"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
        {"role": "assistant", "content": "", "reasoning_content": "lost", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "user", "content": "go on"},
        {"role": "system", "content": "late"},
    ]  # fmt: skip
    sampling = {"stop": "END", "tool_choice": "required", "parallel_tool_calls": False, "seed": 1, "max_tokens": 9}
    tools = [{"type": "function", "function": {"name": "f", "description": "d"}}]
    body = anthropic_body(ModelRequest(messages=messages, sampling=sampling, tools=tools), "m")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    user, assistant, rest = body["messages"]
    assert (body["system"], user["content"]) == ([{"type": "text", "text": "s"}], [image])
    assert [block["input"] for block in assistant["content"]] == [{"__unparsedToolInput": {"raw": "{", "len": 1}}]
    assert [block["type"] for block in rest["content"]] == ["tool_result", "text", "text"]
    assert body["tools"] == [{"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}]
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert (body["stop_sequences"], body["max_tokens"], "seed" in body) == (["END"], 9, False)


async def test_an_overloaded_server_is_asked_again(upstream: Any, kinds: Any, client: AnthropicBackend) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    whole = kinds.streams(*STREAM)
    upstream.answers(kinds.says(529, error), kinds.streams(STREAM[0], event("error", error=error["error"])), whole)
    reply, _ = await asked(client)
    assert reply.tries == 3


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (STREAM[:-1], "before the answer was complete"),
        ((b"data: nonsense\n\n",), "invalid event"),
        ((event("content_block_delta", delta={"type": "text_delta", "text": "x"}),), "outside of any block"),
        ((event("content_block_stop"),), "not begun"),
        ((event("content_block_start", content_block={"text": "x"}),), "a block without a type"),
        ((event("content_block_start", content_block={"type": "tool_use", "id": 3}),), "without a name or an id"),
        ((grown(0, {"type": "text"}), event("message_stop"), b""), "not a message"),
        ((event("error", error={"type": "invalid_request_error", "message": "nope"}),), "nope"),
    ],
)
async def test_a_hostile_stream_is_a_precise_error(
    upstream: Any, kinds: Any, client: AnthropicBackend, pieces: Any, text: str
) -> None:
    upstream.answers(kinds.streams(event("message_start", message={"usage": {"input_tokens": "?"}}), *pieces))
    with pytest.raises(ProviderError) as caught:
        await asked(client)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (
            401,
            {"error": {"type": "authentication_error", "message": f"bad {KEY}"}},
            "bad [credential]; check ANTHROPIC",
        ),
        (400, {"error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}, "context_length"),
        (200, {"content": [{"text": "x"}]}, "missing required field `type` - at `$.content[0]`"),
        (200, {"type": "error", "error": {"type": "api_error", "message": "odd"}}, "odd"),
    ],
)
async def test_errors_say_what_to_do(
    upstream: Any, kinds: Any, client: AnthropicBackend, status: int, body: Any, text: str
) -> None:
    upstream.answers(kinds.says(status, body))
    with pytest.raises(ProviderError) as caught:
        await client.complete(HELLO)
    assert text in str(caught.value)
    assert KEY not in str(caught.value)


def test_blocks_of_server_tools_are_kept_in_order() -> None:
    stream = MessageStream("here")
    used = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    pieces = grown(0, used, {"type": "input_json_delta", "partial_json": '{"query":"x"}'})
    found = [d for line in pieces.splitlines() if line.startswith(b"data: ") for d in stream.feed([line[6:]])]
    assert found == [Delta(sealed=used | {"input": {"query": "x"}})]


async def test_it_is_opened_by_name(upstream: Any) -> None:
    environment = {"ANTHROPIC_BASE_URL": upstream.url, "ANTHROPIC_API_KEY": KEY}
    backend = open_backend("anthropic:claude-x", Settings.from_environment(environment))
    assert backend.name == "anthropic:claude-x"
    assert vars(backend)["_url"] == f"{upstream.url}/messages"
    assert KEY not in repr(backend)
    await backend.close()


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({}, "ANTHROPIC_BASE_URL is not set"),
        ({"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}, "set ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_BASE_URL": "https://a:b@host"}, "put the credential in ANTHROPIC_API_KEY"),
    ],
)
def test_what_is_missing_is_said(environment: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        open_backend("anthropic:m", Settings.from_environment(environment))


def test_a_reply_can_be_recorded() -> None:
    assert msgspec.json.encode(Delta(sealed=BLOCKS[1]))
