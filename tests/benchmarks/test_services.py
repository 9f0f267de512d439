"""The benchmarks of services run and report; how fast they are, is no business of a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import service_transports, services
from benchmarks._measure import REFERENCE


@pytest.mark.long
def test_services_are_measured_beside_bare_sqlite(tmp_path: Path) -> None:
    services.main(["--quick", "--into", str(tmp_path)])
    rows = {row["what"]: row for row in json.loads((tmp_path / "services.json").read_text())["rows"]}
    assert {"open", "fork", "read", "write", "judging", "write on record"} <= rows.keys()
    assert all(row["cpu_us"] > 0 for row in rows.values())
    assert rows["write"]["times_bare"] > 1


@pytest.mark.long
def test_services_are_measured_by_each_transport(tmp_path: Path) -> None:
    service_transports.main(["--quick", "--into", str(tmp_path)])
    rows = json.loads((tmp_path / "service_transports.json").read_text())["rows"]
    assert {row["what"] for row in rows} == {
        "a call in process",
        "an MCP call over a pipe",
        "a bare asyncio protocol",
        "an HTTP request that calls nothing",
        "an MCP call over HTTP",
        "an HTTP call",
        REFERENCE,
    }
    assert all(row["cpu_us"] > 0 for row in rows)
