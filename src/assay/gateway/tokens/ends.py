"""Where each sampled token ends in the text that they make together: with it a reader shows a text token by token, and
needs no tokenizer. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["token_ends"]

_PART = "\ufffd"
_MOST = 8
"""Tokens that may stand for one character."""


def token_ends(tokens: Sequence[int], text: str, decode: Callable[[Sequence[int]], str]) -> list[int]:
    """The end of each token in `text`, in characters; empty where the text is not made of the tokens' own.

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
