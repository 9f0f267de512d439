"""Parts of a message's content mean the same to both readers: the one of messages and the one of traces."""

from __future__ import annotations

from typing import Any

import pytest

from assay.formats.shared.content_parts import as_text, read_parts
from assay.formats.shared.dialects import to_chat_messages

CALLS: dict[str, Any] = {
    "anthropic": {"type": "tool_use", "id": "c", "name": "ls", "input": {"a": 1}},
    "anthropic's mcp": {"type": "mcp_tool_use", "id": "c", "name": "ls", "input": {"a": 1}},
    "bedrock": {"toolUse": {"toolUseId": "c", "name": "ls", "input": {"a": 1}}},
    "vercel": {"type": "tool-call", "toolCallId": "c", "toolName": "ls", "input": {"a": 1}},
    "gemini": {"functionCall": {"id": "c", "name": "ls", "args": {"a": 1}}},
    "otel": {"type": "tool_call", "id": "c", "name": "ls", "arguments": {"a": 1}},
    "pydantic-ai": {"part_kind": "tool-call", "tool_call_id": "c", "tool_name": "ls", "args": '{"a":1}'},
    "responses": {"type": "function_call", "id": "fc", "call_id": "c", "name": "ls", "arguments": '{"a":1}'},
}
RESULTS: dict[str, Any] = {
    "anthropic": {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "x"}]},
    "anthropic's mcp": {"type": "mcp_tool_result", "tool_use_id": "c", "content": "x"},
    "bedrock": {"toolResult": {"toolUseId": "c", "content": [{"text": "x"}]}},
    "vercel": {"type": "tool-result", "toolCallId": "c", "output": {"type": "text", "value": "x"}},
    "gemini": {"functionResponse": {"id": "c", "name": "ls", "response": "x"}},
    "otel": {"type": "tool_call_response", "id": "c", "response": "x"},
    "responses": {"type": "function_call_output", "call_id": "c", "output": "x"},
}
FAILED: dict[str, Any] = {
    "anthropic": {"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": True},
    "bedrock": {"toolResult": {"toolUseId": "c", "content": [{"text": "x"}], "status": "error"}},
    "vercel": {"type": "tool-result", "toolCallId": "c", "output": {"type": "error-text", "value": "x"}},
    "pydantic-ai": {"part_kind": "tool-return", "tool_call_id": "c", "content": "x", "outcome": "failed"},
}
THOUGHTS: dict[str, Any] = {
    "anthropic": {"type": "thinking", "thinking": "Hm."},
    "bedrock": {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
    "vercel": {"type": "reasoning", "text": "Hm."},
    "gemini": {"thought": True, "text": "Hm."},
    "responses": {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_any_api_is_the_same_call(name: str) -> None:
    (call,) = read_parts([CALLS[name]]).calls
    assert (call.id, call.name, call.parsed) == ("c", "ls", {"a": 1})
    (message,) = to_chat_messages({"role": "assistant", "content": [CALLS[name]]})
    assert message["tool_calls"] == [
        {"id": "c", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}
    ]


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_of_any_api_is_the_same_result(name: str) -> None:
    (seen,) = read_parts([RESULTS[name]]).results
    assert (seen.call_id, seen.content, seen.error) == ("c", "x", False)
    assert to_chat_messages([{"role": "user", "content": [RESULTS[name]]}]) == [
        {"role": "tool", "tool_call_id": "c", "content": "x"}
    ]


@pytest.mark.parametrize("name", FAILED)
def test_a_tool_that_failed_is_marked_in_any_api(name: str) -> None:
    assert read_parts([FAILED[name]]).results[0].error
    assert to_chat_messages([{"role": "user", "content": [FAILED[name]]}])[0]["error"] is True


@pytest.mark.parametrize("name", THOUGHTS)
def test_reasoning_of_any_api_is_no_text(name: str) -> None:
    parts = read_parts([THOUGHTS[name]])
    assert (parts.text, parts.reasoning) == (None, "Hm.")
    (message,) = to_chat_messages({"role": "assistant", "content": [THOUGHTS[name]]})
    assert (message["content"], message["reasoning_content"]) == (None, "Hm.")


@pytest.mark.parametrize("part", [{"inlineData": {"data": "iVBO"}}, {"image": {"format": "png"}}, {"type": "citation"}])
def test_a_part_that_is_not_read_leaves_a_mark(part: dict[str, Any]) -> None:
    (message,) = to_chat_messages({"role": "user", "content": [part, {"text": "Look."}]})
    kind = part.get("type", next(iter(part)))
    assert message["content"] == f"[{kind}]\nLook."


def test_a_text_in_a_part_of_an_unknown_kind_is_read() -> None:
    part = {"type": "citation", "text": "as the manual says"}
    assert read_parts([part]).text == "as the manual says"
    assert to_chat_messages({"role": "user", "content": [part]})[0]["content"] == "as the manual says"


def test_an_item_that_holds_its_result_is_a_call_and_a_result() -> None:
    item = {"type": "mcp_call", "id": "m", "name": "ls", "arguments": "{}", "output": "a b", "error": None}
    call, result = to_chat_messages([item])
    assert [c["id"] for c in call["tool_calls"]] == ["m"]
    assert result == {"role": "tool", "tool_call_id": "m", "content": "a b"}


def test_a_result_follows_the_call_of_its_own_message() -> None:
    call = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": "x"}
    messages = to_chat_messages({"role": "assistant", "content": [call, result, {"type": "text", "text": "Found."}]})
    assert [message["role"] for message in messages] == ["assistant", "tool"]


def test_data_that_a_tool_returns_stays_whole() -> None:
    assert as_text([{"a": 1}, {"b": 2}]) == '[{"a":1},{"b":2}]'
    assert as_text({"value": 3, "unit": "kg"}) == '{"unit":"kg","value":3}'
    assert as_text([{"type": "text", "text": "a"}, {"type": "image", "source": 1}]) == 'a\n{"source":1,"type":"image"}'


def test_a_type_that_is_no_text_is_data() -> None:
    assert as_text([{"type": {"a": 1}, "text": "x"}]) == '[{"text":"x","type":{"a":1}}]'
    assert as_text({"type": [1], "value": 3}) == '{"type":[1],"value":3}'
