"""A spool: the record of a trial is at hand without reading it back, and is written where it stays or is large."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.records import Noted
from assay.rollout.recording.recorder import SPOOL_BATCH, Recorder
from assay.store import RunStore, chain_copy, spool, verify_links
from assay.store.chain_copy import ChainCopy

CHAIN = "t@0.0"


async def test_events_of_a_spool_wait_until_they_are_committed_or_too_many(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}, spool=True) as store:
        recorder = Recorder(store, CHAIN)
        recorder.note("first", {})
        await recorder.checkpoint()
        assert list(store.links(CHAIN)) == []
        for _ in range(SPOOL_BATCH - 1):
            recorder.note("more", {})
        assert len(list(store.links(CHAIN))) == SPOOL_BATCH
        recorder.note("last", {})
        await recorder.commit()
        assert len(list(store.links(CHAIN))) == SPOOL_BATCH + 1
    with RunStore.open(tmp_path, "r") as closed:
        assert verify_links(closed.links(CHAIN)) is None


def test_a_copy_has_the_bytes_and_the_head_of_the_chain(tmp_path: Path) -> None:
    copy = ChainCopy()
    with RunStore.create(tmp_path, "r", {}, spool=True) as store:
        store.watch(CHAIN, copy.add_committed)
        head = store.append(CHAIN, [Noted("one", {}, 1.0), Noted("two", {}, 2.0)])
        assert (copy.events, copy.head) == ([link.body for link in store.links(CHAIN)], head)


def test_a_copy_that_is_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_copy, "MOST_BYTES", 10)
    copy = ChainCopy()
    copy.add_committed(Noted("one", {}, 1.0), b"123456", "head")
    assert copy.is_whole
    copy.add_committed(Noted("two", {}, 1.0), b"123456", "head")
    assert (copy.is_whole, copy.events) == (False, [])


def test_a_spool_knows_its_blobs(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}, spool=True) as store:
        digest = store.blobs.put(b"data")
        assert store.blobs.put(b"data") == digest
        assert (store.blobs.is_stored(digest), store.blobs.is_stored("blake3:" + "0" * 64)) == (True, False)


def _events_in_file(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{folder}/runs/r/run.sqlite?immutable=1", uri=True)) as file:
        return int(file.execute("SELECT count(*) FROM events").fetchone()[0])


def test_what_is_released_is_never_written_and_its_name_is_free(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}, spool=True) as store:
        head = store.append(CHAIN, [Noted("one", {}, 1.0)])
        store.append("t@1.0", [Noted("one", {}, 1.0)])
        store.release(CHAIN)
        assert [store.has_chain(chain) for chain in (CHAIN, "t@1.0")] == [False, True]
        assert store.append(CHAIN, [Noted("one", {}, 1.0)]) == head  # begins anew
        store.release(CHAIN)
    with RunStore.open(tmp_path, "r") as closed:
        assert [link.chain for link in closed.links()] == ["t@1.0"]
        assert (closed.has_chain(CHAIN), closed.has_chain("t@1.0")) == (False, True)


def test_above_a_bound_a_spool_writes_and_a_chain_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_BYTES", 1)
    with RunStore.create(tmp_path, "r", {}, spool=True) as store:
        store.append(CHAIN, [Noted("one", {}, 1.0)])
        assert _events_in_file(tmp_path) == 0
        head = store.append(CHAIN, [Noted("two", {}, 2.0)])
        assert _events_in_file(tmp_path) == 1
        store.release(CHAIN)  # the file has its beginning: the rest is kept, too
        assert store.has_chain(CHAIN)
    with RunStore.open(tmp_path, "r") as closed:
        assert verify_links(closed.links(CHAIN)) is None
        row = closed.row(CHAIN)
        assert row is not None
        assert (row.length, row.head) == (2, head)


def test_a_spool_on_a_full_disk_appends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_BYTES", 1)
    store = RunStore.create(tmp_path, "r", {}, spool=True)
    store.append(CHAIN, [Noted("one", {}, 1.0)])
    store.live.connection.execute("PRAGMA max_page_count=1")  # SQLite's own full disk
    store.append(CHAIN, [Noted("long", {"text": "x" * 1_000_000}, 1.0)])
    with pytest.raises(StoreError, match="full"):
        store.append(CHAIN, [Noted("refused", {}, 1.0)])
    with pytest.raises(StoreError, match="full"):
        store.close()
    with RunStore.open(tmp_path, "r", write=True) as again:  # the lock is free
        assert [link.index for link in again.links(CHAIN)] == [0]
