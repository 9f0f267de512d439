"""Makes a set of tasks of the family `services` on disk, and says what is in it.

The tasks have no files: `family.json` names the family, its options, and each task with its digest.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from assay.errors import UserError
from assay.records import Task
from assay.tasks.family_folder import FAMILY_FILE, code_in, read_family_folder, write_family_folder

from .family import ServiceTasks
from .set_config import ServiceSetConfig

FAMILY: Final = "services"
OVERSPECIFIED: Final = 0.5
"""Share of arguments given away in the text from which a task counts as over-specified."""
_SHOWN: Final = ("writes", "waits", "event", "distractors", "mood", "twin")
"""Keys of the metadata whose distribution is reported."""


class ServiceSetReport(msgspec.Struct, frozen=True):
    """Contents of a set, and tasks that were left out."""

    family: str
    """The set as `assay run` takes it without the folder."""
    file: str
    tasks: tuple[str, ...]
    wanted: int
    near_duplicates: int
    """Tasks left out because they say nearly what an earlier one says."""
    too_easy: dict[str, int]
    """Plans left out because they are not as hard as the options say, by reason."""
    knobs: dict[str, dict[str, int]]
    """Number of tasks by the value of each knob."""
    given: dict[str, float]
    """Over-specification: `mean` and `median` share of the writes' arguments whose exact value is in the text, and the
    `share` of tasks with at least half."""
    is_runnable: bool
    """False if an application is named by its file: `assay run` opens the folder of no such set."""


def make_service_set(
    config: ServiceSetConfig, progress: Callable[[str, int, int], None] | None = None
) -> ServiceSetReport:
    """Makes the tasks and writes the folder.

    Raises:
        UserError: An option cannot be, the applications make no task, or the folder holds other tasks.
        OSError: The folder cannot be written.
    """
    folder, options = Path(config.out), config.options
    _require_free(folder, config.seed, options)
    made = ServiceTasks(**options).make_set(
        config.count, config.seed, lambda done: progress("tasks", done, config.count) if progress else None
    )
    if not made.tasks:
        why = ", ".join(f"{count} for {reason}" for reason, count in made.dropped.items())
        raise UserError(f"no task was made{f'; dropped: {why}' if why else ''}: ask for less, or for another kind")
    path = write_family_folder(folder, FAMILY, config.seed, options, made.tasks)
    dropped = dict(made.dropped)
    return ServiceSetReport(
        family=_family_text(options, len(made.tasks), config.seed),
        file=str(path),
        tasks=tuple(task.id for task in made.tasks),
        wanted=config.count,
        near_duplicates=dropped.pop("near-duplicate", 0),
        too_easy=dropped,
        knobs=_distributions(made.tasks),
        given=_over_specification(made.tasks),
        is_runnable=code_in(FAMILY, options) is None,
    )


def _require_free(folder: Path, seed: int, options: Mapping[str, Any]) -> None:
    """Raises `UserError` for a folder that holds other tasks."""
    if (folder / FAMILY_FILE).exists():
        try:
            found = read_family_folder(folder)
        except UserError:
            found = None
        if found is None or (found.seed, found.options) != (seed, dict(options)):
            raise UserError(f"{folder} holds tasks that were made with other options: name a new folder, or remove it")
    elif (folder / "manifest.json").exists() or any(folder.glob("*/task.toml")) or (folder / "task.toml").exists():
        raise UserError(f"{folder} holds task folders: name a new folder")


def _family_text(options: Mapping[str, Any], count: int, seed: int) -> str:
    parts = [f"{name}={_word(value)}" for name, value in options.items()]
    return f"family:{FAMILY},{','.join([*parts, f'n={count}', f'seed={seed}'])}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _distributions(tasks: Sequence[Task]) -> dict[str, dict[str, int]]:
    counted: dict[str, Counter[str]] = {}
    for task in tasks:
        for name, value in _knobs_of(task):
            counted.setdefault(name, Counter())[value] += 1
    return {name: dict(sorted(values.items(), key=_in_order)) for name, values in counted.items()}


def _knobs_of(task: Task) -> Iterator[tuple[str, str]]:
    needs: Any = task.metadata.get("needs") or {}
    yield "level", task.tags[1]
    for name in _SHOWN:
        if name in task.metadata:
            yield name, _word(task.metadata[name])
    for name, count in needs.items():
        yield f"{name} needed", str(count)


def _in_order(item: tuple[str, int]) -> tuple[int, str]:
    return (int(item[0]) if item[0].isdigit() else -1, item[0])


def _over_specification(tasks: Sequence[Task]) -> dict[str, float]:
    shares = [float(str(task.metadata["given"])) for task in tasks]
    return {
        "mean": round(statistics.fmean(shares), 3),
        "median": round(statistics.median(shares), 3),
        "share": round(sum(share >= OVERSPECIFIED for share in shares) / len(shares), 3),
    }
