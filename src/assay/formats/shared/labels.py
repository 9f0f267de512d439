"""Labels that people, or a data set's own program, put on a run: kept as facts of the record, never as its verdicts."""

from __future__ import annotations

from typing import Any

from assay.formats.shared.builder import TrajectoryBuilder


def add_label(builder: TrajectoryBuilder, source: str, data: dict[str, Any]) -> str:
    """Adds a label. `data` is in the source's words; `steps`, where it is there, are positions in our steps."""
    return builder.add_evidence("label", {"source": source, **data}, channel="audit")
