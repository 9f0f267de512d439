"""Base classes of formats that are only read, and of formats whose files hold one trajectory each; reading that goes on
after an item that cannot be read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from assay.errors import UserError
from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.round_trip_builder import is_imported_from, write_one_per_file
from assay.records import Trajectory

FOREIGN_ERRORS = (UserError, ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, NotImplementedError,
                  OSError, RecursionError, TypeError, ValueError)  # fmt: skip
"""Exceptions that readers and plugins may raise over hostile bytes."""


def describe_error(error: BaseException) -> str:
    """Returns an error's message, with the name of its type where the message is not meant for people."""
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read: {error.strerror}"
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


@contextmanager
def skip_unreadable(bad: WarnFunction, where: str) -> Iterator[None]:
    """Reports an error that one item of a file raises, so that the items after it are read."""
    try:
        yield
    except FOREIGN_ERRORS as exc:
        bad(where, describe_error(exc))


class ReadOnlyFormat:
    """A format that is not written."""

    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = False
    why_read_only: ClassVar[str]

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        raise UserError(self.why_read_only)


class SingleFileFormat(ABC):
    """A format written as one file, or for several trajectories as a folder of files."""

    name: ClassVar[str]
    writes: ClassVar[bool] = True
    suffix: ClassVar[str] = ".jsonl"
    added: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Fields that the format requires and no record holds, with the reason."""

    @abstractmethod
    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]: ...

    @abstractmethod
    def write_file(self, trajectory: Trajectory, path: Path, writing: ExportContext, *, own: bool) -> None:
        """Writes one trajectory; `own`: it was read from this format."""

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        def write_one(trajectory: Trajectory, path: Path) -> None:
            own = is_imported_from(trajectory, self.name)
            self.write_file(trajectory, path, writing, own=own)
            back = None if own else next(self.read(path, THROWAWAY))
            report_losses(trajectory, back, writing, self.name, added=self.added)

        write_one_per_file(trajectories, target, self.suffix, write_one)
