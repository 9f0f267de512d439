"""Sealed runs published to a place and fetched again: whole, resumable, and verified to the last byte."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from assay.errors import StoreError, UserError
from assay.records import Noted
from assay.store import (
    BlobStore,
    RunStore,
    append_addendum,
    audit,
    check_receipt,
    erase_blob,
    list_runs,
    make_receipt,
    query,
    seal,
)
from assay.store.objects import (
    CopyReport,
    Publisher,
    check_place,
    collect_objects,
    fetch_run,
    fetch_runs,
    list_published,
    open_place,
    publish,
    read_index,
)
from tests.store.conftest import write_run
from tests.store.objects.simulated import FaultyStore, SimulatedStore

NOTE = Noted("remark", {}, 1.0)
COUNT = "select count(*), max(chain) from events"


@pytest.fixture
def store(sealed_store: Path, tmp_path: Path) -> Path:
    """A store with the sealed run `r`, which has one addendum."""
    root = tmp_path / "store"
    shutil.copytree(sealed_store, root)
    append_addendum(root, "r", [NOTE])
    return root


async def published(store: Path) -> SimulatedStore:
    place = SimulatedStore()
    await Publisher(store, place).publish("r")
    return place


async def test_a_fetched_copy_is_the_run(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    receipt = make_receipt(store, "r")
    place = open_place(f"{tmp_path}/objects", create=True)
    assert await Publisher(store, place).publish("r") == CopyReport("r", 11, _bytes_in(tmp_path / "objects"), 0)
    copy = tmp_path / "copy"
    assert (await fetch_run(place, "r", copy)).sent == 11
    assert _files(copy) == _files(store)
    assert audit(copy, "r") == ()
    assert check_receipt(copy, "r", receipt).problems == ()
    assert query(copy, COUNT) == query(store, COUNT)
    (events,) = tmp_path.glob("objects/runs/*/segments/*/events.parquet")
    assert pq.read_metadata(events).num_rows == query(store, COUNT).rows[0][0]


def _bytes_in(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and "index" not in p.parts)


def _files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name != "lock"}


async def test_a_repeated_copy_sends_nothing_and_progress_ends_at_the_total(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    before = dict(place.objects)
    assert (await Publisher(store, place).publish("r")).sent == 0
    assert place.objects == before
    steps: list[tuple[int, int]] = []
    await fetch_run(place, "r", tmp_path / "copy", lambda done, total: steps.append((done, total)))
    assert steps[-1] == (11, 11)
    assert (await fetch_run(place, "r", tmp_path / "copy")).sent == 0


async def test_what_was_added_later_is_copied_alone(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    await fetch_run(place, "r", tmp_path / "copy")
    append_addendum(store, "r", [NOTE])
    assert (await Publisher(store, place).publish("r")).sent == 1
    assert (await fetch_run(place, "r", tmp_path / "copy")).sent == 1
    assert _files(tmp_path / "copy") == _files(store)


class CutStore(SimulatedStore):
    """Cancels the publication at a request, as Ctrl-C does."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.cut: asyncio.Task[object] | None = None
        self._last = last

    async def begin(self) -> None:
        if self.cut is not None and self.requests >= self._last:
            self.cut.cancel()
        await super().begin()


async def cut_publication(store: Path, requests: int) -> SimulatedStore | None:
    """Cancels a publication after a number of requests; None where it had ended."""
    place = CutStore(requests)
    task = place.cut = asyncio.create_task(Publisher(store, place).publish("r"))
    await asyncio.wait([task])
    place.cut = None
    return place if task.cancelled() else None


async def test_an_interrupted_publication_is_not_complete_and_goes_on(store: Path, tmp_path: Path) -> None:
    for cut in itertools.count(1):
        place = await cut_publication(store, cut * 4)
        if place is None:
            break
        if not (await read_index(place, "r")).is_complete:
            with pytest.raises(StoreError, match=r"not complete|no run is called"):
                await fetch_run(place, "r", tmp_path / "never")
        there = len([key for key in place.objects if not key.startswith("index/")])
        assert (await Publisher(store, place).publish("r")).sent == 11 - there
        assert (await check_place(place)).problems == ()
    assert cut > 3
    assert list_runs(tmp_path / "never") == []


