"""The benchmark of services runs and reports; how fast they are, is no business of a test."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import services


def test_services_are_measured_by_each_transport(tmp_path: Path) -> None:
    services.main(["--quick", "--into", str(tmp_path)])
    rows = json.loads((tmp_path / "services.json").read_text())["rows"]
    assert len(rows) == 4
    assert all(row["cpu_us"] > 0 for row in rows)
