"""Full-text search over the steps of all runs or some.

It finds literal text in messages, reasoning, tool arguments and outputs. The truncated part of an output is in a blob
and is not searched. Of a sealed run only the row groups that may hold the text are read (see `text_index`), in order,
until there are enough hits; the events of a live one are scanned.
"""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.errors import StoreError, UserError
from assay.records import Step, StepAdded

from .chain import Link, decode_body
from .layout import Layout, list_runs
from .live_run import LIKE_ESCAPE, LIKE_SPECIAL
from .run import RunStore
from .sealed import SealedRun, flatten_lists, text_bytes, text_ends
from .text_index import TEXTS, candidate_groups, lower_text, sure_parts

if TYPE_CHECKING:
    from concurrent.futures import Future

_CALLED = {"outputs": "output", "errors": "error"}
_AROUND = 80
_KEYS = ("chain", "attempt", "task", "index")
AT_ONCE, AHEAD = 2, 4
"""Row groups that are searched at once, and that are in flight."""
MOST_IN_PATTERN = 1000
"""Characters of a text that SQLite looks for; its patterns have a limit, and the whole text is compared afterwards."""


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
        UserError: The text is empty or not Unicode, or no run exists.
        StoreError: A run is missing or damaged.
    """
    if not text:
        raise UserError("the search text is empty")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UserError("the search text is not valid UTF-8")
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
    """Searches the stored events themselves, so that recording pays nothing and no index can be behind them.

    One scan: SQLite looks for the text as it is written in JSON, 100 to 200 MB a CPU second. Of the steps that hold it
    anywhere, be it in the name of a field, the texts alone are decoded, and the whole step only of a hit.
    """
    with RunStore.open(layout.root, layout.run) as store:
        if store.is_sealed:  # since the caller looked
            return _search_sealed(layout, text, limit, ignore_case=ignore_case)
        pattern = _step_pattern(text, ignore_case=ignore_case)
        term = _SearchTerm(lower_text(text) if ignore_case else text, limit, ignore_case)
        hits: list[Hit] = []
        with store.snapshot():
            links = store.live.links_like("step", pattern, _text_filter(term), ignore_case=ignore_case)
            for chain, found in groupby(links, lambda link: link.chain):
                hits += sorted(_chain_hits(store, chain, found, term), key=lambda hit: (hit.step, hit.place))
                if len(hits) >= limit:
                    break
        return hits[:limit]


class _CallTexts(msgspec.Struct, gc=False):
    arguments: str


class _ObservationTexts(msgspec.Struct, gc=False):
    content: str
    stderr: str = ""


class _StepTexts(msgspec.Struct, gc=False):
    """The texts of a `Step`; its other fields are skipped, which costs half of decoding them."""

    message: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[_CallTexts, ...] = ()
    observations: tuple[_ObservationTexts, ...] = ()


class _StepAddedTexts(msgspec.Struct, tag_field="type", tag="step", gc=False):
    step: _StepTexts


_TEXTS = msgspec.json.Decoder(_StepAddedTexts)


def _text_filter(term: _SearchTerm) -> Callable[[object], bool]:
    """Returns a test of whether a text of a step's JSON holds the term. What cannot be decoded passes it: decoding the
    whole event reports what is wrong."""
    sought, decode = term.text, _TEXTS.decode
    sure = max(sure_parts(sought), key=len) if term.ignore_case else ""

    def holds(text: str) -> bool:
        lower = text.lower()
        return sought in lower if text.isascii() else sure in lower and sought in lower_text(text)

    find = holds if term.ignore_case else lambda text: sought in text

    def may_hit(body: object) -> bool:
        try:
            step = decode(body).step  # type: ignore[arg-type]  # SQLite holds any type in any column
        except (msgspec.DecodeError, ValueError, RecursionError, TypeError):
            return True
        # Without generators, which would cost as much as decoding: where the text is the name of a field, this runs on
        # each step of the run.
        if (step.message and find(step.message)) or (step.reasoning and find(step.reasoning)):
            return True
        for call in step.tool_calls:
            if find(call.arguments):
                return True
        for seen in step.observations:  # noqa: SIM110
            if find(seen.content) or (seen.stderr and find(seen.stderr)):
                return True
        return False

    return may_hit


def _chain_hits(store: RunStore, chain: str, links: Iterable[Link], term: _SearchTerm) -> Iterator[Hit]:
    row = store.row(chain)
    if row is None:
        raise StoreError(f"chain {chain!r} of run {store.run} has events and no row: run `assay verify {store.run}`")
    for link in links:
        body = decode_body(link)
        if not isinstance(body, StepAdded):
            continue  # its column disagrees with its bytes, which `audit` reports
        for place, text in _step_texts(body.step):
            if term.text in (lower_text(text) if term.ignore_case else text):
                yield Hit(store.run, chain, row.attempt, row.task, body.step.index, place, _excerpt(text, term))


def _step_texts(step: Step) -> Iterator[tuple[str, str]]:
    yield "message", step.message or ""
    yield "reasoning", step.reasoning or ""
    for call in step.tool_calls:
        yield "arguments", call.arguments
    for observation in step.observations:
        yield "output", observation.content
        yield "error", observation.stderr


def _step_pattern(text: str, *, ignore_case: bool) -> str:
    """Returns a pattern that the JSON of every step with the text fits: of `LIKE` if case is ignored, else of `GLOB`.

    SQLite ignores the case of ASCII letters only, so where case is ignored, the longest part of unambiguous letters
    stands for the text.
    """
    part = max(sure_parts(text), key=len) if ignore_case else text
    written = msgspec.json.encode(part[:MOST_IN_PATTERN])[1:-1].decode()
    if ignore_case:
        return f"%{re.sub(LIKE_SPECIAL, lambda found: LIKE_ESCAPE + found[0], written)}%"
    return f"*{re.sub(r'[*?[]', lambda found: f'[{found[0]}]', written)}*"


def _search_sealed(layout: Layout, text: str, limit: int, *, ignore_case: bool) -> list[Hit]:
    """Searches the candidate row groups, some at once, until there are enough hits."""
    from concurrent.futures import ThreadPoolExecutor

    readers = [SealedRun(layout.sealed) for _ in range(AT_ONCE)]  # a file is read by one thread at a time
    term = lower_text(text) if ignore_case else text

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
        chain, attempt, task, index = (keys[name][row].as_py() for name in _KEYS)
        hits.append(Hit(run, chain, attempt, task, index, place, _excerpt(body, term)))
    return hits


def _excerpt(text: str, term: _SearchTerm) -> str:
    plain = lower_text(text) if term.ignore_case else text
    start = max(0, plain.find(term.text) - _AROUND)
    return text[start : start + len(term.text) + 2 * _AROUND]


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
