"""Training rows of a stored run, its chain checked first.

Invariant: no row comes out of a run in which anything that an event, a row or an addendum claims does not hold. What
is left out (attempts that are not decided, that know no tokens, spans without a certificate) is named to `tell`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from assay.errors import StoreError, UserError
from assay.gateway.tokens import Attributes, Refusal
from assay.gateway.tokens.library import open_renderer
from assay.records import Separation, Trajectory, digest_bytes
from assay.rollout.exchange.exporting import merge_later_events
from assay.rollout.rejudge.recorded_task import RecordedTasks
from assay.store import AttemptRow, RunStore, audit, deciding, learnt
from assay.verdicts import IMPORTED, is_imported_record
from assay.verify.again import CannotRebuildError

from .conversation import Opening, asked, spoke
from .openings import opening_of
from .rendered import rendered_rows
from .rows import TrainingRow
from .sampled import sampled_rows

__all__ = ["Reader", "RowsConfig", "Tell", "require_whole", "rows_of_run", "tokenizer_digest"]

Tell = Callable[[str, str, str], None]
"""Is told what was left out: attempt, what of it, and why."""


class RowsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which rows, and how."""

    model: str | None = None
    """Folder of the model's checkpoint: its tokenizer tells the role of each token, and renders what has no tokens."""
    renderer: str | None = None
    """Name of its chat template, where the model's type does not tell."""
    thinking: bool | None = None
    """Whether its prompt lets the model think, for templates that can say so; None leaves their default."""
    uncertified: Literal["refuse", "mask"] = "refuse"
    """What becomes of sampled tokens whose context is not proved: the export is refused, or they are not trained."""
    rendered: bool = False
    """Whether attempts that know no tokens are rendered with the model's template, for supervised training."""
    system: str | None = None
    """System prompt told to rendered attempts that asked no model; default: that of the agent `loop`."""
    attempts: tuple[str, ...] = ()
    """Only these attempts, by id or the beginning of one; default: all."""
    require: Separation = "unknown"
    """Weakest grade of separation at which a pass counts (`separate` accepts `no-agent-code` too); a pass below it is
    doubted, with that reason."""

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        if self.rendered and self.model is None:
            raise UserError("rendering needs a model: name the folder of its checkpoint with --model")


def tokenizer_digest(folder: Path) -> str:
    """Content address of the tokenizer in a checkpoint's folder."""
    return digest_bytes((folder / "tokenizer.json").read_bytes())


def require_whole(root: Path, run: str) -> None:
    """Raises `StoreError` naming what does not hold, where anything in the chains of a run does not."""
    problems = audit(root, run, blobs=False)
    if problems:
        shown = "; ".join(map(str, problems[:3]))
        raise StoreError(
            f"run {run!r} is not what was recorded ({len(problems)} problems: {shown}); nothing is taken from it"
        )


def rows_of_run(root: Path, run: str, config: RowsConfig | None = None, tell: Tell | None = None
                ) -> Iterator[TrainingRow]:  # fmt: skip
    """The rows of every decided attempt of a run, by task and attempt.

    Raises:
        StoreError: The run is missing, damaged, or was changed.
        UserError: A span is not certified and `config.uncertified` is `refuse`; or the model cannot be opened.
    """
    with Reader.opened(root, run, config or RowsConfig(), tell) as reader:
        for trajectory in reader.trajectories():
            yield from reader.rows(trajectory)


