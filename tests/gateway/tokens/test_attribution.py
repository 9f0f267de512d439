"""Whose each token is: the renderer says it of exactly the tokens that it renders."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.gateway.tokens import AttributingRenderer

pytestmark = pytest.mark.newest
TOOLS = [
    {"type": "function", "function": {"name": "bash", "description": "It acts.", "parameters": {"type": "object"}}}
]
PIECES = ("a", " b", "é\n", "\ufdd0", "\ufdd1", "\ufdd2", "<|im_end|>", "<tool_call>", "</think>", "\u4e16\u754c")
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@pytest.mark.long
@given(text=TEXTS)
def test_offsets_belong_to_the_ids_that_are_encoded(renderer: Any, text: str) -> None:
    guarded = renderer.tokenizer
    for given_text in (text, guarded.guard.text(text)):
        found = guarded(given_text, add_special_tokens=False, return_offsets_mapping=True)
        assert found["input_ids"] == guarded.encode(given_text)
        starts = [start for start, _ in found["offset_mapping"]]
        assert starts == sorted(starts)
        assert all(0 <= start <= end <= len(given_text) for start, end in found["offset_mapping"])


@given(system=TEXTS, asked=TEXTS, seen=TEXTS)
def test_bodies_are_what_was_said_and_the_rest_is_scaffold(renderer: Any, system: str, asked: str, seen: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": f"S{system}S"},
        {"role": "user", "content": f"U{asked}U"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": f"T{seen}T"},
    ]
    found = renderer.attribute(messages, TOOLS)
    assert found.ids == renderer.render(messages, TOOLS)
    for place, mark in ((0, "S"), (1, "U"), (3, "T")):
        own = [t for t, o, b in zip(found.ids, found.owners, found.body, strict=True) if b and o == place]
        assert renderer.text(own).startswith(mark)
        assert not any(s for s, o in zip(found.sampled, found.owners, strict=True) if o == place)


def test_what_is_new_is_attributed_alone(renderer: Any) -> None:
    assert isinstance(renderer, AttributingRenderer)
    asked = [{"role": "user", "content": "go"}]
    said = renderer.render_reply({"role": "assistant", "content": "yes"})
    before = renderer.render(asked, TOOLS)
    found = renderer.attribute_extension(before, said, [{"role": "user", "content": "on"}], {})
    assert before + said + found.ids == renderer.extend(before, said, [{"role": "user", "content": "on"}], {})
    assert renderer.text([t for t, body in zip(found.ids, found.body, strict=True) if body]) == "on"
    assert renderer.attribute_extension(before, said, [], {}) is None
