"""Drops what nothing refers to any more: blobs, and temporary files that a killed process left.

A blob is referred to when its content address stands anywhere in an event, an addendum or a manifest of a run, or in a
listing (`trees`) that an evidence names as such (a blob named only inside any other blob is not; writers name all of
them in their evidence). Invariants: a run that cannot be
read stops the whole of it before anything is removed; what a run that is being written refers to stays, and so does
every blob that was written or asked for since its writer began; one that somebody has just written or asked for stays,
because asking makes it young.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX, EvidenceAdded

from .addenda import addendum_links
from .blobs import BlobStore
from .chain import Link, event_of
from .database import is_written, store_errors
from .layout import Layout, damaged_runs, list_runs
from .run import RunStore
from .trees import LISTING, listed

__all__ = ["GcReport", "gc"]

_ADDRESS = re.compile(rb"blake3:([0-9a-f]{64})")


class GcReport(msgspec.Struct, frozen=True):
    """What was removed, or would be."""

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
    """Removes blobs that no run refers to.

    Args:
        root: The store's folder.
        dry_run: Only say what would be removed.
        evidence: Remove also what only unsealed runs refer to (those that are being written keep theirs).
        min_age_s: Younger blobs and temporary files stay. 0 is for a store that nobody writes.

    Raises:
        StoreError: A run cannot be read, or a folder holds parts of one; nothing was removed.
    """
    _refuse_damaged(root)
    referred: set[bytes] = set()
    before = time.time() - min_age_s
    for run in list_runs(root):
        layout = Layout(root, run)
        written = is_written(layout.lock)
        if written:
            # It may have made a blob long before it commits the event that names it.
            before = min(before, _locked_since(layout))
        if layout.is_sealed or not evidence or written:
            referred |= _references(layout)
    blobs = BlobStore(root / "blobs")
    removed, freed, kept, young = [], 0, 0, 0
    for address in list(blobs.addresses()):
        if bytes.fromhex(address.removeprefix(DIGEST_PREFIX)) in referred:
            kept += 1
            continue
        size = _removed(blobs.path(address), before, dry_run=dry_run)
        if size is None:
            young += 1
            continue
        removed.append(address)
        freed += size
    temporary = tuple(_temporary(root, before, dry_run=dry_run))
    return GcReport(tuple(removed), freed, temporary, kept, young, dry_run)


def _references(layout: Layout) -> set[bytes]:
    """Every content address that a run holds, as 32 bytes each."""
    found: set[bytes] = set()
    followed: set[str] = set()
    with RunStore.open(layout.root, layout.run) as store, store.snapshot():
        for stored in store.links():
            found.update(_addresses(stored.body))
            found.update(_listed(store.blobs, stored, followed))
        found.update(_addresses(msgspec.json.encode(store.manifest())))
    for segment in addendum_links(layout):
        for stored in segment.links:
            found.update(_addresses(stored.body))
            found.update(_listed(layout.blobs, stored, followed))
    return found


def _listed(blobs: BlobStore, stored: Link, followed: set[str]) -> Iterator[bytes]:
    """What listings that an event names refer to; each is read once."""
    if b'"listing"' not in stored.body:
        return
    body = event_of(stored).body
    listing = body.evidence.data.get(LISTING) if isinstance(body, EvidenceAdded) else None
    if isinstance(body, EvidenceAdded) and isinstance(listing, str) and listing not in followed:
        followed.add(listing)
        for address in listed(blobs, body.evidence):
            yield from _addresses(address.encode())


def _addresses(data: bytes) -> Iterator[bytes]:
    if b"blake3:" in data:
        yield from (bytes.fromhex(found.decode()) for found in _ADDRESS.findall(data))


def _refuse_damaged(root: Path) -> None:
    damaged = damaged_runs(root)
    if damaged:
        raise StoreError(
            f"{root / 'runs' / damaged[0]} holds parts of a run and neither run.sqlite nor sealed/seal.json, so it "
            "cannot be known which blobs are its evidence: restore what is missing, or move the folder away. "
            "Nothing was removed"
        )


def _locked_since(layout: Layout) -> float:
    """When its writer began: it writes its process id into the lock then."""
    with store_errors(layout.lock):
        return layout.lock.stat().st_mtime


def _removed(path: Path, before: float, *, dry_run: bool) -> int | None:
    """The size of a blob that was removed; None where it stays.

    A writer that finds a blob makes it young first. Taking the blob away under another name and looking again closes
    the moment between looking and removing: the writer then either finds nothing, or was seen.
    """
    with store_errors(path):
        known = path.stat()
        if known.st_mtime > before:
            return None
        if dry_run:
            return known.st_size
        aside = path.with_name(f"{path.name}.gc.tmp")
        path.replace(aside)
        if aside.stat().st_mtime > before:
            aside.replace(path)
            return None
        aside.unlink()
        return known.st_size


def _temporary(root: Path, before: float, *, dry_run: bool) -> Iterator[str]:
    """Old temporary files of blobs, seals, addenda and live tables."""
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
    """Whether it may be a sealing or an addendum at work."""
    parts = path.relative_to(root).parts
    return parts[0] == "runs" and is_written(root / "runs" / parts[1] / "lock")
