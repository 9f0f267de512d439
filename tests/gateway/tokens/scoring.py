"""A row's log-probabilities, asked for again."""

from __future__ import annotations

from typing import Any

import pytest


def assert_scored_alike(engine: Any, row: Any) -> None:
    """The engine, run again on the context of each sampled span, gives the log-probabilities that are stored."""
    for span in row.spans:
        again = engine.score(row.token_ids[: span.start], row.token_ids[span.start : span.end], {})
        assert again == pytest.approx(row.logprobs[span.start : span.end], abs=1e-4)
