"""Interface of selection stages: candidates in, one decision with a reason for each out.

Invariants: a stage decides about every candidate, in order, with a reason for each; it changes none of them; facts
about attempts that an earlier stage removed (such as a task's success rate) are in `everyone`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from assay.records import Separation, VerdictStatus


class LeakageMatch(msgspec.Struct, frozen=True):
    """The held-out task nearest to an attempt."""

    task: str
    how: Literal["same task", "text"]
    share: float
    """Share of that task's distinctive words found in the attempt; 1 for the same task."""


class AttemptCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one attempt."""

    run: str
    chain: str
    attempt: str
    task: str
    task_digest: str = ""
    agent: str
    model: str | None = None
    head: str = ""
    """Digest of the last event of its chain."""
    outcome: VerdictStatus | None = None
    score: float | None = None
    integrity: VerdictStatus | None = None
    process: VerdictStatus | None = None
    process_score: float | None = None
    safety: VerdictStatus | None = None
    doubt: str | None = None
    """Reason to doubt its pass."""
    imported: bool = False
    """True if another system claimed the outcome."""
    stopped: str | None = None
    acts: int = 0
    tokens: float | None = None
    """Sampled tokens, from its metrics."""
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
    """Sorted edge numbers in the graph of all attempts at its task."""
    signature: tuple[int, ...] = ()
    """MinHash of the agent's text and actions; empty without any."""
    twin: LeakageMatch | None = None
    """Nearest held-out task, if any were named."""
    rsr: tuple[float, float] | None = None
    """Mean rank and mean surprisal of its tokens under a student."""
    separation: Separation = "unknown"
    """Separation grade of its outcome."""
    source: str = "not stated"
    """Origin of its task, as the task states it."""
    licence: str = "not declared"
    """Licence that the source of its task declares."""
    secrets: tuple[str, ...] = ()
    """Names of the credentials and key shapes found in it; empty with `with_secrets`."""

    @property
    def trusted(self) -> bool:
        """True for an undoubted pass."""
        return self.outcome == "pass" and self.doubt is None

    @property
    def has_known_outcome(self) -> bool:
        """True for a fail, an undoubted pass, or a pass with failed integrity."""
        return self.outcome == "fail" or self.trusted or (self.outcome == "pass" and self.integrity == "fail")


class Selection(NamedTuple):
    """Decision about one candidate."""

    kept: bool
    why: str
    """Reason with the deciding number and its bound."""


class Selector(Protocol):
    """A stage of a selection: a function whose options are keyword-only and have defaults.

    Where it has a keyword `everyone`, it is handed all candidates there, those that earlier stages left out included.
    """

    def __call__(self, candidates: Sequence[AttemptCandidate], /, **options: Any) -> list[Selection]:
        """Returns one decision per candidate, in order. Raises `ValueError` for invalid options."""
        ...


class SelectionStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A selector by name, or as `module:function`, with its options."""

    name: str
    options: dict[str, Any] = {}
