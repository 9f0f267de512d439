"""Configuration and report of `assay curate`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from assay.records import Separation
from assay.rollout.rejudge.config import SandboxOptions

from .interface import SelectionStage

Guidance = Literal["outcome", "checks", "evidence"]


class CurateConfig(SandboxOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which attempts to select, and how."""

    runs: tuple[str, ...]
    """Runs to select from, best first: where two attempts are nearly the same, the first stays."""
    out: str
    """Folder to make."""
    where: tuple[str | SelectionStage, ...] = ("verdicts", "duplicates")
    """A stage, `NAME` or `NAME:option=value,option=value`; in a file also `{name = NAME, options = {...}}`. Each sees
    what those before it kept."""
    write: tuple[Literal["conversations", "rows"], ...] = ("conversations",)
    """Files written for the selected attempts, beside the decisions: `conversations` (messages, tools) and `rows`
    (tokens)."""
    held_out: tuple[str, ...] = ()
    """Held-out tasks that must not leak: folders or families, as in `assay run`. Checked by the stage `leakage`."""
    model: str | None = None
    """Checkpoint folder whose tokenizer is used; needed for rows of attempts without tokens."""
    student: str | None = None
    """Model folder for stage `teacher`; `module:Class=FOLDER` for a custom reader."""
    recover: str | None = None
    """Agent that continues selected failed attempts from before each step, as in `assay replay --from-each-prefix`; its
    successes become lessons, and preference pairs of the failing and the winning step."""
    reattempt: str | None = None
    """Agent that retries the tasks of selected failed attempts with guidance."""
    guidance: Guidance = "checks"
    """Guidance of a reattempt: `outcome` (the first try failed), `checks` (which checks failed), or `evidence` (what
    they observed, which may reveal a hidden test)."""
    agent_options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Options of both agents, as `key=value`."""
    policy: str | None = None
    """Model of both agents, as in `assay run --model`; default: none."""
    uncertified: Literal["refuse", "mask"] = "refuse"
    """Treatment of sampled tokens without a context proof: refused, or masked."""
    with_secrets: bool = False
    """Also select attempts that hold a known credential or key-shaped text; by default the stage `secrets`, which is
    added first where an attempt holds one, leaves them out."""
    require: Separation = "unknown"
    """Weakest grade of separation of a selected pass (`separate` accepts `no-agent-code` too); any grade but `unknown`
    adds the stage `separation` first."""


class RecoveryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one selected failed attempt."""

    run: str
    attempt: str
    lessons: tuple[str, ...]
    """Kinds of its lessons that were written."""
    pair: bool
    """True if a pair was written."""
    why: str


class CurateReport(msgspec.Struct, frozen=True):
    """Counts of a selection."""

    out: str
    attempts: int
    kept: int
    stages: tuple[tuple[str, int, int], ...]
    """Each stage with the number of attempts it saw and kept."""
    by_run: dict[str, int]
    by_model: dict[str, int]
    by_licence: dict[str, int]
    """Kept attempts by the licence that the source of their task declares."""
    rows: int | None
    """Number of token rows written; None if none were requested."""
    conversations: int | None
    lessons: dict[str, int]
    """Lessons by kind: `salvage`, `fission`, `reattempt`; also `pairs`."""
    recovered: tuple[RecoveryOutcome, ...]
    """Results of `recover` and `reattempt`, one for each agent and selected failed attempt."""
    not_written: dict[str, int]
    """Selected attempts that could not be written, by reason."""