class Reader:
    """A run whose chains hold, as trajectories and as rows of each. Opened with `Reader.opened`."""

    def __init__(self, store: RunStore, config: RowsConfig, tell: Tell, past: RecordedTasks) -> None:
        self._store = store
        self._config = config
        self.tell = tell
        self._past = past
        self._learnt = learnt(store.layout.root, store.run)
        self._theirs = store.manifest().get("kind") == "import"
        self.renderer: Attributes | None = None
        self.tokenizer: str | None = None
        if config.model is not None:
            folder = Path(config.model)
            self.renderer = open_renderer(folder, config.renderer, thinking=config.thinking)
            self.tokenizer = tokenizer_digest(folder)

    @classmethod
    @contextmanager
    def opened(cls, root: Path, run: str, config: RowsConfig, tell: Tell | None = None) -> Iterator[Reader]:
        """Checks a run and opens it. Raises as `rows_of_run`."""
        require_whole(root, run)
        with RunStore.open(root, run) as store, RecordedTasks(store, "recorded") as past:
            yield cls(store, config, tell or _nobody, past)

    def trajectories(self) -> Iterator[Trajectory]:
        """The deciding try of each attempt that is asked for, with what was learnt of it later: by task and attempt,
        whatever order they were made in, so that a run that was cut gives what one that was not does."""
        wanted = [row for row in self._store.attempts() if self._is_wanted(row)]
        wanted.sort(key=lambda row: (row.task, row.number, row.attempt, row.retry))
        if not wanted:
            named = f" {' or '.join(self._config.attempts)}" if self._config.attempts else ""
            raise UserError(f"run {self._store.run!r} has no attempt{named}")
        decided = {row.chain for row in deciding(wanted)}
        for row in wanted:
            if row.chain in decided:
                yield self._whole(row)
            elif row.retried:
                self.tell(row.attempt, "attempt", f"try {row.retry} broke and was made again")
            else:
                self.tell(row.attempt, "attempt", "it is not decided: it did not end, or is a certificate")

    def rows(self, trajectory: Trajectory) -> list[TrainingRow]:
        """Its rows. Raises `UserError` as `rows_of_run`."""

        def refused(one: Refusal) -> None:
            self.tell(trajectory.attempt, "span", f"call {one.call} is not trained: {one.reason}")

        found = sampled_rows(
            trajectory,
            renderer=self.renderer,
            tokenizer=self.tokenizer,
            uncertified=self._config.uncertified,
            tell=refused,
            require=self._config.require,
        )
        if found or not self._config.rendered or self.renderer is None:
            if not found:
                self.tell(trajectory.attempt, "tokens", "no tokens are known of it")
            return found
        if not spoke(trajectory):
            self.tell(trajectory.attempt, "tokens", "its agent said and did nothing")
            return []
        opening = self._opening(trajectory)
        return rendered_rows(
            trajectory, self.renderer, tokenizer=self.tokenizer, opening=opening, require=self._config.require
        )

    def opening(self, trajectory: Trajectory) -> Opening | None:
        """What a model would have been told before the steps of an attempt; None where no model needs telling."""
        return None if asked(trajectory) else self._opening(trajectory)

    def _opening(self, trajectory: Trajectory) -> Opening | None:
        if asked(trajectory) or self._is_told(trajectory):
            return None
        try:
            task = self._past.of(trajectory).task
        except CannotRebuildError as exc:
            raise UserError(
                f"attempt {trajectory.attempt} asked no model, and its task is not to be had: {exc}"
            ) from exc
        return opening_of(task, system=self._config.system)

    def _is_told(self, trajectory: Trajectory) -> bool:
        return any(step.actor == "user" for step in trajectory.steps)

    def _whole(self, row: AttemptRow) -> Trajectory:
        found = merge_later_events(self._store, row.chain, self._learnt.get(row.chain, ()))
        if not self._theirs or is_imported_record(found.started):
            return found
        # A format that forgot to say so makes nobody else's record ours.
        told: dict[str, Any] = {**found.started.config, IMPORTED: {}}
        return msgspec.structs.replace(found, started=msgspec.structs.replace(found.started, config=told))

    def _is_wanted(self, row: AttemptRow) -> bool:
        return not self._config.attempts or any(row.attempt.startswith(start) for start in self._config.attempts)


def _nobody(_: str, __: str, ___: str) -> None:
    """Nobody asked what was left out."""
