"""OpenAI's fine-tuning files: supervised conversations, and preferences of one message over another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.formats.shared.output_files import new_file
from assay.learning.conversation import Conversation

from ._messages import for_openai, lost_in, own_turns
from ._pairs import Pair, pairs
from .interface import Include, Source, Told

__all__ = ["OpenAi", "OpenAiDpo"]


class OpenAi:
    """One conversation a line; turns that another line trains have `weight` 0."""

    name: ClassVar[str] = "openai"
    title: ClassVar[str] = "OpenAI fine-tuning (JSON lines)"
    include: ClassVar[Include] = "passes"
    credit: ClassVar[bool] = False
    sampled: ClassVar[bool] = False
    holds: ClassVar[frozenset[str]] = frozenset()

    def write(self, source: Source, out: Path) -> int:
        return _write(self._lines(source), out)

    def _lines(self, source: Source) -> Iterator[dict[str, Any]]:
        for told in source.conversations():
            own = own_turns(told.conversation)
            if own:
                _tell(source, told)
                yield _line(told.conversation, own[-1] + 1)


class OpenAiDpo:
    """`input`, `preferred_output` and `non_preferred_output`: single messages where attempts part."""

    name: ClassVar[str] = "openai-dpo"
    title: ClassVar[str] = "OpenAI preference fine-tuning (JSON lines)"
    include: ClassVar[Include] = "judged"
    credit: ClassVar[bool] = False
    sampled: ClassVar[bool] = False
    holds: ClassVar[frozenset[str]] = frozenset()

    def write(self, source: Source, out: Path) -> int:
        return _write(map(self._line, pairs(source)), out)

    def _line(self, pair: Pair) -> dict[str, Any]:
        chosen, rejected = (self._turn(side.conversation, side.place) for side in (pair.chosen, pair.rejected))
        whole = _line(pair.chosen.conversation, pair.chosen.place)
        for message in whole["messages"]:
            message.pop("weight", None)
        return {"input": whole, "preferred_output": [chosen], "non_preferred_output": [rejected]}

    def _turn(self, told: Conversation, place: int) -> dict[str, Any]:
        return for_openai(told)[place] | {"role": "assistant"}


def _write(lines: Iterator[dict[str, Any]], out: Path) -> int:
    written = 0
    with new_file(out) as stream:
        for line in lines:
            stream.write(msgspec.json.encode(line) + b"\n")
            written += 1
    return written


def _line(told: Conversation, end: int) -> dict[str, Any]:
    """Messages up to `end`, with the tools."""
    line: dict[str, Any] = {"messages": for_openai(told)[:end]}
    return line | ({"tools": told.tools, "parallel_tool_calls": True} if told.tools else {})


def _tell(source: Source, told: Told) -> None:
    for field, why in lost_in(told.conversation, reasoning=False):
        source.lost(told.trajectory.attempt, field, why)
