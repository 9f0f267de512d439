"""Checks a place: its self-test, every manifest, and every listed object by its digest."""

from __future__ import annotations

import msgspec

from assay.errors import StoreError

from .create_only import require_create_only
from .index import IndexEntry, check_seal, list_published, read_index
from .interface import ObjectStore, ObjectStoreError
from .transfer import Progress, read_verified, transfer


class ObjectCheckReport(msgspec.Struct, frozen=True):
    """The state of a place."""

    runs: int
    """Sealed runs."""
    objects: int
    """Objects that were read."""
    bytes_read: int
    problems: tuple[str, ...]
    """Each names the key that is missing or damaged."""
    node_runs: int = 0
    """Runs on nodes, whose trials are there."""


async def check_place(place: ObjectStore, progress: Progress = lambda _done, _total: None) -> ObjectCheckReport:
    """Reads all that the manifests of a place list, and recomputes every digest. Other objects are not read.

    The chains inside of a run are recomputed on a fetched copy (`audit`).

    Raises:
        StoreError: The place overwrites objects (see `require_create_only`).
        ObjectStoreError: It cannot be reached.
    """
    await require_create_only(place)
    problems: list[str] = []
    entries: dict[str, IndexEntry] = {}
    try:
        runs = await list_published(place)
    except ObjectStoreError:
        raise
    except StoreError as exc:
        return ObjectCheckReport(0, 0, 0, (str(exc),))
    for run, count in runs.items():
        try:
            index = await read_index(place, run, count)
        except ObjectStoreError:
            raise
        except StoreError as exc:
            problems.append(str(exc))
            continue
        entries |= {entry.key: entry for entry in index.objects()}
        if not index.is_complete:
            problems.append(f"run {run} is not complete: repeat the copy that was interrupted")
            continue
        try:
            await check_seal(place, index)
        except ObjectStoreError:
            raise
        except StoreError as exc:
            problems.append(str(exc))
    problems += await _check_objects(place, list(entries.values()), progress)
    return ObjectCheckReport(
        len(runs), len(entries), sum(entry.size for entry in entries.values()), tuple(dict.fromkeys(problems))
    )


async def _check_objects(place: ObjectStore, entries: list[IndexEntry], progress: Progress) -> list[str]:
    problems: dict[str, str] = {}
    done = 0

    async def check(entry: IndexEntry) -> None:
        nonlocal done
        try:
            await read_verified(place, entry.key, entry.size, entry.digest)
        except ObjectStoreError:
            raise
        except StoreError as exc:
            problems[entry.key] = str(exc)
        done += 1
        progress(done, len(entries))

    await transfer(entries, check, size=lambda entry: entry.size)
    return [problems[key] for key in sorted(problems)]
