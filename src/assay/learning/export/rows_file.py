"""Training rows in Assay's own Parquet format, without loss."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from assay.learning.row_files import write_rows
from assay.learning.rows import TrainingRow

from .interface import ExportSource, Include

__all__ = ["RowsFile"]


class RowsFile:
    """The `rows` target."""

    name: ClassVar[str] = "rows"
    title: ClassVar[str] = "Assay's training rows (Parquet)"
    include: ClassVar[Include] = "all"
    credit: ClassVar[bool] = False
    sampled: ClassVar[bool] = False
    holds: ClassVar[frozenset[str]] = frozenset(TrainingRow.__struct_fields__)

    def write(self, source: ExportSource, out: Path) -> int:
        return write_rows(source.rows(), out)
