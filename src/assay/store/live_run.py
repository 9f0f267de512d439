"""A live run: one SQLite file, read while its writer appends.

Invariant: everything read inside `snapshot` is of one moment.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec

from assay.errors import StoreError

from .chain import Link, decode_body, to_link
from .database import store_errors
from .layout import Layout
from .rows import SUMMED, AttemptRow, RowBuilder, match_rows
from .sealed import VerdictSummary, summarize_verdict

_ROW = msgspec.json.Decoder(AttemptRow)
LIKE_ESCAPE, LIKE_SPECIAL = "\x01", r"[%_]"
"""A character that JSON never holds unescaped, and the characters of a pattern that it must stand before."""
SCAN_CACHE_KIB = 32 * 1024


class LiveRun:
    """The reading side of a run in SQLite; `RunStore` appends to it."""

    def __init__(self, layout: Layout, connection: sqlite3.Connection) -> None:
        self.layout = layout
        self._connection: sqlite3.Connection | None = connection

    @property
    def connection(self) -> sqlite3.Connection:
        """Returns the open database. Raises `StoreError` after `close`."""
        if self._connection is None:
            raise StoreError(f"run {self.layout.run!r} is closed")
        return self._connection

    def attempts(self) -> list[AttemptRow]:
        return self._rows("SELECT chain, row FROM attempts")

    def _rows(self, query: str, arguments: tuple[object, ...] = ()) -> list[AttemptRow]:
        with store_errors(self.layout.sqlite):
            rows = [_decode_row(*found) for found in self.connection.execute(query, arguments)]
        return sorted(rows, key=lambda r: (r.started or 0.0, r.chain))

    def row(self, chain: str) -> AttemptRow | None:
        rows = self._rows("SELECT chain, row FROM attempts WHERE chain = ?", (chain,))
        return rows[0] if rows else None

    def has_chain(self, chain: str) -> bool:
        """Returns whether a chain has a summary row."""
        with store_errors(self.layout.sqlite):
            return self.connection.execute("SELECT 1 FROM attempts WHERE chain = ?", (chain,)).fetchone() is not None

    def of_task(self, task: str) -> list[AttemptRow]:
        """Returns the rows whose bytes contain the task's name."""
        needle = msgspec.json.encode(task)
        return self._rows("SELECT chain, row FROM attempts WHERE instr(CAST(row AS BLOB), ?)", (needle,))

    def near(self, attempt: str) -> list[AttemptRow]:
        return match_rows(self.attempts(), attempt)

    def links(self, chain: str | None = None, containing: bytes = b"") -> Iterator[Link]:
        wanted = {"chain = ?": chain, "instr(CAST(body AS BLOB), ?)": containing}
        given = {term: value for term, value in wanted.items() if value}
        return self._links(f"WHERE {' AND '.join(given)}" if given else "", tuple(given.values()))

    def part(self, chain: str, start: int, stop: int) -> Iterator[Link]:
        return self._links("WHERE chain = ? AND idx >= ? AND idx < ?", (chain, start, stop))

    def fold(self, chain: str) -> RowBuilder:
        """Folds the row of a chain, from those of its events alone that a row depends on."""
        builder = RowBuilder(self.layout.run, chain)
        steps = "count(*) FILTER (WHERE type = 'step')"
        query = f"SELECT max(idx) + 1, digest, {steps} FROM events WHERE chain = ?"
        with store_errors(self.layout.sqlite):
            length, head, count = self.connection.execute(query, (chain,)).fetchone()
        if length is None:
            return builder
        types = ", ".join(f"'{name}'" for name in SUMMED)
        for link in self._links(f"WHERE chain = ? AND type IN ({types})", (chain,)):
            builder.add(decode_body(link))
        builder.fields |= {"length": length, "head": head, "steps": count}
        return builder

    def _links(self, which: str, arguments: tuple[object, ...]) -> Iterator[Link]:
        query = f"SELECT chain, idx, previous, body, digest FROM events {which} ORDER BY chain, idx"
        with store_errors(self.layout.sqlite):
            for found in self.connection.execute(query, arguments):
                yield to_link(*found)

    def links_like(
        self, kind: str, pattern: str, keep: Callable[[object], bool], *, ignore_case: bool
    ) -> Iterator[Link]:
        """Yields the events of a type whose JSON fits a pattern and a test, by chain and index. One scan of the events.

        The pattern is one of `LIKE`, with `LIKE_ESCAPE`, if the case of ASCII letters is ignored, else of `GLOB`.
        `keep` tests the JSON that fits it; the rest of an event is read after that.
        """
        query = f"SELECT seq, body FROM events WHERE type = ? AND {_fits(ignore_case=ignore_case)} ORDER BY chain, idx"
        one = "SELECT chain, idx, previous, body, digest FROM events WHERE seq = ?"
        with store_errors(self.layout.sqlite):
            # Chains that were recorded at once share pages; with the default of 2 MiB these are read again and again.
            self.connection.execute(f"PRAGMA cache_size=-{SCAN_CACHE_KIB}")
            for seq, body in self.connection.execute(query, (kind, pattern)):
                if keep(body):
                    yield to_link(*self.connection.execute(one, (seq,)).fetchone())

    def later(self, after: int, until: int, kind: str | None) -> Iterator[Link]:
        """Yields the events with `after < seq <= until`, in the order of their appending.

        `kind` is their type; None is all of them.
        """
        one, arguments = ("", ()) if kind is None else ("AND type = ?", (kind,))
        query = f"SELECT chain, idx, previous, body, digest FROM events WHERE seq > ? AND seq <= ? {one} ORDER BY seq"
        with store_errors(self.layout.sqlite):
            for found in self.connection.execute(query, (after, until, *arguments)):
                yield to_link(*found)

    def changed(self, after: int, until: int) -> list[AttemptRow]:
        """Returns the rows of the chains that have events with `after < seq <= until`."""
        some = "SELECT DISTINCT chain FROM events WHERE seq > ? AND seq <= ?"
        return self._rows(f"SELECT chain, row FROM attempts WHERE chain IN ({some})", (after, until))

    def digest_at(self, seq: int) -> str | None:
        """Returns the digest of the event with this sequence number, from 1, or None."""
        with store_errors(self.layout.sqlite):
            found = self.connection.execute("SELECT digest FROM events WHERE seq = ?", (seq,)).fetchone()
        return None if found is None else str(found[0])

    def last_seq(self) -> int:
        """Returns the sequence number of the newest event; 0 without events."""
        with store_errors(self.layout.sqlite):
            found = self.connection.execute("SELECT max(seq) FROM events").fetchone()[0]
        return int(found or 0)

    def ended_at(self) -> dict[str, int]:
        with store_errors(self.layout.sqlite):
            query = "SELECT chain, min(idx) FROM events WHERE type = 'attempt_ended' GROUP BY chain"
            return dict(self.connection.execute(query).fetchall())

    def judged(self, chains: Collection[str] | None = None) -> Iterator[VerdictSummary]:
        one = "" if chains is None else "AND chain = ?"
        asked: list[tuple[str, ...]] = [()] if chains is None else [(chain,) for chain in sorted(set(chains))]
        query = f"SELECT chain, body FROM events WHERE type = 'verdict' {one} ORDER BY chain, idx"
        with store_errors(self.layout.sqlite):
            for arguments in asked:
                for of, body in self.connection.execute(query, arguments):
                    yield summarize_verdict(str(of), body if isinstance(body, bytes) else str(body).encode())

    def find_mistyped(self) -> tuple[str, int | None] | None:
        """Returns chain and index of an event whose column `type` differs from its body's; None where all agree."""
        text = "CAST(body AS TEXT)"
        body_type = f"CASE WHEN json_valid({text}) THEN json_extract({text}, '$.type') END"
        query = f"SELECT chain, idx FROM events WHERE type IS NOT {body_type} ORDER BY seq LIMIT 1"
        with store_errors(self.layout.sqlite):
            found = self.connection.execute(query).fetchone()
        return None if found is None else (str(found[0]), found[1] if isinstance(found[1], int) else None)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        connection = self.connection
        with store_errors(self.layout.sqlite):
            connection.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):  # SQLite may have ended it, and a closed one needs no end
                connection.execute("ROLLBACK")

    def manifest(self) -> dict[str, Any]:
        with store_errors(self.layout.sqlite):
            found = self.connection.execute("SELECT value FROM meta WHERE key = 'manifest'").fetchone()
        try:
            return msgspec.json.decode(found[0], type=dict[str, Any])
        except (msgspec.DecodeError, ValueError, TypeError) as exc:
            raise StoreError(f"{self.layout.sqlite} holds no readable manifest: restore the run from a copy") from exc

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _fits(*, ignore_case: bool) -> str:
    return f"CAST(body AS TEXT) {f'LIKE ? ESCAPE char({ord(LIKE_ESCAPE)})' if ignore_case else 'GLOB ?'}"


def _decode_row(chain: object, row: object) -> AttemptRow:
    try:
        found = _ROW.decode(row if isinstance(row, bytes) else str(row))
    except (msgspec.DecodeError, ValueError) as exc:
        raise StoreError(f"the summary row of {chain!r} is damaged: {exc}; restore the run from a copy") from exc
    if found.chain != chain:
        raise StoreError(f"the summary row of {chain!r} belongs to {found.chain!r}; restore the run from a copy")
    return found
