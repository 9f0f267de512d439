from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from assay.gateway.backends._anthropic_body import anthropic_body
from assay.gateway.backends._chat_body import chat_body
from assay.gateway.dialects import ApiProblem, BadRequest, ParsedRequest
from assay.gateway.dialects.anthropic_messages import AnthropicMessages
from assay.gateway.interface import Delta, ModelRequest
from tests.gateway.dialects.shapes import CALLS, FULL, MALFORMED, answer, broken, events, json_values, streamed, target

pytestmark = pytest.mark.quick
HERE = AnthropicMessages()
MESSAGES = target("/v1/messages", anthropic_version="2023-06-01", anthropic_beta="a-1,b-2")
MARK = {"type": "ephemeral"}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
CLAUDE: dict[str, Any] = {
    "model": "fake-model",
    "max_tokens": 32000,
    "stream": True,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2"},
        {"type": "text", "text": "You are Claude Code.", "cache_control": MARK},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<reminder>"}, {"type": "text", "text": "Do it."}]},
        {"role": "system", "content": [{"type": "text", "text": "Mid system.", "cache_control": MARK}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": " Hm.\n", "signature": "YXNzYXk6id1"},
                {"type": "text", "text": " I look. "},
                {"type": "tool_use", "id": "call_a", "name": "shell", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "call_b", "name": "read", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_b", "content": "no such file", "is_error": True},
                {"type": "text", "text": "Go on."},
                {
                    "type": "tool_result",
                    "tool_use_id": "call_a",
                    "content": [{"type": "text", "text": "a.txt"}],
                    "cache_control": MARK,
                },
            ],
        },
    ],
    "tools": [
        {"name": "shell", "description": "Runs.", "input_schema": SCHEMA, "eager_input_streaming": True},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ],
    "thinking": {"type": "adaptive"},
    "metadata": {"user_id": "u"},
    "context_management": {"edits": []},
    "output_config": {"effort": "high"},
}


def parsed(**changes: Any) -> ParsedRequest:
    return HERE.parse(MESSAGES, CLAUDE | changes)


def said(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return parsed(system=None, messages=list(messages)).request.messages


def test_a_request_of_claude_code_is_understood() -> None:
    got = parsed()
    assert (got.model, got.stream) == ("fake-model", True)
    system, user, middle, assistant, *rest = got.request.messages
    assert [part["text"] for part in system["content"]] == [block["text"] for block in CLAUDE["system"]]
    assert [part["text"] for part in user["content"]] == ["<reminder>", "Do it."]
    assert middle == {"role": "system", "content": "Mid system."}
    assert assistant | {"tool_calls": CALLS} == FULL
    assert [call["function"]["arguments"] for call in assistant["tool_calls"]] == ['{"command":"ls"}', '{"path":"a"}']
    assert rest == [
        {"role": "tool", "tool_call_id": "call_b", "content": "no such file", "is_error": True},
        {"role": "tool", "tool_call_id": "call_a", "content": "a.txt"},
        {"role": "user", "content": "Go on."},
    ]


def test_what_has_no_canonical_form_is_kept() -> None:
    request = parsed().request
    assert request.tools == [
        {"type": "function", "function": {"name": "shell", "parameters": SCHEMA, "description": "Runs."}}
    ]
    assert request.sampling == {"max_tokens": 32000}
    assert request.passthrough == {
        "thinking": {"type": "adaptive"},
        "metadata": {"user_id": "u"},
        "context_management": {"edits": []},
        "output_config": {"effort": "high"},
        "tools": [CLAUDE["tools"][1]],
        "tool_fields": {"shell": {"eager_input_streaming": True}},
        "anthropic_beta": "a-1,b-2",
        "cache_marks": [
            {"message": 0, "part": 1, "cache_control": MARK},
            {"message": 2, "part": 0, "cache_control": MARK},
            {"message": 5, "part": -1, "cache_control": MARK},
        ],
    }


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
def test_a_list_of_one_text_is_that_text(role: str) -> None:
    block = {"type": "text", "text": "x", "cache_control": MARK}
    assert said({"role": role, "content": [block]}) == said({"role": role, "content": "x"})
    assert parsed(system=[block]).request.messages[0] == parsed(system="x").request.messages[0]


def test_images_and_unknown_blocks_pass_through() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    linked = {"type": "image", "source": {"type": "url", "url": "http://h/i.png"}}
    reference = {"type": "tool_reference", "tool_name": "WebFetch"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [reference, picture]}
    (tool, user) = said({"role": "user", "content": [result, linked, reference | {"cache_control": MARK}]})
    data = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert tool["content"] == [reference, data]
    assert user["content"] == [{"type": "image_url", "image_url": {"url": "http://h/i.png"}}, reference]


def test_a_foreign_signature_and_redacted_thinking_are_kept() -> None:
    blocks = [
        {"type": "thinking", "thinking": "a", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "zz"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ]
    (message,) = said({"role": "assistant", "content": blocks})
    assert (message["reasoning_content"], message["thinking_blocks"]) == ("a", blocks[:2])
    assert message["content"] is None


@pytest.mark.parametrize(
    ("given", "sampling"),
    [
        ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
        ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        (
            {"tool_choice": {"type": "tool", "name": "f"}},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
        (
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
        (
            {"stop_sequences": ["x"], "top_k": 5, "temperature": 1, "top_p": 0.5},
            {"stop": ["x"], "top_k": 5, "temperature": 1, "top_p": 0.5},
        ),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA}}},
        ),
    ],
)
def test_sampling_is_translated(given: dict[str, Any], sampling: dict[str, Any]) -> None:
    assert parsed(**given).request.sampling == {"max_tokens": 32000} | sampling


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]}]},
            "messages[0].content[0].input",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"tools": [{"input_schema": {}}]}, "tools"),
        ({"tool_choice": {"type": "most"}}, "tool_choice.type"),
        ({"system": 3}, "system"),
    ],
)
def test_a_malformed_request_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parsed(**changes)
    assert caught.value.field == field


