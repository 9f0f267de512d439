"""Keeps training data apart from held-out tasks, by the content address of the task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.errors import UserError
from assay.store import AttemptRow
from assay.tasks import find_tasks

from .rows import TrainingRow

_LISTED = 5


class EvaluationTasks(NamedTuple):
    """Identities of the held-out tasks."""

    digests: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    def require_apart(self, rows: Iterable[AttemptRow]) -> None:
        """Raises `UserError` if an attempt is at a held-out task."""
        _refuse({row.task for row in rows if row.task_digest in self.digests})

    def require_rows_apart(self, rows: Iterable[TrainingRow]) -> None:
        """As `require_apart`, for rows out of files: these name a task by its id alone."""
        _refuse({row.task for row in rows if row.task in self.ids})


def find_held_out(sources: Sequence[str]) -> EvaluationTasks:
    """Returns the tasks that `--held-out` names, as folders or families. Raises `UserError` if one does not load."""
    tasks = [loaded.task for loaded in find_tasks(tuple(sources))] if sources else []
    return EvaluationTasks(frozenset(task.digest for task in tasks), frozenset(task.id for task in tasks))


def _refuse(both: set[str]) -> None:
    if both:
        named = ", ".join(sorted(both)[:_LISTED]) + (", ..." if len(both) > _LISTED else "")
        raise UserError(
            f"{len(both)} held-out task{'s' * (len(both) != 1)} would be trained on ({named}): nothing is written. "
            "Choose attempts at other tasks, or drop these tasks with `assay curate` and its stage `leakage`"
        )
