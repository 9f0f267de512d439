"""Transfers are bounded by number and by bytes, and the first failure ends them."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from assay.errors import StoreError
from assay.store.objects import transfer as module
from assay.store.objects.transfer import AT_ONCE, transfer, write_in_thread


async def most_in_flight(sizes: list[int]) -> tuple[int, int]:
    """Returns the largest number of items, and of bytes, that were worked on at once."""
    flying: list[int] = []
    peaks: list[tuple[int, int]] = []

    async def work(size: int) -> None:
        flying.append(size)
        peaks.append((len(flying), sum(flying)))
        await asyncio.sleep(0)
        flying.remove(size)

    await transfer(sizes, work, size=lambda size: size)
    assert len(peaks) == len(sizes)
    return max(number for number, _ in peaks), max(total for _, total in peaks)


async def test_many_small_items_are_bounded_by_their_number() -> None:
    assert await most_in_flight([1] * 100) == (AT_ONCE, AT_ONCE)


async def test_large_items_are_bounded_by_their_bytes_and_a_larger_one_goes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 10)
    assert await most_in_flight([4] * 20) == (2, 8)
    assert await most_in_flight([3, 50, 3, 3]) == (3, 50)


async def test_the_first_failure_ends_the_others() -> None:
    done = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        if number == 3:
            raise KeyError(number)
        done.append(number)

    with pytest.raises(KeyError):
        await transfer(range(1000), work)
    assert len(done) < 100


async def test_after_a_failure_nothing_is_written_any_more() -> None:
    written: list[str] = []
    begun = threading.Event()

    def write_slowly() -> None:
        begun.set()
        time.sleep(0.2)
        written.append("slow")

    async def work(item: str) -> None:
        if item == "slow":
            await write_in_thread(write_slowly)
            return
        await asyncio.to_thread(begun.wait)
        raise StoreError("broken")

    with pytest.raises(StoreError, match="broken"):
        await transfer(["slow", "broken"], work)
    assert written == ["slow"]
