"""A row's log-probabilities, asked for again, and the rows that strict prefix merging gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def assert_scored_alike(engine: Any, row: Any) -> None:
    """The engine, run again on the context of each sampled span, gives the log-probabilities that are stored."""
    for span in row.spans:
        again = engine.score(row.token_ids[: span.start], row.token_ids[span.start : span.end], {})
        assert again == pytest.approx(row.logprobs[span.start : span.end], abs=1e-4)


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
