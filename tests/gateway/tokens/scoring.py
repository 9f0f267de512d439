"""A row's log-probabilities, asked for again, and the rows that strict prefix merging gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def assert_scored_alike(engine: Any, row: Any) -> None:
    """The engine, run once more on the whole row, gives each sampled span the log-probabilities that are stored: the
    model is causal, so those of a span are those after the context before it."""
    first, last = row.spans[0].start, row.spans[-1].end
    again = engine.score(row.token_ids[:first], row.token_ids[first:last], {})
    for span in row.spans:
        found = again[span.start - first : span.end - first]
        assert found == pytest.approx(row.logprobs[span.start : span.end], abs=1e-4)


def count_strict_rows(turns: Iterable[tuple[Sequence[int], Sequence[int]]]) -> int:
    """Counts rows by the strict prefix rule of other tools: a turn extends a row that is exactly a prefix of its
    prompt.

    Args:
        turns: (prompt, sampled) of each call in order, the prompt as rendered from what the client sent.
    """
    rows: list[list[int]] = []
    for prompt, sampled in turns:
        whole = [*prompt, *sampled]
        found = next((i for i, row in enumerate(rows) if row == whole[: len(row)] and len(row) <= len(prompt)), None)
        if found is None:
            rows.append(whole)
        else:
            rows[found] = whole
    return len(rows)
