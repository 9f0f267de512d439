"""Tinker: one `Datum` a line, as the SDK's own type has it, for `importance_sampling`, `ppo` and the like.

Inputs are all tokens but the last, targets all but the first; columns are aligned with the targets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from assay.errors import UserError
from assay.formats.shared.output_files import new_file
from assay.learning.rows import TrainingRow

from ._tables import sampled_logprobs
from .interface import ExportSource, ExportTarget


class Tinker(ExportTarget):
    """The `tinker` target."""

    name = "tinker"
    title = "Tinker datums (JSON lines)"
    include = "all"
    credit = True
    sampled = True
    holds = frozenset({"loss_mask", "logprobs", "advantages"})

    def write(self, source: ExportSource, out: Path) -> int:
        written = 0
        with new_file(out) as stream:
            for row in source.rows():
                stream.write(msgspec.json.encode(_datum(row)) + b"\n")
                written += 1
        return written


def _datum(row: TrainingRow) -> dict[str, Any]:
    known = sampled_logprobs(row)
    if known is None or row.advantages is None:
        missing = "log-probabilities" if known is None else "credit"
        raise UserError(
            f"attempt {row.attempt} has no {missing}, and Tinker's losses need them: leave it out with --attempts"
        )
    # The service knows no mask: a token that is not trained has the advantage 0.
    advantages = np.where(row.loss_mask, row.advantages, 0.0)
    inputs = {
        "target_tokens": _tensor(row.token_ids[1:].astype(np.int64)),
        "logprobs": _tensor(np.array(known[1:], dtype=np.float32)),
        "advantages": _tensor(advantages[1:].astype(np.float32)),
    }
    chunk = {"type": "encoded_text", "tokens": row.token_ids[:-1].tolist()}
    return {"model_input": {"chunks": [chunk]}, "loss_fn_inputs": inputs}


def _tensor(values: NDArray[Any]) -> dict[str, Any]:
    return {"data": values.tolist(), "dtype": str(values.dtype), "shape": [len(values)]}
