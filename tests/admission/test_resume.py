"""An admission that is killed: what was recorded stays, what is missing runs once, and the end is the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.errors import StoreError
from assay.store import RunStore, audit
from tests.admission.folders import CAREFUL, write_task


def start(tasks: Path, store: Path) -> subprocess.Popen[bytes]:
    words = ["admit", str(tasks), "--quick", "--run", "a", "--store", str(store)]
    program = Path(sys.executable).with_name("assay")
    with (store.parent / "told").open("wb") as told:
        return subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=told)


def ended(store: Path) -> int:
    try:
        with RunStore.open(store, "a") as run:
            return sum(row.final for row in run.attempts())
    except StoreError:
        return 0


def kill_after(process: subprocess.Popen[bytes], store: Path, attempts: int, number: int) -> None:
    while process.poll() is None and ended(store) < attempts:
        time.sleep(0.02)
    assert process.poll() is None, "it ended before it could be killed"
    os.kill(process.pid, number)
    process.wait()


def resumed(store: Path) -> Any:
    done = CliRunner().invoke(build_app(), ["admit", "--resume", "a", "--store", str(store), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["report"]


@pytest.mark.long
def test_a_killed_admission_goes_on_and_comes_to_the_same_end(tmp_path: Path) -> None:
    task, store = write_task(tmp_path / "careful", CAREFUL), tmp_path / "store"
    kill_after(start(task, store), store, 4, signal.SIGKILL)
    before = ended(store)
    report = resumed(store)
    with RunStore.open(store, "a") as run:
        rows = run.attempts()
    deciding = Counter(row.attempt for row in rows if row.final)
    assert set(deciding.values()) == {1}
    assert before < len(deciding) == len(report["tasks"][0]["probes"]) + 1
    assert report["summary"]["admitted"] == 1
    assert audit(store, "a") == ()


@pytest.mark.long
def test_an_interrupted_admission_says_how_to_go_on(tmp_path: Path) -> None:
    task, store = write_task(tmp_path / "careful", CAREFUL), tmp_path / "store"
    process = start(task, store)
    kill_after(process, store, 1, signal.SIGINT)
    told = (tmp_path / "told").read_text()
    assert (process.returncode, "assay admit --resume a" in told) == (130, True)
    sealed = CliRunner().invoke(build_app(), ["seal", "a", "--store", str(store)])
    assert (sealed.exit_code, "have no certificate yet" in sealed.output) == (2, True)


@pytest.mark.quick
def test_what_goes_on_takes_no_other_settings(tmp_path: Path) -> None:
    words = ["admit", str(tmp_path), "--resume", "a", "--store", str(tmp_path)]
    done = CliRunner().invoke(build_app(), words)
    assert (done.exit_code, "the run's own settings" in done.output) == (2, True)
