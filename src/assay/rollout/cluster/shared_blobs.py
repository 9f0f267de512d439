"""Blobs of a run on many machines: `blobs/ab/HEX` in the place, put there before the trial that names them commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from assay.errors import StoreError
from assay.records import digest_bytes
from assay.store import BlobStore, RunStore
from assay.store.gc import linked_blobs
from assay.store.objects.index import blob_entry
from assay.store.objects.interface import ObjectStore
from assay.store.objects.transfer import create_or_find, transfer

from .objects import answered, read_object

MOST_BLOB_BYTES = 5 << 30
"""The largest object that S3 takes in one request."""

INLINE_EVENTS = 500
"""Up to which the blobs of a chain are found at once, in 10 microseconds an event."""


class BlobUploader:
    """Puts the blobs of a node's chains into the place. An instance is the `store_blobs` of `LocalTrials`."""

    def __init__(self, store: RunStore, objects: ObjectStore) -> None:
        self._store, self._objects = store, objects
        self._shared: set[str] = set()

    async def __call__(self, events: Sequence[bytes]) -> tuple[str, ...]:
        """Uploads what events, given as their bytes, name and is not there yet, however long the place does not answer;
        returns the digests."""
        if len(events) <= INLINE_EVENTS:
            digests = linked_blobs(self._store.blobs, events)
        else:
            digests = await asyncio.to_thread(linked_blobs, self._store.blobs, events)
        await self.upload(digests)
        return tuple(digests)

    async def upload(self, digests: Iterable[str]) -> None:
        """Uploads blobs that are not there yet, however long the place does not answer."""
        missing = [one for one in digests if one not in self._shared]
        if missing:
            await transfer(missing, self._upload)

    async def _upload(self, digest: str) -> None:
        data = await asyncio.to_thread(self._store.blobs.get, digest)
        await answered(lambda: create_or_find(self._objects, blob_entry(digest, 0).key, data))
        self._shared.add(digest)


async def fetch_blobs(
    objects: ObjectStore, blobs: BlobStore, digests: Iterable[str], *, limit: int = MOST_BLOB_BYTES
) -> None:
    """Copies blobs of at most `limit` bytes from the place that are not here. Raises `StoreError`, with the key of a
    missing, changed or larger one."""

    async def fetch(digest: str) -> None:
        key = blob_entry(digest, 0).key
        data = await read_object(objects, key, limit=limit)
        if await asyncio.to_thread(digest_bytes, data) != digest:
            raise StoreError(f"{key} was changed: its bytes do not have its digest; restore it from a copy")
        await asyncio.to_thread(blobs.put, data)

    await transfer([one for one in digests if not blobs.has(one)], fetch)
