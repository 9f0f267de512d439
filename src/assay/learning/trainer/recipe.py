"""Recipes: what `assay train` and `assay improve` are asked for, as one TOML file each.

Each field is documented by the string under it; `docs/reference/recipes.md` comes from there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from assay.errors import UserError
from assay.learning.credit.compose import CreditConfig
from assay.records import Limits, Separation

from .options import Count, DpoOptions, Keep, ModelOptions, PolicyGradientOptions, SftOptions

__all__ = ["Evaluate", "Gate", "ImproveRecipe", "Rollout", "Teach", "TrainRecipe", "place_of"]

_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,59}", re.ASCII)
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Teach(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Demonstrations, and supervised fine-tuning on them, before anything else."""

    tasks: tuple[str, ...] = ()
    """What is demonstrated; none leaves the model as it is."""
    agent: str = "expert"
    """Who demonstrates."""
    agent_options: dict[str, Any] = {}
    """Its options."""
    attempts: Count = 1
    """Demonstrations of each task."""
    keep: Keep = "all"
    """Which of them are learned from."""
    sft: SftOptions = SftOptions()
    """How."""


class Rollout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the agent tries in each step, and which attempts it learns from."""

    tasks: tuple[str, ...]
    """Families without `n` and `seed` give new tasks in each step; of other tasks each step takes some in turn."""
    agent: str = "loop"
    """Who acts: an agent that asks the model."""
    agent_options: dict[str, Any] = {}
    """Its options."""
    groups: Count = 16
    """Tasks in a step."""
    attempts: Count = 8
    """Attempts at each of them."""
    concurrency: Count = 128
    """Attempts under way at once."""
    keep: Keep = "all"
    """Which attempts give credit. `all` leaves it to the credit, which masks what was not judged."""
    require: Separation = "unknown"
    """Weakest grade of separation at which a pass is learned from (`separate` accepts `no-agent-code` too)."""
    limits: Limits = Limits(wall_s=120)
    """Of each attempt. One that is stopped by `wall_s` hung: it is dropped, with its reason."""
    most_lost_in_a_row: Count = 10
    """So many attempts that hung or broke, one after the other, stop the training."""


class Evaluate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The held-out tasks, and when they are tried."""

    tasks: tuple[str, ...]
    """Tasks that are never trained on; a task that is also trained on stops the recipe."""
    attempts: Count = 1
    """Attempts at each."""
    every: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Steps between evaluations; 0 only before and after."""


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When the improved model is taken."""

    least: Share = 0.0
    """The least success on held-out tasks."""
    better: bool = True
    """Whether it has to be better than before, with an interval of the difference that excludes 0."""


class ImproveRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From a model to a better one: demonstrate, try, verify, give credit, train, evaluate, gate."""

    name: str
    """Names the runs in the store, which begin with it, and the folder."""
    seed: int = 0
    """Everything random comes from it."""
    folder: str = "trained"
    """Where models are written, in a folder of this recipe's name and seed."""
    model: ModelOptions = ModelOptions()
    """Which model."""
    teach: Teach = Teach()
    """Demonstrations first."""
    steps: Annotated[int, msgspec.Meta(ge=0)] = 20
    """Steps of trying and learning."""
    rollout: Rollout
    """What is tried."""
    credit: CreditConfig = CreditConfig()
    """How credit is given to the turns of an attempt; see the page about credit."""
    policy_gradient: PolicyGradientOptions = PolicyGradientOptions()
    """How the model is trained on it."""
    evaluate: Evaluate
    """What success means."""
    gate: Gate = Gate()
    """When it is good enough."""
    checkpoint_every: Count = 1
    """Steps between checkpoints; what a killed training does again."""
    tensorboard: bool = False
    """Whether TensorBoard's files are written beside the models; needs the package `tensorboard`."""

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        require_name(self.name)
        if self.model.path is None and not self.teach.tasks:
            raise UserError(
                "a model that is made on the spot knows nothing: name demonstrations in teach.tasks, or model.path"
            )
        if not self.rollout.tasks or not self.evaluate.tasks:
            raise UserError("rollout.tasks and evaluate.tasks must each name at least one task or family")


class TrainRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Training on attempts that are in the store already."""

    name: str
    """Names the run that the numbers are kept in, and the folder."""
    method: Literal["sft", "dpo", "policy_gradient"]
    """What is done with them."""
    runs: tuple[str, ...] = ()
    """Runs in the store whose attempts are learned from."""
    rows: tuple[str, ...] = ()
    """Parquet files of training rows, as `assay export --to rows` and `assay curate` write them."""
    keep: Keep = "all"
    """Which attempts are learned from. `dpo` takes pairs of a passed and a failed attempt, where a pass counts only if
    nothing speaks against it; `passed` counts it whatever else is known."""
    require: Separation = "unknown"
    """Weakest grade of separation at which a pass is learned from (`separate` accepts `no-agent-code` too)."""
    model: ModelOptions
    """Which model; its `path` must be named."""
    system: str | None = None
    """System prompt that attempts without tokens are rendered with; unset is the agent `loop`'s own, empty is none."""
    seed: int = 0
    """Of the order in which attempts are taken."""
    folder: str = "trained"
    """Where models are written, in a folder of this recipe's name."""
    sft: SftOptions = SftOptions()
    """Of the method `sft`."""
    dpo: DpoOptions = DpoOptions()
    """Of the method `dpo`."""
    policy_gradient: PolicyGradientOptions = PolicyGradientOptions()
    """Of the method `policy_gradient`, which takes the attempts as one batch."""
    credit: CreditConfig = CreditConfig()
    """Of the method `policy_gradient`, for rows without advantages."""
    checkpoint_every: Count = 50
    """Steps between checkpoints; what a killed training does again."""
    tensorboard: bool = False
    """Whether TensorBoard's files are written beside the models; needs the package `tensorboard`."""

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        require_name(self.name)
        if not self.runs and not self.rows:
            raise UserError("nothing to learn from: name runs, or files of rows")
        if self.model.path is None:
            raise UserError("training on what is recorded needs the model that is to learn: name model.path")


def require_name(name: str) -> None:
    """Raises `UserError` where a recipe's name cannot be a run's and a folder's."""
    if not _NAME.fullmatch(name):
        raise UserError(f"name is {name!r}: up to 60 letters, digits, - and _, the first a letter or a digit")


def place_of(recipe: ImproveRecipe | TrainRecipe) -> Path:
    """The folder of a recipe's models."""
    name = f"{recipe.name}-{recipe.seed}" if isinstance(recipe, ImproveRecipe) else recipe.name
    return Path(recipe.folder) / name
