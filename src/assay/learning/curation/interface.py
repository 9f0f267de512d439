"""What a selection looks at and what it says: candidates in, for each a decision with its reason out.

Invariants: a selection decides about every candidate it is given, in their order, and says why of each, also of those
it keeps; it changes none of them; what it must know of attempts that an earlier stage left out (how often a task is
solved) it finds in `everyone`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from assay.records import Separation, VerdictStatus

__all__ = ["Candidate", "Decision", "Selector", "Stage", "Twin"]


class Twin(msgspec.Struct, frozen=True):
    """The held-out task that an attempt is nearest to."""

    task: str
    how: Literal["same task", "text"]
    share: float
    """Of the words that only that task and few others have, how many stand in the attempt; 1 for the same task."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as a selection sees it: how it stands, and what was measured of it."""

    run: str
    chain: str
    attempt: str
    task: str
    task_digest: str = ""
    agent: str
    model: str | None = None
    head: str = ""
    """Digest of the last event of its chain: what exactly was selected."""
    outcome: VerdictStatus | None = None
    score: float | None = None
    integrity: VerdictStatus | None = None
    process: VerdictStatus | None = None
    process_score: float | None = None
    safety: VerdictStatus | None = None
    doubt: str | None = None
    """Why its pass is not to be taken for one."""
    imported: bool = False
    """Its outcome is what another system claimed."""
    stopped: str | None = None
    acts: int = 0
    tokens: float | None = None
    """Sampled, as its metrics say."""
    cost_usd: float | None = None
    density: float = 0.0
    cycles: int = 0
    errors: int = 0
    recovered: int = 0
    reflective: int = 0
    waste: float = 0.0
    distinct: float = 1.0
    """Distinct classes of acts over acts (`analysis.quotient.semantic_efficiency`)."""
    moves: tuple[int, ...] = ()
    """Edges that it takes in the graph of all attempts at its task, by number there; sorted."""
    signature: tuple[int, ...] = ()
    """MinHash of what the agent wrote and did; empty where it did nothing."""
    twin: Twin | None = None
    """The nearest held-out task, where some were named."""
    rsr: tuple[float, float] | None = None
    """Mean rank and mean surprisal of its tokens under a student."""
    separation: Separation = "unknown"
    """Grade of its outcome."""

    @property
    def trusted(self) -> bool:
        """Whether it passed and nothing speaks against that."""
        return self.outcome == "pass" and self.doubt is None

    @property
    def known(self) -> bool:
        """Whether its outcome says something: a fail, or a pass that may be taken for one."""
        return self.outcome == "fail" or self.trusted or (self.outcome == "pass" and self.integrity == "fail")


class Decision(NamedTuple):
    """About one candidate."""

    kept: bool
    why: str
    """One line, with the number that decided and the bound that it was held to."""


class Selector(Protocol):
    """A stage of a selection: a function whose options are keyword-only and have defaults.

    Where it has a keyword `everyone`, it is handed all candidates there, those that earlier stages left out included.
    """

    def __call__(self, candidates: Sequence[Candidate], /, **options: Any) -> list[Decision]:
        """One decision for each candidate, in their order. Raises `ValueError` for options that make no sense."""
        ...


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A selector by name, or as `module:function`, with its options."""

    name: str
    options: dict[str, Any] = {}
