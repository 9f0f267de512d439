"""Finds the data of other people's benchmarks, which are no part of the repository."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest


def shared_folder(*parts: str) -> Path:
    """Returns a folder or file of the shared data; skips the test where it is absent."""
    for parent in Path(__file__).parents:
        found = parent.joinpath("shared", "data", *parts)
        if found.exists():
            return found
    pytest.skip(f"the shared data are not here: shared/data/{'/'.join(parts)}")


def read_json(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
