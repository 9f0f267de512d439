"""Reads how a run was made from its manifest, and compares it with what is there now."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.environments.task_digest import digest_by_path
from assay.errors import UserError
from assay.rollout.attempt.disturbed_tasks import disturb_tasks
from assay.store import ADMISSION, RunStore
from assay.tasks import LoadedTask
from assay.tasks.named_code import find_code_of
from assay.validation_messages import shorten

from .config import RunConfig

TRAINING = "training"
"""Key of the manifest of a training's record: its recipe."""
PLACE = "place"
"""Key of the manifest of a run that nodes do: where they commit."""


def parse_manifest(manifest: Mapping[str, Any]) -> tuple[RunConfig, dict[str, str]]:
    """Returns the configuration, and the digests of the tasks by id. Raises `KeyError`, `msgspec.ValidationError`."""
    return msgspec.convert(manifest["config"], RunConfig), msgspec.convert(manifest["tasks"], dict[str, str])


def require_finished(root: Path, run: str) -> None:
    """Raises `UserError` if an attempt of a live run has not ended."""
    with RunStore.open(root, run) as store:
        if store.is_sealed:
            return
        uncertified = _uncertified(store)
        if uncertified:
            raise UserError(
                f"{uncertified} tasks of the admission {run!r} have no certificate yet, and a sealed run can never be "
                f"resumed: finish it with `assay admit --resume {run}`, or seal it unfinished with --unfinished"
            )
        try:
            config, tasks = read_manifest(store)
        except UserError:  # made by other means: it consists of what has begun
            left = count_left(store, 0)
        else:
            left = count_left(store, config.total(len(tasks)))
    if left > 0:
        raise UserError(
            f"{left} attempts of run {run!r} have not ended, and a sealed run can never be resumed: finish it with "
            f"`assay resume {run}`, or seal it unfinished with --unfinished"
        )


def require_complete(root: Path, run: str) -> None:
    """Raises `UserError` if a sealed run lacks attempts, or `assay run` did not make it."""
    with RunStore.open(root, run) as store:
        config, tasks = read_manifest(store)
        left = count_left(store, config.total(len(tasks)))
    if left > 0:
        raise UserError(
            f"run {run!r} was sealed with {left} attempts that have not ended, and a sealed run can never be resumed: "
            "start a new run"
        )


def count_left(store: RunStore, planned: int) -> int:
    """Returns the number of attempts that have not ended, of those that were planned or have begun."""
    rows = store.attempts()
    ended = {row.attempt for row in rows if row.final}
    return max(planned, len({row.attempt for row in rows})) - len(ended)


def _uncertified(store: RunStore) -> int:
    """Returns the number of unfinished tasks of an admission; 0 for any other run."""
    manifest = store.manifest()
    if ADMISSION not in manifest:
        return 0
    certified = {row.task for row in store.attempts() if row.agent == ADMISSION and row.final}
    return sum(task not in certified for task in manifest.get("tasks", {}))


def read_manifest(store: RunStore) -> tuple[RunConfig, dict[str, str]]:
    """Returns a run's configuration, and the digests of its tasks by id. Raises `UserError` without them."""
    manifest = store.manifest()
    try:
        return parse_manifest(manifest)
    except (KeyError, msgspec.ValidationError) as exc:
        if ADMISSION in manifest:
            raise UserError(
                f"run {store.run!r} is an admission: go on with `assay admit --resume {store.run}`"
            ) from exc
        if TRAINING in manifest:
            raise UserError(
                f"run {store.run!r} is the record of a training: go on by repeating `assay train` or `assay improve` "
                "with its recipe"
            ) from exc
        raise UserError(
            f"run {store.run!r} does not say how it was made ({exc}): it was not made by `assay run`, or by another "
            "version; start a new run"
        ) from exc


def read_config(store: RunStore) -> RunConfig:
    """Returns a run's configuration. Raises `UserError` if `assay run` did not make the run."""
    return read_manifest(store)[0]


