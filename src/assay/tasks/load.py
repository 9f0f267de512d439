"""Loads task folders.

The invariant: what is returned has no error in it, and whatever a folder holds, only `UserError` is raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import UserError
from assay.records import Check, Limits, Oracle, Task

from .findings import InvalidTask, TaskFinding, errors_of
from .folder import require_folder, tree_digest
from .harbor_config import HarborTask, StepTable
from .mapping import artifacts_of, limits_of, network_of, oracle_of, script_check, to_task
from .parts import StepParts, TaskParts, read_folder


class TaskStep(msgspec.Struct, frozen=True):
    """One step of a task. A task without `[[steps]]` has one, with an empty name. Paths are relative to the folder."""

    name: str
    instruction: str
    check: Check
    limits: Limits
    oracle: Oracle | None = None
    workdir: str | None = None
    """A folder put into the working directory before the step; `setup.sh` in it is run then."""
    trajectory: str | None = None
    """Prior context of the agent, in Harbor's trajectory format."""
    min_reward: float | dict[str, float] | None = None
    """Below it the steps that follow are not run."""
    healthcheck: dict[str, Any] | None = None
    artifacts: tuple[dict[str, Any], ...] = ()
    """The step's own; the task's are in its environment's parameters."""
    collect: tuple[dict[str, Any], ...] = ()
    agent_user: str | int | None = None
    network: dict[str, Any] = {}
    """`network_mode`, `network_stated` and `allowed_hosts` while the agent acts."""


class LoadedTask(NamedTuple):
    """A task and where its files are. Tasks that a family generates have no `folder`."""

    task: Task
    folder: Path | None
    steps: tuple[TaskStep, ...] = ()
    warnings: tuple[TaskFinding, ...] = ()


def load_task(folder: Path) -> LoadedTask:
    """Loads a task folder.

    Raises:
        UserError: The folder does not exist, cannot be read, or (`InvalidTask`) the task in it has errors, of which
            the message names all that were found.
    """
    folder = Path(folder)
    require_folder(folder)
    parts = read_folder(folder)
    errors = errors_of(parts.findings)
    if parts.config is None or errors:
        raise InvalidTask(str(folder), errors)
    task = to_task(parts, parts.config, tree_digest(parts.tree, str(folder)))
    steps = _steps(parts, parts.config)
    return LoadedTask(task, parts.tree.root, steps, tuple(f for f in parts.findings if f.severity == "warning"))


def _steps(parts: TaskParts, config: HarborTask) -> tuple[TaskStep, ...]:
    if not config.steps:
        return (_step(parts, config, parts.steps[0], StepTable("", config.agent, config.verifier)),)
    return tuple(_step(parts, config, part, step) for part, step in zip(parts.steps, config.steps, strict=True))


def _step(parts: TaskParts, config: HarborTask, part: StepParts, step: StepTable) -> TaskStep:
    phase = step.agent if step.agent.network_mode is not None else config.agent
    agent = msgspec.structs.replace(
        phase,
        timeout_sec=step.agent.timeout_sec or config.agent.timeout_sec,
        user=step.agent.user if step.agent.user is not None else config.agent.user,
    )
    return TaskStep(
        name=part.name,
        instruction=part.instruction,
        check=script_check(parts, config, part, step if part.name else None),
        limits=limits_of(agent, parts.assay),
        oracle=oracle_of(parts.tree, part.solution, config),
        workdir=part.workdir,
        trajectory=part.trajectory,
        min_reward=step.min_reward,
        healthcheck=None if step.healthcheck is None else msgspec.structs.asdict(step.healthcheck),
        artifacts=tuple(artifacts_of(step.artifacts)),
        collect=tuple(msgspec.structs.asdict(c) for c in step.verifier.collect),
        agent_user=agent.user,
        network=network_of(agent, config.environment, parts.assay),
    )


def load_tasks(paths: Iterable[Path]) -> tuple[LoadedTask, ...]:
    """Loads tasks: each path is a task folder, or a folder of them; a folder's tasks come sorted by name.

    Raises:
        UserError: A path holds no task, two tasks share an id, or tasks have errors; all broken tasks are named.
    """
    loaded: list[LoadedTask] = []
    broken: list[str] = []
    for folder in [task for path in paths for task in _folders(Path(path))]:
        try:
            loaded.append(load_task(folder))
        except UserError as exc:
            broken.append(str(exc))
    if broken:
        more = f"\nand {len(broken) - 20} more tasks that do not load" if len(broken) > 20 else ""
        raise UserError("\n".join(broken[:20]) + more)
    require_distinct(loaded)
    return tuple(loaded)


def _folders(path: Path) -> list[Path]:
    require_folder(path)
    try:
        if (path / "task.toml").is_file():
            return [path]
        inside = sorted(p for p in path.iterdir() if (p / "task.toml").is_file())
    except OSError as exc:
        raise UserError(f"{exc.filename or path} cannot be read: {exc.strerror}; check its permissions") from exc
    if not inside:
        raise UserError(f"{path} holds no task: neither it nor a folder directly in it has a task.toml")
    return inside


def require_distinct(loaded: Iterable[LoadedTask]) -> None:
    """Raises `UserError` where two tasks share an id."""
    folders: dict[str, Path | None] = {}
    for one in loaded:
        if one.task.id in folders:
            other = folders[one.task.id]
            if one.folder is not None and one.folder == other:
                message = f"the task folder {one.folder} is named twice: name it once"
            else:
                places = " and ".join(str(place or "a family") for place in (other, one.folder))
                message = (
                    f"two tasks are called {one.task.id!r}: {places}; give one another folder name or another "
                    "[task].name, or run them apart"
                )
            raise UserError(message)
        folders[one.task.id] = one.folder
