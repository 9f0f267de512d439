"""The manifests of a run under concurrent publishers, lost answers and changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.records import digest_bytes
from assay.store.objects import IndexEntry, ObjectStoreError, append_manifest, list_published, read_index
from assay.store.objects.index import blob_entry, file_entry, manifest_key
from tests.store.objects.simulated import FaultyStore, SimulatedStore


def blob(number: int) -> IndexEntry:
    return blob_entry(digest_bytes(str(number).encode()), number)


async def publish_until_done(place: FaultyStore, batches: Iterable[list[int]]) -> None:
    """Publishes batch after batch, and repeats what a fault interrupts, as a caller does."""
    for batch in batches:
        while True:
            try:
                await append_manifest(place, "r", [blob(number) for number in batch])
            except ObjectStoreError:
                continue
            break


FAULTS = st.lists(st.sampled_from([None, None, None, "before", "after"]), max_size=30)
BATCHES = st.lists(st.lists(st.integers(0, 12), max_size=4), max_size=4)


@pytest.mark.long
@settings(max_examples=60)
@given(st.lists(BATCHES, min_size=1, max_size=5), FAULTS, st.randoms(use_true_random=False))
def test_concurrent_publishers_lose_and_repeat_nothing(
    work: list[list[list[int]]], faults: list[str | None], random: Random
) -> None:
    place = FaultyStore(iter(faults), lambda: random.randrange(3))

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for batches in work:
                group.create_task(publish_until_done(place, batches))
        index = await read_index(place, "r")
        wanted = {number for batches in work for batch in batches for number in batch}
        assert index.blobs == {blob(number).digest: number for number in wanted}
        assert set(place.objects) == {manifest_key("r", number) for number in range(index.count)}
        assert index.count <= sum(bool(batch) for batches in work for batch in batches)

    asyncio.run(run())


async def three_manifests() -> SimulatedStore:
    place = SimulatedStore()
    for number in range(3):
        await append_manifest(place, "r", [blob(number)])
    return place


async def test_listing_the_same_again_writes_nothing() -> None:
    place = await three_manifests()
    await append_manifest(place, "r", [blob(1), blob(2)])
    assert await list_published(place) == {"r": 3}


async def test_erased_blobs_count_as_not_listed() -> None:
    place = await three_manifests()
    index = await append_manifest(place, "r", [], [blob(1).digest])
    assert set(index.blobs) == {blob(0).digest, blob(2).digest}
    assert (await append_manifest(place, "r", [blob(1)], [blob(1).digest])).count == 4


async def test_another_file_under_the_same_path_is_refused() -> None:
    place = SimulatedStore()
    await append_manifest(place, "r", [file_entry("r", "sealed/seal.json", digest_bytes(b"1"), 1)])
    with pytest.raises(StoreError, match="another run of the same name"):
        await append_manifest(place, "r", [file_entry("r", "sealed/seal.json", digest_bytes(b"2"), 1)])


@pytest.mark.parametrize("number", range(3))
async def test_any_changed_manifest_is_named(number: int) -> None:
    place = await three_manifests()
    key = manifest_key("r", number)
    whole = place.objects[key]
    for data in (whole[:-1], whole.replace(b'"r"', b'"s"'), whole.replace(b"blobs/", b"../x/"), b"", whole + b" "):
        place.objects[key] = data
        if number == 2 and data == whole + b" ":
            continue  # no manifest after the last one holds its digest
        with pytest.raises(StoreError, match=r"index/r/\d\.json"):
            await read_index(place, "r")


async def test_a_removed_manifest_is_named() -> None:
    place = await three_manifests()
    del place.objects[manifest_key("r", 1)]
    with pytest.raises(StoreError, match=r"index/r/1\.json is missing"):
        await read_index(place, "r")
    with pytest.raises(StoreError, match=r"index/r/1\.json is missing"):
        await list_published(place)


async def test_an_exchanged_manifest_is_named() -> None:
    place = await three_manifests()
    await append_manifest(place, "q", [blob(9)])
    place.objects[manifest_key("r", 0)] = place.objects[manifest_key("q", 0)]
    with pytest.raises(StoreError, match=r"index/r/0\.json is the manifest 0 of run q"):
        await read_index(place, "r")


async def test_a_foreign_object_among_the_manifests_is_named() -> None:
    place = SimulatedStore()
    await place.create("index/r/x.json", b"")
    with pytest.raises(StoreError, match=r"index/r/x\.json is not a manifest"):
        await list_published(place)
