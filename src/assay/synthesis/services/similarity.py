"""How much two tasks say the same, by word triples, and which records of a world resemble those asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from assay.environments.services.plans import PlannedCall
from assay.environments.services.record_names import row_of
from assay.environments.services.world import ServiceWorld
from assay.records import Task

from .requests import generated_arguments

NEAR: Final = 0.95
"""Share of word triples that two wordings have in common from which they are near-duplicates."""
_SHARED: Final = 0.5
"""Share of the telling columns of a record that a record which resembles it has alike."""
_MOST_ROWS: Final = 2_000


def word_triples(task: Task) -> frozenset[tuple[str, ...]]:
    """Returns the word triples of what the person says."""
    script = task.environment.parameters.get("knobs", {}).get("conversation", {}).get("script")
    said = str(task.instruction).partition("\n\nPolicy of")[0] if script is None else json.dumps(script)
    words = re.findall(r"\w+", said.lower())
    return frozenset(tuple(words[at : at + 3]) for at in range(len(words) - 2))


def is_near(triples: frozenset[tuple[str, ...]], others: Iterable[frozenset[tuple[str, ...]]]) -> bool:
    """Returns whether a wording is a near-duplicate of one of the others."""
    return any(len(triples & other) >= NEAR * len(triples | other) for other in others)


def most_distractors(world: ServiceWorld, writes: Sequence[PlannedCall]) -> int:
    """Returns how many other records resemble the record of the writes that the most others resemble."""
    return max((_resembling(world, call.action, name, value) for call in writes
                for name, value in generated_arguments(world, call)), default=0)  # fmt: skip


def _resembling(world: ServiceWorld, action: str, name: str, value: str) -> int:
    """Returns the number of rows of the same table with at least half of the values by which people tell them apart."""
    found = row_of(world, world.composition.actions[action].takes[name], value)
    if found is None:
        return 0
    table, row = found
    columns = [c.name for c in table.columns if c.name not in table.key and _is_telling(getattr(row, c.name))]
    if not columns:
        return 0
    own: dict[str, Any] = msgspec.structs.asdict(row)
    alike = " + ".join(f"({column} IS ?)" for column in columns)
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table.sql_name} WHERE {alike} >= ? LIMIT {_MOST_ROWS})"
    least = max(1, int(len(columns) * _SHARED))
    (count,) = world.database.connection.execute(query, [*(own[column] for column in columns), least]).fetchone()
    return int(count) - 1


def _is_telling(value: object) -> bool:
    return isinstance(value, str) and value != ""
