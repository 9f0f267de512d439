from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from assay.gateway.backends._anthropic_body import anthropic_body
from assay.gateway.backends._chat_body import chat_body
from assay.gateway.dialects import ApiProblem, BadRequest, ParsedRequest
from assay.gateway.dialects.gemini import Gemini
from assay.records import Usage
from tests.gateway.dialects.shapes import CALLS, FULL, MALFORMED, answer, broken, events, json_values, streamed, target

pytestmark = pytest.mark.quick
HERE = Gemini()
WHOLE = target("/v1beta/models/fake-model:generateContent")
STREAM = target("/v1beta/models/fake-model:streamGenerateContent", query={"alt": "sse"})
ARRAY = target("/v1beta/models/fake-model:streamGenerateContent")
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
CLI: dict[str, Any] = {
    "contents": [
        {"role": "user", "parts": [{"text": "This is Gemini CLI."}, {"text": "Do it."}]},
        {
            "role": "model",
            "parts": [
                {"text": " Hm.\n", "thought": True},
                {"text": " I look. "},
                {"functionCall": {"id": "call_a", "name": "shell", "args": {"command": "ls"}}, "thoughtSignature": "S"},
                {"functionCall": {"name": "read", "args": {"path": "a"}}},
                {"functionCall": {"name": "read", "args": {"path": "b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "call_a", "name": "shell", "response": {"output": "a.txt"}}},
                {"functionResponse": {"name": "read", "response": {"output": "A"}}},
                {"functionResponse": {"name": "read", "response": {"error": "none"}}},
                {"text": "Go on."},
            ],
        },
    ],
    "systemInstruction": {"role": "user", "parts": [{"text": "You are an agent."}]},
    "tools": [
        {
            "functionDeclarations": [
                {"name": "shell", "description": "Runs.", "parametersJsonSchema": SCHEMA},
                {
                    "name": "read",
                    "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}},
                },
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["shell"]}},
    "generationConfig": {
        "temperature": 1,
        "topP": 0.95,
        "topK": 64,
        "maxOutputTokens": 99,
        "thinkingConfig": {"includeThoughts": True},
    },
    "safetySettings": [],
}


def parsed(at: Any = STREAM, **changes: Any) -> ParsedRequest:
    return HERE.parse(at, CLI | changes)


def test_a_request_of_gemini_cli_is_understood() -> None:
    got = parsed()
    assert (got.model, got.stream, got.content_type) == ("fake-model", True, "text/event-stream")
    system, user, model, *rest = got.request.messages
    assert system == {"role": "system", "content": "You are an agent."}
    assert [part["text"] for part in user["content"]] == ["This is Gemini CLI.", "Do it."]
    assert (model["content"], model["reasoning_content"]) == (" I look. ", " Hm.\n")
    one, two, three = model["tool_calls"]
    assert one["extra_content"] == {"google": {"thought_signature": "S"}}
    assert (two["id"], two["function"]["arguments"]) == ("call_2_1", '{"path":"a"}')
    assert rest == [
        {"role": "tool", "tool_call_id": "call_a", "content": "a.txt"},
        {"role": "tool", "tool_call_id": "call_2_1", "content": "A"},
        {"role": "tool", "tool_call_id": three["id"], "content": '{"error":"none"}'},
        {"role": "user", "content": "Go on."},
    ]


def test_tools_and_sampling_are_translated_and_the_rest_kept() -> None:
    request = parsed().request
    functions = {tool["function"]["name"]: tool["function"] for tool in request.tools}
    assert functions["shell"]["parameters"] == SCHEMA
    assert functions["read"]["parameters"] == {"type": "object", "properties": {"path": {"type": "string"}}}
    assert request.sampling == {
        "temperature": 1,
        "top_p": 0.95,
        "top_k": 64,
        "max_tokens": 99,
        "tool_choice": {"type": "function", "function": {"name": "shell"}},
    }
    assert request.passthrough == {
        "safetySettings": [],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True}},
        "tools": [{"googleSearch": {}}],
    }


def test_both_forms_of_names_are_taken() -> None:
    snake = {
        "contents": [{"parts": [{"inline_data": {"mime_type": "image/png", "data": "AA"}}]}],
        "system_instruction": {"parts": [{"text": "s"}]},
        "generation_config": {"max_output_tokens": 5, "stop_sequences": ["x"]},
        "tools": [{"function_declarations": [{"name": "f"}]}],
    }
    request = HERE.parse(WHOLE, snake).request
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    assert request.messages == [{"role": "system", "content": "s"}, {"role": "user", "content": [image]}]
    assert request.sampling == {"max_tokens": 5, "stop": ["x"]}
    assert request.tools[0]["function"]["name"] == "f"


def test_a_schema_for_the_answer_is_translated() -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}
    request = parsed(generationConfig={"responseMimeType": "application/json", "responseSchema": schema}).request
    expected = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert request.sampling["response_format"]["json_schema"]["schema"] == expected
    request = parsed(generationConfig={"responseMimeType": "application/json"}).request
    assert request.sampling["response_format"] == {"type": "json_object"}


def test_unknown_parts_are_kept() -> None:
    odd = {"executableCode": {"language": "PYTHON", "code": "1"}}
    (message,) = parsed(systemInstruction=None, contents=[{"role": "user", "parts": [odd]}]).request.messages
    assert message["content"] == [{"type": "gemini_part", "part": odd}]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"contents": 3}, "contents"),
        ({"contents": []}, "contents"),
        ({"contents": [{"role": "robot", "parts": []}]}, "contents[0].role"),
        ({"contents": [{"parts": [{"text": 3}]}]}, "contents[0].parts[0].text"),
        ({"contents": [{"role": "model", "parts": [{"functionCall": {}}]}]}, "contents[0].parts[0].functionCall.name"),
        (
            {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {}}}]}]},
            "contents[0].parts[0].functionResponse.id",
        ),
        ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0]"),
        ({"generationConfig": {"candidateCount": 2}}, "generationConfig.candidateCount"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "odd"}}}, "toolConfig.functionCallingConfig.mode"),
        ({"cachedContent": "c"}, "cachedContent"),
    ],
)
def test_a_malformed_request_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parsed(**changes)
    assert caught.value.field == field


