"""A runner that is killed at any moment: nothing is lost, nothing runs twice, what was cut is kept and marked."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.store import RunStore, audit
from tests.rollout.long_run import ATTEMPTS
from tests.sampling import WHOLE

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
KILLS = 20 if WHOLE else 8
"""`make campaign` kills more often."""


def start(store: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.rollout.long_run", str(store)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


def wait_until_writing(store: Path, process: subprocess.Popen[bytes]) -> None:
    """Until this process holds the run's lock: from here on a kill hits the record."""
    lock, database = (store / "runs" / "long" / name for name in ("lock", "run.sqlite"))
    while process.poll() is None:
        if database.exists() and lock.read_text() == str(process.pid):
            return
        time.sleep(0.005)


def events(store: Path) -> int:
    with contextlib.closing(sqlite3.connect(store / "runs" / "long" / "run.sqlite")) as database:
        return int(database.execute("SELECT count(*) FROM events").fetchone()[0])


def wait_until_in_steps(store: Path, process: subprocess.Popen[bytes]) -> None:
    """Until it wrote more events than its eight attempts have before their first steps, however slow the machine is."""
    before = events(store)
    while process.poll() is None and events(store) < before + 64:
        time.sleep(0.005)


@pytest.fixture(scope="module")
def killed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store, moments = tmp_path_factory.mktemp("store"), random.Random(11)
    for kill in range(KILLS):
        process = start(store)
        wait_until_writing(store, process)
        if kill % 2:
            wait_until_in_steps(store, process)
        time.sleep(moments.uniform(0.0, 0.12))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert start(store).wait() == 0
    return store


def test_every_attempt_has_exactly_one_deciding_try(killed_run: Path) -> None:
    with RunStore.open(killed_run, "long") as run:
        rows = run.attempts()
    deciding = Counter(r.attempt for r in rows if r.final)
    assert len(deciding) == ATTEMPTS
    assert set(deciding.values()) == {1}
    assert {r.outcome for r in rows if r.final} == {"pass"}


def test_nothing_runs_again_after_it_ended(killed_run: Path) -> None:
    with RunStore.open(killed_run, "long") as run:
        rows = run.attempts()
    last = {r.attempt: max(x.retry for x in rows if x.attempt == r.attempt) for r in rows}
    assert all(r.retry == last[r.attempt] for r in rows if r.final)


def test_cut_chains_are_kept_and_marked(killed_run: Path) -> None:
    with RunStore.open(killed_run, "long") as run:
        cut = [r for r in run.attempts() if r.finished is None]
        assert cut
        assert all(r.interrupted for r in cut)
        assert any(run.trajectory(r.chain).steps for r in cut)


def test_every_digest_of_a_killed_run_holds(killed_run: Path) -> None:
    assert audit(killed_run, "long") == ()


def test_second_writer_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    process = start(tmp_path)
    try:
        wait_until_writing(tmp_path, process)
        with pytest.raises(StoreError, match=str(process.pid)):
            RunStore.open(tmp_path, "long", write=True)
    finally:
        process.kill()
        process.wait()
    RunStore.open(tmp_path, "long", write=True).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root: run the suite as root to try a full one")
def test_full_disk_stops_the_run_and_resume_finishes_it(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(tmp_path)], check=True)
    try:
        assert start(tmp_path).wait() != 0
        with RunStore.open(tmp_path, "long") as run:
            assert 0 < len({r.attempt for r in run.attempts() if r.final}) < ATTEMPTS
        subprocess.run(["mount", "-o", "remount,size=64m", str(tmp_path)], check=True)
        assert start(tmp_path).wait() == 0
        assert audit(tmp_path, "long") == ()
        with RunStore.open(tmp_path, "long") as run:
            assert len({r.attempt for r in run.attempts() if r.final}) == ATTEMPTS
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
