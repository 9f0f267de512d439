"""Verbatim quotes from a record, and their lookup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from assay.records import Observation, Step, Trajectory, canonical_bytes

from .interface import Action, Quote

MOST = 240
"""Maximum characters of a quote."""
NO_STEP = -1
"""Step of a quote from evidence."""


def line_around(text: str, start: int, end: int, most: int = MOST) -> str:
    """Returns the line of `text` with `start` to `end`, cut to `most` characters that still include `start`."""
    begin = text.rfind("\n", 0, start) + 1
    cut = text.find("\n", max(start, min(end, start + most)))
    stop = len(text) if cut < 0 else cut
    if stop - begin > most:
        begin = max(begin, min(start - most // 4, stop - most))
        stop = min(stop, begin + most)
    return text[begin:stop].strip()


def from_action(
    action: Action, field: Literal["message", "arguments", "observation"], pattern: str | re.Pattern[str]
) -> Quote | None:
    """Quotes the first matching line of an action's command, text or observation; None without one.

    For a shell the arguments are its command; for an edit the text that it writes.
    """
    for text in _texts_of(action, field):
        match = re.search(pattern, text)
        if match is None:
            continue
        cut = line_around(text, match.start(), match.end())
        if cut:
            return Quote(action.step, field, cut, action.call if action.call >= 0 else None)
    return None


def _texts_of(action: Action, field: str) -> Iterator[str]:
    if field == "observation":
        if action.observation:
            yield action.observation
    elif action.call < 0:
        yield action.text
    else:
        yield from _strings(action.arguments)


def from_evidence(text: str) -> Quote:
    """Quotes an item of evidence; `text` as in its canonical JSON, or as in one of its texts."""
    return Quote(NO_STEP, "evidence", text[:MOST])


def quote_holds(trajectory: Trajectory, quote: Quote, texts: Callable[[str], str | None] | None = None) -> bool:
    """Returns whether the words occur verbatim in that step and field of the record. An empty quote never does.

    Arguments are searched as written and as parsed; evidence in its texts and as canonical JSON, and, if `texts`
    resolves a digest, in its blobs.
    """
    if not quote.text:
        return False
    if quote.field == "evidence":
        kept = texts if texts is not None else lambda _: None
        return any(
            quote.text in text
            for item in trajectory.evidence
            for text in (
                *_strings(item.data),
                canonical_bytes(item.data).decode(),
                *(kept(b) or "" for b in item.blobs),
            )
        )
    return any(quote.text in text for step in _steps(trajectory, quote.step) for text in _field(step, quote))


def _steps(trajectory: Trajectory, index: int) -> Iterator[Step]:
    yield from (step for step in trajectory.steps if step.index == index)


def _field(step: Step, quote: Quote) -> Iterator[str]:
    if quote.field == "message":
        yield step.message or ""
    elif quote.field == "reasoning":
        yield step.reasoning or ""
    elif quote.field == "arguments":
        calls = step.tool_calls if quote.call is None else step.tool_calls[quote.call : quote.call + 1]
        for call in calls:
            yield call.arguments
            yield from _strings(call.parsed)
    else:
        for seen in step.observations:
            yield from _observed(seen)
        if step.observations:
            yield "\n".join(one for seen in step.observations for one in _observed(seen) if one)


def _observed(seen: Observation) -> tuple[str, str]:
    return seen.content, seen.stderr


def _strings(value: Any) -> Iterator[str]:
    """Yields every text in plain JSON data, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
