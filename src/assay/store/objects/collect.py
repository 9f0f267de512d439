"""Garbage collection in object storage: deletes objects that no manifest lists and that are older than a grace.

Such objects are left by interrupted copies and self-tests, and by erasures. Invariants: the manifests that decide are
read after the objects are listed, and a publisher relies only on young or listed objects (`publish`), so that nothing
is deleted that a manifest lists or is about to list. Only keys that Assay gives are deleted. Objects of other kinds
(`runs/RUN/finals/...`) are never deleted, and a blob stays that one of them refers to. Their format is not known here:
the caller hands in what reads it, and without that nothing is deleted while some exist. A run on nodes that begins
meanwhile ends the collection before anything is deleted. Not covered: one that begins during the deletion.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec

from assay.errors import StoreError

from .create_only import PREFIX as SELF_TEST_PREFIX
from .index import BLOBS_PREFIX, RUNS_PREFIX
from .interface import ObjectEntry, ObjectStore
from .publish import GRACE_S, listed_keys
from .transfer import transfer

ReadReferences = Callable[[ObjectStore, Sequence[ObjectEntry], float], Awaitable[Collection[str]]]
"""Takes the place, its objects below `runs/` that are not of sealed runs, and the time before which objects are old;
returns the keys to which these refer. Raises `StoreError` if they cannot be known."""
_SEGMENT = re.compile(r"runs/[^/]+/segments/[0-9a-f]{64}/[^/]+")
_BLOB = re.compile(r"blobs/[0-9a-f]{2}/[0-9a-f]{64}")
_SELF_TEST = re.compile(r"self-test/[^/]+/(?:twice|race)")


class CollectReport(msgspec.Struct, frozen=True):
    """The objects that were deleted, or would be."""

    objects: tuple[str, ...]
    bytes_freed: int
    kept: int
    """Objects that manifests list, that other runs refer to, that are of other runs, or that are not Assay's."""
    young: int
    """Objects that nothing lists, too young to be deleted."""
    dry_run: bool


async def collect_objects(
    place: ObjectStore,
    *,
    dry_run: bool = True,
    min_age_s: float = GRACE_S,
    read_references: ReadReferences | None = None,
) -> CollectReport:
    """Deletes the objects that no manifest lists.

    Args:
        place: Where.
        dry_run: Only reports them.
        min_age_s: Younger objects stay. 0 is for a place that nothing is copied to.
        read_references: Finds what objects of other kinds refer to; None refuses a place that has some.

    Raises:
        StoreError: A manifest cannot be read, or it cannot be known to which blobs an object refers; nothing was
            deleted.
    """
    stored, before = 0, time.time() - min_age_s
    foreign: list[ObjectEntry] = []
    unlisted: list[ObjectEntry] = []
    listed = await listed_keys(place)  # bounds what is remembered of the objects
    for prefix in (BLOBS_PREFIX, RUNS_PREFIX, SELF_TEST_PREFIX):
        async for page in place.list(prefix):
            stored += len(page)
            unlisted += [one for one in page if one.key not in listed and _is_ours(one.key)]
            foreign += [one for one in page if is_foreign(one.key)]
    if foreign and read_references is None:
        raise StoreError(
            f"{place}: {foreign[0].key} is not part of a sealed run, and which blobs it refers to is listed nowhere. "
            "Nothing was deleted"
        )
    referred = await read_references(place, foreign, before) if foreign and read_references is not None else ()
    begun = None if dry_run else await _find_new(place, foreign)
    if begun is not None:
        raise StoreError(
            f"{place}: {begun} was created meanwhile, and the blobs that it needs may be there already: "
            "repeat this when its run has ended. Nothing was deleted"
        )
    listed = (await listed_keys(place)).union(referred)
    unlisted = [one for one in unlisted if one.key not in listed]
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


async def _find_new(place: ObjectStore, foreign: Sequence[ObjectEntry]) -> str | None:
    """Returns the key of an object below `runs/` of another kind that is not among these; None without one."""
    known = {one.key for one in foreign}
    async for page in place.list(RUNS_PREFIX):
        for one in page:
            if is_foreign(one.key) and one.key not in known:
                return one.key
    return None


def _is_ours(key: str) -> bool:
    return any(kind.fullmatch(key) for kind in (_BLOB, _SEGMENT, _SELF_TEST))


def is_foreign(key: str) -> bool:
    """Tells whether an object below `runs/` is of another kind than those that manifests list."""
    return key.startswith(RUNS_PREFIX) and _SEGMENT.fullmatch(key) is None
