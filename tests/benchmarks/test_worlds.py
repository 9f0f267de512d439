"""The benchmark of worlds runs and reports; how fast they are, is no business of a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import worlds


@pytest.mark.long
def test_worlds_are_measured_raw_and_on_record(tmp_path: Path) -> None:
    worlds.main(["--quick", "--into", str(tmp_path)])
    rows = json.loads((tmp_path / "worlds.json").read_text())["rows"]
    assert [row["what"] for row in rows] == [*worlds.WORLDS, worlds.RECORDED, worlds.ATTEMPTS]
    assert all(row["cpu_us"] > 0 for row in rows[: len(worlds.WORLDS)])
