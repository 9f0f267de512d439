"""Converts Parquet to lines of JSON, so that every format of rows is read from Parquet too.

Not covered: bugs in PyArrow. A null is written as `null`, since Parquet does not tell it from an absent field.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from assay.errors import UserError
from assay.formats.shared.archives import UnpackBudget

_ROWS = 64
_LARGEST_GROUP = 4 << 30
"""Largest row group in unpacked bytes; PyArrow decodes a part of one at a time."""


def write_rows_as_lines(path: Path, target: Path, budget: UnpackBudget) -> None:
    """Writes each row of a Parquet file as a line of `target`.

    Raises:
        UserError: The file is damaged, or unpacks to more than `budget` allows.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as table, target.open("xb") as out:
            sizes = [table.metadata.row_group(n).total_byte_size for n in range(table.metadata.num_row_groups)]
            if max(sizes, default=0) > _LARGEST_GROUP:
                raise UserError(f"{path.name} is refused: a row group has {max(sizes):,} bytes")
            for batch in table.iter_batches(batch_size=_ROWS):
                lines = [json.dumps(row, default=_plain).encode() + b"\n" for row in batch.to_pylist()]
                budget.charge(path.name, sum(map(len, lines)), 0)
                out.writelines(lines)
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as exc:
        raise UserError(f"{path.name} is damaged: {exc}") from exc


def write_lines_as_array(lines: Path, target: Path) -> None:
    """Writes lines of JSON as one array, which some formats are."""
    with lines.open("rb") as stream, target.open("xb") as out:
        for number, line in enumerate(stream):
            out.write((b",\n" if number else b"[\n") + line.rstrip(b"\n"))
        out.write(b"\n]\n" if out.tell() else b"[]\n")


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
