"""Values that the person must be told: what the work brings about, as the amount of a refund or a new date.

The value is not written into the task: the check reads it from the final record, so that it is that of the attempt.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from assay.environments.services.conversation import SEND, conversation
from assay.environments.services.net_changes import RowChange
from assay.environments.services.plans import PlannedCall
from assay.environments.services.schema import Column, Table, format_cents
from assay.environments.services.world import ServiceWorld
from assay.verify.service_checks import Communicated, is_said_in


class TellingRequest(NamedTuple):
    """A value that the person wants to hear."""

    wish: str
    """Sentence that asks for it."""
    cell: dict[str, Any]
    """Where the final state holds it, as `communicated` takes it."""
    kind: Literal["number", "date"]
    said: str
    """The value as the reference solution says it."""

    @property
    def fact(self) -> Communicated:
        """Returns the value as a fact of its own."""
        return Communicated(self.said, self.kind)

    @property
    def message(self) -> PlannedCall:
        """Returns the call that tells it."""
        return PlannedCall(SEND, {"text": f"It is done. The value that you want to know is {self.said}."})

    @property
    def parameters(self) -> dict[str, Any]:
        """Returns the parameters of the check."""
        return {"facts": [{"kind": self.kind, "cell": self.cell}]}


def draw_telling(done: ServiceWorld, said: str, draw: random.Random) -> TellingRequest | None:
    """Returns a value of the final state that nothing which the person says holds; None without one.

    Args:
        done: The world after the plan.
        said: What the person says.
        draw: Source of randomness.
    """
    tables = {table.sql_name: table for table in done.composition.tables if table.service != conversation.name}
    changes = done.database.changes(judged_only=True)
    found = [
        one
        for change in changes
        if sum(other.table == change.table for other in changes) == 1 and change.table in tables
        for one in _values(tables[change.table], change)
        if not is_said_in(one.fact, said)
    ]
    return draw.choice(found) if found else None


def _values(table: Table, change: RowChange) -> Iterator[TellingRequest]:
    if change.after is None:
        return
    for column in table.columns:
        value = change.after[column.name]
        if value is None or (change.before is not None and change.before[column.name] == value):
            continue
        shown = _format_cell(column, value)
        if shown is None:
            continue
        words = column.name.replace("_", " ").removesuffix(" cents")
        words += " amount" if column.unit == "cents" and words.endswith("ed") else ""
        is_new = change.before is None
        act = "adds" if is_new else "changes"
        wish = f"When it is done, tell me the {'' if is_new else 'new '}{words} of the {table.label} that this {act}."
        cell = {"table": change.table, "column": column.name, "unit": column.unit or "number"}
        yield TellingRequest(wish, cell, shown[0], shown[1])


def _format_cell(column: Column, value: str | int) -> tuple[Literal["number", "date"], str] | None:
    """Returns kind and words of an amount or a date; None for other values, which have too many spellings, and for
    nought, which is the first guess."""
    if column.unit == "cents" and isinstance(value, int):
        return ("number", format_cents(value)) if value else None
    if column.unit == "date" and isinstance(value, str):
        return "date", value
    return None
