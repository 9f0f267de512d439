"""Training rows in Assay's own Parquet format, without loss."""

from __future__ import annotations

from pathlib import Path

from assay.learning.row_files import write_rows
from assay.learning.rows import TrainingRow

from .interface import ExportSource, ExportTarget


class RowsFile(ExportTarget):
    """The `rows` target."""

    name = "rows"
    title = "Assay's training rows (Parquet)"
    include = "all"
    holds = frozenset(TrainingRow.__struct_fields__)

    def write(self, source: ExportSource, out: Path) -> int:
        return write_rows(source.rows(), out)
