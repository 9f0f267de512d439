"""All views of the pages, in one table."""

from __future__ import annotations

from pathlib import Path

from . import (
    attempt,
    branch_tree,
    card,
    compare,
    course,
    failures,
    figures,
    find,
    ledgers,
    notes,
    overlay,
    rows,
    runs,
    soundness,
    task_page,
    training,
)
from .interface import View, match_name

VIEWS: tuple[View, ...] = (
    *runs.VIEWS,
    *rows.VIEWS,
    *card.VIEWS,
    *notes.VIEWS,
    *find.VIEWS,
    *figures.VIEWS,
    *failures.VIEWS,
    *training.VIEWS,
    *ledgers.VIEWS,
    *soundness.VIEWS,
    *attempt.VIEWS,
    *branch_tree.VIEWS,
    *course.VIEWS,
    *compare.VIEWS,
    *overlay.VIEWS,
    *task_page.VIEWS,
)
"""Each module of views has a tuple `VIEWS`; a new one is added here. The order is that of an export."""


def make_view(root: Path, name: str) -> bytes | None:
    """Returns the JSON of a view named as by `interface.view_name`; None for an unknown name.

    Raises:
        UserError: Something in the name does not exist.
        StoreError: The run cannot be read.
    """
    for known in VIEWS:
        fields = match_name(known, name)
        if fields is not None:
            return known.make(root, fields)
    return None
