"""The rows of services that an attempt changed, from the facts of its final state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from assay.records import EvidenceAdded
from assay.store.chain import decode_event

from .chains import Chain
from .outline import Outline

MOST_ROWS: Final = 500
MOST_CELLS: Final = 60
LONGEST: Final = 2000
"""Characters of a value that are shown."""
Cell = str | int | None


class _RowChange(msgspec.Struct):
    table: str
    key: tuple[str | int, ...]
    before: dict[str, Cell] | None
    after: dict[str, Cell] | None


class _Facts(msgspec.Struct):
    services: list[str]
    changes: list[_RowChange]
    difference: list[str] = []
    """Each change in words."""


def list_row_changes(chain: Chain, outline: Outline) -> dict[str, Any] | None:
    """Returns the net changes of an attempt's services; None if its facts name no services.

    Returns:
        `rows`, each with `table`, `key`, `kind` (`added`, `removed`, `changed`), `words` (the change in words, or an
        empty text) and `cells`, of which each is a column with its value before and after as texts, None for no value;
        and `left_out`, the number of further rows.
    """
    facts = _newest_facts(chain, outline)
    if facts is None:
        return None
    in_words = facts.difference if len(facts.difference) == len(facts.changes) else [""] * len(facts.changes)
    rows = [_row(*pair) for pair in zip(facts.changes[:MOST_ROWS], in_words, strict=False)]
    return {"rows": rows, "left_out": len(facts.changes) - len(rows)}


def _newest_facts(chain: Chain, outline: Outline) -> _Facts | None:
    lines = [n for n, kind in enumerate(outline.kinds) if kind == "e" and outline.heads[n].startswith("facts")]
    for line in reversed(lines):
        body = decode_event(chain.link(outline.events[line])).body
        if not isinstance(body, EvidenceAdded) or body.evidence.kind != "facts":
            continue
        try:
            return msgspec.convert(body.evidence.data.get("facts"), _Facts)
        except msgspec.ValidationError:
            continue  # facts of a check, or of another kind of world
    return None


def _row(change: _RowChange, words: str) -> dict[str, Any]:
    kind = "added" if change.before is None else "removed" if change.after is None else "changed"
    key = " ".join(map(str, change.key))[:LONGEST]
    cells = list(_cells(change))
    return {"table": change.table[:LONGEST], "key": key, "kind": kind, "words": words[:LONGEST], "cells": cells}


def _cells(change: _RowChange) -> Iterator[tuple[str, str | None, str | None]]:
    """Yields the columns whose value differs, with the values."""
    before, after = change.before or {}, change.after or {}
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    for name in differing[:MOST_CELLS]:
        yield name[:LONGEST], _format_cell(before.get(name)), _format_cell(after.get(name))


def _format_cell(value: Cell) -> str | None:
    return None if value is None else str(value)[:LONGEST]