def test_a_whole_answer() -> None:
    got = json.loads(HERE.reply(parsed(), answer(), "id1", 0))
    assert (got["type"], got["role"], got["model"], got["stop_reason"]) == (
        "message",
        "assistant",
        "fake-model",
        "tool_use",
    )
    assert got["content"] == CLAUDE["messages"][2]["content"]
    assert got["usage"] == {
        "input_tokens": 60,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 40,
        "output_tokens": 9,
    }


def assembled(stream: list[Any]) -> list[dict[str, Any]]:
    """The blocks of a stream, put together as the SDK does, with the order checked."""
    blocks: list[dict[str, Any]] = []
    opened = -1
    for event in stream:
        if event["type"] == "content_block_start":
            assert (opened, event["index"]) == (-1, len(blocks))
            opened = event["index"]
            blocks.append(
                event["content_block"] | ({"input": ""} if event["content_block"]["type"] == "tool_use" else {})
            )
        elif event["type"] == "content_block_delta":
            assert event["index"] == opened
            delta = event["delta"]
            field = {"input_json_delta": "input", "signature_delta": "signature"}.get(
                delta["type"], delta["type"].removesuffix("_delta")
            )
            blocks[-1][field] += delta.get("partial_json", delta.get(field))
        elif event["type"] == "content_block_stop":
            assert event["index"] == opened
            opened = -1
    return blocks


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_stream_holds_the_whole_answer_in_order(size: int) -> None:
    stream = events(streamed(HERE, parsed(), answer(), size))
    kinds = [event["type"] for event in stream if event["type"] != "ping"]
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    thinking, text, one, two = assembled(stream)
    assert (thinking["thinking"], thinking["signature"], text["text"]) == (" Hm.\n", "YXNzYXk6id1", " I look. ")
    assert [(b["id"], b["name"], b["input"]) for b in (one, two)] == [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in CALLS
    ]
    assert stream[-2]["delta"]["stop_reason"] == "tool_use"
    assert (stream[-2]["usage"]["input_tokens"], stream[-2]["usage"]["cache_read_input_tokens"]) == (60, 40)


def test_a_prompt_that_is_counted_early_stands_in_the_first_event() -> None:
    writer = HERE.stream(parsed(), "id1", 0)
    first, *_ = events(writer.start() + writer.delta(Delta(text="x", prompt_tokens=77)))
    assert (first["type"], first["message"]["usage"]["input_tokens"]) == ("message_start", 77)


def test_an_empty_answer_is_a_stream_too() -> None:
    stream = events(streamed(HERE, parsed(), answer({"role": "assistant", "content": ""}, "stop")))
    assert [event["type"] for event in stream] == ["message_start", "ping", "message_delta", "message_stop"]


