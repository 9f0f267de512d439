"""The improvement loop: demonstrate, attempt, verify, assign credit, train, evaluate on held-out tasks, gate.

All attempts are ordinary runs: same store, same records, same verification. A step reads its rows from the store after
verifying the hash chains, and its metrics are recorded in a run of the training.

Invariant: a recipe that is killed and resumed ends with the same weights. Every random draw follows from the seed and
the step number; finished attempts are not repeated; and the gradient does not depend on how requests were batched.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.agents.building import build_agent
from assay.errors import UserError
from assay.gateway.tokens import RenderedBackend
from assay.learning.credit.batch import CreditedRows, assign_credit
from assay.learning.rows import TrainingRow
from assay.rollout.config import RunConfig
from assay.rollout.limits.run_budget import estimate_use
from assay.rollout.run_inputs import interruptible
from assay.settings import Settings
from assay.statistics import Estimate, PairedComparison, compare_paired, count_undecided, estimate_pass_rate
from assay.store import AttemptRow, list_runs
from assay.tasks import LoadedTask, find_tasks

from .trainer.checkpoint import Checkpoints, TrainingProgress
from .trainer.improve_report import EvaluationPoint, ImproveReport, format_point
from .trainer.metrics import Metrics, OnProgress
from .trainer.optimise import Optimiser
from .trainer.policy import TrainedPolicy, make_model, require_torch
from .trainer.policy_gradient import drop_stale, measure_lag, update_policy
from .trainer.recipe import ImproveRecipe, model_folder
from .trainer.rollouts import (
    RecipeBudget,
    TaskSelection,
    complete_run,
    count_outcomes,
    filter_rows,
    meets_requirement,
    read_texts,
    read_training_rows,
    require_moving,
    tasks_of_step,
)
from .trainer.sft import train_sft
from .trainer.step_figures import count_mixed_groups, success_interval, success_share
from .trainer.step_rollouts import ServiceRollouts, StepAttempts, StepRollouts, count_lost, seed_of_step

if TYPE_CHECKING:
    from assay.rollout.cluster.node_session import PlacedRunOptions

    from .trainer.attempts_on_nodes import PlacedAttempts

_SFT, _RL = "sft", "policy_gradient"
_STEP, _EVALUATION = "step", "evaluation"


async def improve(
    recipe: ImproveRecipe,
    settings: Settings,
    on_progress: OnProgress | None = None,
    nodes: PlacedRunOptions | None = None,
) -> ImproveReport:
    """Runs or resumes a recipe. With `nodes`, they make the attempts of steps and evaluations.

    Raises:
        UserError: The recipe cannot work, or is another one than the runs and checkpoints of its name were made by.
        TrainingStoppedError: Attempts hang or break one after the other, or replies keep coming from old weights.
        StoreError: A record or a checkpoint cannot be written or read.
    """
    require_torch()
    started = time.monotonic()
    async with AsyncExitStack() as opened:
        stack = opened.enter_context(ExitStack())
        improvement = _ImprovementRun(recipe, settings, on_progress or _ignore_progress, stack)
        improvement.require_usable()
        await improvement.open_nodes(nodes, opened)
        improvement.report_estimate()
        improvement.metrics.begin()
        await improvement.run_demonstrations()
        with interruptible():
            policy = improvement.open_policy()
            improvement.teach(policy)
        backend = policy.backend(improvement.model)
        try:
            await improvement.train_steps(policy, backend)
        finally:
            await backend.close()
        return improvement.report(policy, time.monotonic() - started)


class _ImprovementRun:
    """A running recipe; its methods are its phases, in order."""

    def __init__(self, recipe: ImproveRecipe, settings: Settings, on_progress: OnProgress, stack: ExitStack) -> None:
        self.recipe = recipe
        self.settings = settings
        self.on_progress = on_progress
        self.folder = model_folder(recipe)
        self.name = f"{recipe.name}-{recipe.seed}"
        self.checkpoints = Checkpoints(self.folder / "checkpoints")
        self.held_out = TaskSelection(recipe.evaluate.tasks, find_tasks(recipe.evaluate.tasks))
        board = self.folder / "tensorboard" if recipe.tensorboard else None
        # A larger budget continues a recipe, so it is no part of the recipe's identity.
        # Nor is the place where its attempts are made.
        rollout = msgspec.structs.replace(recipe.rollout, service=None)
        plain = msgspec.to_builtins(msgspec.structs.replace(recipe, budget_calls=None, rollout=rollout))
        self.budget = RecipeBudget(self.name, recipe.budget_calls)
        self.model = f"local:{recipe.name}"
        self._is_estimated = False
        self._given_policy: TrainedPolicy | None = None
        self._policy: TrainedPolicy | None = None
        """The policy whose attempts nodes make."""
        self._placed: PlacedAttempts | None = None
        self.metrics = stack.enter_context(
            Metrics(settings.store, f"{self.name}-training", plain, seed=recipe.seed, tensorboard=board)
        )
        self.history: list[str] = []
        """Weight versions by completed steps."""
        self.curve: list[EvaluationPoint] = []
        self._answered_versions: list[str] = []
        """Newest version behind each step's replies."""

    def require_usable(self) -> None:
        """Raises `UserError` for a recipe that cannot work, before anything is recorded."""
        recipe = self.recipe
        self._require_apart(find_tasks(recipe.teach.tasks) if recipe.teach.tasks else ())
        if recipe.steps:
            self.tasks_of(1)
        if recipe.model.path is not None:
            self._given_policy = self.open_policy()

    async def open_nodes(self, nodes: PlacedRunOptions | None, stack: AsyncExitStack) -> None:
        """Opens the place through which nodes make the attempts. Raises as `open_placed_attempts`."""
        if nodes is not None:
            from .trainer.attempts_on_nodes import open_placed_attempts  # late: one machine needs no cluster

            opening = open_placed_attempts(self.recipe, self.settings, nodes, self.on_progress)
            self._placed = await stack.enter_async_context(opening)

    def report_estimate(self) -> None:
        """Reports the calls so far and those of the attempts to come, by earlier attempts of the same agent."""
        recipe, root = self.recipe, self.settings.store
        existing = set(list_runs(root))
        steps = [step for step in range(1, recipe.steps + 1) if self._run_of(_STEP, step) not in existing]
        evaluated = [step for step in range(recipe.steps + 1) if recipe.is_evaluated(step)]
        evaluations = [step for step in evaluated if self._run_of(_EVALUATION, step) not in existing]
        left = 0 if recipe.rollout.service else len(steps) * recipe.rollout.groups * recipe.rollout.attempts
        left += len(evaluations) * len(self.held_out.loaded) * recipe.evaluate.attempts
        agent = build_agent(recipe.rollout.agent, recipe.rollout.agent_options, model=self.model)
        estimate = estimate_use(root, agent.name, self.model, left)
        self._is_estimated = estimate.earlier > 0
        self.on_progress(f"{self.budget.describe(root)} so far; {estimate.sentence()}")

    async def run_demonstrations(self) -> None:
        """Runs the demonstrations."""
        teach = self.recipe.teach
        if not teach.tasks:
            return
        await complete_run(
            RunConfig(
                tasks=teach.tasks,
                agent=teach.agent,
                agent_options=teach.agent_options,
                attempts=teach.attempts,
                concurrency=self.recipe.rollout.concurrency,
                seed=self.recipe.seed,
                run=f"{self.name}-demonstrations",
            ),
            self.settings,
        )

    def open_policy(self) -> TrainedPolicy:
        """Opens the configured model, or creates one with a tokenizer trained on the demonstrations."""
        options = self.recipe.model
        if self._given_policy is not None:
            return self._given_policy
        if options.path is not None:
            return TrainedPolicy.open(Path(options.path), options)
        folder = self.folder / "made"
        if not (folder / "model.safetensors").is_file():
            texts = read_texts(self.settings, f"{self.name}-demonstrations", self.recipe, folder.with_name("letters"))
            make_model(folder, texts, options, self.recipe.seed)
        return TrainedPolicy.open(folder, options)

    def teach(self, policy: TrainedPolicy) -> None:
        """Fine-tunes on the demonstrations."""
        teach = self.recipe.teach
        self.use_threads()
        if teach.tasks and teach.sft.steps:
            optimiser = Optimiser(policy.model, teach.sft.optimise, teach.sft.steps)
            known = self.checkpoints.newest(_SFT)
            if known is not None:
                self.checkpoints.load(policy, optimiser, known)
            if optimiser.steps_taken < teach.sft.steps:
                rows = read_training_rows(
                    self.settings,
                    f"{self.name}-demonstrations",
                    policy,
                    rendered=True,
                    system=self.recipe.rollout.agent_options.get("system"),
                )
                rows = [row for row in rows if meets_requirement(row, self.recipe.rollout.require)]
                train_sft(policy, filter_rows(rows, teach.keep), teach.sft, seed=self.recipe.seed, optimiser=optimiser,
                          done=lambda step, data: self._record_teaching(policy, optimiser, step, data))  # fmt: skip
        self.history = [policy.version]

    def _record_teaching(
        self, policy: TrainedPolicy, optimiser: Optimiser, step: int, measured: dict[str, float]
    ) -> None:
        steps = self.recipe.teach.sft.steps
        last = step == steps
        if step % 20 == 0 or last:
            self.metrics.add(f"{_SFT} {step}", measured)
        if step == 1 or step % 20 == 0 or last:
            self.on_progress(f"teaching {step} of {steps}: loss {measured['loss']:.3f}")
        if last or step % 40 == 0:
            self.checkpoints.write(policy, optimiser, TrainingProgress(stage=_SFT, step=step, version=policy.version))

    async def train_steps(self, policy: TrainedPolicy, backend: RenderedBackend) -> None:
        """Evaluates, and runs the remaining steps."""
        recipe = self.recipe
        options = recipe.policy_gradient
        reference = copy.deepcopy(policy.model) if options.reference_pull else None
        steps = recipe.steps * options.epochs * options.minibatches
        optimiser = Optimiser(policy.model, options.optimise, steps)
        self._policy = policy
        done, rollouts = self._resume(policy, optimiser, backend)
        await rollouts.publish(done, policy)
        for step in range(recipe.steps + 1):
            if step > done:
                await self.step(step, policy, rollouts, optimiser, reference)
                await rollouts.publish(step, policy)
            if recipe.is_evaluated(step):
                if step >= done and recipe.rollout.service is not None:
                    await _load_weights(policy, backend)
                await self.evaluate(step, backend if step >= done else None)
            if step == 0 and recipe.steps and not self._is_estimated:
                self.report_estimate()

    def _resume(
        self, policy: TrainedPolicy, optimiser: Optimiser, backend: RenderedBackend
    ) -> tuple[int, StepRollouts]:
        """Loads the newest checkpoint; returns the number of completed steps, and where attempts come from."""
        known = self.checkpoints.newest(_RL)
        if known is not None:
            self.checkpoints.load(policy, optimiser, known)
            self.history = list(known.told["history"])
            self._answered_versions = list(known.told["answered"])
            self.on_progress(f"going on after step {known.step}")
        rollouts: StepRollouts = _OwnRollouts(self, policy, backend)
        if self.recipe.rollout.service is not None:
            state = None if known is None else known.told.get("rollouts")
            rollouts = ServiceRollouts(self.recipe, self.name, self.tasks_of, state)
        return (0 if known is None else known.step), rollouts

    async def step(
        self, step: int, policy: TrainedPolicy, rollouts: StepRollouts, optimiser: Optimiser, reference: Any
    ) -> None:
        """Takes attempts, assigns credit, and trains once."""
        started = time.monotonic()
        run, rows, counts = await rollouts.attempt(step)
        tried = time.monotonic() - started
        with interruptible():
            measured, credited = self._train(policy, rows, counts, optimiser, reference)
        measured |= {
            **counts,
            "success": success_share(credited.rows),
            **success_interval(credited.rows),
            "mixed_groups": count_mixed_groups(credited.rows),
            "masked": dict(credited.credit.reasons),
            "rollout": run,
            "version": policy.version,
            "seconds_rollout": round(tried, 3),
            "seconds_training": round(time.monotonic() - started - tried, 3),
        }
        state = {"history": self.history, "answered": self._answered_versions, "rollouts": rollouts.state()}
        self._record_step(policy, optimiser, step, measured, state)

    def _train(
        self,
        policy: TrainedPolicy,
        rows: Sequence[TrainingRow],
        counts: dict[str, Any],
        optimiser: Optimiser,
        reference: Any,
    ) -> tuple[dict[str, Any], CreditedRows]:
        """Assigns credit and updates the policy once."""
        rows = self.select_rows(rows, counts)
        credited = assign_credit(rows, self.recipe.credit)
        self.use_threads()
        measured: dict[str, Any] = dict(measure_lag(credited.rows, self.history))
        if credited.rows:
            measured |= update_policy(
                policy,
                optimiser,
                credited.rows,
                self.recipe.policy_gradient,
                reference=reference,
                seed=self.recipe.seed,
            )
        self.history.append(policy.version)
        return measured, credited

    def _record_step(
        self, policy: TrainedPolicy, optimiser: Optimiser, step: int, measured: dict[str, Any], state: dict[str, Any]
    ) -> None:
        self.metrics.add(f"{_RL} {step}", measured)
        if step % self.recipe.checkpoint_every == 0 or step == self.recipe.steps:
            progress = TrainingProgress(stage=_RL, step=step, version=policy.version, told=state)
            self.checkpoints.write(policy, optimiser, progress)
        self.on_progress(
            f"step {step}: success {measured['success']:.3f}, mixed groups {measured['mixed_groups']}, "
            f"log-probability gap {measured.get('gap_most', 0.0):.1e}, "
            f"{measured['seconds_rollout']:.1f} s tried, {measured['seconds_training']:.1f} s trained; "
            f"{self.budget.describe(self.settings.store)}"
        )

    def tasks_of(self, step: int) -> TaskSelection:
        """Returns the tasks of a step. Raises `UserError` where one is held out."""
        rollout = self.recipe.rollout
        tasks = tasks_of_step(rollout.tasks, rollout.groups, step, self.recipe.seed)
        self._require_apart(tasks.loaded)
        return tasks

    async def run_attempts(self, step: int, policy: TrainedPolicy, backend: RenderedBackend) -> StepAttempts:
        """Runs the attempts of one step here; returns them with their counts."""
        rollout, run = self.recipe.rollout, self._run_of(_STEP, step)
        ended = await self._run(run, self.tasks_of(step), rollout.attempts, step, backend)
        counts = count_lost(ended, run, rollout.most_lost_in_a_row)
        secret: list[str] = []
        rows = read_training_rows(
            self.settings,
            run,
            policy,
            roles=self.recipe.policy_gradient.observation_weight > 0,
            on_left_out=lambda attempt, what, _: secret.append(attempt) if what == "secret" else None,
        )
        if secret:
            counts["dropped"]["holds a secret"] = len(secret)
        return StepAttempts(run, rows, counts)

    def select_rows(self, rows: Sequence[TrainingRow], counts: dict[str, Any]) -> list[TrainingRow]:
        """Returns the rows of a step to train on; adds dropped attempts and reasons to `counts`."""
        recipe = self.recipe
        hung = {row.chain for row in rows if row.broke is not None or row.stopped == "wall_s"}
        rows = filter_rows(
            [row for row in rows if row.chain not in hung and meets_requirement(row, recipe.rollout.require)],
            recipe.rollout.keep,
        )
        newest = max((version for row in rows for version in row.weight_versions), default="", key=self._history_index)
        if newest:
            self._answered_versions.append(newest)
            require_moving(self._answered_versions, self.history)
        found, stale = drop_stale(rows, self.history, recipe.policy_gradient.most_lag)
        for reason, number in stale.items():
            counts["dropped"][reason] = counts["dropped"].get(reason, 0) + number
        return found

    def _history_index(self, version: str) -> int:
        return self.history.index(version) if version in self.history else -1

    async def evaluate(self, step: int, backend: RenderedBackend | None) -> None:
        """Evaluates the held-out tasks; without a backend only reads the stored result."""
        run = self._run_of(_EVALUATION, step)
        # Every evaluation has the same seeds, so that two differ by their weights alone.
        await self._run(run, self.held_out, self.recipe.evaluate.attempts, -1, backend)
        estimate = estimate_pass_rate(count_outcomes(self.settings, run))
        point = EvaluationPoint(step, estimate.value, estimate.low, estimate.high, estimate.n, run)
        self.curve.append(point)
        self.metrics.add(f"evaluation {step}", msgspec.to_builtins(point))
        self.on_progress(f"held-out success after step {step}: {format_point(point)}")

    async def _run(
        self, run: str, tasks: TaskSelection, attempts: int, step: int, backend: RenderedBackend | None
    ) -> list[AttemptRow]:
        rollout = self.recipe.rollout
        if backend is not None:
            _one_thread()
        config = RunConfig(
            tasks=tasks.names,
            agent=rollout.agent,
            agent_options=rollout.agent_options,
            model=self.model,
            attempts=attempts,
            concurrency=rollout.concurrency,
            model_concurrency=rollout.concurrency,
            limits=rollout.limits,
            seed=seed_of_step(self.recipe, step),
            run=run,
        )
        if self._placed is not None and self._policy is not None and backend is not None:
            await self._placed.complete(config, tasks, self._policy)
        return await complete_run(config, self.settings, backend, tasks.loaded, budget=self.budget)

    def _run_of(self, kind: str, step: int) -> str:
        """Returns the name of a step's run, as `RecipeBudget` finds it again."""
        return f"{self.name}-{kind}-{step:04d}"

    def report(self, policy: TrainedPolicy, seconds: float) -> ImproveReport:
        """Returns the report with the gate's decision."""
        before, after = self.curve[0], self.curve[-1]
        difference = self._compared(before, after).difference
        accepted, why = self._gate(after, difference)
        found = ImproveReport(
            name=self.recipe.name,
            seed=self.recipe.seed,
            before=before,
            after=after,
            difference=difference,
            curve=tuple(self.curve),
            accepted=accepted,
            why=why,
            model=str(self.checkpoints.path(_RL if self.recipe.steps else _SFT, self._last_step())),
            version=policy.version,
            attempts=self.recipe.steps * self.recipe.rollout.groups * self.recipe.rollout.attempts,
            seconds=round(seconds, 3),
        )
        self.metrics.add("report", {k: v for k, v in msgspec.to_builtins(found).items() if k != "seconds"})
        self.metrics.end("accepted" if accepted else f"not accepted: {why}")
        (self.folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(found)))
        return found

    def _last_step(self) -> int:
        return self.recipe.steps or self.recipe.teach.sft.steps

    def _compared(self, before: EvaluationPoint, after: EvaluationPoint) -> PairedComparison:
        counts = [count_outcomes(self.settings, one.run) for one in (before, after)]
        return compare_paired(count_undecided(counts[0], "passed"), count_undecided(counts[1], "failed"))

    def _gate(self, after: EvaluationPoint, difference: Estimate) -> tuple[bool, str]:
        gate = self.recipe.gate
        if after.success is None or after.success < gate.least:
            return False, f"held-out success is {format_point(after)}, and the gate asks for {gate.least:g}"
        if gate.better and (difference.low is None or difference.low <= 0):
            return False, "it is not shown to be better than before: the interval of the difference holds 0"
        return True, f"held-out success is {format_point(after)}"

    def _require_apart(self, tasks: Sequence[LoadedTask]) -> None:
        """Raises `UserError` where a task is both trained on and held out."""
        known = {loaded.task.digest for loaded in self.held_out.loaded}
        both = [loaded.task.id for loaded in tasks if loaded.task.digest in known]
        if both:
            raise UserError(
                f"task {both[0]!r} is trained on and held out: take parts that share nothing, "
                "for example part=train and part=test of a family"
            )

    def use_threads(self) -> None:
        """Sets the recipe's number of training threads."""
        import torch

        if self.recipe.model.threads:
            torch.set_num_threads(self.recipe.model.threads)


class _OwnRollouts:
    """Attempts by runs of this process. Implements `StepRollouts`."""

    def __init__(self, improvement: _ImprovementRun, policy: TrainedPolicy, backend: RenderedBackend) -> None:
        self._improvement, self._policy, self._backend = improvement, policy, backend

    async def publish(self, step: int, policy: TrainedPolicy) -> None:
        await _load_weights(policy, self._backend)

    async def attempt(self, step: int) -> StepAttempts:
        return await self._improvement.run_attempts(step, self._policy, self._backend)

    def state(self) -> dict[str, Any]:
        return {}


async def _load_weights(policy: TrainedPolicy, backend: RenderedBackend) -> None:
    """Loads a copy of the trained weights into an engine."""
    load = getattr(backend.tokens, "load", None)
    if load is not None:
        await load(policy.weights(), policy.version)


def _one_thread() -> None:
    """Limits PyTorch to one thread: generation of a small model is slower with more."""
    import torch

    torch.set_num_threads(1)


def _ignore_progress(_: str) -> None:
    """Ignores progress."""
