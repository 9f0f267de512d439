"""The views of a text's occurrences in the steps of a run, or of all runs: messages, reasoning, arguments and outputs.

The truncated part of an output is not searched.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import StoreError
from assay.records import Step, StepAdded
from assay.store import RunStore, list_runs, search
from assay.store.chain import Link, decode_event

from .interface import Fields, View, json_bytes

MOST_HITS = 200
LONGEST_TEXT = 500
LONGEST_S = 20.0
"""Seconds after which a search over all runs begins no further run."""
_AROUND = 80


def find_text(root: Path, run: str, text: str) -> dict[str, Any]:
    """`{"text", "hits": [{chain, attempt, step, place, excerpt}], "cut": true if there are more}`; ignores case.

    Raises:
        StoreError: The run is missing or damaged.
    """
    wanted = text[:LONGEST_TEXT]
    with RunStore.open(root, run) as store:
        hits = None if store.is_sealed else list(islice(_search_live(store, wanted.lower()), MOST_HITS + 1))
    if hits is None:
        found = search(root, wanted, runs=[run], limit=MOST_HITS + 1, ignore_case=True)
        hits = [
            {"chain": hit.chain, "attempt": hit.attempt, "step": hit.step, "place": hit.place, "excerpt": hit.excerpt}
            for hit in found
        ]
    return {"text": wanted, "hits": hits[:MOST_HITS], "cut": len(hits) > MOST_HITS}


def _search_live(store: RunStore, text: str) -> Iterator[dict[str, Any]]:
    """Searches the stored bytes of the steps; only matching ones are decoded."""
    needle = msgspec.json.encode(text)[1:-1]
    names = {row.chain: row.attempt for row in store.attempts()}
    for link in store.live.later(0, store.live.last_seq(), "step"):
        if needle in link.body or needle in link.body.decode("utf-8", "replace").lower().encode():
            yield from _step_hits(link, text, names.get(link.chain, link.chain))


def _step_hits(link: Link, text_sought: str, attempt: str) -> Iterator[dict[str, Any]]:
    body = decode_event(link).body
    if not isinstance(body, StepAdded):
        return
    for place, text in _texts(body.step):
        at = text.lower().find(text_sought)
        if at >= 0:
            excerpt = text[max(0, at - _AROUND) : at + len(text_sought) + _AROUND]
            hit = {"chain": link.chain, "attempt": attempt, "step": body.step.index}
            yield hit | {"place": place, "excerpt": excerpt}


def _texts(step: Step) -> Iterator[tuple[str, str]]:
    yield "message", step.message or ""
    yield "reasoning", step.reasoning or ""
    for call in step.tool_calls:
        yield "arguments", call.arguments
    for seen in step.observations:
        yield "output", seen.content
        yield "error", seen.stderr


def find_in_runs(root: Path, text: str) -> dict[str, Any]:
    """Searches all runs, the newest first, as `find_text`, until there are `MOST_HITS` or the time is over.

    Returns:
        `text`, `hits` (each also with its `run`), `searched` and `left_out` (runs), `unreadable` (runs), and `cut`.
    """
    names = list_runs(root)[::-1]
    hits: list[dict[str, Any]] = []
    unreadable: list[str] = []
    ends, searched = time.monotonic() + LONGEST_S, 0
    for run in names:
        if len(hits) > MOST_HITS or time.monotonic() > ends:
            break
        searched += 1
        try:
            hits += [{"run": run, **hit} for hit in find_text(root, run, text)["hits"]]
        except StoreError:
            unreadable.append(run)
    return {
        "text": text[:LONGEST_TEXT],
        "hits": hits[:MOST_HITS],
        "cut": len(hits) > MOST_HITS,
        "searched": searched,
        "left_out": len(names) - searched,
        "unreadable": unreadable[:20],
    }


def _find_everywhere(root: Path, fields: Fields) -> bytes:
    return json_bytes(find_in_runs(root, fields["text"]))


def _find(root: Path, fields: Fields) -> bytes:
    return json_bytes(find_text(root, fields["run"], fields["text"]))


def _names(_: Path, __: str) -> tuple[str, ...]:
    return ()  # there are as many as there are texts


VIEWS = (View("run/{run}/find/{text}", _find, _names), View("find/{text}", _find_everywhere, _names))
