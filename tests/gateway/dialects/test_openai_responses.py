from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from assay.gateway.backends._anthropic_body import anthropic_body
from assay.gateway.backends._chat_body import chat_body
from assay.gateway.dialects import ApiProblem, BadRequest, ParsedRequest
from assay.gateway.dialects.openai_responses import OpenAIResponses
from tests.gateway.dialects.shapes import (
    CALLS,
    FULL,
    MALFORMED,
    USAGE,
    answer,
    broken,
    events,
    json_values,
    streamed,
    target,
)

pytestmark = pytest.mark.quick
HERE = OpenAIResponses()
RESPONSES = target("/v1/responses")
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: patch"}
CODEX: dict[str, Any] = {
    "model": "fake-model",
    "instructions": "You are Codex.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
        {"role": "user", "content": "Do it."},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": " Hm.\n"}],
            "encrypted_content": "assay:id1",
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": " I look. "}]},
        {"type": "function_call", "call_id": "call_a", "name": "shell", "arguments": '{ "command" : "ls" }'},
        {"type": "function_call", "call_id": "call_b", "name": "read", "arguments": '{"path":"a"}'},
        {"type": "function_call_output", "call_id": "call_a", "output": "Chunk ID: 1"},
        {"type": "function_call_output", "call_id": "call_b", "output": [{"type": "input_text", "text": "A"}]},
        {"type": "function_call", "call_id": "c", "name": "find", "namespace": "mcp__web__", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "d", "name": "apply_patch", "input": "*** Begin"},
        {"type": "local_shell_call", "call_id": "e", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "ok"},
    ],
    "tools": [
        {"type": "function", "name": "shell", "description": "Runs.", "strict": False, "parameters": PARAMETERS},
        {"type": "namespace", "name": "mcp__web__", "tools": [{"type": "function", "name": "find", "parameters": {}}]},
        {"type": "custom", "name": "apply_patch", "description": "Patches.", "format": GRAMMAR},
        {"type": "local_shell"},
        {"type": "web_search", "external_web_access": False},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "text": {"verbosity": "low"},
}


def parsed(**changes: Any) -> ParsedRequest:
    return HERE.parse(RESPONSES, CODEX | changes)


def test_a_request_of_codex_is_understood() -> None:
    got = parsed()
    assert (got.model, got.stream) == ("fake-model", True)
    assert got.request.messages[:4] == [
        {"role": "system", "content": "You are Codex."},
        {"role": "system", "content": "<permissions>"},
        {"role": "user", "content": "Do it."},
        FULL,
    ]
    assert got.request.messages[4:6] == [
        {"role": "tool", "tool_call_id": "call_a", "content": "Chunk ID: 1"},
        {"role": "tool", "tool_call_id": "call_b", "content": "A"},
    ]
    calls = {
        c["id"]: (c["function"]["name"], c["function"]["arguments"]) for c in got.request.messages[6]["tool_calls"]
    }
    assert calls == {
        "c": ("mcp__web__find", "{}"),
        "d": ("apply_patch", '{"input":"*** Begin"}'),
        "e": ("local_shell", '{"command":["ls"]}'),
    }


def test_tools_become_functions_and_hosted_ones_are_kept() -> None:
    request = parsed().request
    functions = [tool["function"] for tool in request.tools]
    assert [f["name"] for f in functions] == ["shell", "mcp__web__find", "apply_patch", "local_shell"]
    assert functions[0] == {"name": "shell", "parameters": PARAMETERS, "description": "Runs.", "strict": False}
    assert functions[2]["description"].endswith("start: patch")
    assert request.passthrough == {
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        "tools": [CODEX["tools"][4]],
    }
    assert request.sampling == {"parallel_tool_calls": True, "tool_choice": "auto", "reasoning_effort": "medium"}


def test_a_text_is_a_user_message() -> None:
    got = HERE.parse(RESPONSES, {"model": "m", "input": "hello"})
    assert got.request.messages == [{"role": "user", "content": "hello"}]
    assert not got.stream


