"""Erases a blob for good, and records that and why in every chain that refers to it.

Order: the tombstones are committed before the bytes go, so a killed process leaves a tombstone at worst, and the same
call completes it. `audit` accepts a missing blob only with a tombstone in the same run.

Covered: the stored bytes, and everything that reads them through the store. Not covered: text inside events (messages,
commands, short outputs), which cannot change without breaking the chain; exported files, viewer folders and backups.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.errors import StoreError, UserError
from assay.records import DIGEST_PREFIX, Body, EvidenceAdded, Noted

from .addenda import addenda
from .annotate import annotate_all
from .blobs import BlobStore
from .chain import decode_body, decode_event
from .database import has_writer, store_errors
from .layout import Layout, list_runs
from .run import RunStore
from .trees import LISTING, listed_addresses

ERASED = "erased"
"""Name of the tombstone, a note with `blob`, `reason` and `size_bytes`."""
MARKING = b'"erased"'
"""Contained in the body of every tombstone."""
LEAST_PREFIX = 8
_HEX = re.compile(r"[0-9a-f]{1,64}")


class Erasure(msgspec.Struct, frozen=True):
    """A tombstone."""

    chain: str
    blob: str
    reason: str
    at: float | None = None


class ErasureReport(msgspec.Struct, frozen=True):
    """The erased blob, and the chains that have a tombstone for it now."""

    blob: str
    reason: str
    size_bytes: int | None
    """None where the bytes were gone before."""
    chains: dict[str, tuple[str, ...]]
    """By run; without those that had a tombstone before."""
    dry_run: bool


def erase_blob(root: Path, blob: str, reason: str, *, dry_run: bool = False) -> ErasureReport:
    """Records a tombstone in each chain that refers to a blob, then deletes its bytes. Repeating it is safe.

    Args:
        root: The store.
        blob: Content address, or its first hexadecimal digits.
        reason: Why it is erased; stored in the record, so it must not hold what is erased.
        dry_run: Only report.

    Raises:
        UserError: The reason is empty, or no blob or several have that address.
        StoreError: A run is being written, or cannot be read; nothing was deleted.
    """
    if not reason.strip():
        raise UserError("no reason: give one with --reason, it is recorded in place of the bytes")
    address = _resolve_address(root, blob)
    written = [run for run in list_runs(root) if has_writer(Layout(root, run).lock)]
    if written:
        raise StoreError(f"run {written[0]!r} is being written: wait for its end, then repeat the command")
    path = BlobStore(root / "blobs").path(address)
    size = path.stat().st_size if path.is_file() else None
    chains = {run: found for run in list_runs(root) if (found := _unmarked_chains(root, run, address))}
    if not dry_run:
        note = Noted(ERASED, {"blob": address, "reason": reason.strip(), "size_bytes": size}, time.time())
        for run, names in chains.items():
            _close_cut_chains(root, run)
            annotate_all(root, run, dict.fromkeys(names, (note,)))
        with store_errors(path):
            path.unlink(missing_ok=True)
    return ErasureReport(address, reason.strip(), size, chains, dry_run)


def list_erasures(root: Path, run: str) -> tuple[Erasure, ...]:
    """Returns the tombstones of a run; none for one that cannot be read, which `audit` reports."""
    try:
        with RunStore.open(root, run) as store, store.snapshot():
            return erasures(store)
    except StoreError:
        return ()


def erasures(store: RunStore, chain: str | None = None) -> tuple[Erasure, ...]:
    """Returns the tombstones of a run, or of one chain, those in its addenda included."""
    found = (erasure_in(marked, body) for marked, body in _marking_bodies(store, chain))
    return tuple(one for one in found if one is not None)


def erasure_in(chain: str, body: Body) -> Erasure | None:
    """Returns the tombstone that an event on a chain is; None for any other event."""
    if not isinstance(body, Noted) or body.name != ERASED:
        return None
    blob, reason = body.data.get("blob"), body.data.get("reason")
    if not isinstance(blob, str) or not isinstance(reason, str):
        return None
    return Erasure(chain, blob, reason, body.at)


def _marking_bodies(store: RunStore, chain: str | None) -> Iterator[tuple[str, Body]]:
    for link in store.links(chain, MARKING):
        yield link.chain, decode_body(link)
    for addendum in addenda(store.layout.root, store.run) if store.is_sealed else ():
        for about, event in addendum.parts():
            marked = about or addendum.chain
            if chain in (None, marked):
                yield marked, event.body


def _resolve_address(root: Path, blob: str) -> str:
    digits = blob.removeprefix(DIGEST_PREFIX)
    if not _HEX.fullmatch(digits) or len(digits) < LEAST_PREFIX:
        raise UserError(
            f"{blob[:80]!r} is not a content address: give blake3: and 64 hexadecimal digits, or at least the first "
            f"{LEAST_PREFIX} digits"
        )
    if len(digits) == 64:
        return DIGEST_PREFIX + digits
    found = [path.name for path in (root / "blobs" / digits[:2]).glob(f"{digits}*") if len(path.name) == 64]
    if len(found) != 1:
        what = "several blobs begin" if found else "no blob begins"
        raise UserError(f"{what} with {digits} in {root}: give all 64 digits")
    return DIGEST_PREFIX + found[0]


def _unmarked_chains(root: Path, run: str, address: str) -> tuple[str, ...]:
    """Returns the chains of a run that refer to a blob and have no tombstone for it."""
    needle = address.encode()
    with RunStore.open(root, run) as store, store.snapshot():
        marked = {one.chain for one in erasures(store) if one.blob == address}
        found: dict[str, None] = {}
        followed: dict[str, bool] = {}
        for link in store.links():
            if link.chain in found:
                continue
            if needle in link.body:
                found[link.chain] = None
            elif b'"listing"' in link.body:
                body = decode_event(link).body
                if isinstance(body, EvidenceAdded) and _lists(store.blobs, body, address, followed):
                    found[link.chain] = None
        first = next((row.chain for row in store.attempts()), None)
    for addendum in addenda(root, run) if Layout(root, run).is_sealed else ():
        for about, event in addendum.parts():
            if needle in msgspec.json.encode(event.body) and (chain := about or first) is not None:
                found[chain] = None
    return tuple(chain for chain in found if chain not in marked)


def _lists(blobs: BlobStore, body: EvidenceAdded, address: str, followed: dict[str, bool]) -> bool:
    listing = body.evidence.data.get(LISTING)
    if not isinstance(listing, str):
        return False
    if listing not in followed:
        followed[listing] = address in listed_addresses(blobs, body.evidence)
    return followed[listing]


def _close_cut_chains(root: Path, run: str) -> None:
    """Marks the chains of a killed process as interrupted, as `resume` does: only an ended chain can be added to."""
    if Layout(root, run).is_sealed:
        return
    with RunStore.open(root, run, write=True) as store:
        for chain in store.interrupted():
            store.mark_interrupted(chain)
