"""TRL 1.16: supervised rows as tokens, supervised conversations, and rows with credit for policy gradients.

The stock `SFTTrainer` trains `trl-sft` token for token, without a template. TRL renders `trl-chat` with the model's own
template; use `assistant_only_loss`. `trl-grpo` is for `trl_trainers.grpo_trainer()`, because the stock trainer samples
for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from assay.learning.rows import TrainingRow

from ._messages import chat_template_messages, message_losses, own_positions
from ._tables import INTS, JSON, NUMBERS, TEXT, first_trained, sampled_logprobs, write_table
from .interface import ExportSource, ExportTarget

NOT_TRAINED = -100


class TrlSft(ExportTarget):
    """Columns `input_ids` and `labels` (-100 where nothing is trained)."""

    name = "trl-sft"
    title = "TRL SFT, pre-tokenized (Parquet)"
    include = "passes"
    holds = frozenset({"loss_mask"})

    def write(self, source: ExportSource, out: Path) -> int:
        columns = {"input_ids": INTS, "labels": INTS, "attempt": TEXT, "task": TEXT}
        return write_table(map(_supervised, source.rows()), columns, out)


def _supervised(row: TrainingRow) -> dict[str, Any]:
    labels = np.where(row.loss_mask, row.token_ids, NOT_TRAINED)
    return {"input_ids": row.token_ids, "labels": labels, "attempt": row.attempt, "task": row.task}


class TrlChat(ExportTarget):
    """Columns `messages` and `tools`, for runs without tokens."""

    name = "trl-chat"
    title = "TRL SFT, conversations with tools (Parquet)"
    include = "passes"

    def write(self, source: ExportSource, out: Path) -> int:
        columns = {"messages": JSON, "tools": JSON, "attempt": TEXT, "task": TEXT}
        return write_table(self._rows(source), columns, out)

    def _rows(self, source: ExportSource) -> Iterator[dict[str, Any]]:
        for trajectory, line in source.conversations():
            own = own_positions(line)
            if not own:
                continue
            last = own[-1] + 1
            again = sum(m.get("role") == "assistant" for m in line.messages[:last]) - len(own)
            if again:
                why = "turns that another line of the attempt holds too are trained again"
                source.record_loss(trajectory.attempt, "own", why, again)
            for field, why in message_losses(line, reasoning=True):
                source.record_loss(trajectory.attempt, field, why)
            yield {
                "messages": chat_template_messages(line.messages[:last]),
                "tools": line.tools or None,
                "attempt": trajectory.attempt,
                "task": trajectory.task,
            }


class TrlGrpo(ExportTarget):
    """Prompt and completion as tokens, with advantages and sampled log-probabilities per token."""

    name = "trl-grpo"
    title = "TRL GRPO rows for assay's trainer subclass (Parquet)"
    include = "all"
    credit = True
    sampled = True
    holds = frozenset({"loss_mask", "logprobs", "advantages", "group", "attempt_rows"})

    def write(self, source: ExportSource, out: Path) -> int:
        ids = {"prompt_ids": INTS, "completion_ids": INTS, "tool_mask": INTS}
        numbers = {"advantages": NUMBERS, "old_per_token_logps": NUMBERS, "row_weight": "row_weight"}
        return write_table(self._rows(source), _arrow_columns(ids | numbers | {"group": TEXT, "attempt": TEXT}), out)

    def _rows(self, source: ExportSource) -> Iterator[dict[str, Any]]:
        for row in source.rows():
            begin, known = first_trained(row), sampled_logprobs(row)
            if known is None:
                source.record_loss(
                    row.attempt, "logprobs", "some of its sampled tokens have none: the trainer computes them"
                )
            yield {
                "prompt_ids": row.token_ids[:begin],
                "completion_ids": row.token_ids[begin:],
                "tool_mask": row.loss_mask[begin:].astype(np.int64),
                "advantages": None if row.advantages is None else row.advantages[begin:],
                "old_per_token_logps": None if known is None else known[begin:],
                "row_weight": 1.0 / row.attempt_rows,
                "group": row.group,
                "attempt": row.attempt,
            }


def _arrow_columns(columns: dict[str, str]) -> dict[str, Any]:
    import pyarrow as pa

    return {name: pa.float64() if kind == "row_weight" else kind for name, kind in columns.items()}
