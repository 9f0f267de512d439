"""Finds the blobs that runs on nodes refer to, for the garbage collection of a place.

Each trial in the place, the superseded and interrupted ones too, names its blobs. Invariant: every record is read, and
one that cannot be read, an object of an unknown kind, or a run that may still commit stops the collection before
anything is deleted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.errors import StoreError
from assay.store.gc import find_addresses
from assay.store.objects.index import blob_entry
from assay.store.objects.interface import ObjectEntry, ObjectStore
from assay.store.objects.transfer import transfer

from .commits import read_record, unpack_events
from .place_records import read_published_name

_KEY = re.compile(
    r"runs/(?P<run>[^/]+)/(?:(?P<trial>finals/[0-9a-f]{2}/[^/]+|cut/[^/]+/[0-9a-f]{32}|inputs/[^/]+)|(?P<end>ended\.json)"
    r"|run\.json|(?:agents|parts)/[^/]+\.json|(?:epochs|rounds)/[0-9]{8}\.json)"
)


class RunObjects(NamedTuple):
    """The objects of one run on nodes."""

    trials: list[ObjectEntry]
    ended_at: list[float]
    """When the run's `ended.json` was created; empty while it goes on."""


async def referenced_blobs(place: ObjectStore, entries: Sequence[ObjectEntry], before: float) -> set[str]:
    """Returns the keys of all blobs that runs on nodes refer to.

    Args:
        place: The place.
        entries: The objects below `runs/` that are not of sealed runs.
        before: A Unix time; nodes of a run that ended later may still commit.

    Raises:
        StoreError: An object is of an unknown kind, a run has not ended before, or a record is damaged.
    """
    keys: set[str] = set()
    runs, unknown = by_run(entries)
    if unknown:
        raise StoreError(
            f"{place}: {unknown[0]} is of no kind that this version knows, and which blobs it refers to is listed "
            "nowhere. Nothing was deleted"
        )
    for segment, found in runs.items():
        run = await read_published_name(place, segment)
        if not found.ended_at:
            raise StoreError(
                f"{place}: run {run!r} has not ended, and its nodes may need any blob: finish it with `assay resume "
                f"{run} --place {place}`. Nothing was deleted"
            )
        if found.ended_at[0] > before:
            raise StoreError(
                f"{place}: run {run!r} has just ended, and a node may still commit: repeat this when its end is older "
                "than --min-age-h. Nothing was deleted"
            )

        async def read(entry: ObjectEntry, run: str = run) -> None:
            record = await read_record(place, entry.key, run, None)
            try:
                named = find_addresses(unpack_events(record.body))  # also what a changed list leaves out
            except StoreError as exc:
                raise StoreError(f"{place}: {entry.key}: {exc}") from exc
            keys.update(blob_entry(digest, 0).key for digest in named.union(record.body.blobs))

        await transfer(found.trials, read, size=lambda entry: entry.size)
    return keys


def by_run(entries: Iterable[ObjectEntry]) -> tuple[dict[str, RunObjects], list[str]]:
    """Returns the objects of each run on nodes, by the segment of its keys, and the keys that are of no known kind."""
    runs: defaultdict[str, RunObjects] = defaultdict(lambda: RunObjects([], []))
    unknown = []
    for entry in entries:
        match = _KEY.fullmatch(entry.key)
        if match is None:
            unknown.append(entry.key)
            continue
        run = runs[match["run"]]
        if match["trial"]:
            run.trials.append(entry)
        elif match["end"]:
            run.ended_at.append(entry.modified)
    return runs, unknown
