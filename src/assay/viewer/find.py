"""The views of a text's occurrences in the steps of a run, or of all runs: messages, reasoning, arguments and outputs.

The truncated part of an output is not searched.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from assay.errors import StoreError
from assay.store import list_runs, search

from .interface import Fields, View, json_bytes

MOST_HITS = 200
LONGEST_TEXT = 500
LONGEST_S = 20.0
"""Seconds after which a search over all runs begins no further run."""


def find_text(root: Path, run: str, text: str) -> dict[str, Any]:
    """`{"text", "hits": [{chain, attempt, step, place, excerpt}], "cut": true if there are more}`; ignores case.

    Raises:
        StoreError: The run is missing or damaged.
    """
    wanted = text[:LONGEST_TEXT]
    found = search(root, wanted, runs=[run], limit=MOST_HITS + 1, ignore_case=True)
    hits = [
        {"chain": hit.chain, "attempt": hit.attempt, "step": hit.step, "place": hit.place, "excerpt": hit.excerpt}
        for hit in found
    ]
    return {"text": wanted, "hits": hits[:MOST_HITS], "cut": len(hits) > MOST_HITS}


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
