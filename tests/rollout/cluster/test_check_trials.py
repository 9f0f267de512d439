"""The check of a place with runs on nodes: whole trials are counted, and each damaged or missing object is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assay.records import GENESIS, digest_bytes
from assay.rollout.cluster.check_trials import check_trials
from assay.rollout.cluster.commits import commit_final, encode_input, keep_cut, pack_trial
from assay.rollout.cluster.objects import cut_key, final_key, input_key, run_prefix
from assay.rollout.cluster.place_records import PublishedRun, new_run_id, publish_end, publish_run
from assay.store.chain import link_digest
from assay.store.objects import ObjectStoreError
from assay.store.objects.index import blob_entry
from tests.store.objects.simulated import SimulatedStore

RUN = "a run/with: signs"
WON, LATE = "a" * 32, "b" * 32
BLOB = digest_bytes(b"content")
EVENT = b'{"type":"attempt_started"}'
FINAL, CUT, INPUT = final_key(RUN, "t@0"), cut_key(RUN, "t@0", LATE), input_key(RUN, "t@9.0")


async def _place() -> SimulatedStore:
    """Returns a place with a final, a superseded trial, an input, and a blob that they name."""
    place = SimulatedStore()
    await publish_run(place, PublishedRun(1, RUN, new_run_id(), "/project", {}))
    await place.create(blob_entry(BLOB, 0).key, b"content")
    body = pack_trial("t@0.0", 0, link_digest("t@0.0", 0, GENESIS, EVENT), (EVENT,), None, (BLOB,))
    await commit_final(place, RUN, "t@0", WON, body)
    await commit_final(place, RUN, "t@0", LATE, body)
    other = pack_trial("t@9.0", 0, link_digest("t@9.0", 0, GENESIS, EVENT), (EVENT,), None)
    await place.create(INPUT, encode_input(RUN, other))
    await place.create(f"{run_prefix(RUN)}parts/step-1.json", b"{}")
    await publish_end(place, RUN)
    return place


async def test_whole_trials_and_their_blobs_are_counted() -> None:
    place, seen = await _place(), list[tuple[int, int]]()
    report = await check_trials(place, lambda done, total: seen.append((done, total)))
    assert (report.node_runs, report.objects, report.problems) == (1, 4, ())
    read = (FINAL, CUT, INPUT, blob_entry(BLOB, 0).key)
    assert report.bytes_read == sum(len(place.objects[key]) for key in read)
    assert seen[-1] == (4, 4)


def _flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("key", [FINAL, CUT, INPUT, blob_entry(BLOB, 0).key, f"{run_prefix(RUN)}run.json"])
@pytest.mark.parametrize(
    "change", [_flip, lambda data: data[: len(data) // 2], None], ids=["changed", "cut", "missing"]
)
async def test_each_changed_object_is_named(key: str, change: Callable[[bytes], bytes] | None) -> None:
    place = await _place()
    data = place.objects.pop(key)
    if change is not None:
        place.objects[key] = change(data)
    problems = (await check_trials(place)).problems
    if change is None and key in (FINAL, CUT, INPUT):
        assert problems == ()  # `assay resume` runs an attempt without a final
    else:
        (problem,) = problems
        assert key in problem
        assert "None" not in problem


async def test_a_final_whose_event_was_replaced_is_named_though_it_can_be_decoded() -> None:
    place = await _place()
    del place.objects[FINAL]
    head = link_digest("t@0.0", 0, GENESIS, EVENT)
    await commit_final(place, RUN, "t@0", WON, pack_trial("t@0.0", 0, head, (EVENT + b" ",), None))
    (problem,) = (await check_trials(place)).problems
    assert problem == f"{place}: {FINAL}: the events of chain t@0.0 do not give its head: they were changed"


async def test_a_record_under_the_key_of_another_is_named() -> None:
    place = await _place()
    place.objects[final_key(RUN, "t@1")] = place.objects[FINAL]
    await keep_cut(place, RUN, "t@2", WON, pack_trial("t@2.0", 0, GENESIS, (), None), "interrupted")
    place.objects[cut_key(RUN, "t@2", LATE)] = place.objects[cut_key(RUN, "t@2", WON)]
    problems = (await check_trials(place)).problems
    assert [problem.rpartition(": ")[2] for problem in problems] == ["it was moved", "it was moved"]
    assert {problem.split()[1] for problem in problems} == {final_key(RUN, "t@1"), cut_key(RUN, "t@2", LATE)}


async def test_an_object_of_an_unknown_kind_is_named() -> None:
    place = await _place()
    await place.create(f"{run_prefix(RUN)}finals-2/ab/t@0", b"")
    (problem,) = (await check_trials(place)).problems
    assert "finals-2/ab/t@0 is of no kind that this version knows" in problem


async def test_a_place_that_does_not_answer_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    place = await _place()

    async def fail(*_: object, **__: object) -> bytes:
        raise ObjectStoreError("503")

    monkeypatch.setattr(place, "read", fail)
    monkeypatch.setattr("assay.rollout.cluster.check_trials.PATIENCE_S", 0.0)
    with pytest.raises(ObjectStoreError, match="503"):
        await check_trials(place)
