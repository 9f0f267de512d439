"""Streamed answers of model servers, with a real server on the loopback interface."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ProviderError
from assay.gateway.backends._chat_stream import ChatStream
from assay.gateway.backends._client import EventStreamParser
from assay.gateway.backends._retry import ClientOptions
from assay.gateway.backends.openai_chat import OpenAIChatBackend
from assay.gateway.interface import Delta, ModelReply, ModelRequest

pytestmark = pytest.mark.quick
KEY = "sk-very-secret-credential-123"
FAST = ClientOptions(back_off_s=0.001, timeout_s=5, max_tries=3)
HELLO = ModelRequest(messages=[{"role": "user", "content": "hi"}])


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"id": "c1", "model": "m-1", "choices": choices, **fields}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
CALL = {"index": 0, "id": "call_a", "type": "function", "function": {"name": "f", "arguments": ""}}
ANSWER = (
    chunk({"role": "assistant", "content": ""}),
    b": a comment\n\n",
    chunk({"reasoning_content": "Hm."}),
    chunk({"content": "I "}) + chunk({"content": "look."}),
    chunk({"tool_calls": [CALL]}) + chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{ "a"'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}),
    chunk({"tool_calls": [CALL | {"index": 1, "id": "call_b", "function": {"name": "g", "arguments": "{}"}}]}),
    chunk({}, "tool_calls"),
    chunk(usage={"prompt_tokens": 7, "completion_tokens": 3}) + DONE,
)


@pytest.fixture
async def client(upstream: Any) -> AsyncIterator[OpenAIChatBackend]:
    backend = OpenAIChatBackend("openai:m", upstream.url, KEY, model="m", options=FAST)
    yield backend
    await backend.close()


async def asked(client: Any, request: ModelRequest = HELLO) -> tuple[ModelReply, list[list[Delta]]]:
    batches: list[list[Delta]] = []

    async def take(deltas: Sequence[Delta]) -> None:
        batches.append(list(deltas))

    return await client.complete(request, take), batches


async def test_a_stream_is_given_as_it_comes_and_read_as_a_whole(upstream: Any, kinds: Any, client: Any) -> None:
    upstream.answers(kinds.streams(*ANSWER))
    reply, batches = await asked(client)
    deltas = [delta for batch in batches for delta in batch]
    assert len(batches) >= 4
    assert "".join(d.text for d in deltas) == "I look."
    assert [(d.index, d.id, d.name) for d in deltas if d.id] == [(0, "call_a", "f"), (1, "call_b", "g")]
    assert "".join(d.arguments for d in deltas if d.index == 0) == '{ "a":1}'
    assert (reply.message["content"], reply.message["reasoning_content"]) == ("I look.", "Hm.")
    assert [call["function"]["arguments"] for call in reply.message["tool_calls"]] == ['{ "a":1}', "{}"]
    assert (reply.finish_reason, reply.usage.prompt_tokens, reply.model) == ("tool_calls", 7, "m-1")
    assert (upstream.bodies[0]["stream"], upstream.bodies[0]["stream_options"]) == (True, {"include_usage": True})


async def test_pieces_that_come_together_are_given_together(upstream: Any, kinds: Any, client: Any) -> None:
    upstream.answers(kinds.streams(b"".join(ANSWER)))
    _, batches = await asked(client)
    assert len(batches) == 1


async def test_tokens_and_logprobs_of_a_stream_are_kept(upstream: Any, kinds: Any, client: Any) -> None:
    def choice(ids: list[int]) -> dict[str, Any]:
        content = [{"token": f"t{i}", "logprob": -float(i)} for i in ids]
        return {"delta": {"content": "x"}, "token_ids": ids, "logprobs": {"content": content}}

    pieces = [chunk(None, prompt_token_ids=[1, 2])] + [
        b"data: " + json.dumps({"choices": [choice(ids)]}).encode() + b"\n\n" for ids in ([3], [4, 5])
    ]
    upstream.answers(kinds.streams(*pieces, DONE))
    reply, _ = await asked(client)
    assert (reply.prompt_token_ids, reply.completion_token_ids) == ((1, 2), (3, 4, 5))
    assert reply.logprobs == (-3.0, -4.0, -5.0)


async def test_a_server_that_does_not_stream_is_read_whole(upstream: Any, kinds: Any, client: Any) -> None:
    upstream.answers(kinds.says(200, kinds.completion("hello")))
    reply, batches = await asked(client)
    assert (reply.message["content"], batches) == ("hello", [])


async def test_before_the_first_piece_a_cut_is_retried(upstream: Any, kinds: Any, client: Any) -> None:
    first = chunk({"role": "assistant", "content": ""})
    upstream.answers(kinds.says(503, b""), kinds.streams(first, cut=True), kinds.streams(*ANSWER))
    reply, _ = await asked(client)
    assert reply.tries == 3


@pytest.mark.parametrize("cut", [True, False])
async def test_after_the_first_piece_nothing_is_retried(upstream: Any, kinds: Any, client: Any, cut: bool) -> None:
    upstream.answers(kinds.streams(chunk({"content": "I "}), cut=cut))
    with pytest.raises(ProviderError):
        await asked(client)
    assert len(upstream.bodies) == 1


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((b"data: {\n\n",), "invalid chat completion chunk"),
        ((b'data: {"choices": 3}\n\n',), "$.choices"),
        ((chunk({"content": 3}),), "$.choices[0].delta.content"),
        ((b'data: {"error": {"message": "boom", "code": 422}}\n\n',), "boom"),
        ((chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}), DONE), "name"),
        (
            (
                chunk({"tool_calls": [CALL]}),
                chunk({"tool_calls": [CALL | {"index": 1}]}),
                chunk({"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]}),
            ),
            "between others",
        ),
        ((chunk({"content": "x"}, usage={"prompt_tokens": -1}), DONE), "$.usage.prompt_tokens"),
    ],
)
async def test_a_hostile_stream_is_a_precise_error(
    upstream: Any, kinds: Any, client: Any, pieces: tuple[bytes, ...], text: str
) -> None:
    upstream.answers(kinds.streams(*pieces))
    with pytest.raises(ProviderError) as caught:
        await asked(client)
    assert text in str(caught.value)
    assert not caught.value.retryable


async def test_a_flood_of_events_is_cut_off(upstream: Any, kinds: Any) -> None:
    upstream.answers(kinds.streams(*[b"data: " + b"x" * 60_000] * 3))
    backend = OpenAIChatBackend("m", upstream.url, options=ClientOptions(max_reply_bytes=100_000))
    with pytest.raises(ProviderError, match="longer than 100000 bytes"):
        await asked(backend)
    await backend.close()


async def test_an_echoed_credential_is_in_no_record(upstream: Any, kinds: Any, client: Any) -> None:
    split = [chunk({"content": KEY[:9]}), chunk({"content": KEY[9:]})]
    upstream.answers(kinds.streams(chunk({"content": f"{KEY} "}), *split, DONE))
    reply, batches = await asked(client)
    assert KEY.encode() not in msgspec.json.encode(reply)
    assert batches[0][0].text == "[credential] "


async def test_fields_of_the_same_dialect_go_along(upstream: Any, kinds: Any, client: Any) -> None:
    upstream.answers(kinds.says(200, kinds.completion()))
    extra = {"service_tier": "flex", "model": "not this"}
    await client.complete(msgspec.structs.replace(HELLO, passthrough=extra))
    await client.complete(msgspec.structs.replace(HELLO, passthrough=extra, dialect="gemini"))
    assert upstream.bodies[0]["service_tier"] == "flex"
    assert [body["model"] for body in upstream.bodies] == ["m", "m"]
    assert "service_tier" not in upstream.bodies[1]


async def test_another_dialects_messages_are_brought_to_what_servers_take(
    upstream: Any, kinds: Any, client: Any
) -> None:
    upstream.answers(kinds.says(200, kinds.completion()))
    reference = {"type": "tool_reference", "tool_name": "x"}
    messages = [
        {"role": "system", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
        {"role": "user", "content": "u"},
        {"role": "system", "content": "later"},
        {"role": "assistant", "content": None, "thinking_blocks": [], "reasoning_content": "r", "tool_calls": []},
        {"role": "tool", "tool_call_id": "t", "content": [reference], "is_error": True},
    ]
    await client.complete(ModelRequest(messages=messages, dialect="anthropic-messages"))
    assert upstream.bodies[0]["messages"] == [
        {"role": "system", "content": "a\n\nb"},
        {"role": "user", "content": "u"},
        {"role": "user", "content": "later"},
        {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": []},
        {"role": "tool", "tool_call_id": "t", "content": '{"type":"tool_reference","tool_name":"x"}'},
    ]


@given(cuts=st.lists(st.integers(0, 200), max_size=8), end=st.sampled_from([b"\n", b"\r\n"]))
def test_events_are_the_same_however_the_bytes_are_cut(cuts: list[int], end: bytes) -> None:
    whole = end.join([b"event: x", b"data: one", b"", b": comment", b"data:two", b"data: three", b"", b"data: unended"])
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    events = EventStreamParser()
    found = [data for a, b in pairwise(places) for data in events.feed(whole[a:b])]
    assert [data.replace(b"\r", b"") for data in found] == [b" one", b"two\n three"]


@given(data=st.binary(max_size=60) | st.sampled_from(ANSWER).map(lambda b: b[6:]))
def test_any_event_is_read_or_refused(data: bytes) -> None:
    stream = ChatStream("here")
    try:
        stream.feed([data])
        assert stream.assemble()["choices"]
    except ProviderError:
        return