async def test_a_copy_survives_lost_answers(store: Path, tmp_path: Path) -> None:
    faults = itertools.chain.from_iterable([fault] + [None] * 4 for fault in ("after", "before"))
    place = FaultyStore(faults, lambda: 0)
    await Publisher(store, place).publish("r")
    await fetch_run(place, "r", tmp_path / "copy")
    assert audit(tmp_path / "copy", "r") == ()


@pytest.mark.parametrize("name", ["events.parquet", "0.json"])
async def test_an_interrupted_fetch_shows_no_run_and_goes_on(name: str, store: Path, tmp_path: Path) -> None:
    place = await published(store)
    key = next(key for key in place.objects if key.endswith(name) and key.startswith("runs/"))
    whole = place.objects.pop(key)
    with pytest.raises(StoreError, match=f"{key} is listed and missing"):
        await fetch_run(place, "r", tmp_path / "copy")
    assert list_runs(tmp_path / "copy") == []
    place.objects[key] = whole
    report = await fetch_run(place, "r", tmp_path / "copy")
    assert report.already > 0
    assert audit(tmp_path / "copy", "r") == ()


DAMAGE = {
    "changed": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "was changed"),
    "cut": (lambda data: data[:-1], "was cut"),
    "longer": (lambda data: data + b"x", "was changed"),
}


@pytest.mark.parametrize(("damage", "what"), DAMAGE.values(), ids=DAMAGE)
async def test_any_damaged_object_is_named(
    damage: Callable[[bytes], bytes], what: str, store: Path, tmp_path: Path
) -> None:
    place = await published(store)
    objects = [key for key in place.objects if not key.startswith("index/")]
    assert len(objects) == 11
    for number, key in enumerate(objects):
        whole, place.objects[key] = place.objects[key], damage(place.objects[key])
        with pytest.raises(StoreError, match=what) as error:
            await fetch_run(place, "r", tmp_path / f"copy{number}")
        assert key in str(error.value)
        (problem,) = (await check_place(place)).problems
        assert key in problem
        place.objects[key] = whole


