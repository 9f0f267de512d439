"""Recipes of `assay train` and `assay improve`, as TOML files.

Each field is documented by the string under it; `docs/reference/recipes.md` comes from there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from assay.errors import UserError
from assay.learning.credit.compose import CreditConfig, require_usable
from assay.learning.rows_config import TurnRewards
from assay.records import Limits, Separation

from .options import Count, DpoOptions, Keep, ModelOptions, PolicyGradientOptions, SftOptions

_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,59}", re.ASCII)
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class DemonstrationOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Demonstrations, and supervised fine-tuning on them, before anything else."""

    tasks: tuple[str, ...] = ()
    """Demonstrated tasks; none leaves the model unchanged."""
    agent: str = "expert"
    """Demonstrating agent."""
    agent_options: dict[str, Any] = {}
    """Its options."""
    attempts: Count = 1
    """Demonstrations per task."""
    keep: Keep = "all"
    """Demonstrations to train on."""
    sft: SftOptions = SftOptions()
    """Options of the fine-tuning."""


class ServiceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rollout service (`assay serve`) that makes the attempts while the training goes on. How far they may lag behind
    is `policy_gradient.most_lag`; with 0 the weights are those of a training without a service."""

    url: str
    """Its address."""
    token_file: str
    """File with its token."""
    policy: str
    """Name of its policy, which it serves as `local:WEIGHTS/{version}`, or whose engine loads from that folder. For the
    same attempts as without a service, with `temperature=1&top_p=1&top_k=0&min_p=0`, and `dtype=float64` where
    `model.sampler_dtype` samples so."""
    weights: str
    """Folder that both see; each version is written to a sub-folder, and the last two are kept."""
    certificate: str | None = None
    """PEM file with the only certificate that is accepted; unset accepts those of the system's authorities."""
    patience_s: Annotated[float, msgspec.Meta(gt=0)] = 600.0
    """Seconds for which a service that does not answer is asked again."""


class RolloutOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Attempts of each step, and which of them are trained on."""

    tasks: tuple[str, ...]
    """Task sources: families without `n` and `seed` give new tasks in each step; other tasks are used in turn."""
    agent: str = "loop"
    """Acting agent, which must call the model."""
    agent_options: dict[str, Any] = {}
    """Its options."""
    groups: Count = 16
    """Tasks per step."""
    attempts: Count = 8
    """Attempts per task."""
    concurrency: Count = 128
    """Concurrent attempts."""
    keep: Keep = "all"
    """Attempts that get credit; `all` leaves the masking of unjudged attempts to the credit method."""
    require: Separation = "unknown"
    """Weakest grade of separation of a trained pass (`separate` accepts `no-agent-code` too)."""
    limits: Limits = Limits(wall_s=120)
    """Limits of each attempt. An attempt stopped by `wall_s` counts as hung and is dropped."""
    most_lost_in_a_row: Count = 10
    """Number of consecutive hung or broken attempts that stops the training."""
    service: ServiceOptions | None = None
    """The rollout service that makes the attempts; unset makes them here, between the steps."""


class EvaluationOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Held-out tasks and evaluation schedule."""

    tasks: tuple[str, ...]
    """Tasks never trained on; a task in both sets is an error."""
    attempts: Count = 1
    """Attempts per task."""
    every: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Steps between evaluations; 0 evaluates before and after only."""


class GateOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Acceptance criteria of the improved model."""

    least: Share = 0.0
    """Minimum success on held-out tasks."""
    better: bool = True
    """Requires an improvement, with a confidence interval of the difference that excludes 0."""


class ImproveRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Improves a model: demonstrate, attempt, verify, assign credit, train, evaluate, gate."""

    name: str
    """Prefix of the run names and of the folder."""
    seed: int = 0
    """Seed of all randomness."""
    folder: str = "trained"
    """Output folder; models are in a sub-folder of the recipe's name and seed."""
    model: ModelOptions = ModelOptions()
    """The model."""
    teach: DemonstrationOptions = DemonstrationOptions()
    """Demonstrations."""
    steps: Annotated[int, msgspec.Meta(ge=0)] = 20
    """Training steps."""
    rollout: RolloutOptions
    """Attempts of each step."""
    credit: CreditConfig = CreditConfig()
    """Credit assignment; see the page about credit."""
    policy_gradient: PolicyGradientOptions = PolicyGradientOptions()
    """Policy gradient options."""
    evaluate: EvaluationOptions
    """Evaluation."""
    gate: GateOptions = GateOptions()
    """Acceptance criteria."""
    budget_calls: Count | None = None
    """Budget of model calls over all runs of the recipe; repeat the command with a larger one to go on."""
    checkpoint_every: Count = 1
    """Steps between checkpoints; what a killed training does again."""
    tensorboard: bool = False
    """Writes TensorBoard files; needs the package `tensorboard`."""

    def __post_init__(self) -> None:
        """Rejects invalid combinations."""
        require_name(self.name)
        if self.model.path is None and not self.teach.tasks:
            raise UserError("a newly made model is untrained: name demonstrations in teach.tasks, or model.path")
        if not self.rollout.tasks or not self.evaluate.tasks:
            raise UserError("rollout.tasks and evaluate.tasks must each name at least one task or family")
        require_usable(self.credit)
        if self.rollout.service is not None:
            self._require_serviceable()

    def is_evaluated(self, step: int) -> bool:
        """Returns whether the held-out tasks are evaluated after so many steps."""
        every = self.evaluate.every
        return step in (0, self.steps) or (every > 0 and step % every == 0)

    def _require_serviceable(self) -> None:
        """Raises `UserError` for what a training with a rollout service cannot have."""
        if self.budget_calls is not None:
            raise UserError("budget_calls does not count the calls of rollout.service: leave it out")
        if self.checkpoint_every != 1:
            raise UserError("with rollout.service a step is acknowledged by its checkpoint: set checkpoint_every = 1")
        if not all(is_open_family(source) for source in self.rollout.tasks):
            raise UserError("rollout.service takes families without n and seed as rollout.tasks")


class TrainRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Trains on stored attempts."""

    name: str
    """Name of the metrics run and of the folder."""
    method: Literal["sft", "dpo", "policy_gradient"]
    """Training method."""
    runs: tuple[str, ...] = ()
    """Runs to train on."""
    selected: tuple[str, ...] = ()
    """Folders that `assay curate` made: trains on the attempts that were selected there, as the store has them."""
    rows: tuple[str, ...] = ()
    """Parquet files of training rows, as `assay export --to rows` and `assay curate` write them."""
    lessons: tuple[str, ...] = ()
    """Folders that `assay curate` made with `--recover` or `--reattempt`: `sft` trains on their lessons, `dpo` on their
    pairs."""
    held_out: tuple[str, ...] = ()
    """Held-out tasks, as folders or families: the training is refused if an attempt or a row is at one of them."""
    allow_task_code: bool = False
    """Allow recorded tasks to name Python code as environment (`module:Class`, `file.py:Class`), which runs in this
    process: attempts without a model are rendered with the tools of their world."""
    with_secrets: bool = False
    """Also trains on attempts, rows and lessons that hold a known credential or key-shaped text; by default they are
    left out and listed."""
    align: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    """Number of rows of each attempt of `runs` and `selected`: surplus rows of actors or sub-agents are dropped at
    random, missing ones filled with copies that train nothing; 0 keeps the rows as they are."""
    turn_rewards: TurnRewards = "world"
    """Rewards of single turns in `runs` and `selected`, as `assay export --turn-rewards`."""
    keep: Keep = "all"
    """Attempts to train on. `dpo` pairs passed and failed attempts, with undoubted passes only unless `passed`."""
    require: Separation = "unknown"
    """Weakest grade of separation of a trained pass (`separate` accepts `no-agent-code` too)."""
    model: ModelOptions
    """The model; its `path` is required."""
    system: str | None = None
    """System prompt of rendered attempts; unset is that of the agent `loop`, empty omits it."""
    seed: int = 0
    """Seed of the order of attempts."""
    folder: str = "trained"
    """Output folder; models are in a sub-folder of the recipe's name."""
    sft: SftOptions = SftOptions()
    """Options of the method `sft`."""
    dpo: DpoOptions = DpoOptions()
    """Options of the method `dpo`."""
    policy_gradient: PolicyGradientOptions = PolicyGradientOptions()
    """Options of the method `policy_gradient`, which uses all attempts as one batch."""
    credit: CreditConfig = CreditConfig()
    """Credit assignment of the method `policy_gradient`, for rows without advantages."""
    checkpoint_every: Count = 50
    """Steps between checkpoints; what a killed training does again."""
    tensorboard: bool = False
    """Writes TensorBoard files; needs the package `tensorboard`."""

    def __post_init__(self) -> None:
        """Rejects invalid combinations."""
        require_name(self.name)
        if not self.runs and not self.selected and not self.rows and not self.lessons:
            raise UserError("nothing to learn from: name runs, selections, files of rows, or folders of lessons")
        if self.lessons and self.method == "policy_gradient":
            raise UserError("lessons were not sampled from the model, so they have no policy gradient: use sft or dpo")
        if self.model.path is None:
            raise UserError("training on what is recorded needs the model that is to learn: name model.path")
        require_usable(self.credit)


def is_open_family(source: str) -> bool:
    """Returns whether a source is a family without `n` and `seed`, which gives new tasks in each step."""
    return source.startswith("family:") and ",n=" not in source and ",seed=" not in source


def require_name(name: str) -> None:
    """Raises `UserError` for a recipe name that is not a valid run and folder name."""
    if not _NAME.fullmatch(name):
        raise UserError(f"name is {name!r}: up to 60 letters, digits, - and _, the first a letter or a digit")


def model_folder(recipe: ImproveRecipe | TrainRecipe) -> Path:
    """Returns the folder of a recipe's models."""
    name = f"{recipe.name}-{recipe.seed}" if isinstance(recipe, ImproveRecipe) else recipe.name
    return Path(recipe.folder) / name
