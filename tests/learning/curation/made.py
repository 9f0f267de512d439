"""Candidates for tests, made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.learning.curation.interface import AttemptCandidate
from assay.learning.curation.similar import minhash_signature


def candidate(chain: str, task: str = "t", *, text: str = "", **fields: Any) -> AttemptCandidate:
    """A pass that nothing speaks against, by default."""
    made: dict[str, Any] = {
        "run": "r",
        "attempt": f"{task}@{chain}",
        "agent": "a",
        "outcome": "pass",
        "integrity": "pass",
    }
    return AttemptCandidate(chain=chain, task=task, signature=minhash_signature(text), **{**made, **fields})


def assay(*words: str) -> str:
    """What a command that works prints."""
    result = CliRunner().invoke(build_app(), list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def lines(path: Path) -> list[dict[str, Any]]:
    """Of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]
