"""Parses a reply incrementally while its tokens arrive.

The tokens so far are parsed at intervals, and new stable text is emitted: text and reasoning before the first special
token, without trailing whitespace (replies are trimmed) and without incomplete characters. Tool calls are emitted
whole, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from assay.gateway.interface import Delta

from .interface import Renderer

_PART = "\ufffd"
_MOST = 8
"""Maximum tokens of one character."""
_STEP, _SHARE = 4, 32
"""Parse interval: this many tokens, or this share of all so far, so that the work stays near linear."""
_THINKING_TAGS = ("<think>", "</think>")
_CALL_LIKE = ("{", "[", "<")


class IncrementalParser:
    """Incremental parser of one reply."""

    def __init__(self, renderer: Renderer, prompt: Sequence[int], tools: Sequence[dict[str, Any]]) -> None:
        self._renderer = renderer
        self._prompt = prompt
        self._tools = tools
        self._ids: list[int] = []
        self._parsed = 0
        self._text = ""
        self._reasoning = ""
        self._open = True

    def feed(self, tokens: Sequence[int]) -> list[Delta]:
        """Adds tokens; returns the deltas that became stable."""
        self._ids += tokens
        if not self._open or len(self._ids) - self._parsed < max(_STEP, len(self._ids) // _SHARE):
            return []
        self._parsed = len(self._ids)
        if any(not self._is_streamable(token) for token in self._ids):
            self._open = False
            return []
        parsed = self._renderer.parse(self._ids, self._prompt, self._tools)
        text = "" if parsed.text.lstrip().startswith(_CALL_LIKE) else parsed.text
        return self._emit(_stable_text(parsed.reasoning), _stable_text(text))

    def finish(self, message: dict[str, Any]) -> list[Delta]:
        """Returns the deltas of the complete message that were not emitted before."""
        found = self._emit(message.get("reasoning_content") or "", message.get("content") or "")
        for index, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            found.append(Delta(index=index, id=call["id"], name=function["name"], arguments=function["arguments"]))
        return found

    def _is_streamable(self, token: int) -> bool:
        return self._renderer.is_plain(token) or self._renderer.text([token]) in _THINKING_TAGS

    def _emit(self, reasoning: str, text: str) -> list[Delta]:
        found: list[Delta] = []
        if len(reasoning) > len(self._reasoning) and not self._text and reasoning.startswith(self._reasoning):
            found.append(Delta(reasoning=reasoning[len(self._reasoning) :]))
            self._reasoning = reasoning
        if len(text) > len(self._text) and text.startswith(self._text):
            found.append(Delta(text=text[len(self._text) :]))
            self._text = text
        return found


def _stable_text(text: str) -> str:
    return text.rstrip().rstrip("\ufffd").rstrip()


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
