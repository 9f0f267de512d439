"""The view of where a text stands in the steps of a run: in what was said, thought, called or brought back.

What was cut from an output lies in a blob and is not looked through.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from assay.records import Step, StepTaken
from assay.store import Hit, RunStore, search
from assay.store.chain import Link, event_of

from .interface import Fields, View, json_bytes

__all__ = ["VIEWS", "find"]

MOST_HITS = 200
LONGEST_TEXT = 500
_AROUND = 80


def find(root: Path, run: str, text: str) -> dict[str, Any]:
    """`{"text", "hits": [{chain, attempt, step, place, excerpt}], "cut": whether there are more}`; case is ignored.

    Raises:
        StoreError: The run is missing or damaged.
    """
    wanted = text[:LONGEST_TEXT]
    with RunStore.open(root, run) as store:
        hits = None if store.is_sealed else list(islice(_in_live(store, wanted.lower()), MOST_HITS + 1))
    if hits is None:
        found = search(root, wanted, runs=[run], limit=MOST_HITS + 1, ignore_case=True)
        hits = [_told(hit) for hit in found]
    return {"text": wanted, "hits": hits[:MOST_HITS], "cut": len(hits) > MOST_HITS}


def _told(hit: Hit) -> dict[str, Any]:
    return {"chain": hit.chain, "attempt": hit.attempt, "step": hit.step, "place": hit.place, "excerpt": hit.excerpt}


def _in_live(store: RunStore, wanted: str) -> Iterator[dict[str, Any]]:
    """One pass over the stored bytes of the steps; only those that hold the text are decoded."""
    needle = msgspec.json.encode(wanted)[1:-1]
    names = {row.chain: row.attempt for row in store.attempts()}
    for link in store.live.later(0, store.live.last_seq(), "step"):
        if needle in link.body or needle in link.body.decode("utf-8", "replace").lower().encode():
            yield from _places(link, wanted, names.get(link.chain, link.chain))


def _places(link: Link, wanted: str, attempt: str) -> Iterator[dict[str, Any]]:
    body = event_of(link).body
    if not isinstance(body, StepTaken):
        return
    for place, text in _texts(body.step):
        at = text.lower().find(wanted)
        if at >= 0:
            excerpt = text[max(0, at - _AROUND) : at + len(wanted) + _AROUND]
            told = {"chain": link.chain, "attempt": attempt, "step": body.step.index}
            yield told | {"place": place, "excerpt": excerpt}


def _texts(step: Step) -> Iterator[tuple[str, str]]:
    yield "message", step.message or ""
    yield "reasoning", step.reasoning or ""
    for call in step.tool_calls:
        yield "arguments", call.arguments
    for seen in step.observations:
        yield "output", seen.content
        yield "error", seen.stderr


def _find(root: Path, fields: Fields) -> bytes:
    return json_bytes(find(root, fields["run"], fields["text"]))


def _names(_: Path, __: str) -> tuple[str, ...]:
    return ()  # there are as many as there are texts


VIEWS = (View("run/{run}/find/{text}", _find, _names),)
