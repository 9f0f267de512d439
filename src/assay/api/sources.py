"""Tasks and options as Python gives them: paths, names, families and objects."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import OptionError, TaskSourceError, UserError
from assay.plugins import construct
from assay.records import Limits, Task
from assay.rollout import RunConfig
from assay.settings import Settings, store_folder
from assay.tasks import LoadedTask, TaskFamily, find_tasks
from assay.tasks.families import tasks_of_family
from assay.tasks.load import require_distinct
from assay.tasks.sources import COUNT
from assay.validation_messages import describe_invalid

TaskSource = str | PathLike[str] | Task | LoadedTask | TaskFamily | type[TaskFamily]
"""Path of a task folder or of a folder of them, `family:NAME,...`, a family, or a task."""


class ResolvedTasks(NamedTuple):
    """Tasks, and their sources by name: paths as given, objects as `object:NAME`."""

    names: tuple[str, ...]
    tasks: tuple[LoadedTask, ...]
    has_objects: bool
    """True if a source is an object, which no name finds again."""


def find_task_sources(sources: TaskSource | Iterable[TaskSource]) -> ResolvedTasks:
    """Loads tasks from one source or several.

    Raises:
        TaskSourceError: A source has none of the accepted forms, or no source is given.
        UserError: A path or family does not exist, or a task has errors.
        PluginLoadError: The constructor of a family failed.
        TaskError: A family itself failed.
    """
    is_single = isinstance(sources, (str, PathLike, Task, LoadedTask, TaskFamily))
    listed: Sequence[Any] = [sources] if is_single or not isinstance(sources, Iterable) else list(sources)
    if not listed:
        raise TaskSourceError("no tasks: give at least one task folder, family or task")
    named = [fspath(source) for source in listed if isinstance(source, str | PathLike)]
    objects = [source for source in listed if not isinstance(source, str | PathLike)]
    loaded = list(find_tasks(named)) if named else []
    names = list(named)
    for source in objects:
        name, tasks = _from_object(source)
        names.append(f"object:{name}")
        loaded += tasks
    require_distinct(loaded)
    return ResolvedTasks(tuple(names), tuple(loaded), bool(objects))


def _from_object(source: Any) -> tuple[str, Sequence[LoadedTask]]:
    if isinstance(source, LoadedTask):
        return source.task.id, [source]
    if isinstance(source, Task):
        return source.id, [LoadedTask(source, None)]
    if isinstance(source, type) and callable(getattr(source, "tasks", None)):
        source = construct(f"family {source.__name__}", source, {}, TaskSourceError)
    if isinstance(source, TaskFamily):
        name = type(source).__name__
        return name, tasks_of_family(source, name, COUNT, 0)
    raise TaskSourceError(
        f"{source!r:.100} names no tasks: give a path, family:NAME, a Task, or a family (tasks(n, seed))"
    )


def settings_of(store: str | PathLike[str] | None) -> Settings:
    """Returns the settings of the process, with another store if one is given. Raises `OptionError` for no path."""
    settings = Settings.from_environment()
    if store is None:
        return settings
    if not isinstance(store, str | PathLike):
        raise OptionError(f"{store!r:.100} is not a folder: give the path of a store")
    return msgspec.structs.replace(settings, store=store_folder(store))


def make_config(names: Sequence[str], fields: Mapping[str, Any]) -> RunConfig:
    """Returns a run's configuration.

    Args:
        names: Names of the sources of tasks.
        fields: Fields of `RunConfig`; a limit may be given as `max_turns=30`.

    Raises:
        OptionError: A field does not exist (the message names the nearest) or has a value of the wrong type.
        UserError: The configuration cannot work.
    """
    known = [name for name in RunConfig.__struct_fields__ if name not in ("tasks", "agent", "model")]
    limits = {f"max_{name}": name for name in Limits.__struct_fields__}
    for name in fields:
        if name not in known and name not in limits:
            near = difflib.get_close_matches(name, [*known, *limits], n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join([*known, *limits])}"
            raise OptionError(f"assay.run has no option {name!r}; {hint}")
    plain = {name: _plain(value) for name, value in fields.items() if name in known}
    bounded = {limits[name]: value for name, value in fields.items() if name in limits}
    if bounded:
        table = plain.get("limits", {})
        if not isinstance(table, dict):
            raise OptionError("limits of assay.run: give a Limits, or a table of its fields")
        plain["limits"] = {**table, **bounded}
    data = {"tasks": tuple(names), **plain}
    try:
        return msgspec.convert(data, RunConfig)
    except msgspec.ValidationError as exc:
        if isinstance(exc.__cause__, UserError):
            raise exc.__cause__ from None
        invalid = describe_invalid(exc, RunConfig, data, "python")
        raise OptionError(f"{invalid.field or 'an option'} of assay.run: {invalid.message}") from exc


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=_as_text)


def _as_text(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise OptionError(f"{value!r:.100} cannot be an option of assay.run: give plain values")
