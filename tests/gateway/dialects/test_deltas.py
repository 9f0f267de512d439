from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ProviderError
from assay.gateway.dialects import DIALECTS, ParsedRequest, normalize_tool_calls, split_reply
from assay.gateway.interface import ModelRequest
from tests.gateway.dialects.shapes import answer

pytestmark = pytest.mark.quick


def calling(*calls: Any) -> Any:
    return answer({"role": "assistant", "content": None, "tool_calls": list(calls)})


def test_a_reply_that_is_whole_is_not_touched() -> None:
    assert normalize_tool_calls(whole := answer(), "c1") is whole


def test_what_servers_leave_out_of_tool_calls_is_added() -> None:
    given = calling({"function": {"name": "f"}}, {"id": "", "function": {"name": "g", "arguments": {"a": 1}}})
    one, two = normalize_tool_calls(given, "c1").message["tool_calls"]
    assert (one["id"], one["function"]["arguments"]) == ("call_c1_0", "{}")
    assert (two["id"], two["function"]["arguments"]) == ("call_c1_1", '{"a":1}')


@pytest.mark.parametrize("call", [3, {}, {"function": 3}, {"function": {"name": ""}}, {"function": {"name": 3}}])
def test_what_is_no_tool_call_is_the_servers_error(call: Any) -> None:
    with pytest.raises(ProviderError, match=r"tool_calls\[0\]"):
        normalize_tool_calls(calling(call), "c1")


def test_contents_of_any_shape_give_pieces() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "odd"}, 3, {"text": 4}]
    pieces = split_reply(answer({"role": "assistant", "content": content}))
    assert [(d.text, d.sealed) for d in pieces] == [("a", None), ("", {"type": "odd"})]
    assert pieces[0].prompt_tokens == 100


def test_thoughts_of_any_shape_give_pieces() -> None:
    blocks = [3, {}, {"type": "thinking"}, {"type": "thinking", "thinking": "a"}, {"type": "odd"}]
    pieces = split_reply(answer({"role": "assistant", "content": "", "thinking_blocks": blocks}))
    assert [(d.reasoning, d.sealed) for d in pieces] == [("a", {"signature": ""}), ("", {"type": "odd"})]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "thinking", "signature", "x"]), part, max_size=3)
        | st.fixed_dictionaries({"type": st.sampled_from(["text", "thinking", "odd"])})
    ),
    max_leaves=8,
)
FIELDS = ("content", "reasoning_content", "reasoning", "thinking_blocks", "refusal")
CONTEXT: dict[str, Any] = {"usage": True, "tokens": True, "logprobs": True, "sealed": True, "names": {}, "sse": True}


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, ANY)), st.none() | st.text(max_size=9))
def test_any_reply_is_written_by_each_dialect(message: dict[str, Any], finish: str | None) -> None:
    reply = answer({"role": "assistant", **message}, finish)
    for dialect in DIALECTS:
        parsed = ParsedRequest(ModelRequest([]), "m", context=CONTEXT)
        assert dialect.reply(parsed, reply, "id1", 1000.0)
        writer = dialect.stream(parsed, "id1", 1000.0)
        assert b"".join([writer.start(), *map(writer.delta, split_reply(reply)), writer.end(reply)])
