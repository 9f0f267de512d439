"""Full-text search over what was said, done and seen, in all runs or some.

It finds literal text in the messages, reasoning, tool arguments and outputs of steps as they are recorded. What was
cut from an output lies in a blob and is not searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.errors import UserError

from .query import Bounds, asked

__all__ = ["Hit", "search"]

_PLACES = {
    "message": "message",
    "reasoning": "reasoning",
    "arguments": "unnest(arguments)",
    "output": "unnest(outputs)",
    "error": "unnest(errors)",
}
_AROUND = 80


class Hit(msgspec.Struct, frozen=True):
    """One place where the text occurs."""

    run: str
    chain: str
    attempt: str
    task: str
    step: int
    place: str
    """`message`, `reasoning`, `arguments`, `output` or `error`."""
    excerpt: str


def search(
    root: Path, text: str, *, runs: Sequence[str] | None = None, limit: int = 100, ignore_case: bool = False
) -> tuple[Hit, ...]:
    """Places that contain a text, in order of run, chain and step; the first occurrence in each.

    Raises:
        UserError: The text is empty, or there is no run.
        StoreError: A run is missing or damaged.
    """
    if not text:
        message = "nothing to search for: give some text"
        raise UserError(message)
    if limit < 1:
        message = f"a search gives at least 1 hit, not {limit}: raise the limit"
        raise UserError(message)
    wanted = text.lower() if ignore_case else text
    statement = (_statement(limit, ignore_case=ignore_case), {"text": wanted})
    found = asked(root, ["steps"], runs, Bounds(rows=limit), statement)
    return tuple(Hit(*row) for row in found.rows)


def _statement(limit: int, *, ignore_case: bool) -> str:
    body = "lower(body)" if ignore_case else "body"
    places = " UNION ALL ".join(
        f"SELECT run, chain, attempt, task, index, '{place}' AS place, {column} AS body FROM steps"
        for place, column in _PLACES.items()
    )
    excerpt = f"substr(body, greatest(1, strpos({body}, $text) - {_AROUND}), length($text) + {2 * _AROUND})"
    return (
        f"SELECT run, chain, attempt, task, index, place, {excerpt} FROM ({places}) "
        f"WHERE contains({body}, $text) ORDER BY run, chain, index, place LIMIT {int(limit)}"
    )
