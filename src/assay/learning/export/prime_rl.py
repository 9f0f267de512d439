"""prime-rl 0.8: packed micro batches for its file transport (`rollout_transport.type = "filesystem"`).

The trainer applies our advantages and weight streams unchanged. The wire format is a MessagePack array of the fields in
the order below; trailing fields at their defaults are omitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from assay.errors import UserError
from assay.learning.packing import Pack, pack
from assay.learning.rows import TrainingRow

from ._tables import sampled_logprobs
from .interface import ExportSource, ExportTarget


class MicroBatch(msgspec.Struct, array_like=True, omit_defaults=True):
    """Prime-rl's micro batch: T tokens of S rows."""

    input_ids: list[int]
    loss_mask: list[bool]
    advantages: list[float]
    inference_logprobs: list[float]
    position_ids: list[int]
    sequence_lengths: list[int]
    temperatures: list[float]
    env_names: list[str]
    """[T]"""
    seq_lens: list[int]
    """[S]"""
    ref_logprobs: list[float] | None = None
    routed_experts: None = None
    mm_refs: None = None
    mm_token_type_ids: None = None
    rl_weights: list[float] | None = None
    ce_weights: list[float] | None = None
    ref_kl_weights: list[float] | None = None
    sampling_mask: None = None
    trace_ids: list[str] | None = None
    """[S]"""
    branch_indices: list[int] | None = None
    """[S] index of the row in its attempt."""


class PrimeRl(ExportTarget):
    """The `prime-rl` target."""

    name = "prime-rl"
    title = "prime-rl micro batches (a folder for its file transport)"
    include = "all"
    credit = True
    sampled = True
    holds = frozenset({"loss_mask", "logprobs", "advantages", "weights", "temperature", "task"})

    def write(self, source: ExportSource, out: Path) -> int:
        """Writes one step for one rank; move the files where the orchestrator expects them."""
        rows = [_weighted(row) for row in source.rows()]
        if not rows:
            return 0
        length = source.config.length or max(map(len, rows))
        numbers: dict[tuple[str, str], int] = {}
        met: Counter[str] = Counter()
        for row in rows:
            numbers[row.chain, row.branch] = met[row.chain]
            met[row.chain] += 1
        batches = [_micro_batch(one, numbers) for one in pack(rows, length)]
        folder = out / "rollouts" / "step_0"
        folder.mkdir(parents=True)
        (folder / "rank_0.bin").write_bytes(msgspec.msgpack.encode(batches))
        return len(rows)


def _weighted(row: TrainingRow) -> TrainingRow:
    """Scales a row's weights by its attempt's number of rows, because the trainer weighs tokens."""
    if row.attempt_rows == 1:
        return row
    stream = row.weights.get("rl", row.loss_mask.astype(np.float32)) / row.attempt_rows
    return msgspec.structs.replace(row, weights={**row.weights, "rl": stream.astype(np.float32)})


def _micro_batch(packed: Pack, numbers: Mapping[tuple[str, str], int]) -> MicroBatch:
    end = packed.starts[-1]
    lengths = [len(row) for row in packed.rows]
    return MicroBatch(
        input_ids=packed.token_ids[:end].tolist(),
        loss_mask=packed.loss_mask[:end].tolist(),
        advantages=_concatenate([_advantages(row) for row in packed.rows]),
        inference_logprobs=_concatenate([_logprobs(row) for row in packed.rows]),
        position_ids=packed.positions[:end].tolist(),
        sequence_lengths=lengths,
        temperatures=_concatenate([_temperatures(row) for row in packed.rows]),
        env_names=[name for row in packed.rows for name in [row.task] * len(row)],
        seq_lens=lengths.copy(),
        rl_weights=_stream(packed, "rl"),
        ce_weights=_stream(packed, "ce"),
        ref_kl_weights=_stream(packed, "ref_kl"),
        trace_ids=[row.chain for row in packed.rows],
        branch_indices=[numbers[row.chain, row.branch] for row in packed.rows],
    )


def _concatenate(parts: list[list[float]]) -> list[float]:
    return [value for part in parts for value in part]


def _advantages(row: TrainingRow) -> list[float]:
    if row.advantages is None:
        raise UserError(f"attempt {row.attempt} has no credit, and prime-rl computes none: name a method with --credit")
    found: list[float] = row.advantages.tolist()
    return found


def _logprobs(row: TrainingRow) -> list[float]:
    known = sampled_logprobs(row)
    if known is None:
        raise UserError(
            f"attempt {row.attempt} has tokens whose log-probability is not known, and prime-rl needs all of them"
        )
    return known


def _temperatures(row: TrainingRow) -> list[float]:
    found = [1.0] * len(row)
    for turn in row.turns:
        asked = turn.sampling.get("temperature")
        if asked is None and turn.trained:
            raise UserError(
                f"attempt {row.attempt}: call {turn.call} does not say at which temperature it was sampled, and "
                "prime-rl needs it: record with a model whose temperature is set (`local:PATH?temperature=1`)"
            )
        if asked is not None:
            found[turn.start : turn.end] = [float(asked)] * (turn.end - turn.start)
    return found


def _stream(packed: Pack, name: str) -> list[float] | None:
    if all(name not in row.weights for row in packed.rows):
        return None
    parts: list[Any] = []
    for row in packed.rows:
        default = row.loss_mask.astype(np.float32) if name == "rl" else np.zeros(len(row), dtype=np.float32)
        parts.append(row.weights.get(name, default))
    found: list[float] = np.concatenate(parts).tolist()
    return found
