"""OpenAI fine-tuning files: supervised conversations, and preferences between messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.formats.shared.output_files import new_file
from assay.learning.conversation import Transcript

from ._messages import message_losses, openai_messages, own_positions
from ._pairs import MessagePair, find_message_pairs
from .interface import AttemptConversation, ExportSource, ExportTarget


class OpenAi(ExportTarget):
    """One conversation per line; turns trained in another line have `weight` 0."""

    name = "openai"
    title = "OpenAI fine-tuning (JSON lines)"
    include = "passes"

    def write(self, source: ExportSource, out: Path) -> int:
        return _write(self._lines(source), out)

    def _lines(self, source: ExportSource) -> Iterator[dict[str, Any]]:
        for line in source.conversations():
            own = own_positions(line.conversation)
            if own:
                written = _line(line.conversation, own[-1] + 1)
                _record_differences(source, line, written)
                yield written


class OpenAiDpo(ExportTarget):
    """`input`, `preferred_output` and `non_preferred_output`: single messages where attempts diverge."""

    name = "openai-dpo"
    title = "OpenAI preference fine-tuning (JSON lines)"

    def write(self, source: ExportSource, out: Path) -> int:
        return _write(map(self._line, find_message_pairs(source)), out)

    def _line(self, pair: MessagePair) -> dict[str, Any]:
        chosen, rejected = (self._turn(side.conversation, side.position) for side in (pair.chosen, pair.rejected))
        whole = _line(pair.chosen.conversation, pair.chosen.position)
        for message in whole["messages"]:
            message.pop("weight", None)
        return {"input": whole, "preferred_output": [chosen], "non_preferred_output": [rejected]}

    def _turn(self, transcript: Transcript, position: int) -> dict[str, Any]:
        return openai_messages(transcript)[position] | {"role": "assistant"}


def _write(lines: Iterator[dict[str, Any]], out: Path) -> int:
    written = 0
    with new_file(out) as stream:
        for line in lines:
            stream.write(msgspec.json.encode(line) + b"\n")
            written += 1
    return written


def _line(transcript: Transcript, end: int) -> dict[str, Any]:
    line: dict[str, Any] = {"messages": openai_messages(transcript)[:end]}
    return line | ({"tools": transcript.tools, "parallel_tool_calls": True} if transcript.tools else {})


def _record_differences(source: ExportSource, line: AttemptConversation, written: dict[str, Any]) -> None:
    """Records the additions and losses of a line."""
    attempt = line.trajectory.attempt
    if "parallel_tool_calls" in written:
        source.record_addition(attempt, "parallel_tool_calls", "written as true where tools are offered")
    if any("weight" in message for message in written["messages"]):
        source.record_addition(attempt, "messages[].weight", "0 for turns that another line trains")
    for field, why in message_losses(line.conversation, reasoning=False):
        source.record_loss(attempt, field, why)
