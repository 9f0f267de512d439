"""A spool: the record of a trial is at hand without reading it back, and the store holds it when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.records import Noted
from assay.rollout.recording.recorder import SPOOL_BATCH, Recorder
from assay.store import RunStore, chain_copy, verify_links
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
