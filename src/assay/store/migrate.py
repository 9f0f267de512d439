"""Steps that bring older run files forward."""

from __future__ import annotations

import sqlite3

from assay.errors import StoreError

from .chain import Link, event_of
from .rows import RowBuilder

__all__ = ["fold_rows"]


def fold_rows(connection: sqlite3.Connection) -> None:
    """Writes the summary row of every chain from its events."""
    named = connection.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()
    if named is None:
        message = "an older run file does not say which run it holds: restore it from a copy"
        raise StoreError(message)
    run = str(named[0])
    builders: dict[str, RowBuilder] = {}
    rows = connection.execute("SELECT chain, idx, body, digest FROM events ORDER BY chain, idx")
    for chain, index, body, digest in rows:
        builder = builders.setdefault(chain, RowBuilder(run, chain))
        builder.add(event_of(Link(chain, index, "", body, digest)).body)
        builder.fields |= {"head": digest, "length": index + 1}
    connection.executemany("INSERT INTO attempts VALUES (?, ?)", [(c, b.encoded()) for c, b in builders.items()])
