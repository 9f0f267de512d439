"""The demo at a smaller size: every stored verdict agrees when it is given again, and every replay with its record."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.store import audit, list_runs, load_current_verdicts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def assay(folder: Path, *words: str) -> tuple[int, Any]:
    """An exit code and the JSON that was printed."""
    command = [sys.executable, "-c", "from assay.cli import main; main()", *words, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    assay(folder, "demo", "--count", "1")
    return folder


def test_every_attempt_of_the_demo_agrees_when_it_is_judged_again(demo: Path) -> None:
    store = demo / ".assay"
    for run, attempts in zip(list_runs(store)[:4], (1, 1, 4, 1), strict=True):
        code, found = assay(demo, "verify", run, "--again", "1")
        assert (code, found["again"]["counts"]) == (0, {"agree": attempts, "disagree": 0, "flaky": 0, "cannot": 0})
        assert {one.reverified for one in load_current_verdicts(store, run).values()} == {"agree"}
        assert audit(store, run) == ()


def test_every_attempt_of_the_demo_agrees_when_it_is_done_again(demo: Path) -> None:
    for run, attempts in zip(list_runs(demo / ".assay")[:4], (1, 1, 4, 1), strict=True):
        code, found = assay(demo, "replay", "--all", "--run", run)
        told = [(one["attempt"], one.get("comparison", {}).get("first"), one.get("cause")) for one in found["results"]]
        assert (code, found["counts"]) == (0, {"agree": attempts, "differ": 0, "cannot": 0}), told