@pytest.mark.parametrize(
    ("given", "sampling"),
    [
        ({"tool_choice": {"type": "function", "name": "f"}}, {"type": "function", "function": {"name": "f"}}),
        ({"tool_choice": "required"}, "required"),
    ],
)
def test_tool_choices_are_translated(given: dict[str, Any], sampling: Any) -> None:
    assert parsed(**given).request.sampling["tool_choice"] == sampling


def test_a_schema_for_the_answer_is_translated() -> None:
    text = {"format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}, "strict": True}}
    expected = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": True}}
    assert parsed(text=text).request.sampling["response_format"] == expected


def test_images_unknown_parts_and_unknown_items_are_kept() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"}
    file = {"type": "input_file", "file_id": "f"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    got = parsed(input=[{"role": "user", "content": [picture, file]}, search]).request.messages[1:]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    assert got == [{"role": "user", "content": [image, file]}, {"role": "assistant", "content": [search]}]


def test_foreign_sealed_reasoning_is_kept() -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    (message,) = parsed(input=[item], instructions=None).request.messages
    assert message == {"role": "assistant", "content": "", "encrypted_content": ["gAAA"]}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"input": 3}, "input"),
        ({"input": [], "instructions": None}, "input"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "c"}, "conversation"),
        ({"background": True}, "background"),
        ({"input": [{"type": "item_reference", "id": "i"}]}, "input[0]"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}, "input[0].arguments"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call_output", "call_id": "x"}]}, "input[0].output"),
        ({"input": [{"type": "text"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "image_url"}]}]}, "input[0].content[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"name": "f"}]}]}, "tools[0].tools[0]"),
        ({"tool_choice": {"type": "hosted"}}, "tool_choice"),
    ],
)
def test_a_malformed_request_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parsed(**changes)
    assert caught.value.field == field


def test_a_whole_answer() -> None:
    got = json.loads(HERE.reply(parsed(), answer(), "id1", 5.5))
    assert (got["object"], got["status"], got["model"], got["created_at"]) == (
        "response",
        "completed",
        "fake-model",
        5,
    )
    reasoning, message, one, two = got["output"]
    assert (reasoning["summary"], reasoning["encrypted_content"]) == (CODEX["input"][2]["summary"], "assay:id1")
    assert message["content"][0]["text"] == " I look. "
    assert [(c["call_id"], c["name"], c["arguments"]) for c in (one, two)] == [
        (c["id"], c["function"]["name"], c["function"]["arguments"]) for c in CALLS
    ]
    assert (got["usage"]["input_tokens"], got["usage"]["input_tokens_details"]) == (100, {"cached_tokens": 40})


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_stream_tells_the_whole_answer_in_order(size: int) -> None:
    stream = events(streamed(HERE, parsed(), answer(), size))
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    kinds = [event["type"] for event in stream]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    done = [event["item"] for event in stream if event["type"] == "response.output_item.done"]
    added = [event["item"] for event in stream if event["type"] == "response.output_item.added"]
    assert done == stream[-1]["response"]["output"] == json.loads(HERE.reply(parsed(), answer(), "id1", 0))["output"]
    assert [(a["id"], a["type"]) for a in added] == [(d["id"], d["type"]) for d in done]
    for kind, item, text in (
        ("reasoning_summary_text", done[0], " Hm.\n"),
        ("output_text", done[1], " I look. "),
        ("function_call_arguments", done[2], '{ "command" : "ls" }'),
    ):
        pieces = [e for e in stream if e["type"] == f"response.{kind}.delta" and e["item_id"] == item["id"]]
        assert "".join(e["delta"] for e in pieces) == text


def test_what_was_answered_comes_back_as_the_same_turn() -> None:
    items = json.loads(HERE.reply(parsed(), answer(), "id1", 0))["output"]
    assert parsed(input=items, instructions=None).request.messages == [FULL]


