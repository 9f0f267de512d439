"""Importers and exporters of other people's trajectory and conversation formats, one file each.

What is named here is what a format of one's own is written with.
"""

from assay.formats.shared.archives import archive
from assay.formats.shared.building import Building, Origin, tool_call
from assay.formats.shared.reading import (
    at_place,
    digest_file,
    document,
    head,
    json_fields,
    json_items,
    json_lines,
    loads,
    seconds,
)
from assay.formats.shared.sniffing import Sniffed, sniff
from assay.formats.shared.writing import new_file, new_folder

from .interface import Format, Imported, Loss, Provenance, Reading, Unreadable, Writing

__all__ = [
    "Building",
    "Format",
    "Imported",
    "Loss",
    "Origin",
    "Provenance",
    "Reading",
    "Sniffed",
    "Unreadable",
    "Writing",
    "archive",
    "at_place",
    "digest_file",
    "document",
    "head",
    "json_fields",
    "json_items",
    "json_lines",
    "loads",
    "new_file",
    "new_folder",
    "seconds",
    "sniff",
    "tool_call",
]
