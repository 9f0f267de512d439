from __future__ import annotations

from typing import Any

import pytest

from assay.errors import ProviderError
from assay.gateway.dialects import normalize_tool_calls, split_reply
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
