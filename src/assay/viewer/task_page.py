"""The view of one task over all runs: its text and checks, what admission found, and all attempts at it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from assay.errors import StoreError, UserError
from assay.store import ADMISSION, AttemptRow, RunStore, current_verdicts_by_chain, list_runs
from assay.verdicts import assess

from .chains import find_chain
from .interface import Fields, View, json_bytes
from .outline import outline_of
from .runs import created_at
from .soundness import certificate_line
from .task_text import describe_task

MOST_RUNS: Final = 500
"""Newest runs in which the task is sought."""
MOST_ATTEMPTS: Final = 2000
MOST_SHOWN: Final = 200
"""Attempts of one run that are listed; all are counted."""
LONGEST: Final = 200


class _TaskFacts:
    """Text, runs and certificates of a task as the runs hold them; the newest run first."""

    def __init__(self) -> None:
        self.text: dict[str, Any] | None = None
        self.runs: list[dict[str, Any]] = []
        self.certificates: list[dict[str, Any]] = []
        self.versions: Counter[str] = Counter()
        self.listed = 0

    def add(self, store: RunStore, task: str) -> None:
        """Adds a run's attempts at the task and its certificates."""
        rows = store.attempts_at(task)
        for row in rows:
            if row.agent == ADMISSION and row.final:
                self.certificates.append({"run": store.run, **certificate_line(store, row), "digest": row.task_digest})
        attempts = [row for row in rows if row.agent != ADMISSION]
        if attempts:
            self.versions.update(row.task_digest for row in attempts)
            self._add_attempts(store, attempts)

    def _add_attempts(self, store: RunStore, rows: list[AttemptRow]) -> None:
        stands = current_verdicts_by_chain(store, rows)
        trusts = {row.chain: assess(stands[row.chain], row) for row in rows}
        shown = rows[: min(MOST_SHOWN, max(MOST_ATTEMPTS - self.listed, 0))]
        self.listed += len(shown)
        self.runs.append(
            {
                "run": store.run,
                "created": created_at(store.manifest()),
                "counts": dict(Counter(trusts[row.chain].outcome_class for row in rows if row.final)),
                "left_out": len(rows) - len(shown),
                "attempts": [
                    {
                        "chain": row.chain,
                        "number": row.number,
                        "retry": row.retry,
                        "agent": row.agent[:LONGEST],
                        "model": row.model and row.model[:LONGEST],
                        "steps": row.steps,
                        "seconds": row.metrics.get("wall_s"),
                        "outcome": trusts[row.chain].outcome_class,
                        "headline": trusts[row.chain].headline,
                        "digest": row.task_digest,
                    }
                    for row in shown
                ],
            }
        )
        if self.text is None:
            chain = find_chain(store, rows[-1].chain)
            self.text = describe_task(chain, outline_of(chain))


def describe_task_page(root: Path, task: str) -> dict[str, Any]:
    """Returns a task's page.

    Returns:
        `task`, `text` (see `describe_task`), `versions` (digest to number of attempts), `certificates`, `runs` (each
        with `counts` and `attempts`), `searched` and `left_out` (runs), `unreadable` (runs).

    Raises:
        UserError: No run has an attempt at the task or a certificate of it.
    """
    names = list_runs(root)[::-1]
    found, unreadable = _TaskFacts(), []
    for run in names[:MOST_RUNS]:
        try:
            with RunStore.open(root, run) as store, store.snapshot():
                found.add(store, task)
        except StoreError:
            unreadable.append(run)
    if not found.runs and not found.certificates:
        raise UserError(f"no run of this store has an attempt at the task {task[:LONGEST]!r}")
    return {
        "task": task,
        "text": found.text,
        "versions": dict(found.versions.most_common(50)),
        "certificates": found.certificates[:200],
        "runs": found.runs,
        "searched": min(len(names), MOST_RUNS),
        "left_out": max(len(names) - MOST_RUNS, 0),
        "unreadable": unreadable[:20],
    }


def _make(root: Path, fields: Fields) -> bytes:
    return json_bytes(describe_task_page(root, fields["task"]))


def _no_names(_: Path, __: str) -> tuple[str, ...]:
    return ()  # an export is of one run


VIEWS = (View("task/{task}", _make, _no_names),)
