"""Results of an earlier run are reused by the same code alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from assay.synthesis import SynthesisConfig, _opening

TREE: Any = SimpleNamespace(digest="blake3:1")
LAYER: Any = SimpleNamespace(digest="blake3:2")


def cache_key() -> str:
    return _opening._cache_key(TREE, LAYER, SynthesisConfig(source="toolz", out="tasks"), ())


def test_changed_code_reuses_no_earlier_result(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_key()
    assert before == cache_key()
    monkeypatch.setattr(_opening, "_code_digest", lambda: "blake3:3")
    assert cache_key() != before
