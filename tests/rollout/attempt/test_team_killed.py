"""A run of a team that is killed in the middle is finished, with the attempts that it would have had."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.store import RunStore, audit, final_rows, list_runs

ROOT = Path(__file__).parents[3]
TASKS = "family:split-constraints,n=150,variables=4,values=4,seed=8"


def command(store: Path, *words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("assay")), *words, "--store", str(store)]


def begin(store: Path) -> list[str]:
    team = ["--agent", "team", "--agent-option", f"file={ROOT / 'docs_src' / 'team.toml'}"]
    return command(store, "run", TASKS, *team, "--run", "t")


def ended(store: Path) -> list[tuple[str, str | None, int, str | None]]:
    with RunStore.open(store, "t") as run:
        return sorted((row.attempt, row.outcome, row.steps, row.ended) for row in final_rows(run.attempts()))


@pytest.mark.long
def test_a_killed_run_of_a_team_is_resumed_to_the_same_attempts(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen(begin(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(0.01)
        if list_runs(killed) and len(ended(killed)) > 20:
            os.kill(process.pid, signal.SIGKILL)
            break
    assert process.wait() == -signal.SIGKILL
    before = len(ended(killed))
    assert before < 150
    subprocess.run(command(killed, "resume", "t"), check=True, capture_output=True)
    subprocess.run(begin(whole), check=True, capture_output=True)
    assert ended(killed) == ended(whole)
    assert len(ended(killed)) == 150
    assert audit(killed, "t") == ()
