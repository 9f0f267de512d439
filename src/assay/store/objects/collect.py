"""Garbage collection in object storage: deletes objects that no manifest lists and that are older than a grace.

Such objects are left by interrupted copies and self-tests, and by erasures. Invariants: nothing is deleted before all
manifests are read; the objects are listed before the manifests, and a publisher relies only on young or listed ones.
Objects of other kinds (`runs/RUN/finals/...`) are never deleted, and while some exist, no blob is: their blobs are
listed nowhere.
"""

from __future__ import annotations

import re
import time

import msgspec

from assay.errors import StoreError

from .create_only import PREFIX as SELF_TEST_PREFIX
from .index import BLOBS_PREFIX, RUNS_PREFIX
from .interface import ObjectEntry, ObjectStore
from .publish import GRACE_S, listed_keys
from .transfer import transfer

_SEGMENT = re.compile(r"runs/[^/]+/segments/[0-9a-f]{64}/[^/]+")


class CollectReport(msgspec.Struct, frozen=True):
    """The objects that were deleted, or would be."""

    objects: tuple[str, ...]
    bytes_freed: int
    kept: int
    """Objects that manifests list."""
    young: int
    """Objects that nothing lists, too young to be deleted."""
    dry_run: bool


async def collect_objects(place: ObjectStore, *, dry_run: bool = True, min_age_s: float = GRACE_S) -> CollectReport:
    """Deletes the objects that no manifest lists; `dry_run` only reports them. 0 seconds is for a place that nothing
    is copied to.

    Raises:
        StoreError: A manifest cannot be read, or a run has objects of which this version does not know the blobs;
            nothing was deleted.
    """
    stored = [one for prefix in (BLOBS_PREFIX, RUNS_PREFIX, SELF_TEST_PREFIX) for one in await _list(place, prefix)]
    foreign = [one.key for one in stored if one.key.startswith(RUNS_PREFIX) and not _SEGMENT.fullmatch(one.key)]
    if foreign:
        raise StoreError(
            f"{place}: {foreign[0]} is not part of a sealed run, and which blobs it refers to is listed nowhere. "
            "Nothing was deleted"
        )
    listed = await listed_keys(place)
    before = time.time() - min_age_s
    unlisted = [one for one in stored if one.key not in listed]
    old = [one for one in unlisted if one.modified <= before]
    if not dry_run:
        await transfer([one.key for one in old], place.delete)
    return CollectReport(
        tuple(one.key for one in old),
        sum(one.size for one in old),
        len(stored) - len(unlisted),
        len(unlisted) - len(old),
        dry_run,
    )


async def _list(place: ObjectStore, prefix: str) -> list[ObjectEntry]:
    return [one async for page in place.list(prefix) for one in page]
