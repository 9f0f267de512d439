"""TRL 1.16 DPO: preferences between single messages.

Each row has the conversation (`prompt`, `chosen`, `rejected`, `tools`), which the stock `DPOTrainer` renders, and the
tokens if both attempts have them (`prompt_ids`, `chosen_ids`, `rejected_ids`), for `trl_trainers.dpo_trainer()` and our
own trainer. Only the one message is trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.learning.rows import TrainingRow, TurnSpan

from ._messages import chat_template_messages
from ._pairs import MessagePair, PairSide, find_message_pairs
from ._tables import INTS, JSON, TEXT, write_table
from .interface import ExportSource, ExportTarget

Ids = NDArray[np.int32]


class TrlDpo(ExportTarget):
    """The `trl-dpo` target."""

    name = "trl-dpo"
    title = "TRL DPO, single messages where attempts part (Parquet)"
    holds = frozenset({"loss_mask", "group"})

    def write(self, source: ExportSource, out: Path) -> int:
        messages = {"prompt": JSON, "chosen": JSON, "rejected": JSON, "tools": JSON}
        ids = {"prompt_ids": INTS, "chosen_ids": INTS, "rejected_ids": INTS}
        texts = {"group": TEXT, "chosen_attempt": TEXT, "rejected_attempt": TEXT}
        return write_table(self._rows(source), messages | ids | texts, out)

    def _rows(self, source: ExportSource) -> Iterator[dict[str, Any]]:
        found = list(find_message_pairs(source))
        spans = _spans(source, {side.attempt for pair in found for side in (pair.chosen, pair.rejected)})
        for pair in found:
            ids = _tokens(pair, spans)
            if ids is None:
                why = "the prompts' tokens differ or are unknown: only messages are written"
                source.record_loss(pair.chosen.attempt, "token_ids", why)
            yield _messages(pair) | (ids or {})


def _messages(pair: MessagePair) -> dict[str, Any]:
    (good, at), (bad, other) = ((side.conversation, side.position) for side in (pair.chosen, pair.rejected))
    return {
        "prompt": chat_template_messages(good.messages[:at]),
        "chosen": chat_template_messages(good.messages[: at + 1])[at:],
        "rejected": chat_template_messages(bad.messages[: other + 1])[other:],
        "tools": good.tools or None,
        "group": pair.group,
        "chosen_attempt": pair.chosen.attempt,
        "rejected_attempt": pair.rejected.attempt,
    }


Spans = dict[tuple[str, str | int], tuple[TrainingRow, TurnSpan]]


def _spans(source: ExportSource, attempts: set[str]) -> Spans:
    """Returns the training span of each turn, by model call, or by step without one."""
    found: Spans = {}
    for row in source.rows():
        for turn in row.turns if row.attempt in attempts else ():
            name = turn.call or turn.step
            if turn.trained and name is not None:
                found[row.attempt, name] = (row, turn)
    return found


def _tokens(pair: MessagePair, spans: Spans) -> dict[str, Ids] | None:
    """Returns the tokens of a pair; None if the prompts differ."""
    chosen, rejected = _side(pair.chosen, spans), _side(pair.rejected, spans)
    if chosen is None or rejected is None or not np.array_equal(chosen[0], rejected[0]):
        return None
    return {"prompt_ids": chosen[0], "chosen_ids": chosen[1], "rejected_ids": rejected[1]}


def _side(side: PairSide, spans: Spans) -> tuple[Ids, Ids] | None:
    name = side.conversation.calls[side.position] or side.conversation.steps[side.position]
    known = spans.get((side.attempt, name)) if name is not None else None
    if known is None:
        return None
    row, turn = known
    return row.token_ids[: turn.start], row.token_ids[turn.start : turn.end]