def test_a_whole_answer() -> None:
    got = json.loads(HERE.reply(parsed(WHOLE), answer(), "id1", 0))
    (candidate,) = got["candidates"]
    thought, text, one, two = candidate["content"]["parts"]
    assert (thought, text) == ({"text": " Hm.\n", "thought": True}, {"text": " I look. "})
    assert one == {"functionCall": {"id": "call_a", "name": "shell", "args": {"command": "ls"}}}
    assert (two["functionCall"]["id"], candidate["finishReason"]) == ("call_b", "STOP")
    assert got["usageMetadata"] == {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 40,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 109,
    }


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("at", [STREAM, ARRAY])
def test_a_stream_holds_the_whole_answer_in_order(at: Any, size: int) -> None:
    got = parsed(at)
    data = streamed(HERE, got, answer(), size)
    stream = events(data) if at is STREAM else json.loads(data)
    assert (got.content_type == "application/json") == (at is ARRAY)
    parts = [part for event in stream for part in event["candidates"][0]["content"]["parts"]]
    assert "".join(part["text"] for part in parts if part.get("thought")) == " Hm.\n"
    assert "".join(p["text"] for p in parts if "text" in p and not p.get("thought")) == " I look. "
    assert [p["functionCall"]["id"] for p in parts if "functionCall" in p] == ["call_a", "call_b"]
    assert [i for i, event in enumerate(stream) if "finishReason" in event["candidates"][0]] == [len(stream) - 1]


