"""Inputs that the runs of a grid share: the tasks, loaded and linted once, and the model use of earlier runs.

Everything is read when it is first needed, so that completing sealed runs reads no task.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import msgspec

from assay.errors import UserError
from assay.rollout.attempt.disturbed_tasks import disturb_tasks
from assay.rollout.attempt.models import resolve_model_name
from assay.rollout.limits.run_budget import UseHistory
from assay.settings import Settings
from assay.tasks import LoadedTask, find_tasks

from .config import RunConfig
from .diagnosis import lint_warnings


class RunInputs:
    """Inputs of the runs with one configuration, whatever their agents and models.

    Args:
        config: Names the tasks.
        root: The store.
        tasks: Generated tasks; default: those in the folders that `config` names.
        recorded: The configuration is that of runs to complete.
    """

    def __init__(
        self, config: RunConfig, root: Path, tasks: Sequence[LoadedTask] | None = None, *, recorded: bool = False
    ) -> None:
        self._config, self._given, self._recorded = config, tasks, recorded
        self.history = UseHistory(root)

    @cached_property
    def undisturbed(self) -> tuple[LoadedTask, ...]:
        """The tasks as they are without the disturbances of the configuration. Raises `UserError` if one does not
        load."""
        with interruptible():
            if self._given is not None:
                return tuple(self._given)
            return find_recorded_tasks(self._config) if self._recorded else find_tasks(self._config.tasks)

    @cached_property
    def tasks(self) -> tuple[LoadedTask, ...]:
        """The tasks. Raises `UserError` if one does not load or cannot be disturbed."""
        with interruptible():
            return disturb_tasks(self.undisturbed, self._config.disturb)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Findings of lint in the tasks."""
        return tuple(lint_warnings(self.tasks))


@contextmanager
def interruptible() -> Iterator[None]:
    """Lets Ctrl-C end work that holds the event loop. Under `asyncio.run` it cancels the command at its next `await`,
    and a family may take minutes to make its tasks."""
    present = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(present):  # ignored, as a shell has it for commands in the background
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, present)


def resolve_models(config: RunConfig, settings: Settings) -> RunConfig:
    """Returns the configuration with the names of its models resolved."""
    models = {name: resolve_model_name(getattr(config, name), settings) for name in ("model", "user_model")}
    return msgspec.structs.replace(config, **models)


def find_recorded_tasks(config: RunConfig) -> tuple[LoadedTask, ...]:
    """Returns the tasks of a run to complete, undisturbed. Raises `UserError` if one does not load."""
    try:
        return find_tasks(config.tasks)
    except UserError as exc:
        if all(t.startswith("family:") or Path(t).is_absolute() for t in config.tasks):
            raise
        raise UserError(
            f"{exc}\n(the run names its tasks relative to the folder where it was started: resume it there)"
        ) from exc


def require_user_model(config: RunConfig, tasks: Sequence[LoadedTask]) -> None:
    """Raises `UserError` where a task's person is driven by a model and the run names none."""
    for loaded in tasks:
        knobs = loaded.task.environment.parameters.get("knobs")
        talks = knobs.get("conversation") if isinstance(knobs, dict) else None
        if config.user_model is None and isinstance(talks, dict) and talks.get("driver") == "model":
            raise UserError(
                f"the person of task {loaded.task.id!r} is driven by a model, and the run names none: add --user-model "
                "(for example openai:NAME)"
            )
