"""Object stores in memory whose order of events, faults and lies a test chooses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from assay.store.objects import ObjectEntry, ObjectStoreError

__all__ = ["FaultyStore", "OverwritingStore", "SimulatedStore", "TwoWinnersStore"]


class SimulatedStore:
    """Creates objects once; lets other tasks run before and after each request."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified: dict[str, float] = {}
        self.requests = 0

    def __str__(self) -> str:
        return "simulated://"

    async def create(self, key: str, data: bytes) -> bool:
        await self.begin()
        if key in self.objects:
            return False
        self.objects[key], self.modified[key] = data, time.time()
        return True

    async def read(self, key: str, *, limit: int | None = None, size: int | None = None) -> bytes:
        await self.begin()
        if key not in self.objects:
            raise FileNotFoundError(key)
        if limit is not None and len(self.objects[key]) > limit:
            raise ValueError(f"{key} has {len(self.objects[key])} bytes")
        return self.objects[key]

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ObjectEntry]]:
        await self.begin()
        for key in sorted(key for key in self.objects if key.startswith(prefix) and key > after):
            yield [ObjectEntry(key, len(self.objects[key]), self.modified.get(key, 0.0))]

    async def delete(self, key: str) -> None:
        await self.begin()
        self.objects.pop(key, None)

    async def begin(self) -> None:
        self.requests += 1
        await asyncio.sleep(0)


class FaultyStore(SimulatedStore):
    """Draws a fault for each creation: it fails before (`"before"`) or after it happened (`"after"`), or not at all;
    and how many turns of the event loop each request waits."""

    def __init__(self, faults: Iterator[str | None], waits: Callable[[], int]) -> None:
        super().__init__()
        self._faults, self._waits = faults, waits

    async def create(self, key: str, data: bytes) -> bool:
        fault = next(self._faults, None)
        if fault == "before":
            await self.begin()
            raise ObjectStoreError("refused")
        created = await super().create(key, data)
        if fault == "after":
            raise ObjectStoreError("the answer was lost")
        return created

    async def begin(self) -> None:
        for _ in range(1 + self._waits()):
            await super().begin()


class OverwritingStore(SimulatedStore):
    """Ignores the condition, as some servers do."""

    async def create(self, key: str, data: bytes) -> bool:
        await self.begin()
        self.objects[key] = data
        return True


class TwoWinnersStore(SimulatedStore):
    """Looks first and writes later, so that simultaneous requests all win."""

    async def create(self, key: str, data: bytes) -> bool:
        is_new = key not in self.objects
        await self.begin()
        if is_new:
            self.objects[key] = data
        return is_new
