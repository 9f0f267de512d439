"""Garbage collection in a place with runs on nodes: trials and their blobs stay, and doubt deletes nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from assay.errors import StoreError
from assay.records import GENESIS, digest_bytes
from assay.rollout.cluster.commits import commit_final, keep_cut, new_token, pack_trial
from assay.rollout.cluster.objects import cut_key, final_key, run_prefix
from assay.rollout.cluster.place_records import PublishedRun, new_run_id, publish_end, publish_run
from assay.rollout.cluster.place_references import referenced_blobs
from assay.store.chain import link_digest
from assay.store.objects import CollectReport, ObjectEntry, ObjectStore, collect_objects
from assay.store.objects.index import blob_entry
from tests.store.objects.simulated import SimulatedStore

RUN = "a run/with: signs"
TOKEN = "c" * 32
FINAL, SUPERSEDED, INTERRUPTED, LOST = (digest_bytes(name) for name in (b"final", b"second", b"cut", b"lost"))
EVENT = b'{"type":"attempt_started"}'


def _key(digest: str) -> str:
    return blob_entry(digest, 0).key


async def _place(*, ended: bool = True) -> SimulatedStore:
    """Returns a place with a final, a superseded and an interrupted trial, and a blob that nothing refers to."""
    place = SimulatedStore()
    await publish_run(place, PublishedRun(1, RUN, new_run_id(), "/project", {}))
    for digest in (FINAL, SUPERSEDED, INTERRUPTED, LOST):
        await place.create(_key(digest), b"content")
    head = link_digest("t@0.0", 0, GENESIS, EVENT)
    bodies = [pack_trial("t@0.0", 0, head, (EVENT,), None, (one,)) for one in (FINAL, SUPERSEDED, INTERRUPTED)]
    await commit_final(place, RUN, "t@0", new_token(), bodies[0])
    await commit_final(place, RUN, "t@0", TOKEN, bodies[1])
    await keep_cut(place, RUN, "t@1", TOKEN, bodies[2], "interrupted")
    await place.create(f"{run_prefix(RUN)}parts/step-1.json", b"{}")
    if ended:
        await publish_end(place, RUN)
    return place


async def _collect(place: SimulatedStore, min_age_s: float = 0.0) -> CollectReport:
    return await collect_objects(place, dry_run=False, min_age_s=min_age_s, read_references=referenced_blobs)


async def test_only_what_no_trial_refers_to_is_deleted() -> None:
    place = await _place()
    before = set(place.objects)
    report = await _collect(place)
    assert report.objects == (_key(LOST),)
    assert set(place.objects) == before - {_key(LOST)}
    assert cut_key(RUN, "t@0", TOKEN) in place.objects
    assert (await _collect(place)).objects == ()


async def test_a_blob_that_events_name_stays_though_the_trial_does_not_list_it() -> None:
    place = await _place()
    event = b'{"type":"attempt_started","tree":"%s"}' % LOST.encode()
    body = pack_trial("u@0.0", 0, link_digest("u@0.0", 0, GENESIS, event), (event,), None)
    await commit_final(place, RUN, "u@0", new_token(), body)
    assert (await _collect(place)).objects == ()


async def test_young_blobs_stay() -> None:
    place = await _place()
    for key in place.objects:
        if not key.startswith("blobs/"):
            place.modified[key] = time.time() - 7200
    report = await _collect(place, min_age_s=3600.0)
    assert (report.objects, report.young) == ((), 1)


async def test_nothing_is_deleted_while_a_run_goes_on() -> None:
    place = await _place(ended=False)
    with pytest.raises(StoreError, match=r"has not ended.*assay resume.*Nothing was deleted"):
        await _collect(place)
    assert _key(LOST) in place.objects


async def test_nothing_is_deleted_while_a_node_may_still_commit() -> None:
    place = await _place()
    place.modified[_key(LOST)] = 0.0
    with pytest.raises(StoreError, match=r"has just ended.*Nothing was deleted"):
        await _collect(place, min_age_s=3600.0)
    assert _key(LOST) in place.objects


@pytest.mark.parametrize("key", [final_key(RUN, "t@0"), cut_key(RUN, "t@0", TOKEN), cut_key(RUN, "t@1", TOKEN)])
async def test_a_damaged_trial_stops_the_collection_with_its_key(key: str) -> None:
    place = await _place()
    place.objects[key] = place.objects[key][:-1]
    with pytest.raises(StoreError) as refused:
        await _collect(place)
    assert key in str(refused.value)
    assert _key(LOST) in place.objects


async def test_an_object_of_an_unknown_kind_stops_the_collection() -> None:
    place = await _place()
    await place.create("runs/r/later/kind", b"")
    with pytest.raises(StoreError, match=r"runs/r/later/kind is of no kind.*Nothing was deleted"):
        await _collect(place)
    assert _key(LOST) in place.objects


async def test_a_run_without_its_description_stops_the_collection() -> None:
    place = await _place()
    (key,) = (key for key in place.objects if key.endswith("/run.json"))
    await place.delete(key)
    with pytest.raises(StoreError, match=r"run\.json is missing"):
        await _collect(place)
    assert _key(LOST) in place.objects


async def test_a_run_that_begins_during_a_collection_ends_it_and_keeps_an_old_blob_that_it_found_there() -> None:
    place = await _place()

    async def begin_meanwhile(objects: ObjectStore, entries: Sequence[ObjectEntry], before: float) -> set[str]:
        referred = await referenced_blobs(objects, entries, before)
        await publish_run(objects, PublishedRun(1, "next", new_run_id(), "/project", {}))
        return referred

    with pytest.raises(StoreError, match=r"runs/next/run.json was created meanwhile.*Nothing was deleted"):
        await collect_objects(place, dry_run=False, min_age_s=0.0, read_references=begin_meanwhile)
    assert _key(LOST) in place.objects