async def test_a_stale_index_is_refused(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    append_addendum(store, "r", [NOTE])
    with pytest.raises(StoreError, match=r"index/r/1\.json is stale.*addenda/1\.json"):
        await fetch_run(place, "r", store)


async def test_another_run_of_the_same_name_is_refused_both_ways(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    other = tmp_path / "other"
    write_run(other, "r", 1)
    with pytest.raises(StoreError, match="is live: seal it first"):
        await Publisher(other, place).publish("r")
    with pytest.raises(StoreError, match="is live in"):
        await fetch_run(place, "r", other)
    seal(other, "r")
    with pytest.raises(StoreError, match="another run of the same name"):
        await Publisher(other, place).publish("r")
    with pytest.raises(StoreError, match="another run has that name"):
        await fetch_run(place, "r", other)


async def test_damage_at_home_is_not_published(store: Path) -> None:
    path = store / "runs" / "r" / "sealed" / "steps.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    place = SimulatedStore()
    with pytest.raises(StoreError, match=r"steps\.parquet differs from what was sealed"):
        await Publisher(store, place).publish("r")
    assert place.objects == {}


async def test_an_object_that_was_cut_there_is_not_taken_for_the_blob(store: Path) -> None:
    place = await published(store)
    blob = next(key for key in place.objects if key.startswith("blobs/"))
    place.objects = {blob: place.objects[blob][:-1]}
    with pytest.raises(StoreError, match=f"{blob} has 20 bytes in place of 21"):
        await Publisher(store, place).publish("r")


async def test_what_is_too_large_for_one_request_is_refused_first(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "MOST_OBJECT_BYTES", 4000)
    place = SimulatedStore()
    with pytest.raises(StoreError, match=r"sealed/\w+\.parquet has 0\.0 GiB.*nothing was copied"):
        await Publisher(store, place).publish("r")
    assert place.objects == {}


async def test_a_run_name_is_no_path(store: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a valid run name"):
        await fetch_run(SimulatedStore(), "../r", tmp_path)


async def test_an_erased_blob_is_erased_there_by_the_next_copy_and_collection(store: Path, tmp_path: Path) -> None:
    place = await published(store)
    (digest,) = BlobStore(store / "blobs").addresses()
    erase_blob(store, digest, "a test")
    await Publisher(store, place).publish("r")
    report = await collect_objects(place, dry_run=False, min_age_s=0)
    assert [key.rpartition("/")[2] for key in report.objects] == [digest.removeprefix("blake3:")]
    await fetch_run(place, "r", tmp_path / "copy")
    assert audit(tmp_path / "copy", "r") == ()
    assert not BlobStore(tmp_path / "copy" / "blobs").has(digest)
    assert (await check_place(place)).problems == ()


async def test_collection_deletes_only_old_objects_that_nothing_lists(store: Path) -> None:
    place = await published(store)
    listed = set(place.objects)
    old = {f"blobs/ab/{'a' * 64}", "self-test/x/race", f"runs/r/segments/{'b' * 64}/x.parquet"}
    young = {f"blobs/ab/{'c' * 64}"}
    for key in old | young:
        place.objects[key], place.modified[key] = b"12", time.time() - (7200 if key in old else 0)
    report = await collect_objects(place, min_age_s=3600)
    assert (set(report.objects), report.bytes_freed, report.young, report.dry_run) == (old, 6, 1, True)
    assert set(place.objects) == listed | old | young
    await collect_objects(place, min_age_s=3600, dry_run=False)
    assert set(place.objects) == listed | young


async def test_collection_deletes_no_objects_of_others(store: Path) -> None:
    place = await published(store)
    before = {"blobs/notes.txt", f"blobs/ab/{'a' * 63}", "self-test/results/1.xml", *place.objects}
    for key in before - set(place.objects):
        place.objects[key], place.modified[key] = b"12", 0.0
    assert (await collect_objects(place, min_age_s=0, dry_run=False)).objects == ()
    assert set(place.objects) == before


async def test_an_old_object_that_nothing_lists_is_created_anew(store: Path) -> None:
    place = await published(store)
    blob = next(key for key in place.objects if key.startswith("blobs/"))
    other = SimulatedStore()
    other.objects, other.modified = {blob: place.objects[blob]}, {blob: time.time() - 5 * 86400}
    assert (await Publisher(store, other).publish("r")).sent == 11
    assert time.time() - other.modified[blob] < 60


async def test_collection_keeps_blobs_while_objects_of_other_kinds_exist(store: Path) -> None:
    place = await published(store)
    await place.create("runs/q/finals/ab/attempt", b"")
    with pytest.raises(StoreError, match=r"runs/q/finals/ab/attempt.*Nothing was deleted"):
        await collect_objects(place, dry_run=False, min_age_s=0)


async def test_two_machines_publish_one_run_at_once(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "twin")
    place = SimulatedStore()
    first, second = await asyncio.gather(
        Publisher(store, place).publish("r"), Publisher(tmp_path / "twin", place).publish("r")
    )
    assert first.sent + second.sent == 11
    assert (await check_place(place)).problems == ()
    assert await list_published(place) == {"r": 2}


async def test_fetched_runs_keep_their_order(store: Path, tmp_path: Path) -> None:
    write_run(store, "a", 1)
    seal(store, "a")
    place = SimulatedStore()
    publisher = Publisher(store, place)
    for run in ("r", "a"):
        await publisher.publish(run)
    for run in ("a", "r"):
        await fetch_run(place, run, tmp_path / "copy")
    assert list_runs(tmp_path / "copy") == ["r", "a"]
    with RunStore.open(tmp_path / "copy", "a") as opened:
        assert opened.is_sealed


async def test_several_runs_are_fetched_at_once_and_one_that_is_damaged_hides_no_other(
    store: Path, tmp_path: Path
) -> None:
    place = await published(store)
    for run in ("a", "b"):
        write_run(store, run, 1)
        seal(store, run)
        await Publisher(store, place).publish(run)
    reports = await fetch_runs(place, tmp_path / "copy")
    assert [report.run for report in reports] == ["a", "b", "r"]
    assert [audit(tmp_path / "copy", run) for run in ("a", "b", "r")] == [(), (), ()]
    key = next(key for key in place.objects if key.startswith("runs/b/") and key.endswith("events.parquet"))
    place.objects[key] += b"x"
    with pytest.raises(StoreError, match=f"{key} has more than"):
        await fetch_runs(place, tmp_path / "other", ["a", "b"])
    assert "b" not in list_runs(tmp_path / "other")
    with pytest.raises(StoreError, match="no run is called 'absent'"):
        await fetch_runs(place, tmp_path / "other", ["absent"])
