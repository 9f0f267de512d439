"""What a target is: it projects training rows, or the conversations of attempts, onto what one trainer takes.

A target says which fields of a row it holds; everything else that a row says is listed as lost by who exports, so that
nothing goes in silence. Whether an attempt may be written at all is decided before a target sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol

from assay.learning.conversation import Conversation
from assay.learning.rows import TrainingRow
from assay.records import Trajectory
from assay.settings import Settings

from .config import WriteConfig

__all__ = ["Source", "Target", "Told"]

Include = Literal["passes", "judged", "all"]


class Told(NamedTuple):
    """A conversation, and the attempt that it is of."""

    trajectory: Trajectory
    conversation: Conversation


class Source(Protocol):
    """The run that is exported. What is read from it is selected, and what was left out is listed."""

    run: str
    config: WriteConfig
    settings: Settings

    def rows(self) -> Iterator[TrainingRow]:
        """The rows of the attempts that are written, credited where the target asks for it."""
        ...

    def conversations(self) -> Iterator[Told]:
        """The conversations of the attempts that are written."""
        ...

    def lost(self, attempt: str, field: str, why: str, count: int = 1) -> None:
        """Lists what the target cannot hold."""
        ...


class Target(Protocol):
    """One trainer's form. Stateless."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What it is, for people."""
    include: ClassVar[Include]
    """Which attempts it is for: `passes`, `judged` (plain passes and failures), or `all` of them."""
    credit: ClassVar[bool]
    """Whether its rows carry advantages. Credit knows how each attempt stands: a doubted pass gains nothing by it."""
    sampled: ClassVar[bool]
    """Whether it is for policy gradients, which there are on sampled tokens alone: rendered rows are left out."""
    holds: ClassVar[frozenset[str]]
    """Fields of `TrainingRow` that it has a place for; empty for targets that are written from messages."""

    def write(self, source: Source, out: Path) -> int:
        """Writes `out` (a file or a folder, as the target has it); how many examples.

        Raises:
            UserError: The run has nothing that this target can take.
        """
        ...
