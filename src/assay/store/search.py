"""Full-text search over the steps of all runs or some.

It finds literal text in messages, reasoning, tool arguments and outputs. The truncated part of an output is in a blob
and is not searched. Of a sealed run only the row groups that may hold the text are read (see `text_index`), in order,
until there are enough hits; a live one is queried with SQL.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.errors import UserError

from .layout import Layout, list_runs
from .query import QueryLimits, run_query
from .sealed import SealedRun, flatten_lists, text_bytes, text_ends
from .text_index import TEXTS, candidate_groups

if TYPE_CHECKING:
    from concurrent.futures import Future

_PLACES = {
    "message": "message",
    "reasoning": "reasoning",
    "arguments": "unnest(arguments)",
    "output": "unnest(outputs)",
    "error": "unnest(errors)",
}
_CALLED = {"outputs": "output", "errors": "error"}
_AROUND = 80
_KEYS = ("chain", "attempt", "task", "index")
AT_ONCE, AHEAD = 2, 4
"""Row groups that are searched at once, and that are in flight."""


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
    """Returns the places that contain a text, in order of run, chain and step; the first occurrence in each.

    Raises:
        UserError: The text is empty, or no run exists.
        StoreError: A run is missing or damaged.
    """
    if not text:
        raise UserError("the search text is empty")
    if limit < 1:
        raise UserError(f"the limit must be at least 1 hit, got {limit}: raise the limit")
    chosen = sorted(set(runs or list_runs(root)))
    if not chosen:
        raise UserError(f"no runs in {root}: make one with `assay run`, or name the folder with --store")
    hits: list[Hit] = []
    for run in chosen:
        layout = Layout(root, run)
        layout.require()
        find = _search_sealed if layout.is_sealed else _search_live
        hits += find(layout, text, limit - len(hits), ignore_case=ignore_case)
        if len(hits) >= limit:
            break
    return tuple(hits)


def _search_live(layout: Layout, text: str, limit: int, *, ignore_case: bool) -> list[Hit]:
    term = text.lower() if ignore_case else text
    statement = (_statement(limit, ignore_case=ignore_case), {"text": term})
    return [
        Hit(*row) for row in run_query(layout.root, ["steps"], [layout.run], QueryLimits(rows=limit), statement).rows
    ]


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


def _search_sealed(layout: Layout, text: str, limit: int, *, ignore_case: bool) -> list[Hit]:
    """Searches the candidate row groups, some at once, until there are enough hits."""
    from concurrent.futures import ThreadPoolExecutor

    readers = [SealedRun(layout.sealed) for _ in range(AT_ONCE)]  # a file is read by one thread at a time
    term = text.lower() if ignore_case else text

    def look(reader: SealedRun, group: int) -> list[Hit]:
        return _search_group(reader, layout.run, group, _SearchTerm(term, limit, ignore_case))

    hits: list[Hit] = []
    with contextlib.ExitStack() as stack:
        for reader in readers:
            stack.callback(reader.close)
        pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in readers]  # left first, and waited for
        groups = enumerate(candidate_groups(readers[0], text, ignore_case=ignore_case))
        under_way: deque[Future[list[Hit]]] = deque()
        more = iter(lambda: next(groups, None), None)
        while len(hits) < limit:
            for at, group in islice(more, AHEAD - len(under_way)):
                under_way.append(pools[at % AT_ONCE].submit(look, readers[at % AT_ONCE], group))
            if not under_way:
                break
            hits += under_way.popleft().result()
        for left in under_way:
            left.cancel()
    return hits[:limit]


class _SearchTerm(NamedTuple):
    text: str
    limit: int
    ignore_case: bool


def _search_group(sealed: SealedRun, run: str, group: int, term: _SearchTerm) -> list[Hit]:
    table = sealed.columns("steps", group, TEXTS)
    found = sorted(_find_places(table, term))[: term.limit]
    if not found:
        return []
    keys = sealed.columns("steps", group, _KEYS)
    hits = []
    for row, place, body in found:
        plain = body.lower() if term.ignore_case else body
        start = max(0, plain.find(term.text) - _AROUND)
        chain, attempt, task, index = (keys[name][row].as_py() for name in _KEYS)
        excerpt = body[start : start + len(term.text) + 2 * _AROUND]
        hits.append(Hit(run, chain, attempt, task, index, place, excerpt))
    return hits


def _find_places(table: Any, term: _SearchTerm) -> Iterator[tuple[int, str, str]]:
    """Yields row, place and text of each match in a row group."""
    import pyarrow.compute as pc

    for name in TEXTS:
        before = 0
        for chunk in table[name].chunks:
            texts = flatten_lists(chunk)
            rows = None if texts is chunk else pc.list_parent_indices(chunk)
            for at in _matching_indexes(pc.utf8_lower(texts) if term.ignore_case else texts, term.text.encode()):
                row = at if rows is None else rows[at].as_py()
                yield before + row, _CALLED.get(name, name), texts[at].as_py()
            before += len(chunk)


def _matching_indexes(texts: Any, term: bytes) -> Iterator[int]:
    """Yields the indexes of matching texts. One search through all of them costs a third of one for each."""
    import numpy as np

    if not len(texts):
        return
    data, ends = text_bytes(texts), text_ends(texts)
    find = re.compile(re.escape(term)).search  # as fast as bytes.find, and copies nothing
    found = find(data)
    while found is not None:
        at = found.start()
        number = int(np.searchsorted(ends, at, side="right"))
        if at + len(term) <= ends[number]:
            yield number
            found = find(data, int(ends[number]))
        else:  # it crosses the boundary of two texts
            found = find(data, at + 1)
