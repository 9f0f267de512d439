"""What a client changed in a turn of the model."""

from __future__ import annotations

from typing import Any

import pytest

from assay.gateway.tokens.echoes import find_changes
from assay.gateway.tokens.messages import IMAGE, template_continuation, template_messages

pytestmark = pytest.mark.newest


def turn(arguments: str | None = None, name: str = "write", text: str | None = "I act.", **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, **more}
    if arguments is not None:
        message["tool_calls"] = [{"id": "call_1", "function": {"name": name, "arguments": arguments}}]
    return message


@pytest.mark.parametrize(
    ("said", "echo", "changes"),
    [
        (turn('{"a":1}'), turn('{"a":1}'), ()),
        (turn('{ "b" : 2, "a":1}'), turn('{"a":1,"b":2.0}'), ("spelling",)),
        (turn('{"a":1,"extra":2}'), turn('{"a":1}'), ("keys",)),
        (turn('{"a": oops'), turn('{"__unparsedToolInput":{"raw":"x"}}'), ("malformed",)),
        (turn('{"a":1}'), turn('{"tool":"write"}', name="invalid"), ("name",)),
        (turn("{}", reasoning_content="Hm. "), turn("{}", reasoning_content="Hm."), ("reasoning",)),
        (turn("{}"), turn("{}", text=""), ("text",)),
        (turn("{}"), turn(None, text="Calling tools:\n[{'id': 'call_1'}]"), ("form",)),
        (turn('{"path":"a"}'), turn('{"path":"b"}'), ("edited",)),
        (turn("{}"), turn("{}", text="I refuse."), ("edited",)),
    ],
)
def test_each_change_has_its_name(said: dict[str, Any], echo: dict[str, Any], changes: tuple[str, ...]) -> None:
    assert find_changes(said, echo) == changes


def test_leading_instructions_become_one_and_later_ones_the_users() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "one"},
        {"role": "system", "content": [{"type": "text", "text": "two"}]},
        {"role": "user", "content": [{"type": "text", "text": "look "}, {"type": "image_url", "image_url": {}}]},
        {"role": "system", "content": "three"},
    ]
    assert template_messages(messages) == [
        {"role": "system", "content": "one\n\ntwo"},
        {"role": "user", "content": f"look {IMAGE}"},
        {"role": "user", "content": "three"},
    ]


def test_results_come_in_the_order_of_the_calls() -> None:
    results = [{"role": "tool", "tool_call_id": name, "content": name} for name in ("b", "a", "unknown")]
    ordered = template_continuation([*results, {"role": "user", "content": "on"}], {"a": "bash", "b": "write"})
    assert [message["content"] for message in ordered] == ["a", "b", "unknown", "on"]
    assert ordered[0]["name"] == "bash"