def test_what_was_answered_comes_back_as_the_same_turn() -> None:
    content = json.loads(HERE.reply(parsed(WHOLE), answer(), "id1", 0))["candidates"][0]["content"]
    (echo,) = parsed(systemInstruction=None, contents=[content]).request.messages
    compact = json.loads(json.dumps(FULL))
    compact["tool_calls"][0]["function"]["arguments"] = '{"command":"ls"}'
    assert echo == compact


def test_a_thoughts_signature_goes_back_to_the_client() -> None:
    call = CALLS[1] | {"extra_content": {"google": {"thought_signature": "S"}}}
    reply = answer({"role": "assistant", "content": None, "tool_calls": [call]})
    (part,) = json.loads(HERE.reply(parsed(WHOLE), reply, "id1", 0))["candidates"][0]["content"]["parts"]
    assert part["thoughtSignature"] == "S"


def test_every_call_has_an_id_and_arguments_are_an_object() -> None:
    call = {"function": MALFORMED[0]["function"]}
    reply = answer({"role": "assistant", "content": None, "tool_calls": [call, call]})
    one, two = json.loads(HERE.reply(parsed(WHOLE), reply, "id1", 0))["candidates"][0]["content"]["parts"]
    assert (one["functionCall"]["id"], two["functionCall"]["id"]) == ("call_id1_0", "call_id1_1")
    assert one["functionCall"]["args"] == {"__unparsedToolInput": {"raw": '{"command": ', "len": 12}}


def test_unknown_usage_is_left_out() -> None:
    assert json.loads(HERE.reply(parsed(WHOLE), answer(usage=Usage()), "id1", 0))["usageMetadata"] == {}


@pytest.mark.parametrize(
    ("problem", "status", "name"),
    [
        (ApiProblem("bad_request", "x", "contents"), 400, "INVALID_ARGUMENT"),
        (ApiProblem("unauthorized", "x"), 401, "UNAUTHENTICATED"),
        (ApiProblem("spent", "x"), 403, "PERMISSION_DENIED"),
        (ApiProblem("rate_limited", "x", retry_after_s=3), 429, "RESOURCE_EXHAUSTED"),
        (ApiProblem("upstream", "x"), 503, "UNAVAILABLE"),
    ],
)
def test_errors_have_the_dialects_shape(problem: ApiProblem, status: int, name: str) -> None:
    written = HERE.error(problem)
    error = json.loads(written.body)["error"]
    assert (written.status, error["code"], error["status"]) == (status, status, name)
    delays = [detail.get("retryDelay") for detail in error["details"] if "RetryInfo" in detail["@type"]]
    assert delays == (["3s"] if problem.kind == "rate_limited" else [])
    broken_off = HERE.stream(parsed(ARRAY), "i", 0)
    assert json.loads(broken_off.start() + broken_off.keep_alive() + broken_off.error(problem))[1]["error"] == error


def test_probes_are_answered() -> None:
    assert HERE.answer(WHOLE, "m") is None
    listed = HERE.answer(target("/v1beta/models", "GET"), "m")
    counted = HERE.answer(target("/v1beta/models/m:countTokens"), "m")
    assert listed is not None
    assert counted is not None
    assert (json.loads(listed.body)["models"][0]["name"], counted.status) == ("models/m", 404)
    assert HERE.owns(target("/v1beta/models/m%3AgenerateContent"))


@given(body=broken(CLI) | json_values().map(lambda value: {"contents": value}))
def test_any_json_is_parsed_or_refused(body: dict[str, Any]) -> None:
    try:
        got = HERE.parse(STREAM, body)
    except BadRequest:
        return
    assert all(message["role"] in {"system", "user", "assistant", "tool"} for message in got.request.messages)
    json.loads(HERE.reply(got, answer(), "id1", 0))
    assert events(streamed(HERE, got, answer(), 1000))
    assert chat_body(got.request, "m")["model"] == "m"
    assert anthropic_body(got.request, "m")["model"] == "m"
