"""SkyRL 0.4: a `GeneratorOutput` as JSON, step-wise where an attempt has several rows.

SkyRL recomputes advantages from one reward a row, so the credit of turns does not fit.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from assay.formats.shared.output_files import new_file
from assay.learning.rows import TrainingRow

from ._tables import NO_REWARD, attempt_reward, first_trained, sampled_logprobs
from .interface import ExportSource, ExportTarget


class SkyRl(ExportTarget):
    """The `skyrl` target."""

    name = "skyrl"
    title = "SkyRL generator output (JSON)"
    sampled = True
    holds = frozenset({"loss_mask", "logprobs", "group", "score", "attempt_rows"})

    def write(self, source: ExportSource, out: Path) -> int:
        rows: list[TrainingRow] = []
        for row in source.rows():
            if attempt_reward(row) is None:
                source.record_loss(row.attempt, "row", NO_REWARD)
            else:
                rows.append(row)
        if rows:
            with new_file(out) as stream:
                stream.write(msgspec.json.encode(_output(rows)))
        return len(rows)


def _output(rows: list[TrainingRow]) -> dict[str, Any]:
    begins = [first_trained(row) for row in rows]
    known = [sampled_logprobs(row) for row in rows]
    parts = list(zip(rows, begins, strict=True))
    logprobs = [k[b:] for k, b in zip(known, begins, strict=True) if k is not None]
    output: dict[str, Any] = {
        "prompt_token_ids": [row.token_ids[:begin].tolist() for row, begin in parts],
        "response_ids": [row.token_ids[begin:].tolist() for row, begin in parts],
        "rewards": [attempt_reward(row) for row in rows],
        "loss_masks": [row.loss_mask[begin:].astype(np.int64).tolist() for row, begin in parts],
        "stop_reasons": [_stop_reason(row) for row in rows],
        "rollout_metrics": None,
        "rollout_logprobs": logprobs if len(logprobs) == len(rows) else None,
        "trajectory_ids": _identities(rows),
    }
    if any(row.attempt_rows > 1 for row in rows):
        last = [list(group) for _, group in groupby(rows, key=attrgetter("chain"))]
        output["is_last_step"] = [row is group[-1] for group in last for row in group]
    return output


def _stop_reason(row: TrainingRow) -> str:
    finish = row.turns[-1].finish if row.turns else None
    return "length" if finish == "length" else "stop"


def _identities(rows: list[TrainingRow]) -> list[dict[str, Any]]:
    numbers: dict[str, dict[str, int]] = {}
    found: list[dict[str, Any]] = []
    for row in rows:
        group = numbers.setdefault(row.group, {})
        number = group.setdefault(row.chain, len(group))
        found.append({"instance_id": row.group, "repetition_id": number})
    return found
