"""Training on stored attempts: supervised, by preference, or by policy gradient, without new attempts."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import RunNotFoundError, UserError
from assay.learning.credit.batch import assign_credit
from assay.learning.curation.lessons import read_lessons, read_pairs
from assay.learning.held_out import find_held_out
from assay.learning.reading import STEERED_TOKENS, is_steered, rows_of_run, tokenizer_digest
from assay.learning.row_files import read_rows
from assay.learning.rows import TrainingRow
from assay.learning.rows_config import RowsConfig
from assay.learning.selected import read_selected
from assay.rollout.exchange.secret_check import SecretCheck
from assay.settings import Settings
from assay.store import list_runs
from assay.store.layout import unknown_run

from .trainer.checkpoint import Checkpoints, TrainingProgress
from .trainer.dpo import find_token_pairs, score_pairs, train_dpo
from .trainer.metrics import Metrics, OnProgress
from .trainer.optimise import Optimiser
from .trainer.policy import TrainedPolicy, require_torch
from .trainer.policy_gradient import measure_lag, update_policy
from .trainer.recipe import TrainRecipe, model_folder
from .trainer.rollouts import filter_rows, meets_requirement
from .trainer.sft import train_sft


class TrainReport(msgspec.Struct, frozen=True):
    """Result of a training."""

    name: str
    method: str
    rows: int
    """Number of attempts trained on."""
    attempts: int
    steps: int
    first: dict[str, float]
    """Metrics of the first step; of a resumed training the first of this call."""
    last: dict[str, float]
    """Metrics of the last step."""
    model: str
    """Folder of the last checkpoint."""
    version: str
    seconds: float
    """Duration of this call."""
    secret: tuple[str, ...] = ()
    """Attempts that were left out because they, or rows or lessons of them, hold a secret."""


def train(recipe: TrainRecipe, settings: Settings, on_progress: OnProgress | None = None) -> TrainReport:
    """Runs or resumes a recipe; blocks.

    Raises:
        UserError: The recipe cannot work, there is nothing to learn from, or what there is must not be.
        StoreError: A run is damaged, or a record or checkpoint cannot be written or read.
    """
    require_torch()
    board = model_folder(recipe) / "tensorboard" if recipe.tensorboard else None
    plain = msgspec.to_builtins(recipe)
    with Metrics(settings.store, f"{recipe.name}-training", plain, seed=recipe.seed, tensorboard=board) as metrics:
        return _Training(recipe, settings, metrics, on_progress or _ignore_progress).run()


class _Training:
    def __init__(self, recipe: TrainRecipe, settings: Settings, metrics: Metrics, on_progress: OnProgress) -> None:
        self.recipe = recipe
        self.settings = settings
        self.metrics = metrics
        self.on_progress = on_progress
        self.checkpoints = Checkpoints(model_folder(recipe) / "checkpoints")
        self.measured: list[dict[str, float]] = []
        self.secret: set[str] = set()
        """Attempts left out because they hold a secret."""
        self.policy = TrainedPolicy.open(Path(recipe.model.path or ""), recipe.model)
        if recipe.model.threads:
            import torch

            torch.set_num_threads(recipe.model.threads)

    def run(self) -> TrainReport:
        """Reads, trains, reports."""
        started = time.monotonic()
        rows = self.rows()
        {"sft": self.sft, "dpo": self.dpo, "policy_gradient": self.policy_gradient}[self.recipe.method](rows)
        last = self.checkpoints.newest(self.recipe.method)
        found = TrainReport(
            name=self.recipe.name,
            method=self.recipe.method,
            rows=len(rows),
            attempts=len({(row.run, row.chain) for row in rows}),
            steps=last.step if last else 0,
            first=self.measured[0] if self.measured else {},
            last=self.measured[-1] if self.measured else {},
            model=str(self.checkpoints.path(self.recipe.method, last.step)) if last else self.recipe.model.path or "",
            version=self.policy.version,
            seconds=round(time.monotonic() - started, 3),
            secret=tuple(sorted(self.secret)),
        )
        self.metrics.end(f"trained to {found.version}")
        return found

    def rows(self) -> list[TrainingRow]:
        """Returns the training rows. Attempts without tokens are rendered, except for the policy gradient."""
        recipe, options = self.recipe, self.recipe.model
        self._require_runs()
        rendered = recipe.method != "policy_gradient"
        config = RowsConfig(
            model=options.path,
            renderer=options.renderer,
            thinking=options.thinking,
            rendered=rendered,
            system=recipe.system,
            held_out=recipe.held_out,
            with_secrets=recipe.with_secrets,
            allow_task_code=recipe.allow_task_code,
            align=recipe.align,
            turn_rewards=recipe.turn_rewards,
        )
        found = self._rows_of_runs(recipe.runs, config)
        others = [run for run in read_selected(recipe.selected) if run not in recipe.runs]
        found += self._rows_of_runs(others, msgspec.structs.replace(config, selected=recipe.selected))
        in_files = [*self._lesson_rows(), *(row for path in recipe.rows for row in read_rows(Path(path)))]
        find_held_out(recipe.held_out).require_rows_apart(in_files)
        self._require_its_tokens([*found, *in_files])
        found += in_files if recipe.with_secrets else self._without_secrets(in_files)
        if self.secret:
            named = ", ".join(sorted(self.secret)[:5])
            self.on_progress(f"left out, because a secret is in it: {len(self.secret)} attempts ({named})")
        found = [row for row in found if meets_requirement(row, recipe.require)]
        return found if recipe.method == "dpo" else filter_rows(found, recipe.keep)

    def _require_runs(self) -> None:
        """Raises `RunNotFoundError` if the store lacks a run of the recipe. Warns of runs with steered tokens."""
        known, root = list_runs(self.settings.store), self.settings.store
        missing = next((run for run in self.recipe.runs if run not in known), None)
        if missing is not None:
            raise RunNotFoundError(f"runs of the recipe: {unknown_run(root, missing)}")
        if self.recipe.method == "policy_gradient":
            steered = [run for run in self.recipe.runs if is_steered(root, run)]
            if steered:
                self.on_progress(f"warning: {', '.join(steered)}: {STEERED_TOKENS}")

    def _rows_of_runs(self, runs: Sequence[str], config: RowsConfig) -> list[TrainingRow]:
        def on_left_out(attempt: str, what: str, _: str) -> None:
            if what == "secret":
                self.secret.add(attempt)

        return [row for run in runs for row in rows_of_run(self.settings, run, config, on_left_out)]

    def _without_secrets(self, rows: Sequence[TrainingRow]) -> list[TrainingRow]:
        """Returns the rows whose text holds no secret. Rows of files name no run that is in this store, so only the
        credentials of this process and key-shaped text are known."""
        check, text = SecretCheck([], self.settings), self.policy.renderer.text
        held = [bool(check.names(text(row.token_ids.tolist()))) for row in rows]
        self.secret |= {row.attempt for row, found in zip(rows, held, strict=True) if found}
        return [row for row, found in zip(rows, held, strict=True) if not found]

    def _lesson_rows(self) -> Iterator[TrainingRow]:
        read = read_pairs if self.recipe.method == "dpo" else read_lessons
        for folder in self.recipe.lessons:
            yield from read(Path(folder), self.policy.renderer, tokenizer_digest(self.policy.folder))

    def _require_its_tokens(self, rows: Sequence[TrainingRow]) -> None:
        """Raises `UserError` if rows use another tokenizer."""
        ours = tokenizer_digest(Path(self.recipe.model.path or ""))
        other = next((row for row in rows if row.tokenizer not in (None, ours)), None)
        if other is not None:
            raise UserError(
                f"the rows of attempt {other.attempt!r} are of another tokenizer ({other.tokenizer}) than the model "
                f"({ours}): their ids would mean other texts"
            )

    def sft(self, rows: Sequence[TrainingRow]) -> None:
        options = self.recipe.sft
        optimiser = self._open_progress(Optimiser(self.policy.model, options.optimise, options.steps))
        done = self._step_callback(optimiser, options.steps)
        train_sft(self.policy, rows, options, seed=self.recipe.seed, optimiser=optimiser, done=done)

    def dpo(self, rows: Sequence[TrainingRow]) -> None:
        """Trains with DPO. The reference is the recipe's model, also after a resume."""
        options = self.recipe.dpo
        pairs = find_token_pairs(rows, verified=self.recipe.keep != "passed")
        scored = score_pairs(self.policy, pairs, options.optimise.tokens_at_once)
        self.on_progress(f"{len(pairs)} pairs")
        optimiser = self._open_progress(Optimiser(self.policy.model, options.optimise, options.steps))
        done = self._step_callback(optimiser, options.steps)
        train_dpo(self.policy, scored, options, seed=self.recipe.seed, optimiser=optimiser, done=done)

    def policy_gradient(self, rows: Sequence[TrainingRow]) -> None:
        """Trains on all rows as one batch; they must be sampled from the model's own weights."""
        recipe, options = self.recipe, self.recipe.policy_gradient
        steps = options.epochs * options.minibatches
        optimiser = self._open_progress(Optimiser(self.policy.model, options.optimise, steps))
        if optimiser.steps_taken >= steps:
            return
        credited = (
            assign_credit(rows, recipe.credit).rows if any(row.advantages is None for row in rows) else list(rows)
        )
        reference = copy.deepcopy(self.policy.model) if options.reference_pull else None
        if not credited:
            raise UserError("there is nothing to learn from: no attempt was judged")
        lag = measure_lag(credited, [self.policy.version])
        if lag.get("lag_unknown"):
            self.on_progress(
                f"warning: {lag['lag_unknown']:.0%} of the trained tokens were sampled by other weights than those of "
                "the model: the policy gradient is off policy"
            )
        measured = update_policy(self.policy, optimiser, credited, options, reference=reference, seed=recipe.seed)
        measured |= lag
        self._step_callback(optimiser, steps)(steps, measured)

    def _open_progress(self, optimiser: Optimiser) -> Optimiser:
        known = self.checkpoints.newest(self.recipe.method)
        if known is not None:
            self.checkpoints.load(self.policy, optimiser, known)
            self.on_progress(f"going on after step {known.step}")
        return optimiser

    def _step_callback(self, optimiser: Optimiser, steps: int) -> Callable[[int, dict[str, float]], None]:
        recipe = self.recipe

        def done(step: int, measured: dict[str, float]) -> None:
            self.measured.append(measured)
            self.metrics.add(f"{recipe.method} {step}", measured)
            if step % recipe.checkpoint_every == 0 or step == steps:
                progress = TrainingProgress(stage=recipe.method, step=step, version=self.policy.version)
                self.checkpoints.write(self.policy, optimiser, progress)
            if step == 1 or step % 20 == 0 or step == steps:
                self.on_progress(f"{recipe.method} {step}: loss {measured['loss']:.4f}")

        return done


def _ignore_progress(_: Any) -> None:
    """Ignores progress."""
