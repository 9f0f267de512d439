"""End offset of each sampled token in the decoded text, so that a reader needs no tokenizer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["token_end_offsets"]

_PART = "\ufffd"
_MOST = 8
"""Maximum tokens of one character."""


def token_end_offsets(tokens: Sequence[int], text: str, decode: Callable[[Sequence[int]], str]) -> list[int]:
    """Returns each token's end offset in `text`, in characters; empty if the tokens do not decode to `text`.

    A character of several tokens belongs to the last of them. Takes a time that grows with the tokens.
    """
    ends: list[int] = []
    at = first = 0
    for position in range(len(tokens)):
        piece = decode(tokens[first : position + 1])
        goes_on = piece.endswith(_PART) and position - first < _MOST and position + 1 < len(tokens)
        if not goes_on:
            if not text.startswith(piece, at):
                return []
            at, first = at + len(piece), position + 1
        ends.append(at)
    return ends if at == len(text) else []
