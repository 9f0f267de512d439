"""Formats whose file holds conversations: one document, a conversation a line, or an array of conversations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.base import ReadOnlyFormat, skip_unreadable
from assay.formats.shared.builder import TrajectoryBuilder
from assay.formats.shared.json_stream import WarnFunction, json_values, warn_in
from assay.formats.shared.round_trip_builder import WHOLE, file_origin
from assay.formats.shared.sniffing import read_rows, sniff


class ConversationFormat(ReadOnlyFormat):
    """A library's or an agent's own record of conversations."""

    name: ClassVar[str]
    provenance: ClassVar[Provenance] = "peer"
    why_read_only: ClassVar[str] = "sessions of other agents are only read; write atif or chat, which many tools take"

    def is_one_conversation(self, path: Path) -> bool:
        """Returns whether an array is one conversation's messages, and not an array of conversations."""
        return True

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for where, document in self._documents(path, bad):
            with skip_unreadable(bad, where):
                yield self.read_conversation(document, where, TrajectoryBuilder(origin, reading), bad)

    def _documents(self, path: Path, bad: WarnFunction) -> Iterator[tuple[str, Any]]:
        shape = sniff(path).shape
        if shape == "object" or (shape == "array" and self.is_one_conversation(path)):
            yield from _documents_of(path, bad)
        else:
            yield from read_rows(path, bad)

    @abstractmethod
    def read_conversation(
        self, document: Any, where: str, builder: TrajectoryBuilder, bad: WarnFunction
    ) -> ImportedTrajectory:
        """Reads one conversation. Raises `UserError` if the document is not a conversation."""


def _documents_of(path: Path, bad: WarnFunction) -> Iterator[tuple[str, Any]]:
    """Yields the one document of a file under the file's name, or the documents that follow each other by line."""
    documents = json_values(path, bad, largest=WHOLE)
    first, second = next(documents, None), next(documents, None)
    if first is not None:
        yield path.stem if second is None else f"line {first[0]}", first[1]
    for number, document in () if second is None else chain((second,), documents):
        yield f"line {number}", document
