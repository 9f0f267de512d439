"""Reads training rows of a stored run after verifying its hash chains.

Invariant: no row comes out of a run in which anything that an event, a row or an addendum claims does not hold. What
is left out (attempts that are not decided, that know no tokens, spans without a certificate) is named to `on_left_out`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from assay.analysis.evidence_graph import coverage_gains
from assay.analysis.judged_path import judged_path
from assay.analysis.semi_online import is_on_recorded_pages
from assay.environments.worlds.opening import NeededFacts, needed_facts
from assay.errors import StoreError, UserError
from assay.gateway.backends import TemplateOptions, template_options
from assay.gateway.tokens import AttributingRenderer, UncertifiedSpan
from assay.gateway.tokens.library import open_renderer
from assay.records import Task, Trajectory, digest_bytes
from assay.rollout.exchange.exporting import merge_later_events
from assay.rollout.exchange.secret_check import SecretCheck
from assay.rollout.recording.task_archive import read_task_record
from assay.rollout.rejudge.recorded_task import RecordedTasks
from assay.settings import Settings
from assay.store import AttemptRow, RunStore, audit, chain_problems, final_rows, later_events
from assay.tasks.assay_config import NOT_DECLARED, declared_licence
from assay.verdicts import trust_of
from assay.verify.reverification import CannotRebuildError

from .aligned import align_rows
from .conversation import (
    SEVERAL_ACTORS,
    Opening,
    asked_model,
    build_opening,
    has_agent_output,
    lacks_conversation,
)
from .held_out import find_held_out
from .rendered import rendered_rows
from .rows import TrainingRow
from .rows_config import RowsConfig
from .sampled import sampled_rows
from .selected import read_selected
from .turn_facts import progress_gains, set_turn_rewards

OnLeftOut = Callable[[str, str, str], None]
"""Called with the attempt, the kind of data left out, and the reason."""


STEERED_TOKENS = (
    "a script chose the tokens of this run (steer=): use them to try out a pipeline; a policy gradient on them is off "
    "policy"
)
"""Warning about a run of which `is_steered` holds."""


def verified_outcome(trajectory: Trajectory) -> Literal["pass", "fail"] | None:
    """Returns the outcome of an attempt that may be learnt from: judged, not doubted, and made in the environment of
    its task. None for any other: in a semi-online replay the page after an act may be that of another act."""
    if is_on_recorded_pages(trajectory.started):
        return None
    match trust_of(trajectory).outcome_class:
        case "pass" | "fail" as outcome:
            return outcome
    return None


class TaskSource(NamedTuple):
    """Origin of an attempt's task, as its task folder states it."""

    source: str = "not stated"
    licence: str = NOT_DECLARED


def tokenizer_digest(folder: Path) -> str:
    """Returns the content digest of a checkpoint's tokenizer."""
    return digest_bytes((folder / "tokenizer.json").read_bytes())


def require_whole(root: Path, run: str) -> None:
    """Verifies the hash chains of a run. Raises `StoreError` naming the first defect."""
    problems = audit(root, run, blobs=False)
    if problems:
        shown = "; ".join(map(str, problems[:3]))
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise StoreError(f"run {run!r} is not what was recorded ({count}: {shown}); nothing is taken from it")


def require_whole_chains(store: RunStore, rows: Sequence[AttemptRow]) -> None:
    """Verifies the hash chains of some attempts of a run that is still written. Raises `StoreError` naming the first
    defect."""
    for row in rows:
        problem = next(chain_problems(store.run, store.links(row.chain), [row]), None)
        if problem is not None:
            raise StoreError(f"run {store.run!r} is not what was recorded ({problem}); nothing is taken from it")


def rows_of_run(
    settings: Settings, run: str, config: RowsConfig | None = None, on_left_out: OnLeftOut | None = None
) -> Iterator[TrainingRow]:
    """Yields the rows of every decided attempt of a run, by task and attempt.

    Raises:
        StoreError: The run is missing, damaged, or was changed.
        UserError: A span is not certified and `config.uncertified` is `refuse`; or the model cannot be opened.
    """
    with RunReader.open(settings, run, config or RowsConfig(), on_left_out) as reader:
        for trajectory in reader.trajectories():
            yield from reader.rows(trajectory)


