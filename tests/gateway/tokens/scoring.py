"""A row's log-probabilities, asked for again."""

from __future__ import annotations

from typing import Any

import pytest


def assert_scored_alike(engine: Any, row: Any) -> None:
    """Each sampled token, after all that stands before it in the row, has the log-probability it had; one pass."""
    first, last = row.spans[0].start, row.spans[-1].end
    again = engine.score(row.token_ids[:first], row.token_ids[first:last], {})
    for span in row.spans:
        stored = row.logprobs[span.start : span.end]
        assert again[span.start - first : span.end - first] == pytest.approx(stored, abs=1e-4)
