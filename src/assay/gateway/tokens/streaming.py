"""Pieces of an answer while its tokens arrive.

What was sampled so far is parsed now and then, and what is new and certain is said. Certain is text and reasoning
before the first token that is not plain (a tag of a tool call, say), without the blanks at its end (an answer is
trimmed there) and without bytes that are not yet a whole character. Tool calls come whole, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.gateway.interface import Delta

from .interface import Renderer

__all__ = ["Pieces"]

_STEP, _SHARE = 4, 32
"""Parsed again after so many tokens, or this share of all so far: the work stays near linear in the answer."""
_THOUGHT = ("<think>", "</think>")
_CALL_LIKE = ("{", "[", "<")


class Pieces:
    """What was said so far of one answer."""

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
        """What can be said now that these were sampled."""
        self._ids += tokens
        if not self._open or len(self._ids) - self._parsed < max(_STEP, len(self._ids) // _SHARE):
            return []
        self._parsed = len(self._ids)
        if any(not self._may_pass(token) for token in self._ids):
            self._open = False
            return []
        said = self._renderer.parse(self._ids, self._prompt, self._tools)
        text = "" if said.text.lstrip().startswith(_CALL_LIKE) else said.text
        return self._say(_certain(said.reasoning), _certain(text))

    def rest(self, message: dict[str, Any]) -> list[Delta]:
        """All of the whole answer that was not yet said."""
        found = self._say(message.get("reasoning_content") or "", message.get("content") or "")
        for index, call in enumerate(message.get("tool_calls") or ()):
            function = call["function"]
            found.append(Delta(index=index, id=call["id"], name=function["name"], arguments=function["arguments"]))
        return found

    def _may_pass(self, token: int) -> bool:
        return self._renderer.is_plain(token) or self._renderer.text([token]) in _THOUGHT

    def _say(self, reasoning: str, text: str) -> list[Delta]:
        found: list[Delta] = []
        if len(reasoning) > len(self._reasoning) and not self._text and reasoning.startswith(self._reasoning):
            found.append(Delta(reasoning=reasoning[len(self._reasoning) :]))
            self._reasoning = reasoning
        if len(text) > len(self._text) and text.startswith(self._text):
            found.append(Delta(text=text[len(self._text) :]))
            self._text = text
        return found


def _certain(text: str) -> str:
    return text.rstrip().rstrip("\ufffd").rstrip()