def test_sealed_blocks_of_a_server_reach_the_client() -> None:
    writer = HERE.stream(parsed(), "id1", 0)
    redacted = {"type": "redacted_thinking", "data": "zz"}
    deltas = [Delta(reasoning="a"), Delta(sealed={"signature": "Eq"}), Delta(sealed=redacted), Delta(text="t")]
    thinking, kept, text = assembled(events(b"".join(map(writer.delta, deltas)) + writer.end(answer())))
    assert (thinking["signature"], kept, text["text"]) == ("Eq", redacted, "t")


def test_what_was_answered_comes_back_as_the_same_turn() -> None:
    blocks = json.loads(HERE.reply(parsed(), answer(), "id1", 0))["content"]
    (echo,) = said({"role": "assistant", "content": blocks})
    compact = json.loads(json.dumps(FULL))
    compact["tool_calls"][0]["function"]["arguments"] = '{"command":"ls"}'
    assert echo == compact


def test_arguments_that_are_no_object_are_given_as_claude_code_gives_them() -> None:
    reply = answer({"role": "assistant", "content": None, "tool_calls": MALFORMED})
    (block,) = json.loads(HERE.reply(parsed(), reply, "id1", 0))["content"]
    assert block["input"] == {"__unparsedToolInput": {"raw": '{"command": ', "len": 12}}
    assert assembled(events(streamed(HERE, parsed(), reply)))[0]["input"] == '{"command": '


@pytest.mark.parametrize(
    ("finish", "reason"), [("stop", "end_turn"), ("length", "max_tokens"), (None, "end_turn"), ("odd", "end_turn")]
)
def test_why_it_stopped(finish: str | None, reason: str) -> None:
    reply = answer({"role": "assistant", "content": "x"}, finish)
    assert json.loads(HERE.reply(parsed(), reply, "id1", 0))["stop_reason"] == reason


@pytest.mark.parametrize(
    ("problem", "status", "kind"),
    [
        (ApiProblem("bad_request", "x", "messages"), 400, "invalid_request_error"),
        (ApiProblem("unauthorized", "x"), 401, "authentication_error"),
        (ApiProblem("spent", "x"), 402, "billing_error"),
        (ApiProblem("too_large", "x"), 413, "request_too_large"),
        (ApiProblem("rate_limited", "x", retry_after_s=2.4), 429, "rate_limit_error"),
        (ApiProblem("upstream", "x"), 502, "api_error"),
    ],
)
def test_errors_have_the_dialects_shape(problem: ApiProblem, status: int, kind: str) -> None:
    written = HERE.error(problem)
    body = json.loads(written.body)
    assert (written.status, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert ("Retry-After" in written.headers) == (problem.kind == "rate_limited")
    (event,) = events(HERE.stream(parsed(), "i", 0).error(problem))
    assert event == body


def test_too_long_a_prompt_is_said_in_the_words_that_make_claude_code_compact() -> None:
    body = json.loads(HERE.error(ApiProblem("context_length", "9 of 8 tokens")).body)
    assert body["error"]["message"].startswith("prompt is too long: ")


def test_probes_are_answered() -> None:
    assert HERE.answer(MESSAGES, "m") is None
    hello = HERE.answer(target("/api/hello", "HEAD"), "m")
    listed = HERE.answer(target("/v1/models", "GET", anthropic_version="x"), "m")
    counted = HERE.answer(target("/v1/messages/count_tokens"), "m")
    assert hello is not None
    assert listed is not None
    assert counted is not None
    assert (hello.status, json.loads(listed.body)["data"][0]["id"], counted.status) == (200, "m", 404)


def test_lineage_is_read_from_the_headers() -> None:
    headers = {"x_claude_code_session_id": "s" * 300, "x_claude_code_agent_id": "a"}
    assert HERE.lineage(target("/v1/messages", **headers), {}) == {"session": "s" * 200, "agent": "a"}


@given(body=broken(CLAUDE) | json_values().map(lambda value: {"messages": value}))
def test_any_json_is_parsed_or_refused(body: dict[str, Any]) -> None:
    try:
        got = HERE.parse(MESSAGES, body)
    except BadRequest:
        return
    assert isinstance(got.request, ModelRequest)
    assert all(message["role"] in {"system", "user", "assistant", "tool"} for message in got.request.messages)
    json.loads(HERE.reply(got, answer(), "id1", 0))
    assert events(streamed(HERE, got, answer(), 1000))
    assert chat_body(got.request, "m")["model"] == "m"
    assert anthropic_body(got.request, "m")["model"] == "m"


def test_deep_json_is_refused() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    block = {"type": "tool_use", "id": "a", "name": "f", "input": deep}
    with pytest.raises(BadRequest):
        parsed(messages=[{"role": "assistant", "content": [block]}])
