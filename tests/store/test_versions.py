from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest

from assay.errors import StoreError
from assay.records import SCHEMA_VERSION, Noted
from assay.store import RunStore, audit, query, seal
from assay.store.database import LOG_BYTES, MIGRATIONS, PAGE_BYTES
from tests.store.nobody import read_as_nobody

pytestmark = pytest.mark.quick
GOLDEN = Path(__file__).parent / "golden" / "version_0.sqlite"
HEAD = "blake3:8173d47821000a2e90bb6f6c62d961bf3da0707fb737c7d5ee1b2515d7d16a74"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A store with the run of version 0."""
    folder = tmp_path / "runs" / "golden"
    folder.mkdir(parents=True)
    shutil.copyfile(GOLDEN, folder / "run.sqlite")
    return tmp_path


def version(root: Path) -> int:
    connection = sqlite3.connect(root / "runs" / "golden" / "run.sqlite")
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    connection.close()
    return found


def test_every_older_version_has_a_migration() -> None:
    assert sorted(MIGRATIONS) == list(range(SCHEMA_VERSION))


def test_a_reader_reads_version_0_and_changes_nothing(golden: Path) -> None:
    with RunStore.open(golden, "golden") as store:
        rows = store.attempts()
        assert [(r.attempt, r.outcome, r.length, r.final) for r in rows] == [
            ("t.a.0", "pass", 4, True),
            ("t.a.1", None, 2, False),
        ]
        assert rows[0].head == HEAD
        assert store.trajectory("t.a.0.0").steps[0].message == "hello"
        assert store.manifest() == {"run": "golden"}
    assert (golden / "runs" / "golden" / "run.sqlite").read_bytes() == GOLDEN.read_bytes()


def test_a_writer_migrates_version_0_in_place_and_goes_on(golden: Path) -> None:
    with RunStore.open(golden, "golden", write=True) as store:
        store.append("t.a.1.0", [Noted("resumed")])
    assert version(golden) == SCHEMA_VERSION
    assert audit(golden, "golden") == ()
    seal(golden, "golden")
    assert query(golden, "SELECT max(length) FROM trajectories").rows == ((4,),)


def sizes(store: RunStore) -> tuple[int, int]:
    """Bytes of a page of a run's file, and of the log that it may have."""
    pages = [
        int(store.live.connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_size", "wal_autocheckpoint")
    ]
    return pages[0], pages[0] * pages[1]


def test_a_log_may_be_as_long_whatever_the_pages_of_its_file(golden: Path) -> None:
    with RunStore.create(golden, "new", {}) as new, RunStore.open(golden, "golden", write=True) as old:
        assert sizes(new) == (PAGE_BYTES, LOG_BYTES)
        assert sizes(old) == (512, LOG_BYTES)


def test_version_0_is_read_from_a_folder_that_cannot_be_written(golden: Path) -> None:
    done = read_as_nobody(golden, "golden")
    assert done.stdout.split() == ["2", "4"], done.stderr


def test_a_newer_version_is_refused_untouched(golden: Path) -> None:
    connection = sqlite3.connect(golden / "runs" / "golden" / "run.sqlite")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    connection.close()
    for write in (False, True):
        with pytest.raises(StoreError, match=r"written by a newer Assay .*update Assay"):
            RunStore.open(golden, "golden", write=write)
    assert version(golden) == SCHEMA_VERSION + 1


def test_a_newer_seal_is_refused(golden: Path) -> None:
    seal(golden, "golden")
    path = golden / "runs" / "golden" / "sealed" / "seal.json"
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(path.read_bytes()), "schema_version": 99}))
    with RunStore.open(golden, "golden") as store, pytest.raises(StoreError, match="sealed by a newer Assay"):
        store.manifest()


@pytest.mark.parametrize("data", [b"", b"SQLite format 3\x00", b"nonsense" * 200])
def test_what_is_no_database_is_a_store_error(golden: Path, data: bytes) -> None:
    (golden / "runs" / "golden" / "run.sqlite").write_bytes(data)
    with pytest.raises(StoreError, match=r"run\.sqlite"):
        RunStore.open(golden, "golden")
