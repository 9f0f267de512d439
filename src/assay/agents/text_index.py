"""Full-text index in memory: the BM25 of SQLite's FTS5, which the standard library brings."""

from __future__ import annotations

import re
import sqlite3
import weakref
from collections.abc import Iterable

_QUERY_WORDS = 64
_WORD = re.compile(r"\w+")


class TextIndex:
    """Index of texts by their position."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        self._connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
        self._connection.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(texts))

    def search(self, query: str, most: int) -> list[tuple[int, float]]:
        """Returns positions and BM25 scores, the best first; a larger score is better.

        Words are joined by OR; operators of the index's query language have no effect. Of a long query the first 64
        different words count.
        """
        words = list(dict.fromkeys(_WORD.findall(query.lower())))[:_QUERY_WORDS]
        if not words or most < 1:
            return []
        quoted = " OR ".join(f'"{word}"' for word in words)
        rows = self._connection.execute(
            "SELECT rowid, bm25(texts) FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT ?", (quoted, most)
        )
        return [(number, -score) for number, score in rows]
