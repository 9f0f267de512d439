"""Importers and exporters of other people's trajectory and conversation formats, one file each.

What is named here is what a format of one's own is written with.
"""

from ._archives import archive
from ._building import Building, Origin, tool_call
from ._reading import at_place, digest_file, document, head, json_fields, json_items, json_lines, loads, seconds
from ._sniffing import Sniffed, sniff
from ._writing import new_file, new_folder
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
