"""Importers and exporters of other people's trajectory and conversation formats, one file each.

What is named here is what a format of one's own is written with.
"""

from assay.formats.shared.archives import open_archive
from assay.formats.shared.builder import Origin, TrajectoryBuilder, tool_call
from assay.formats.shared.json_stream import (
    digest_file,
    json_fields,
    json_items,
    json_lines,
    load_document,
    loads,
    parse_time,
    read_head,
    warn_in,
)
from assay.formats.shared.output_files import new_file, new_folder
from assay.formats.shared.sniffing import SniffResult, sniff

from .interface import (
    Addition,
    ExportContext,
    Format,
    ImportContext,
    ImportedTrajectory,
    Loss,
    Provenance,
    ReadProblem,
)

__all__ = [
    "Addition",
    "ExportContext",
    "Format",
    "ImportContext",
    "ImportedTrajectory",
    "Loss",
    "Origin",
    "Provenance",
    "ReadProblem",
    "SniffResult",
    "TrajectoryBuilder",
    "digest_file",
    "json_fields",
    "json_items",
    "json_lines",
    "load_document",
    "loads",
    "new_file",
    "new_folder",
    "open_archive",
    "parse_time",
    "read_head",
    "sniff",
    "tool_call",
    "warn_in",
]
