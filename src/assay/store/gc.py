"""Removes unreferenced blobs, and temporary files that a killed process left.

A blob is referenced when its content address occurs in an event, an addendum or a manifest of a run, or in a listing
(`trees`) that an evidence names (an address inside any other blob does not count; writers name all of them in their
evidence). Invariants: an unreadable run stops the collection before anything is removed; a blob stays where a run with
a writer references it, or where it was written or looked up since that writer started or within the minimum age.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX, EvidenceAdded

from .addenda import addendum_links
from .blobs import BlobStore
from .chain import decode_raw
from .database import has_writer, store_errors
from .layout import Layout, damaged_runs, list_runs
from .run import RunStore
from .trees import LISTING, listed_addresses

_ADDRESS = re.compile(rb"blake3:([0-9a-f]{64})")


class GcReport(msgspec.Struct, frozen=True):
    """The blobs and files that were removed, or would be."""

    blobs: tuple[str, ...]
    bytes_freed: int
    temporary: tuple[str, ...]
    """Left-over temporary files and folders, relative to the store."""
    kept: int
    """Blobs that are referred to."""
    young: int
    """Blobs that nothing refers to yet, too young to be removed."""
    dry_run: bool


def gc(root: Path, *, dry_run: bool = False, evidence: bool = False, min_age_s: float = 3600.0) -> GcReport:
    """Removes blobs that no run refers to; `dry_run` only reports them.

    `evidence` also removes those that only unsealed runs without a writer refer to. Blobs and temporary files younger
    than `min_age_s` stay; 0 is for a store without writers.

    Raises:
        StoreError: A run cannot be read, or a folder holds parts of one; nothing was removed.
    """
    _refuse_damaged(root)
    referred: set[bytes] = set()
    before = time.time() - min_age_s
    for run in list_runs(root):
        layout = Layout(root, run)
        written = has_writer(layout.lock)
        if written:
            # It may have made a blob long before it commits the event that names it.
            before = min(before, _writer_started_at(layout))
        if layout.is_sealed or not evidence or written:
            referred |= referenced_addresses(layout)
    blobs = BlobStore(root / "blobs")
    removed, freed, kept, young = [], 0, 0, 0
    for address in list(blobs.addresses()):
        if bytes.fromhex(address.removeprefix(DIGEST_PREFIX)) in referred:
            kept += 1
            continue
        size = _remove_blob(blobs.path(address), before, dry_run=dry_run)
        if size is None:
            young += 1
            continue
        removed.append(address)
        freed += size
    temporary = tuple(_remove_temporary(root, before, dry_run=dry_run))
    return GcReport(tuple(removed), freed, temporary, kept, young, dry_run)


def referenced_addresses(layout: Layout) -> set[bytes]:
    """Returns every content address that a run references, as 32 bytes each."""
    found: set[bytes] = set()
    followed: set[str] = set()
    with RunStore.open(layout.root, layout.run) as store, store.snapshot():
        segments = [segment.links for segment in addendum_links(layout)]
        for stored in chain.from_iterable((store.links(), *segments)):
            event = (stored.chain, stored.index, stored.body)
            found.update(map(_to_bytes, _event_addresses(store.blobs, event, followed)))
        found.update(map(_to_bytes, _find_addresses(msgspec.json.encode(store.manifest()))))
    return found


def _to_bytes(digits: bytes) -> bytes:
    return bytes.fromhex(digits.decode())


def linked_blobs(blobs: BlobStore, bodies: Iterable[bytes]) -> list[str]:
    """Returns the content addresses of all stored blobs that some events, given as their bytes, reference."""
    if blobs.is_known_empty:
        return []
    followed: set[str] = set()
    found = {one for n, body in enumerate(bodies) for one in _event_addresses(blobs, ("a trial", n, body), followed)}
    return [address for raw in sorted(found) if blobs.is_stored(address := DIGEST_PREFIX + raw.decode())]


def find_addresses(bodies: Iterable[bytes]) -> set[str]:
    """Returns the content addresses that events, given as their bytes, name themselves."""
    return {DIGEST_PREFIX + raw.decode() for body in bodies for raw in _find_addresses(body)}


def _event_addresses(blobs: BlobStore, stored: tuple[str, int, bytes], followed: set[str]) -> list[bytes]:
    """Returns the addresses in an event (chain, index and bytes) and in the listings that it names, as hexadecimal
    digits; each listing is read once."""
    found = _find_addresses(stored[2])
    if b'"listing"' not in stored[2]:
        return found
    event = decode_raw(*stored)
    listing = event.evidence.data.get(LISTING) if isinstance(event, EvidenceAdded) else None
    if isinstance(event, EvidenceAdded) and isinstance(listing, str) and listing not in followed:
        followed.add(listing)
        for address in listed_addresses(blobs, event.evidence):
            found += _find_addresses(address.encode())
    return found


def _find_addresses(data: bytes) -> list[bytes]:
    return _ADDRESS.findall(data) if b"blake3:" in data else []


def _refuse_damaged(root: Path) -> None:
    damaged = damaged_runs(root)
    if damaged:
        raise StoreError(
            f"{root / 'runs' / damaged[0]} holds parts of a run and neither run.sqlite nor sealed/seal.json, so it "
            "cannot be known which blobs are its evidence: restore what is missing, or move the folder away. "
            "Nothing was removed"
        )


def _writer_started_at(layout: Layout) -> float:
    """Returns when the writer started: it writes its process id into the lock then."""
    with store_errors(layout.lock):
        return layout.lock.stat().st_mtime


def _remove_blob(path: Path, before: float, *, dry_run: bool) -> int | None:
    """Removes a blob and returns its size; None where it stays.

    A writer renews the time of a blob that it finds. Renaming the blob and checking its time again closes the race
    between the check and the removal: the writer then either misses the blob, or its new time is seen.
    """
    with store_errors(path):
        status = path.stat()
        if status.st_mtime > before:
            return None
        if dry_run:
            return status.st_size
        aside = path.with_name(f"{path.name}.gc.tmp")
        path.replace(aside)
        if aside.stat().st_mtime > before:
            aside.replace(path)
            return None
        aside.unlink()
        return status.st_size


def _remove_temporary(root: Path, before: float, *, dry_run: bool) -> Iterator[str]:
    """Removes old temporary files of blobs, seals, addenda and live tables."""
    for pattern in (
        "blobs/*.tmp",
        "blobs/??/*.tmp",
        "runs/*/sealed.*.tmp",
        "runs/*/addenda/*.tmp",
        "runs/*/tables/*/*.tmp",
    ):
        for path in sorted(root.glob(pattern)):
            with store_errors(path), contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime > before or _belongs_to_writer(root, path):
                    continue
                if not dry_run:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                yield str(path.relative_to(root))


def _belongs_to_writer(root: Path, path: Path) -> bool:
    """Returns whether a writer may be using the path, to seal or to add an addendum."""
    parts = path.relative_to(root).parts
    return parts[0] == "runs" and has_writer(root / "runs" / parts[1] / "lock")
