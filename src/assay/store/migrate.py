"""Steps that bring older run files forward."""

from __future__ import annotations

import sqlite3

import msgspec

from assay.records import Body, canonical_bytes

from .rows import RowBuilder

__all__ = ["fold_rows"]


def fold_rows(connection: sqlite3.Connection) -> None:
    """Writes the summary row of every chain from its events."""
    run = connection.execute("SELECT value FROM meta WHERE key = 'run'").fetchone()[0]
    builders: dict[str, RowBuilder] = {}
    rows = connection.execute("SELECT chain, idx, body, digest FROM events ORDER BY chain, idx")
    for chain, index, body, digest in rows:
        builder = builders.setdefault(chain, RowBuilder(run, chain))
        builder.add(msgspec.json.decode(body, type=Body))
        builder.fields |= {"head": digest, "length": index + 1}
    connection.executemany(
        "INSERT INTO attempts VALUES (?, ?)", [(c, canonical_bytes(b.row())) for c, b in builders.items()]
    )
