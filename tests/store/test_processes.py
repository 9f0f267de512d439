"""What only real processes and a real full disk can show."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.records import Noted
from assay.store import BlobStore, RunStore, audit, seal

WRITER = """
import sys
from pathlib import Path
from assay.records import AttemptStarted, Noted
from assay.store import RunStore
root, run = Path(sys.argv[1]), "r"
try:
    store = RunStore.open(root, run, write=True)
except Exception:
    store = RunStore.create(root, run, {})
number = len(store.attempts())
while True:
    chain = f"c{number}"
    store.append(chain, [AttemptStarted(run, chain, "t", "d", "a", None, 1, number)])
    for step in range(5):
        store.append(chain, [Noted(f"{step}", {"text": "x" * 3000})] * 3)
        print(chain, 1 + 3 * (step + 1), flush=True)
    number += 1
"""


def start(code: str, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *argv], stdout=subprocess.PIPE, text=True)


def killed_after(root: Path, seconds: float) -> dict[str, int]:
    """Starts a writer, kills it some time after its first commit, and says what it was told is committed."""
    with start(WRITER, str(root)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.read().splitlines()
    whole = [line.split() for line in lines if len(line.split()) == 2]
    return {chain: int(length) for chain, length in whole[:-1] or whole}


@pytest.mark.long
def test_sigkill_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    moments = random.Random(7)
    told: dict[str, int] = {}
    for _ in range(6):
        told |= killed_after(tmp_path, moments.uniform(0.0, 0.08))
        assert audit(tmp_path, "r") == ()
        with RunStore.open(tmp_path, "r") as store:
            stored = {row.chain: row.length for row in store.attempts()}
        assert all(stored[chain] >= length for chain, length in told.items())
        assert all(length % 3 == 1 for length in stored.values())  # no half of an append


def test_one_writer_a_run_and_any_number_of_readers(tmp_path: Path) -> None:
    with start(WRITER, str(tmp_path)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(StoreError, match=f"being written by process {process.pid}: wait for it or stop it"):
            RunStore.open(tmp_path, "r", write=True)
        with RunStore.open(tmp_path, "r") as one, RunStore.open(tmp_path, "r") as other:
            assert one.attempts()
            assert len(list(other.links("c0"))) >= 4
        process.kill()
    with RunStore.open(tmp_path, "r", write=True) as store:
        store.append("after", [Noted("x")])


def test_a_full_disk_leaves_whole_appends_and_goes_on_when_there_is_space(small_disk: Path) -> None:
    with RunStore.create(small_disk, "r", {}) as store:
        ballast = small_disk / "ballast"
        ballast.write_bytes(b"x" * (1 << 20))
        done = fill_up(lambda: store.append("c", [Noted("x", {"text": os.urandom(2000).hex()})] * 3))
        assert len(list(store.links("c"))) == 3 * done
        assert store.attempts()[0].length == 3 * done
        ballast.unlink()
        store.append("c", [Noted("again")])
    assert audit(small_disk, "r") == ()


def fill_up(act: Callable[[], object]) -> int:
    """Repeats an act until the disk is full, and says how often it succeeded."""
    done = list[object]()

    def repeat() -> None:
        for _ in range(10_000):
            done.append(act())

    with pytest.raises(StoreError, match=r"free (some )?space"):
        repeat()
    return len(done)


def test_a_full_disk_leaves_no_half_blob_and_no_half_run(small_disk: Path) -> None:
    blobs = BlobStore(small_disk / "blobs")
    fill_up(lambda: blobs.put(os.urandom(100_000)))
    fill_up(lambda: blobs.put_stream(iter([os.urandom(50_000)] * 3)))
    assert not list(small_disk.rglob("*.tmp"))
    assert all(blobs.intact(digest) for digest in blobs.addresses())
    with pytest.raises(StoreError):
        RunStore.create(small_disk, "r", {"long": "x" * 200_000})
    assert not (small_disk / "runs" / "r" / "run.sqlite").exists()
    for _ in range(4):  # an empty run takes seven pages of 16 KiB, twice while it is made
        blobs.remove(next(blobs.addresses()))
    with RunStore.create(small_disk, "r", {}):
        pass


def test_a_disk_too_full_to_seal_leaves_the_live_run(small_disk: Path) -> None:
    with RunStore.create(small_disk, "r", {}) as store:
        for number in range(10):
            store.append(f"c{number}", [Noted("x", {"text": os.urandom(20_000).hex()})])
    (small_disk / "ballast").write_bytes(b"x" * ((2 << 20) - 700_000))
    with pytest.raises(StoreError, match=r"free (some )?space"):
        seal(small_disk, "r")
    assert sorted(p.name for p in (small_disk / "runs" / "r").glob("sealed*")) == []
    assert audit(small_disk, "r") == ()
    (small_disk / "ballast").unlink()
    assert seal(small_disk, "r").chains == 10


SEALER = """
import sys
from pathlib import Path
import duckdb, pyarrow.parquet
from assay.store import seal
print("now", flush=True)
seal(Path(sys.argv[1]), "r")
"""


@pytest.mark.long
def test_sigkill_while_sealing_loses_nothing(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        for number in range(300):
            store.append(f"c{number}", [Noted("x", {"text": "y" * 5000})] * 3)
        before = list(store.links())
    for wait in (0.0, 0.01, 0.03, 0.06, 0.1):
        with start(SEALER, str(tmp_path)) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(wait)
            process.kill()
        with RunStore.open(tmp_path, "r") as store:
            assert list(store.links()) == before
    seal(tmp_path, "r")
    assert audit(tmp_path, "r") == ()
    assert {p.name for p in (tmp_path / "runs" / "r").iterdir()} == {"lock", "manifest.json", "sealed"}


LIMITED = """
import resource, signal, sys
from pathlib import Path
from assay.errors import StoreError
from assay.records import Noted
from assay.store import RunStore
store = RunStore.create(Path(sys.argv[1]), "r", {})
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
done = 0
try:
    while True:
        store.append("c", [Noted("x", {"text": "y" * 5000})])
        done += 1
except StoreError as exc:
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.append("c", [Noted("again")])
    print(done + 1, len(list(store.links("c"))), exc)
"""


def test_a_file_size_limit_is_a_full_disk(tmp_path: Path) -> None:
    out = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=True)
    expected, found, said = out.stdout.split(maxsplit=2)
    assert expected == found
    assert "free space" in said
    assert audit(tmp_path, "r") == ()


BLOB = """
import resource, sys
from pathlib import Path
from assay.store import BlobStore
blobs = BlobStore(Path(sys.argv[1]))
blobs.put(b"warm")
resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, -1))
digest = blobs.put_stream(bytes([n % 256]) * (1 << 20) for n in range(300))
[peak] = [int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")]
assert blobs.path(digest).stat().st_size == 300 << 20
print(peak // 1024, blobs.intact(digest), len(blobs.get(digest, limit=100)))
"""


@pytest.mark.long
def test_a_large_blob_takes_little_memory(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", BLOB, str(tmp_path / "blobs")]
    peak, intact, shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert int(peak) < 128
    assert (intact, shown) == ("True", "100")
