"""Configuration of training rows. Imports neither renderers nor stores: `assay export --help` shows the options."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from assay.errors import UserError
from assay.records import Separation


class RowsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of training rows."""

    model: str | None = None
    """Checkpoint folder, whose tokenizer determines token roles and renders attempts without tokens."""
    renderer: str | None = None
    """Name of the chat template, if the model's type does not determine it; unset takes what the run's model was named
    with (`local:PATH?renderer=NAME`)."""
    thinking: bool | None = None
    """Enables thinking in the prompt, for templates with that option; unset takes what the run's model was named with
    (`local:PATH?thinking=false`), else the template's default."""
    uncertified: Literal["refuse", "mask"] = "refuse"
    """Treatment of sampled tokens without a context proof: the export is refused, or they are masked."""
    rendered: bool = False
    """Renders attempts without tokens with the model's template, for supervised training."""
    system: str | None = None
    """System prompt of rendered attempts without a model; default: that of the agent `loop`."""
    attempts: tuple[str, ...] = ()
    """Attempts to include, by id or prefix; default: all."""
    require: Separation = "unknown"
    """Weakest grade of separation of an undoubted pass (`separate` accepts `no-agent-code` too)."""
    held_out: tuple[str, ...] = ()
    """Held-out tasks, as folders or families: an attempt at one of them is an error, and nothing is written."""
    selected: tuple[str, ...] = ()
    """Folders that `assay curate` made: only attempts that were selected there."""
    allow_task_code: bool = False
    """Allow recorded tasks to name Python code as environment (`module:Class`, `file.py:Class`), which runs in this
    process: attempts without a model are written with the tools of their world."""
    align: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    """Number of rows of each attempt, for trainers that want batches of one shape: surplus rows of actors or sub-agents
    are dropped at random, missing ones filled with copies that train nothing; 0 keeps the rows as they are."""
    turn_rewards: Literal["world", "progress", "coverage"] = "world"
    """Rewards of single turns. `world`: what the environment reports. `progress`: by how much a turn raised the share
    of the goal that the environment reports, whoever acted before. `coverage`: the share of the facts that the task
    needs that were found there first, in worlds that name these facts. They are the local rewards of a team's actors
    (`actors` of the credit); methods of credit count them only where they say so."""
    with_secrets: bool = False
    """Also take attempts that hold a known credential or key-shaped text; by default they are left out and listed."""

    def __post_init__(self) -> None:
        """Rejects invalid combinations."""
        if self.rendered and self.model is None:
            raise UserError("rendering needs a model: name the folder of its checkpoint with --model")
