"""The dialect; the client of such servers is tested in `tests/gateway/test_openai_chat.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from assay.gateway.backends._anthropic_body import anthropic_body
from assay.gateway.backends._chat_body import chat_body
from assay.gateway.dialects import BadRequest
from assay.gateway.dialects.openai_chat import OpenAIChat
from tests.gateway.dialects.shapes import CALLS, FULL, answer, broken, json_values, streamed, target

pytestmark = pytest.mark.quick
HERE = OpenAIChat()
CHAT = target("/v1/chat/completions")
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
QWEN: dict[str, Any] = {
    "model": "fake-model",
    "messages": [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": [{"type": "text", "text": "Do it."}, PICTURE]},
        FULL,
        {"role": "tool", "tool_call_id": "call_a", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "call_b", "content": [{"type": "text", "text": "A"}]},
        {"role": "assistant", "content": None, "tool_calls": CALLS[1:]},
    ],
    "tools": [{"type": "function", "function": {"name": "shell", "description": "Runs.", "parameters": {}}}],
    "tool_choice": "auto",
    "temperature": 0.5,
    "max_tokens": 99,
    "stream": True,
    "stream_options": {"include_usage": True},
    "metadata": {"promptId": "p"},
}


def test_a_request_is_passed_on_as_it_came() -> None:
    request = HERE.parse(CHAT, QWEN).request
    assert (request.messages, request.tools) == (QWEN["messages"], QWEN["tools"])
    assert request.sampling == {"tool_choice": "auto", "temperature": 0.5, "max_tokens": 99}
    assert request.passthrough == {"metadata": {"promptId": "p"}}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "user", "content": [{}]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0].image_url"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "messages[0].content[0].image_url"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, "messages[0].tool_calls[0].function"),
    ],
)
def test_a_malformed_message_names_the_field(message: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        HERE.parse(CHAT, {"messages": [message]})
    assert caught.value.field == field


def test_a_function_tool_needs_its_function() -> None:
    with pytest.raises(BadRequest) as caught:
        HERE.parse(CHAT, QWEN | {"tools": [{"type": "function"}]})
    assert caught.value.field == "tools[0].function"


@given(body=broken(QWEN) | json_values().map(lambda value: {"messages": value}))
def test_any_json_is_parsed_or_refused(body: dict[str, Any]) -> None:
    try:
        got = HERE.parse(CHAT, body)
    except BadRequest:
        return
    json.loads(HERE.reply(got, answer(), "id1", 0))
    assert streamed(HERE, got, answer(), 1000).endswith(b"data: [DONE]\n\n")
    assert chat_body(got.request, "m")["model"] == "m"
    assert anthropic_body(got.request, "m")["model"] == "m"
