"""Many transfers at once, in bounded memory; and an object that is read is verified by its digest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sized
from typing import Any, TypeVar

from assay.errors import StoreError
from assay.records import digest_bytes

from .interface import ObjectStore, ObjectStoreError

AT_ONCE = 16
BYTES_AT_ONCE = 256 << 20
"""In memory; one object that is larger goes alone."""
_INLINE_BYTES = 256 << 10
"""Up to which hashing takes less time than handing it to a thread and back."""
Progress = Callable[[int, int], None]
"""Takes how many objects are done, and of how many."""
T = TypeVar("T")


async def transfer(
    items: Iterable[T],
    work: Callable[[T], Awaitable[None]],
    *,
    size: Callable[[T], int] = lambda _: 0,
    at_once: int = AT_ONCE,
    flight: Flight | None = None,
) -> None:
    """Does work for each item, `at_once` at a time and with at most `BYTES_AT_ONCE` of `size` in flight.

    Transfers that share a `flight` share that bound.

    Raises:
        Exception: The first failure of the work, after the work under way was cancelled.
    """
    workers = min(at_once, len(items)) if isinstance(items, Sized) else at_once
    if not workers:
        return
    waiting = iter(items)
    flight = flight or Flight()

    async def take() -> None:
        for item in waiting:
            taken = size(item)
            await flight.enter(taken)
            try:
                await work(item)
            finally:
                flight.leave(taken)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(take())
    except ExceptionGroup as failed:  # not `except*`: early releases of Python 3.11 wrap what it raises
        raise failed.exceptions[0] from None


async def write_in_thread(function: Callable[..., object], *arguments: Any) -> None:
    """Calls a function that writes on a thread. A cancelled caller waits for its end: nothing is written after it."""
    call = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        await asyncio.shield(call)
    except asyncio.CancelledError:
        await asyncio.wait([call])
        raise


class Flight:
    """Bounds the bytes in flight."""

    def __init__(self) -> None:
        self._bytes = 0
        self._freed = asyncio.Event()

    async def enter(self, size: int) -> None:
        while self._bytes and self._bytes + size > BYTES_AT_ONCE:
            self._freed.clear()
            await self._freed.wait()
        self._bytes += size

    def leave(self, size: int) -> None:
        self._bytes -= size
        self._freed.set()


async def create_or_find(place: ObjectStore, key: str, data: bytes) -> bool:
    """Creates an object of which it does not matter who creates it: a lost answer is resolved by asking once more.
    Returns whether this call knows that it created the object."""
    try:
        return await place.create(key, data)
    except ObjectStoreError:
        return await place.create(key, data)


async def read_verified(place: ObjectStore, key: str, size: int, digest: str) -> bytes:
    """Reads an object that a manifest lists.

    Raises:
        StoreError: It is missing, or its bytes are not those that were published; the message names its key.
    """
    try:
        data = await place.read(key, limit=size)
    except FileNotFoundError:
        raise StoreError(f"{place}: {key} is listed and missing: restore it, or publish the run again") from None
    except ValueError:
        raise StoreError(f"{place}: {key} has more than its {size:,} bytes: it was changed") from None
    if len(data) < size:
        raise StoreError(f"{place}: {key} was cut to {len(data):,} of {size:,} bytes: restore it from a copy")
    computed = digest_bytes(data) if size <= _INLINE_BYTES else await asyncio.to_thread(digest_bytes, data)
    if computed != digest:
        raise StoreError(f"{place}: {key} was changed: its bytes do not have its digest; restore it from a copy")
    return data
