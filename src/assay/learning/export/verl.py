"""verl 0.9: what an agent loop returns, one row each, and the prompts of the tasks for training on line.

`rollouts.parquet` has the fields of `AgentLoopOutput`, and `uid` (verl's group). `prompts.parquet` is a data set for
verl's own rollouts, where the agent loop named there plays the task through Assay's rollout service.

verl recomputes advantages from one score a row: the credit of turns, and rows of one attempt sharing it, do not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.learning.rows import TrainingRow

from ._messages import chat_template_messages
from ._tables import (
    INTS,
    JSON,
    NO_REWARD,
    NUMBERS,
    TEXT,
    attempt_reward,
    first_trained,
    sampled_logprobs,
    write_table,
)
from .interface import ExportSource, ExportTarget

AGENT_LOOP = "assay"
"""Name of the agent loop in the prompts."""


class Verl(ExportTarget):
    """The `verl` target."""

    name = "verl"
    title = "verl agent-loop rows and prompts (a folder of Parquet)"
    sampled = True
    holds = frozenset({"loss_mask", "logprobs", "group", "score", "weight_versions"})

    def write(self, source: ExportSource, out: Path) -> int:
        import pyarrow as pa

        out.mkdir()
        numbers: dict[str, Any] = {"reward_score": pa.float64(), "num_turns": pa.int64()}
        columns = {"prompt_ids": INTS, "response_ids": INTS, "response_mask": INTS, "response_logprobs": NUMBERS}
        texts = {"uid": TEXT, "metrics": JSON, "extra_fields": JSON}
        written = write_table(self._rows(source), columns | numbers | texts, out / "rollouts.parquet")
        _write_prompts(source, out / "prompts.parquet")
        return written

    def _rows(self, source: ExportSource) -> Iterator[dict[str, Any]]:
        for row in source.rows():
            if row.attempt_rows > 1:
                why = "each row is scored for itself: an attempt of several rows weighs more"
                source.record_loss(row.attempt, "attempt_rows", why)
            reward = attempt_reward(row)
            if reward is None:
                source.record_loss(row.attempt, "row", NO_REWARD)
            else:
                yield _agent_loop_output(row, reward)


def _agent_loop_output(row: TrainingRow, reward: float) -> dict[str, Any]:
    begin, known = first_trained(row), sampled_logprobs(row)
    return {
        "prompt_ids": row.token_ids[:begin],
        "response_ids": row.token_ids[begin:],
        "response_mask": row.loss_mask[begin:].astype("int64"),
        "response_logprobs": None if known is None else known[begin:],
        "reward_score": reward,
        "num_turns": len(row.turns),
        "uid": row.group,
        "metrics": {},
        "extra_fields": {"attempt": row.attempt, "task": row.task, "weight_versions": row.weight_versions},
    }


def _write_prompts(source: ExportSource, out: Path) -> None:
    """Writes one prompt per task, in the columns of verl's `RLHFDataset`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: dict[str, dict[str, Any]] = {}
    for trajectory, line in source.conversations():
        if trajectory.task_digest in rows:
            continue
        first = next((at for at, message in enumerate(line.messages) if message.get("role") == "assistant"), 0)
        index = len(rows)
        extra = {"split": source.config.split, "index": index, "task": trajectory.task, "tools": _text(line.tools)}
        rows[trajectory.task_digest] = {
            "data_source": "assay",
            "prompt": [
                {"role": m["role"], "content": m["content"]} for m in chat_template_messages(line.messages[:first])
            ],
            "ability": "agent",
            "reward_model": {"style": "rule", "ground_truth": trajectory.task_digest},
            "extra_info": extra,
            "agent_name": AGENT_LOOP,
        }
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    extra_kind = pa.struct(
        [("split", pa.string()), ("index", pa.int64()), ("task", pa.string()), ("tools", pa.string())]
    )
    reward = pa.struct([("style", pa.string()), ("ground_truth", pa.string())])
    texts = [(name, pa.string()) for name in ("data_source", "ability", "agent_name")]
    nested = [("prompt", pa.list_(message)), ("reward_model", reward), ("extra_info", extra_kind)]
    pq.write_table(pa.Table.from_pylist(list(rows.values()), schema=pa.schema([*texts, *nested])), out)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
