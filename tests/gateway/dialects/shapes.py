"""What the tests of all dialects share: targets, answers, and events read back."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from assay.gateway.dialects import Dialect, ParsedRequest, RequestTarget
from assay.gateway.dialects._deltas import split_reply
from assay.gateway.interface import Delta, ModelReply
from assay.records import Usage

USAGE = Usage(prompt_tokens=100, completion_tokens=9, cached_tokens=40, reasoning_tokens=2)
CALLS = [
    {"id": "call_a", "type": "function", "function": {"name": "shell", "arguments": '{ "command" : "ls" }'}},
    {"id": "call_b", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}},
]
FULL = {"role": "assistant", "content": " I look. ", "reasoning_content": " Hm.\n", "tool_calls": CALLS}
MALFORMED = [{"id": "call_a", "type": "function", "function": {"name": "shell", "arguments": '{"command": '}}]


def answer(message: dict[str, Any] | None = None, finish: str | None = "tool_calls", **fields: Any) -> ModelReply:
    return ModelReply(
        message=FULL if message is None else message,
        finish_reason=finish,
        usage=fields.pop("usage", USAGE),
        raw=fields.pop("raw", {}),
        request={},
        model="served",
        **fields,
    )


def target(path: str, method: str = "POST", query: dict[str, str] | None = None, **headers: str) -> RequestTarget:
    return RequestTarget(method, path, query or {}, {name.replace("_", "-"): value for name, value in headers.items()})


def in_bits(reply: ModelReply, size: int = 3) -> list[Delta]:
    """The answer in pieces of a few characters, as a streaming server gives them."""
    found: list[Delta] = []
    for delta in split_reply(reply):
        text = delta.arguments if delta.index is not None else delta.text or delta.reasoning
        for start in range(0, max(len(text), 1), size):
            bit = text[start : start + size]
            if delta.index is not None:
                first = {"id": delta.id, "name": delta.name} if start == 0 else {}
                found.append(Delta(index=delta.index, arguments=bit, **first))
            else:
                found.append(Delta(text=bit) if delta.text else Delta(reasoning=bit))
    return found


def streamed(dialect: Dialect, parsed: ParsedRequest, reply: ModelReply, size: int = 3) -> bytes:
    writer = dialect.stream(parsed, "id1", 1000.0)
    written = [writer.start(), writer.keep_alive()]
    written += [writer.delta(delta) + writer.keep_alive() for delta in in_bits(reply, size)]
    return b"".join([*written, writer.end(reply)])


def events(data: bytes) -> list[Any]:
    """The JSON of each event; the event's name, where it has one, must be the data's `type`."""
    found = []
    for event in data.decode().split("\n\n")[:-1]:
        lines = dict(line.split(": ", 1) for line in event.split("\n"))
        decoded = json.loads(lines["data"])
        assert lines.get("event", decoded.get("type")) == decoded.get("type")
        found.append(decoded)
    return found


def json_values() -> st.SearchStrategy[Any]:
    """Any JSON value, with the words of the APIs among its keys and texts."""
    words = st.sampled_from(WORDS)
    text = words | st.text(max_size=8)
    plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
    return st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=4), max_leaves=8
    )


@st.composite
def broken(draw: st.DrawFn, whole: Any) -> Any:
    """A copy of a good request in which up to three values, anywhere, are others or gone."""
    body = json.loads(json.dumps(whole))
    for _ in range(draw(st.integers(1, 3))):
        place = body
        while True:
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.integers(0, 3)):
                place = place[key]
            elif draw(st.integers(0, 3)):
                place[key] = draw(json_values())
                break
            else:
                del place[key]
                break
    return body


_WORDS = """
messages role content type text user assistant system tool developer model stream tools function name arguments
id call_id tool_calls tool_call_id input output thinking signature redacted_thinking tool_use tool_result
tool_use_id is_error image source base64 url data media_type cache_control input_schema tool_choice auto any
stop_sequences output_config format json_schema schema instructions message function_call function_call_output
reasoning summary summary_text encrypted_content input_text output_text input_image image_url namespace custom
custom_tool_call custom_tool_call_output local_shell_call action exec previous_response_id store include
contents parts functionCall functionResponse args response thought thoughtSignature inlineData mimeType fileData
systemInstruction generationConfig functionDeclarations parameters parametersJsonSchema toolConfig
functionCallingConfig mode ANY OBJECT properties items n max_tokens temperature
"""
WORDS = _WORDS.split()
