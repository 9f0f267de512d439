"""Blobs are checked while the chains are, and that finds what a pass of its own finds."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from assay.records import Evidence, EvidenceAdded, Noted
from assay.store import LISTING, BlobStore, RunStore, annotate, append_addendum, audit, erase_blob, seal, store_tree

Fill = Callable[..., None]


def referring(root: Path, *, sealing: bool) -> list[str]:
    """A run whose events and addenda refer to many blobs; returns their addresses."""
    blobs = BlobStore(root / "blobs")
    folder = root / "folder"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}").write_text(f"file {number}")
    tree = store_tree(blobs, folder, most_bytes=1 << 20)
    listed = EvidenceAdded(Evidence("tree", "state", "file", {LISTING: tree.listing}, (tree.listing,)))
    for number, chain in enumerate(("t.a.0.0", "t.a.1.0")):
        plain = EvidenceAdded(Evidence("e", "state", "file", {}, (blobs.put(b"%d" % number),)))
        annotate(root, "r", chain, [plain, listed, Noted("remark", {"see": blobs.put(b"named only")})])
    if sealing:
        seal(root, "r")
        append_addendum(root, "r", [EvidenceAdded(Evidence("e9", "state", "file", {}, (blobs.put(b"later"),)))])
    return sorted(blobs.addresses())


@pytest.mark.parametrize("sealing", [False, True])
def test_blobs_are_found_wanting_with_and_without_the_chains(tmp_path: Path, fill: Fill, sealing: bool) -> None:
    fill()
    addresses = referring(tmp_path, sealing=sealing)
    blobs, draw, seen = BlobStore(tmp_path / "blobs"), random.Random(7), 0
    assert audit(tmp_path, "r") == audit(tmp_path, "r", chains=False) == ()
    for _ in range(12):
        kept = {}
        for address in draw.sample(addresses, 3):
            kept[address] = blobs.path(address).read_bytes()
            blobs.path(address).unlink()
            if draw.random() < 0.5:
                blobs.path(address).write_bytes(kept[address] + b"!")
        alone = audit(tmp_path, "r", chains=False)
        assert audit(tmp_path, "r") == alone
        seen += len(alone)
        for address, data in kept.items():
            blobs.path(address).unlink(missing_ok=True)
            blobs.path(address).write_bytes(data)
    assert seen > 12


@pytest.mark.parametrize("sealing", [False, True])
def test_an_erased_blob_is_accepted_wherever_its_tombstone_stands(tmp_path: Path, fill: Fill, sealing: bool) -> None:
    fill()
    addresses = referring(tmp_path, sealing=sealing)
    BlobStore(tmp_path / "blobs").remove(addresses[0])
    first = audit(tmp_path, "r")
    erase_blob(tmp_path, addresses[0], "asked for")
    assert (first != (), audit(tmp_path, "r"), audit(tmp_path, "r", chains=False)) == (True, (), ())


def test_a_blob_behind_a_broken_link_is_checked_too(tmp_path: Path, fill: Fill) -> None:
    fill()
    addresses = referring(tmp_path, sealing=False)
    for address in addresses:
        BlobStore(tmp_path / "blobs").remove(address)
    whole = {problem for problem in audit(tmp_path, "r") if "blob" in problem.what}
    with closing(sqlite3.connect(tmp_path / "runs" / "r" / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE events SET digest = 'blake3:0' WHERE idx = 0")
        connection.execute("UPDATE events SET body = x'00' WHERE chain = 't.a.0.0' AND idx = 1")
    broken = audit(tmp_path, "r")
    assert whole
    assert whole == {problem for problem in broken if "blob" in problem.what}
    assert {"t.a.0.0", "t.a.1.0"} <= {problem.chain for problem in broken if "changed" in problem.what}


def test_events_that_contain_some_bytes_are_those_of_all(tmp_path: Path, fill: Fill) -> None:
    fill()
    for sealing in (False, True):
        if sealing:
            seal(tmp_path, "r")
        with RunStore.open(tmp_path, "r") as store:
            for chain in (None, "t.a.1.0", "none"):
                for needle in (b"", b'"verdict"', b"remark", b"nowhere"):
                    every = [link for link in store.links(chain) if needle in link.body]
                    assert list(store.links(chain, needle)) == every
