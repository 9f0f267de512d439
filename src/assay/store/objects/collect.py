"""Garbage collection in object storage: deletes objects that no manifest lists and that are older than a grace.

Such objects are left by interrupted copies and self-tests, and by erasures. Invariants: the manifests that decide are
read after the objects are listed, and a publisher relies only on young or listed objects (`publish`), so that nothing
is deleted that a manifest lists or is about to list. Objects of other kinds (`runs/RUN/finals/...`) are never deleted,
and while some exist, nothing is: their blobs are listed nowhere.
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
    stored, foreign = 0, None
    unlisted: list[ObjectEntry] = []
    listed = await listed_keys(place)  # bounds what is remembered of the objects
    for prefix in (BLOBS_PREFIX, RUNS_PREFIX, SELF_TEST_PREFIX):
        async for page in place.list(prefix):
            stored += len(page)
            unlisted += [one for one in page if one.key not in listed]
            foreign = foreign or next((one.key for one in page if _is_foreign(one.key)), None)
    if foreign is not None:
        raise StoreError(
            f"{place}: {foreign} is not part of a sealed run, and which blobs it refers to is listed nowhere. "
            "Nothing was deleted"
        )
    listed = await listed_keys(place)
    unlisted = [one for one in unlisted if one.key not in listed]
    before = time.time() - min_age_s
    old = [one for one in unlisted if one.modified <= before]
    if not dry_run:
        await transfer([one.key for one in old], place.delete)
    return CollectReport(
        tuple(one.key for one in old),
        sum(one.size for one in old),
        stored - len(unlisted),
        len(unlisted) - len(old),
        dry_run,
    )


def _is_foreign(key: str) -> bool:
    return key.startswith(RUNS_PREFIX) and _SEGMENT.fullmatch(key) is None
