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

Provenance = Literal["recorded", "peer", "specification"]
"""Test data of the reader: recorded logs, files that the peer's own program wrote for the test, or only the published
description."""


class ReadProblem(msgspec.Struct, frozen=True):
    """A part of a file that could not be read and was left out, or a remark about one that was read."""

    file: str
    """File name; for a member of an archive `archive!member`."""
    place: str
    """A line (`line 12`), a field (`steps[3].arguments`), or both; empty where it is the whole file."""
    problem: str
    is_remark: bool = False
    """Nothing was left out: the text says how an unusual part was read."""


class ImportedTrajectory(msgspec.Struct, frozen=True):
    """One trajectory of a foreign record.

    `started.run`, `.attempt` and `.number` are set when it is stored. `started.config["imported"]` holds `format`,
    `file`, `version` and, under `fields`, the source's other data unchanged.
    """

    key: str
    """A name unique in its file and stable between readings (`sample 3 epoch 1`, `trial abc`)."""
    started: AttemptStarted
    bodies: tuple[Body, ...]
    """Everything after the start, in order; an `AttemptEnded` last where the source says that it ended."""


class ImportContext(NamedTuple):
    """The callbacks of an importer."""

    store_blob: Callable[[bytes], str]
    """Stores large or binary content and returns its digest."""
    report_problem: Callable[[ReadProblem], None]
    """Reports a part that was left out, or a remark; the importer continues."""


class Loss(msgspec.Struct, frozen=True):
    """A field that an export could not hold."""

    attempt: str
    field: str
    why: str
    count: int = 1


class Addition(msgspec.Struct, frozen=True):
    """A field of an export that no record holds: the format requires it, or it summarises the records."""

    attempt: str
    field: str
    """Its place in the written file."""
    why: str


def _ignore_addition(_addition: Addition) -> None:
    pass


class ExportContext(NamedTuple):
    """The callbacks of an exporter."""

    read_blob: Callable[[str], bytes]
    """Returns the bytes of a recorded digest. Raises `StoreError` where they are missing."""
    report_loss: Callable[[Loss], None]
    """Reports what the format cannot hold; the caller writes all losses into a sidecar."""
    report_addition: Callable[[Addition], None] = _ignore_addition
    """Reports what is written beyond the records; the caller counts it in the sidecar."""


@runtime_checkable
class Format(Protocol):
    """A format, found by entry point `assay.formats`.

    `recognises` looks at content alone and must not raise on hostile bytes. `read` yields trajectories as it meets
    them and keeps no more than one in memory. A format that only reads has `writes = False`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """The peer's name and its kind of file, for people."""
    provenance: ClassVar[Provenance]
    writes: ClassVar[bool]

    def recognises(self, path: Path) -> bool:
        """Returns whether `path` (a file, or a folder that is one record such as a job folder) is of this format."""
        ...

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """Yields the trajectories in `path`, in its order; reports problems in one of them and reads the next."""
        ...

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        """Writes `target` (a file or a folder, as the format has it).

        Raises:
            UserError: The format does not write, or `target` exists.
        """
        ...
