"""Tokens as pieces of their text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.gateway.tokens.streaming import token_end_offsets

pytestmark = pytest.mark.newest


def as_bytes(tokens: Sequence[int]) -> str:
    """A tokenizer of which every byte is a token."""
    return bytes(tokens).decode("utf-8", "replace")


@given(st.text(max_size=40).filter(lambda text: "\ufffd" not in text))
def test_each_token_ends_where_the_characters_end_that_are_whole_by_then(text: str) -> None:
    tokens = text.encode()
    whole = [len(tokens[: n + 1].decode("utf-8", "ignore")) for n in range(len(tokens))]
    assert token_end_offsets(list(tokens), text, as_bytes) == whole


def test_a_character_of_several_tokens_belongs_to_the_last() -> None:
    assert token_end_offsets(list("aé!".encode()), "aé!", as_bytes) == [1, 1, 2, 3]


def test_a_text_that_is_not_made_of_the_tokens_has_no_ends() -> None:
    assert token_end_offsets([97, 98], "other", as_bytes) == []
    assert token_end_offsets([97, 98], "abc", as_bytes) == []
    assert token_end_offsets([0xC3], "\ufffd", as_bytes) == [1]
