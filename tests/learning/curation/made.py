"""Candidates for tests, made by hand."""

from __future__ import annotations

from typing import Any

from assay.learning.curation.interface import Candidate
from assay.learning.curation.similar import signature


def candidate(chain: str, task: str = "t", *, text: str = "", **fields: Any) -> Candidate:
    """A pass that nothing speaks against, by default."""
    made: dict[str, Any] = {
        "run": "r",
        "attempt": f"{task}@{chain}",
        "agent": "a",
        "outcome": "pass",
        "integrity": "pass",
    }
    return Candidate(chain=chain, task=task, signature=signature(text), **{**made, **fields})
