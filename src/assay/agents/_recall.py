"""Memory in a prompt: the items that fit a task best, as a text before its instruction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from assay.errors import UserError

from ._calls import instruction_of
from .interface import Attempt
from .memory import MemoryIndex, RecalledItem, Scope, read_memory, select_records
from .recoveries import RecoveryIndex

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_ITEM = ("when", "act", "what")
_PROMPT = ("items", "task")


class RecallOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of agents that show a model what a memory holds."""

    memory: str = ""
    """Memory file, as `assay memory add` writes it; empty for none."""
    scope: Scope = "same-task"
    """Whose memory is used: of attempts at the `same-task` alone, or of `any`."""
    recall: Annotated[int, msgspec.Meta(ge=0, le=100)] = 3
    """Number of items shown, those that fit the instruction best (BM25)."""
    memory_order: Literal["best-first", "best-last"] = "best-last"
    """Place of the item that fits best: `best-last` is next to the instruction."""
    memory_item: str = "{when}\n{act}\n{what}\n"
    """How an item is shown: `{when}` (what was seen before the act), `{act}` and `{what}` (what was seen after it)."""
    memory_separator: str = "\n"
    """Text between items."""
    memory_prompt: str = "{items}\n{task}"
    """The instruction with its items: `{items}` and `{task}`. Without an item it is the instruction alone."""

    def __post_init__(self) -> None:
        """Rejects unknown placeholders."""
        for field, text, known in (
            ("memory_item", self.memory_item, _ITEM),
            ("memory_prompt", self.memory_prompt, _PROMPT),
        ):
            unknown = sorted(set(_PLACEHOLDER.findall(text)) - set(known))
            if unknown:
                listed = ", ".join(f"{{{name}}}" for name in known)
                raise UserError(f"{field}: no such placeholder: {{{unknown[0]}}}; known are {listed}")
        if "{task}" not in self.memory_prompt:
            raise UserError("memory_prompt lacks {task}: the model would not see what to do")


class Recall:
    """Looks items up in a memory file, which is read once."""

    def __init__(self, options: RecallOptions) -> None:
        self._options = options
        self._records = read_memory(Path(options.memory)) if options.memory else ()

    def extend(self, attempt: Attempt, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the opening messages with recalled items before the instruction, and notes which were shown."""
        if not self._options.memory:
            return messages
        selected = select_records(self._records, attempt.task, self._options.scope)
        items = MemoryIndex([one.only_acts() for one in selected.used]).search(
            instruction_of(attempt.task), self._options.recall
        )
        attempt.note(selected.evidence(items))
        at = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=None)
        if not items or at is None or not isinstance(messages[at]["content"], str):
            return messages
        text = self._show(items, messages[at]["content"])
        return [*messages[:at], {**messages[at], "content": text}, *messages[at + 1 :]]

    def recoveries(self, attempt: Attempt) -> RecoveryIndex:
        """Returns what the memory knows of errors, of the records that may be used for the attempt's task."""
        return RecoveryIndex(select_records(self._records, attempt.task, self._options.scope).used)

    def _show(self, items: list[RecalledItem], task: str) -> str:
        shown = [
            _fill(self._options.memory_item, {name: getattr(one.item, name) for name in _ITEM})
            for one in (items if self._options.memory_order == "best-first" else reversed(items))
        ]
        return _fill(self._options.memory_prompt, {"items": self._options.memory_separator.join(shown), "task": task})


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Replaces placeholders in one pass, so that a value's braces are text."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)
