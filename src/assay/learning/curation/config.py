"""What `assay curate` is asked, and what it answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from assay.records import Separation

from .interface import Stage

__all__ = ["CurateConfig", "CurateReport", "Guidance"]

Guidance = Literal["outcome", "checks", "evidence"]


class CurateConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to select, and how."""

    runs: tuple[str, ...]
    """Runs to select from, best first: where two attempts are nearly the same, the first stays."""
    out: str
    """Folder to make."""
    where: tuple[str | Stage, ...] = ("verdicts", "duplicates")
    """A stage, `NAME` or `NAME:option=value,option=value`; in a file also `{name = NAME, options = {...}}`. Each sees
    what those before it kept."""
    write: tuple[Literal["conversations", "rows"], ...] = ("conversations",)
    """What is written of those kept, beside the decisions: `conversations` (messages, tools) and `rows` (tokens)."""
    held_out: tuple[str, ...] = ()
    """Tasks that must not leak: folders or families, as `assay run` takes them. `leakage` is the stage that looks."""
    model: str | None = None
    """Folder of the checkpoint whose tokenizer tells what tokens are; rows of attempts without tokens need it."""
    student: str | None = None
    """Folder of the model that stage `teacher` asks; `module:Class=FOLDER` for a reader of one's own."""
    recover: str | None = None
    """Agent that goes on from before each step of the failed attempts that are kept, as in `assay replay
    --from-each-prefix`: what it wins becomes lessons, and pairs of the step that lost and the one that won."""
    reattempt: str | None = None
    """Agent that tries the tasks of the failed attempts that are kept again, with guidance."""
    guidance: Guidance = "checks"
    """What a reattempt is told: `outcome`, that the first try failed; `checks`, which checks failed; `evidence`, what
    they saw, which may tell what a hidden test holds."""
    agent_options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Options of both agents, as `key=value`."""
    policy: str | None = None
    """What they ask, as `assay run --model`; default: nothing, for agents without a model."""
    uncertified: Literal["refuse", "mask"] = "refuse"
    """What becomes of sampled tokens whose context is not proved: refused, or not trained."""
    require: Separation = "unknown"
    """Weakest grade of separation at which a pass is selected (`separate` accepts `no-agent-code` too): a grade other
    than `unknown` puts the stage `separation` first."""


class CurateReport(msgspec.Struct, frozen=True):
    """What a selection did."""

    out: str
    attempts: int
    kept: int
    stages: tuple[tuple[str, int, int], ...]
    """Each stage with how many it saw and kept."""
    by_run: dict[str, int]
    by_model: dict[str, int]
    rows: int | None
    """Rows of tokens written; None where none were asked for."""
    conversations: int | None
    lessons: dict[str, int]
    """Lessons from failed attempts by kind: `salvage`, `fission`, `reattempt`; `pairs` and `instances` beside."""
    not_written: dict[str, int]
    """What could not be written of those kept, by reason."""