def require_same_arguments(
    store: RunStore, config: RunConfig, tasks: Sequence[LoadedTask] | None, *, but: Collection[str] = ()
) -> None:
    """Raises `UserError` where a run is resumed with other arguments than those that it was started with.

    Args:
        store: The run.
        config: Arguments of the resumption, with the names of models resolved. A budget replaces that of the run.
        tasks: Tasks given to the resumption; None for those that `config` names.
        but: Fields that may differ, since they do not make a run what it is.
    """
    recorded, digests = read_manifest(store)
    was, given = _arguments(recorded, but), _arguments(config, but)
    if "agent" in store.manifest().get("objects", ()):  # another program imports the same object by another name
        was["agent"], given["agent"] = (str(one["agent"]).rpartition(":")[2] for one in (was, given))
    other = [
        f"{name} is {_show(value)} and was {_show(was[name])}" for name, value in given.items() if value != was[name]
    ]
    found = {} if tasks is None else {one.task.id: one.task.digest for one in tasks}
    if tasks is not None and found.keys() != digests.keys():
        other.append(f"the tasks are {_list_ids(found)} and were {_list_ids(digests)}")
    if other:
        raise UserError(
            f"run {store.run!r} was started with other arguments: {'; '.join(other)}. Resume it with the same, or "
            "start a run of another name"
        )


def _arguments(config: RunConfig, but: Collection[str]) -> dict[str, Any]:
    """Returns the fields that make a run what it is."""
    fields = msgspec.to_builtins(config)
    left_out = {"run", "tasks", "budget_usd", "budget_calls", *but}
    return {name: value for name, value in fields.items() if name not in left_out}


def _show(value: Any) -> str:
    return "not set" if value is None else shorten(repr(value))


def _list_ids(tasks: Mapping[str, str]) -> str:
    names = sorted(tasks)
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def new_run_name(agent: str) -> str:
    """Returns a name that sorts by time."""
    short = "".join(c if c.isalnum() or c in "-_" else "-" for c in agent)[:40].strip("-") or "agent"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() // 1000 % 1_000_000:06d}-{short}"


def match_tasks(
    recorded: Mapping[str, str], tasks: Sequence[LoadedTask], disturb: str | None = None
) -> tuple[LoadedTask, ...]:
    """Returns the tasks of a run that is completed, under its disturbances, and further ones that were found with them.

    A task whose code is in files keeps the digest that the run recorded by their paths, and its attempts their seeds.

    Raises:
        UserError: A task is missing, or has another digest.
    """
    found = disturb_tasks(tasks, disturb)
    if any(recorded.get(one.task.id, one.task.digest) != one.task.digest for one in found):
        by_path = disturb_tasks(map(name_by_path, tasks), disturb)
        pairs = zip(found, by_path, strict=True)
        found = tuple(old if recorded.get(old.task.id) == old.task.digest else new for new, old in pairs)
    _require_same_tasks(recorded, found)
    return found


def name_by_path(loaded: LoadedTask) -> LoadedTask:
    """Returns a task of a family with the digest that earlier versions gave it."""
    if loaded.folder is not None or not find_code_of(loaded):
        return loaded
    return loaded._replace(task=msgspec.structs.replace(loaded.task, digest=digest_by_path(loaded.task)))


def _require_same_tasks(recorded: Mapping[str, str], found: Sequence[LoadedTask]) -> None:
    present = {t.task.id: t.task.digest for t in found}
    changed = [task for task, digest in recorded.items() if present.get(task) != digest]
    renamed = {t.task.digest: t.task.id for t in found if t.task.id not in recorded}
    if changed and recorded[changed[0]] in renamed:
        raise UserError(
            f"task {changed[0]!r} of the run is called {renamed[recorded[changed[0]]]!r} now ({len(changed)} in all): "
            "its folder was renamed, or this version of Assay names generated tasks differently; finish the run under "
            "the old names, or start a new run"
        )
    if changed:
        what = "is gone" if changed[0] not in present else "has changed"
        raise UserError(
            f"task {changed[0]!r} {what} since the run began ({len(changed)} in all): put the tasks back as they "
            "were, or start a new run"
        )
