"""Training rows as JSON objects: arrays as lists, masks as 0 and 1, unknown numbers as null.

A 32-bit float passes through JSON unchanged. Rows that are read are validated, because they come from elsewhere.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from assay.errors import UserError

from .row_files import NUMBERS, scalar_fields
from .rows import TrainingRow, check_row


def row_as_json(row: TrainingRow) -> dict[str, Any]:
    """Returns a row as JSON data."""
    return {field.name: _as_json(getattr(row, field.name)) for field in msgspec.structs.fields(row)}


def row_from_json(data: Any) -> TrainingRow:
    """Returns the row in JSON data; keys that are not fields of a row are ignored.

    Raises:
        UserError: It is not a valid row.
    """
    try:
        scalars = msgspec.structs.asdict(msgspec.convert(data, scalar_fields()))
        arrays = {name: _array(data.get(name), kind) for name, kind in NUMBERS.items()}
        streams = {name: _array(stream, np.float32) for name, stream in data.get("weights", {}).items()}
        row = TrainingRow(**scalars, **arrays, weights=streams)
        check_row(row)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise UserError(f"not a valid training row: {exc}") from exc
    return row


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype == np.bool_:
            return value.astype(np.int8).tolist()
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return [float(one) if np.isfinite(one) else None for one in value]
        return value.tolist()
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    return msgspec.to_builtins(value)


def _array(values: Any, kind: Any) -> Any:
    """Returns a column; null is NaN in a column of floats, and an error in any other."""
    if values is None:
        return None
    if not all(isinstance(value, int | float) or value is None for value in values):
        raise ValueError("a column holds something else than numbers")
    if np.issubdtype(kind, np.floating):
        return np.array([np.nan if value is None else value for value in values], dtype=kind)
    column = np.array(values, dtype=np.int64)
    if not np.array_equal(column.astype(kind).astype(np.int64), column):
        raise ValueError(f"a column holds a number that is not of {np.dtype(kind).name}")
    return column.astype(kind)
