"""The attempts at one task, without reading those at others."""

from __future__ import annotations

import msgspec

from assay.errors import StoreError

from .database import store_errors
from .rows import AttemptRow
from .run import RunStore

__all__ = ["attempts_at"]


def attempts_at(store: RunStore, task: str, task_digest: str) -> list[AttemptRow]:
    """The rows of a task in one version of it, in the order in which the chains began.

    Raises:
        StoreError: The run cannot be read.
    """
    if store.is_sealed:
        rows = store.sealed.of_task(task)
    else:
        needle = msgspec.json.encode(task)
        with store_errors(store.layout.sqlite):
            query = "SELECT row FROM attempts WHERE instr(CAST(row AS BLOB), ?)"
            found = store.live.connection.execute(query, (needle,)).fetchall()
        try:
            rows = [msgspec.json.decode(row, type=AttemptRow) for (row,) in found]
        except (msgspec.DecodeError, ValueError, TypeError) as exc:
            raise StoreError(
                f"a summary row of run {store.run} is damaged: {exc}; restore the run from a copy"
            ) from exc
    same = [row for row in rows if (row.task, row.task_digest) == (task, task_digest)]
    return sorted(same, key=lambda row: (row.started or 0.0, row.chain))
