"""An object store in memory, with delays and faults drawn from a seed."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from assay.store.objects.interface import ObjectEntry, ObjectStoreError

from .virtual_time import pause

PAGE = 1000


class BucketFaults(NamedTuple):
    """How often requests fail."""

    failed: float = 0.002
    """Share of creates that fail and change nothing."""
    lost: float = 0.002
    """Share of creates that are done and whose answer is lost."""
    delay_s: float = 0.04


class Bucket:
    """The objects, and what is counted about requests."""

    def __init__(self, faults: BucketFaults, rng: random.Random) -> None:
        self.faults, self.rng = faults, rng
        self.objects: dict[str, bytes] = {}
        self.outage_until = -1.0
        self.lose_next = 0
        """This many of the next creates lose their answer."""
        self.failed = self.lost = self.refused = self.unavailable = 0
        self._entries: dict[str, ObjectEntry] = {}
        self._sorted: list[str] = []
        self._recent: list[str] = []

    def create(self, key: str, data: bytes) -> bool:
        if key in self.objects:
            self.refused += 1
            return False
        self.objects[key] = data
        self._entries[key] = ObjectEntry(key, len(data))
        self._recent.append(key)
        return True

    def entries_after(self, prefix: str, after: str) -> list[ObjectEntry]:
        """Returns a page of a listing."""
        if self._recent:
            self._sorted += self._recent
            self._sorted.sort()
            self._recent = []
        begin = bisect_right(self._sorted, max(after, prefix))
        page = self._sorted[begin : begin + PAGE]
        if page and not page[-1].startswith(prefix):
            page = [key for key in page if key.startswith(prefix)]
        return [self._entries[key] for key in page]


class BucketView:
    """The bucket as one process reaches it; nothing of a dead process arrives."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.is_dead = False

    async def create(self, key: str, data: bytes) -> bool:
        bucket = self._bucket
        await self._travel()
        draw, faults = bucket.rng.random(), bucket.faults
        if bucket.lose_next:
            bucket.lose_next -= 1
            draw = faults.failed
        if draw < faults.failed:
            bucket.failed += 1
            raise ObjectStoreError("the request failed")
        created = bucket.create(key, data)
        if draw < faults.failed + faults.lost:
            bucket.lost += 1
            raise ObjectStoreError("the answer is lost")
        return created

    async def read(self, key: str, *, limit: int | None = None, size: int | None = None) -> bytes:
        await self._travel()
        if key not in self._bucket.objects:
            raise FileNotFoundError(key)
        data = self._bucket.objects[key]
        if limit is not None and len(data) > limit:
            raise ValueError(key)
        return data

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ObjectEntry]]:
        while True:
            await self._travel()
            page = self._bucket.entries_after(prefix, after)
            if not page:
                return
            yield page
            after = page[-1].key

    async def delete(self, key: str) -> None:
        raise AssertionError(f"{key}: nothing deletes an object")

    async def _travel(self) -> None:
        bucket = self._bucket
        await pause(bucket.faults.delay_s * (0.5 + bucket.rng.random()))
        if self.is_dead:
            raise asyncio.CancelledError
        if bucket.outage_until > asyncio.get_running_loop().time():
            bucket.unavailable += 1
            raise ObjectStoreError("503 Service Unavailable")
