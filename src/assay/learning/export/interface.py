"""Export targets: projections of training rows or transcripts to one trainer's format.

A target declares which row fields it represents; the exporter lists all other data as losses. Attempts are selected
before a target sees them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol

from assay.learning.conversation import Transcript
from assay.learning.reading import TaskSource
from assay.learning.rows import TrainingRow
from assay.records import Task, Trajectory
from assay.settings import Settings

from .config import WriteConfig

Include = Literal["passes", "judged", "all"]


class AttemptConversation(NamedTuple):
    """A transcript and its attempt."""

    trajectory: Trajectory
    conversation: Transcript


class ExportSource(Protocol):
    """The exported run: selected attempts, with a list of losses."""

    run: str
    config: WriteConfig
    settings: Settings

    def rows(self) -> Iterator[TrainingRow]:
        """Yields the rows of the selected attempts, with credit if the target needs it."""
        ...

    def conversations(self) -> Iterator[AttemptConversation]:
        """Yields the transcripts of the selected attempts."""
        ...

    def trajectories(self) -> Iterator[Trajectory]:
        """Yields the selected attempts, for targets that take neither rows nor transcripts."""
        ...

    def task(self, trajectory: Trajectory) -> Task | None:
        """Returns the recorded task of an attempt; None if it is missing, or names code that is not permitted."""
        ...

    def blob(self, digest: str) -> bytes:
        """Returns what is stored under a digest. Raises `StoreError`."""
        ...

    def task_source(self, trajectory: Trajectory) -> TaskSource:
        """Returns the origin of an attempt's task."""
        ...

    def record_loss(self, attempt: str, field: str, why: str, count: int = 1) -> None:
        """Records a loss."""
        ...

    def record_addition(self, attempt: str, field: str, why: str) -> None:
        """Records a field that is written beyond the records."""
        ...


class ExportTarget(Protocol):
    """One trainer's format. Stateless; a target inherits the defaults."""

    name: ClassVar[str]
    title: ClassVar[str]
    """Title for people."""
    include: ClassVar[Include] = "judged"
    """Default attempts: `passes`, `judged` (undoubted passes and failures), or `all`."""
    credit: ClassVar[bool] = False
    """Rows carry advantages, in which a doubted pass gains nothing."""
    sampled: ClassVar[bool] = False
    """For policy gradients: rendered rows are left out."""
    holds: ClassVar[frozenset[str]] = frozenset()
    """Fields of `TrainingRow` that it represents; empty for message targets. All others are losses. A target
    with `doubt` also takes doubted passes and rows without a trained token; one with `logprobs` or `roles` warns
    where rows lack them."""

    def write(self, source: ExportSource, out: Path) -> int:
        """Writes the file or folder `out`; returns the number of examples. Raises `UserError` without any."""
        ...
