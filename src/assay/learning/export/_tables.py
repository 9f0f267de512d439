"""Parquet tables written in bounded memory, and helpers shared by targets.

Messages and tools are written as JSON columns (`arrow.json`): as structs, Arrow would give every call the arguments of
all others, filled with nulls, and silently change prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.learning.rows import TrainingRow

_GROUP, _GROUP_SIZE = 1024, 8 << 20
"""Maximum rows, and elements in them, that are buffered."""
INTS, NUMBERS, TEXT, JSON = "ints", "numbers", "text", "json"


def write_table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], out: Path) -> int:
    """Writes rows under typed columns to a new file; returns their number.

    A column is `INTS`, `NUMBERS`, `TEXT`, `JSON` (plain data), or a pyarrow type; a missing value is null.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    stored = pa.json_(pa.string())
    kinds = {INTS: pa.list_(pa.int64()), NUMBERS: pa.list_(pa.float32()), TEXT: pa.string(), JSON: stored}
    schema = pa.schema([(name, kinds.get(kind, kind)) for name, kind in columns.items()])
    written, group_size, group = 0, 0, list[dict[str, Any]]()

    def flush() -> None:
        arrays = []
        for name, kind in columns.items():
            values = [row[name] for row in group]
            if kind == JSON:
                arrays.append(pa.array(values, pa.string()).cast(stored))
            else:
                arrays.append(pa.array(values, schema.field(name).type))
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))

    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for row in rows:
            group.append({name: _plain(row.get(name), kind) for name, kind in columns.items()})
            written += 1
            group_size += sum(len(value) for value in group[-1].values() if hasattr(value, "__len__"))
            if len(group) == _GROUP or group_size >= _GROUP_SIZE:
                flush()
                group, group_size = [], 0
        flush()
    return written


def _plain(value: Any, kind: Any) -> Any:
    return msgspec.json.encode(value).decode() if kind == JSON and value is not None else value


def first_trained(row: TrainingRow) -> int:
    """Returns the position of the first trained token; earlier tokens are the prompt."""
    return int(row.loss_mask.argmax())


NO_REWARD = "its outcome is neither a pass nor a fail, which gives no reward"


def attempt_reward(row: TrainingRow) -> float | None:
    """Returns an attempt's reward for trainers that compute advantages: its score, or 1 for a pass and 0 for a fail.

    None, not 0, for an unjudged attempt or a broken infrastructure. A dishonest attempt gets at most 0.
    """
    if row.outcome not in ("pass", "fail") or row.broke is not None:
        return None
    found = float(row.outcome == "pass") if row.score is None else row.score
    return min(found, 0.0) if row.integrity == "fail" else found


def sampled_logprobs(row: TrainingRow) -> list[float] | None:
    """Returns log-probabilities, 0 where not sampled; None if one of a trained token is unknown."""
    import numpy as np

    if bool(np.isnan(row.logprobs[row.loss_mask]).any()):
        return None
    known: list[float] = np.nan_to_num(row.logprobs, nan=0.0).tolist()
    return known