def test_calls_are_written_in_the_form_that_the_client_knows() -> None:
    calls = [
        {"id": str(i), "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(
            [
                ("mcp__web__find", "{}"),
                ("apply_patch", '{"input": "*** Begin"}'),
                ("apply_patch", "*** no JSON"),
                ("local_shell", '{"command": ["ls"], "timeout_ms": 5}'),
                ("local_shell", '{"command": "ls"}'),
            ]
        )
    ]
    reply = answer({"role": "assistant", "content": None, "tool_calls": calls})
    find, patch, odd, shell, wrong = json.loads(HERE.reply(parsed(), reply, "id1", 0))["output"]
    assert (find["type"], find["name"], find["namespace"]) == ("function_call", "find", "mcp__web__")
    assert (patch["type"], patch["input"], odd["input"]) == ("custom_tool_call", "*** Begin", "*** no JSON")
    assert shell["action"] == {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5}
    assert (wrong["type"], wrong["name"]) == ("function_call", "local_shell")
    stream = events(streamed(HERE, parsed(), reply))
    assert [e["item"] for e in stream if e["type"] == "response.output_item.done"] == [find, patch, odd, shell, wrong]
    assert len([e for e in stream if e["type"] == "response.output_item.added"]) == 5


def test_malformed_arguments_stay_as_they_are() -> None:
    reply = answer({"role": "assistant", "content": None, "tool_calls": MALFORMED})
    (call,) = json.loads(HERE.reply(parsed(), reply, "id1", 0))["output"]
    assert call["arguments"] == '{"command": '


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_a_cut_answer_is_incomplete(finish: str, reason: str) -> None:
    last = events(streamed(HERE, parsed(), answer({"role": "assistant", "content": "x"}, finish)))[-1]
    assert (last["type"], last["response"]["incomplete_details"]) == ("response.incomplete", {"reason": reason})


def test_unknown_usage_is_unknown() -> None:
    got = json.loads(HERE.reply(parsed(), answer(usage=type(USAGE)()), "id1", 0))
    assert got["usage"] is None


def test_a_failure_ends_the_stream_with_its_code() -> None:
    writer = HERE.stream(parsed(), "id1", 0)
    *_, last = events(writer.start() + writer.error(ApiProblem("context_length", "too long")))
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "context_length_exceeded")


def test_a_spent_budget_is_not_retried() -> None:
    written = HERE.error(ApiProblem("spent", "x"))
    assert (written.status, written.headers["x-should-retry"]) == (429, "false")


def test_websockets_and_stored_responses_are_refused() -> None:
    assert HERE.answer(RESPONSES, "m") is None
    socket = HERE.answer(target("/v1/responses", "GET", upgrade="websocket"), "m")
    stored = HERE.answer(target("/v1/responses/resp_1", "GET"), "m")
    assert socket is not None
    assert stored is not None
    assert (socket.status, stored.status) == (426, 404)


def test_lineage_is_read_from_the_headers() -> None:
    about = {"x_codex_turn_metadata": '{"request_kind":"compact"}', "x_openai_subagent": "collab_spawn"}
    got = HERE.lineage(
        target("/v1/responses", session_id="s", thread_id="t", x_codex_parent_thread_id="p", **about), {}
    )
    assert got == {"session": "s", "thread": "t", "parent": "p", "agent": "collab_spawn", "kind": "compact"}
    assert HERE.lineage(target("/v1/responses", x_codex_turn_metadata="{"), {}) == {}


@pytest.mark.long
@given(body=broken(CODEX) | json_values().map(lambda value: {"input": value}))
def test_any_json_is_parsed_or_refused(body: dict[str, Any]) -> None:
    try:
        got = HERE.parse(RESPONSES, body)
    except BadRequest:
        return
    assert all(message["role"] in {"system", "user", "assistant", "tool"} for message in got.request.messages)
    json.loads(HERE.reply(got, answer(), "id1", 0))
    assert events(streamed(HERE, got, answer(), 1000))
    assert chat_body(got.request, "m")["model"] == "m"
    assert anthropic_body(got.request, "m")["model"] == "m"