class RunReader:
    """A verified run, as trajectories and rows. Opened with `RunReader.open`."""

    def __init__(
        self,
        store: RunStore,
        config: RowsConfig,
        settings: Settings,
        on_left_out: OnLeftOut,
        recorded_tasks: RecordedTasks,
    ) -> None:
        self._store = store
        self._config = config
        self.on_left_out = on_left_out
        self.judged_only = True
        """True if attempts with several tries are read without the tries that were not handed in."""
        self.manifest = store.manifest()
        self._tasks = recorded_tasks
        self._later_events = later_events(store.layout.root, store.run)
        self._held_out = find_held_out(config.held_out)
        self._selected = read_selected(config.selected).get(store.run, {}) if config.selected else None
        self._described: dict[str, Task | None] = {}
        self._facts: dict[str, NeededFacts] = {}
        self._check = SecretCheck([self.manifest], settings)
        self.renderer: AttributingRenderer | None = None
        self.tokenizer: str | None = None
        self.template = _recorded_template(self.manifest)
        """Template options in the name of the run's model."""
        if config.model is not None:
            folder, thinking = Path(config.model), config.thinking
            thinking = self.template.thinking if thinking is None else thinking
            self.renderer = open_renderer(folder, config.renderer or self.template.renderer, thinking=thinking)
            self.tokenizer = tokenizer_digest(folder)

    @classmethod
    @contextmanager
    def open(
        cls, settings: Settings, run: str, config: RowsConfig, on_left_out: OnLeftOut | None = None
    ) -> Iterator[RunReader]:
        """Verifies and opens a run. Raises as `rows_of_run`."""
        require_whole(settings.store, run)
        with cls.open_live(settings, run, config, on_left_out) as reader:
            yield reader

    @classmethod
    @contextmanager
    def open_live(
        cls, settings: Settings, run: str, config: RowsConfig, on_left_out: OnLeftOut | None = None
    ) -> Iterator[RunReader]:
        """Opens a run that may still be written, without verifying it: `attempt_trajectories` verifies what it reads.
        Raises as `rows_of_run`."""
        with (
            RunStore.open(settings.store, run) as store,
            RecordedTasks(store, "recorded", allow_task_code=config.allow_task_code) as recorded_tasks,
        ):
            yield cls(store, config, settings, on_left_out or _ignore_left_out, recorded_tasks)

    def trajectories(self) -> Iterator[Trajectory]:
        """Yields the attempts of `unchecked_trajectories` in which no secret is found."""
        return self._without_secrets(self.unchecked_trajectories())

    def attempt_trajectories(self, rows: Sequence[AttemptRow]) -> Iterator[Trajectory]:
        """Yields the attempts of these summary rows in which no secret is found, after verifying their hash chains.
        Raises `StoreError` as `require_whole_chains`."""
        require_whole_chains(self._store, rows)
        return self._without_secrets(map(self._load, rows))

    def attempt_rows(self, task: str) -> list[AttemptRow]:
        """Returns the summary rows of the deciding trials at a task, in the order of the attempts' numbers."""
        rows = self._store.attempts_at(task)
        for row in rows:
            if row.retried:
                self.on_left_out(row.attempt, "attempt", f"try {row.retry} broke and was made again")
        return sorted(final_rows(rows), key=lambda row: (row.number, row.attempt))

    def _without_secrets(self, trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
        for trajectory in trajectories:
            names = self.secret_names(trajectory)
            if names:
                self.on_left_out(trajectory.attempt, "secret", f"it holds {', '.join(names)}")
            else:
                yield trajectory

    def secret_names(self, trajectory: Trajectory) -> tuple[str, ...]:
        """Returns the names of the secrets in an attempt and in what is taken of its task, sorted; none where the
        configuration takes attempts with secrets too."""
        if self._config.with_secrets:
            return ()
        task = self._describe_task(trajectory)
        texts: list[Any] = [] if task is None else [task.source, declared_licence(task.metadata)]
        if task is not None and not asked_model(trajectory) and not self._has_instruction(trajectory):
            texts.append(task.instruction)
        return tuple(sorted({*self._check.names(trajectory), *self._check.names(texts)}))

    def unchecked_trajectories(self) -> Iterator[Trajectory]:
        """Yields the deciding trial of each selected attempt with its later verdicts, by task and attempt, so that the
        order does not depend on when attempts ran. Attempts with secrets are among them."""
        wanted = [row for row in self._store.attempts() if self._is_wanted(row)]
        wanted.sort(key=lambda row: (row.task, row.number, row.attempt, row.retry))
        if not wanted:
            attempt_names = f" {' or '.join(self._config.attempts)}" if self._config.attempts else ""
            raise UserError(f"run {self._store.run!r} has no attempt{attempt_names}")
        decided = {row.chain for row in final_rows(wanted)}
        if self._selected is not None:
            wanted = self._select(wanted, decided, self._selected)
        self._held_out.require_apart(row for row in wanted if row.chain in decided)
        for row in wanted:
            if row.chain in decided:
                yield self._load(row)
            elif row.retried:
                self.on_left_out(row.attempt, "attempt", f"try {row.retry} broke and was made again")
            else:
                self.on_left_out(row.attempt, "attempt", "it is not decided: it did not end, or is a certificate")

    def rows(self, trajectory: Trajectory) -> list[TrainingRow]:
        """Returns the rows of a trajectory, aligned as configured. Raises `UserError` as `rows_of_run`."""
        found = self._rows(trajectory)
        if self._config.turn_rewards == "progress":
            gains = progress_gains(trajectory)
            if not gains and any(turn.reward for row in found for turn in row.turns):
                why = "its world reports no progress: what it rewarded is not in turn_rewards=progress"
                self.on_left_out(trajectory.attempt, "reward", why)
            found = set_turn_rewards(found, gains)
        elif self._config.turn_rewards == "coverage":
            found = set_turn_rewards(found, coverage_gains(trajectory, *self._needed_facts(trajectory)))
        return align_rows(found, self._config.align, trajectory.chain) if self._config.align else found

    def _needed_facts(self, trajectory: Trajectory) -> NeededFacts:
        """Returns the facts that an attempt's task needs. Raises `UserError` where they are unknown."""
        digest = trajectory.task_digest
        if digest not in self._facts:
            try:
                self._facts[digest] = needed_facts(self._tasks.of(trajectory).task)
            except (CannotRebuildError, ValueError) as exc:
                raise UserError(f"attempt {trajectory.attempt} has no rewards by coverage: {exc}") from exc
        if not self._facts[digest].facts:
            raise UserError(
                f"attempt {trajectory.attempt} has no rewards by coverage: the world of its task names no facts"
            )
        return self._facts[digest]

    def _rows(self, trajectory: Trajectory) -> list[TrainingRow]:

        def on_refused(one: UncertifiedSpan) -> None:
            self.on_left_out(trajectory.attempt, "span", f"call {one.call} is not trained: {one.reason}")

        found = sampled_rows(
            trajectory,
            renderer=self.renderer,
            tokenizer=self.tokenizer,
            uncertified=self._config.uncertified,
            on_refused=on_refused,
            require=self._config.require,
        )
        if found or not self._config.rendered or self.renderer is None:
            if not found:
                self.on_left_out(trajectory.attempt, "tokens", "no tokens are known of it")
            return found
        if not has_agent_output(trajectory):
            self.on_left_out(trajectory.attempt, "tokens", "its agent has no output")
            return []
        if lacks_conversation(trajectory):
            self.on_left_out(trajectory.attempt, "tokens", SEVERAL_ACTORS)
            return []
        opening = self._opening(trajectory)
        return rendered_rows(
            trajectory, self.renderer, tokenizer=self.tokenizer, opening=opening, require=self._config.require
        )

    def task_source(self, trajectory: Trajectory) -> TaskSource:
        """Returns the origin of an attempt's task, by the record of the task in the store; unknown if that is missing,
        erased or of another version."""
        task = self._describe_task(trajectory)
        if task is None:
            return TaskSource()
        return TaskSource(task.source or TaskSource().source, declared_licence(task.metadata))

    def _describe_task(self, trajectory: Trajectory) -> Task | None:
        evidence = next((one for one in trajectory.evidence if one.kind == "task"), None)
        record = evidence.data.get("record") if evidence is not None else None
        if not isinstance(record, str):
            return None
        if record not in self._described:
            with contextlib.suppress(StoreError):
                self._described[record] = read_task_record(self._store.blobs, record)
        return self._described.setdefault(record, None)

    def task(self, trajectory: Trajectory) -> Task | None:
        """Returns the recorded task of an attempt; None if it is not available, or names code that is not permitted."""
        try:
            return self._tasks.of(trajectory).task
        except CannotRebuildError:
            return None

    def blob(self, digest: str) -> bytes:
        """Returns what is stored under a digest. Raises `StoreError`."""
        return self._store.blobs.get(digest)

    def instruction(self, trajectory: Trajectory) -> str | None:
        """Returns the text of an attempt's task, by the record of the task in the store, so that no code of the task is
        executed; None if that is missing, erased or of another version."""
        task = self._describe_task(trajectory)
        if task is None:
            return None
        if isinstance(task.instruction, str):
            return task.instruction
        contents = (message.content for message in task.instruction)
        return "\n\n".join(content for content in contents if isinstance(content, str))

    def opening(self, trajectory: Trajectory) -> Opening | None:
        """Returns the opening of an attempt without model calls; None if it has one."""
        return None if asked_model(trajectory) else self._opening(trajectory)

    def _opening(self, trajectory: Trajectory) -> Opening | None:
        if asked_model(trajectory) or self._has_instruction(trajectory):
            return None
        try:
            task = self._tasks.of(trajectory).task
        except CannotRebuildError as exc:
            raise UserError(
                f"attempt {trajectory.attempt} called no model, and its task is not available: {exc}"
            ) from exc
        try:
            return build_opening(task, system=self._config.system)
        except UserError as exc:
            config = self.manifest.get("config")
            model = config.get("model") if isinstance(config, dict) else None
            asked = f"attempt {trajectory.attempt} asked no model" if model else "no attempt of this run asked a model"
            raise UserError(f"{asked}, and {exc}") from exc

    def _has_instruction(self, trajectory: Trajectory) -> bool:
        return any(step.actor == "user" for step in trajectory.steps)

    def _load(self, row: AttemptRow) -> Trajectory:
        found = merge_later_events(self._store, row.chain, self._later_events.get(row.chain, ()))
        marked = self._tasks.mark_import(found)
        return judged_path(marked) if self.judged_only else marked

    def _select(self, rows: Sequence[AttemptRow], decided: set[str], heads: Mapping[str, str]) -> list[AttemptRow]:
        """Returns the selected attempts. Raises `UserError` where one is missing or has other events by now."""
        found = [row for row in rows if row.chain in heads and row.chain in decided]
        folders, run = ", ".join(self._config.selected), self._store.run
        if not heads:
            raise UserError(f"{folders} selects no attempt of run {run!r}")
        unchanged = {row.chain for row in found if row.head == heads[row.chain]}
        changed = [row.attempt for row in found if row.chain not in unchanged]
        if not self._config.attempts:
            changed += sorted(set(heads) - {row.chain for row in found})
        if changed:
            raise UserError(
                f"{len(changed)} attempts of run {run!r} have changed since {folders} selected them (the first: "
                f"{changed[0]}): select again with `assay curate`"
            )
        return found

    def _is_wanted(self, row: AttemptRow) -> bool:
        return not self._config.attempts or any(row.attempt.startswith(start) for start in self._config.attempts)


def is_steered(root: Path, run: str) -> bool:
    """Returns whether a script chose the tokens of a run, not its model."""
    with RunStore.open(root, run) as store:
        return _recorded_template(store.manifest()).steered


def _recorded_template(manifest: dict[str, Any]) -> TemplateOptions:
    config = manifest.get("config")
    model = config.get("model") if isinstance(config, dict) else None
    return template_options(model) if isinstance(model, str) else TemplateOptions()


def _ignore_left_out(_: str, __: str, ___: str) -> None:
    """Ignores what is left out."""
