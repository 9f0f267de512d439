"""The interface of a format: recognises a file by its content, reads trajectories and, optionally, writes them.

A format knows records and bytes, no store. The caller passes an `ImportContext` (for large content and problems) and
stores the trajectories, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from assay.records import AttemptStarted, Body, Trajectory

__all__ = ["ExportContext", "Format", "ImportContext", "ImportedTrajectory", "Loss", "Provenance", "ReadProblem"]

Provenance = Literal["recorded", "peer", "specification"]
"""What the reader was tested on: logs that others recorded, files that the peer's own program wrote for the test, or
nothing but the published description."""


class ReadProblem(msgspec.Struct, frozen=True):
    """Something that could not be read and was left out."""

    file: str
    """As named by who imports; for a member of an archive `archive!member`."""
    place: str
    """A line (`line 12`), a field (`steps[3].arguments`), or both; empty where it is the whole file."""
    problem: str


class ImportedTrajectory(msgspec.Struct, frozen=True):
    """One trajectory of a foreign record.

    `started.run`, `.attempt` and `.number` are filled in by who stores it. `started.config["imported"]` holds `format`,
    `file`, `version` and, under `fields`, whatever no record of ours has a place for, in the source's own words.
    """

    key: str
    """What names it within its file, stable from one reading to the next (`sample 3 epoch 1`, `trial abc`)."""
    started: AttemptStarted
    bodies: tuple[Body, ...]
    """Everything after the start, in order; an `AttemptEnded` last where the source says that it ended."""


class ImportContext(NamedTuple):
    """What an importer is handed."""

    store_blob: Callable[[bytes], str]
    """Keeps large or binary content and returns its digest."""
    report_problem: Callable[[ReadProblem], None]
    """Says what was left out; the importer goes on."""


class Loss(msgspec.Struct, frozen=True):
    """What an export could not hold."""

    attempt: str
    field: str
    why: str
    count: int = 1


class ExportContext(NamedTuple):
    """What an exporter is handed."""

    read_blob: Callable[[str], bytes]
    """Bytes of a digest that a record names. Raises `StoreError` where they are gone."""
    report_loss: Callable[[Loss], None]
    """Says what the format cannot hold; who exports writes all of it into a sidecar."""


@runtime_checkable
class Format(Protocol):
    """A format, found by entry point `assay.formats`.

    `recognises` looks at content alone and must not raise on hostile bytes. `read` yields trajectories as it meets
    them and keeps no more than one in memory. A format that only reads has `writes = False`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """The peer's name and what of its files, for people."""
    provenance: ClassVar[Provenance]
    writes: ClassVar[bool]

    def recognises(self, path: Path) -> bool:
        """Whether `path` (a file, or a folder that is one record such as a job folder) is of this format."""
        ...

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """The trajectories in `path`, in its order. Trouble in one of them is said, and the next one is read."""
        ...

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        """Writes `target` (a file or a folder, as the format has it).

        Raises:
            UserError: The format does not write, or `target` exists.
        """
        ...
