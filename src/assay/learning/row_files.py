"""Training rows as a Parquet file (zstd), one row each: Assay's interchange format.

The columns are those of `TrainingRow`; `turns` is a list of structs, `weights` one list per stream. The file's metadata
names the schema version. Every row read is validated, because files are untrusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from assay.errors import UserError, describe_os_error
from assay.formats.shared.output_files import new_file

from .rows import WEIGHTS, TrainingRow, check_row

SCHEMA = b"assay.training_rows/1"
_KEY = b"schema"
_GROUP_ROWS, _GROUP_TOKENS = 4096, 4 << 20
_MOST_TOKENS = 16 << 20
"""Maximum values of a row group: a few kilobytes of Parquet can claim billions."""
_TEXTS = ("run", "chain", "attempt", "group", "task", "agent", "branch", "origin")
_OPTIONAL = ("model", "tokenizer", "outcome", "integrity", "process", "safety", "doubt", "ended", "stopped", "broke",
             "final_state", "cause", "parent")  # fmt: skip
_ADDED = ("separation", "actor", "forked_from")
"""Last columns, in the order in which they came; older files lack some of them."""
NUMBERS = {"token_ids": np.int32, "roles": np.uint8, "loss_mask": np.bool_, "logprobs": np.float32,
           "advantages": np.float32, "versions": np.int16}  # fmt: skip
"""Array columns of a row, by field, with their types."""


def arrow_schema() -> Any:
    """Returns the Arrow schema."""
    import pyarrow as pa

    turn = pa.struct(
        [
            *((name, pa.int32()) for name in ("start", "end", "step")),
            *((name, pa.string()) for name in ("call", "state", "weight_version", "sampling", "finish")),
            *((name, pa.bool_()) for name in ("certified", "trained", "error")),
            *((name, pa.float64()) for name in ("reward", "progress")),
        ]
    )
    fields = [(name, pa.string()) for name in (*_TEXTS, *_OPTIONAL)]
    fields += [(name, pa.list_(pa.from_numpy_dtype(kind))) for name, kind in NUMBERS.items()]
    fields += [(f"weights_{name}", pa.list_(pa.float32())) for name in WEIGHTS]
    fields += [("score", pa.float64()), ("temperature", pa.float64()), ("shared", pa.int32())]
    fields += [("attempt_rows", pa.int32()), ("weight_versions", pa.list_(pa.string())), ("turns", pa.list_(turn))]
    fields += [(name, pa.string()) for name in _ADDED]
    return pa.schema(fields, metadata={_KEY: SCHEMA})


def as_columns(row: TrainingRow) -> dict[str, Any]:
    """Returns a row as column values."""
    found = {name: getattr(row, name) for name in (*_TEXTS, *_OPTIONAL, *NUMBERS, *_ADDED)}
    found |= {f"weights_{name}": row.weights.get(name) for name in WEIGHTS}
    found |= {name: getattr(row, name) for name in ("score", "temperature", "shared", "attempt_rows")}
    turns = [msgspec.structs.asdict(turn) for turn in row.turns]
    for turn in turns:
        turn["sampling"] = msgspec.json.encode(turn["sampling"]).decode() if turn["sampling"] else None
    return found | {"weight_versions": list(row.weight_versions), "turns": turns}


def write_rows(rows: Iterable[TrainingRow], target: Path) -> int:
    """Writes a file atomically; returns its number of rows. Memory is bounded by a row group.

    Raises:
        UserError: `target` exists.
        ValueError: A row does not hold together (see `check`).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, written = arrow_schema(), 0
    with new_file(target) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for group in _groups(rows):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            written += len(group)
    return written


def _groups(rows: Iterable[TrainingRow]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    tokens = 0
    for row in rows:
        check_row(row)
        group.append(as_columns(row))
        tokens += len(row)
        if len(group) >= _GROUP_ROWS or tokens >= _GROUP_TOKENS:
            yield group
            group, tokens = [], 0
    if group:
        yield group


def read_rows(path: Path) -> Iterator[TrainingRow]:
    """Yields the rows of a file in order.

    Raises:
        UserError: It is another kind of file or version, or holds an invalid row.
    """
    import pyarrow.lib
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            found = (file.schema_arrow.metadata or {}).get(_KEY)
            if found != SCHEMA or not _is_known(file.schema_arrow):
                said = found.decode(errors="replace") if found else "nothing"
                raise UserError(f"{path} holds no training rows of {SCHEMA.decode()} (it says {said})")
            _require_bounded(file.metadata, path)
            number = 0
            for batch in file.iter_batches(256, use_threads=False):
                for position in range(len(batch)):
                    yield _row(batch, position, f"{path}: row {number}")
                    number += 1
    except (OSError, pyarrow.lib.ArrowException) as exc:
        if isinstance(exc, OSError) and exc.errno is not None:
            raise UserError(f"the rows cannot be read: {describe_os_error(exc, path)}") from exc
        said = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
        raise UserError(
            f"{path} cannot be read as Parquet ({said.rstrip('.')}): rows to train on are what `assay export RUN --to "
            f"rows --out {path.with_suffix('.parquet').name}` writes"
        ) from exc


def _is_known(schema: Any) -> bool:
    """Returns whether a schema is the current one, or one before some of `_ADDED`."""
    import pyarrow as pa

    whole = list(arrow_schema())
    return any(schema.equals(pa.schema(whole[: len(whole) - left])) for left in range(len(_ADDED) + 1))


def _require_bounded(metadata: Any, path: Path) -> None:
    for group in range(metadata.num_row_groups):
        columns = metadata.row_group(group)
        most = max((columns.column(place).num_values for place in range(columns.num_columns)), default=0)
        if most > _MOST_TOKENS:
            raise UserError(
                f"{path}: row group {group} holds {most:,} values of a column, and at most {_MOST_TOKENS:,} are read"
            )


def _row(batch: Any, position: int, where: str) -> TrainingRow:
    try:
        present = set(batch.schema.names)
        names = [name for name in scalar_fields().__struct_fields__ if name in present or name not in _ADDED]
        values = {name: batch.column(name)[position].as_py() for name in names}
        for turn in values["turns"] or ():
            text = turn.pop("sampling")
            turn["sampling"] = msgspec.json.decode(text) if text else {}
        fields = msgspec.structs.asdict(msgspec.convert(values, scalar_fields()))
        arrays = {name: _array(batch.column(name)[position], kind) for name, kind in NUMBERS.items()}
        streams = {name: _array(batch.column(f"weights_{name}")[position], np.float32) for name in WEIGHTS}
        streams_present = {name: stream for name, stream in streams.items() if stream is not None}
        row = TrainingRow(**fields, **arrays, weights=streams_present)
        check_row(row)
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise UserError(f"{where} is not a valid training row: {exc}") from exc
    return row


def _array(cell: Any, kind: Any) -> Any:
    if not cell.is_valid:
        return None
    if cell.values.null_count:
        raise ValueError("a column of it has an empty place")
    return np.asarray(cell.values.to_numpy(zero_copy_only=False)).astype(kind)


@cache
def scalar_fields() -> type[msgspec.Struct]:
    """Returns a struct with the fields of a row that are no arrays."""
    fields = [f for f in msgspec.structs.fields(TrainingRow) if f.name not in NUMBERS and f.name != "weights"]
    typed = [(f.name, f.type, f.default) if f.name in _ADDED else (f.name, f.type) for f in fields]
    return msgspec.defstruct("ToldOfARow", typed, kw_only=True)
