"""Trials from the place become an ordinary run: byte for byte, once each, and damaged ones are refused by key."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import StoreError
from assay.rollout import RunConfig, Tally, TrialResult, start_run
from assay.rollout.cluster.commits import (
    TrialRecord,
    commit_final,
    head_of,
    keep_cut,
    new_token,
    pack_trial,
    unpack_events,
)
from assay.rollout.cluster.fetch_trials import FetchResult, PlacedNames, fetch_trials
from assay.rollout.cluster.objects import cut_key, final_key
from assay.rollout.cluster.recorded_trial import attempt_planner, read_chain
from assay.rollout.cluster.shared_blobs import BlobUploader
from assay.rollout.plan import PlannedAttempt
from assay.settings import Settings
from assay.store import AttemptRow, RunStore, audit
from assay.tasks import find_tasks
from tests.simulation.bucket import Bucket, BucketFaults, BucketView

CONFIG = RunConfig(tasks=("family:grid,n=2,size=3",), agent="expert", agent_options={"noise": 0.5}, run="r", attempts=2)


def _result(row: AttemptRow) -> TrialResult:
    return TrialResult(row.outcome, row.score, row.ended, row.stopped, row.broke, row.error, row.metrics)


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    root = tmp_path_factory.mktemp("committed")
    return root, asyncio.run(_commit(root))


async def _commit(root: Path) -> dict[str, bytes]:
    """Runs the configuration on one machine, and commits its trials as a node does, each with a superseded one; the
    same again as the part `r` of the work `w`, beside those of a part `s`."""
    await start_run(CONFIG, Settings(root, root / "one"), Tally())
    bucket, view = _open({})
    with RunStore.open(root / "one", "r") as store:
        upload = BlobUploader(store, view)
        for row in store.attempts():
            head, events = read_chain(store, row.chain)
            body = pack_trial(row.chain, row.retry, head, events, _result(row), await upload(events))
            for run, name in (("r", row.attempt), ("w", f"r/{row.attempt}"), ("w", f"s/{row.attempt}")):
                await commit_final(view, run, name, new_token(), body)
                await keep_cut(view, run, name, new_token(), body, "superseded")
    return bucket.objects


def _open(objects: dict[str, bytes]) -> tuple[Bucket, BucketView]:
    bucket = Bucket(BucketFaults(0.0, 0.0, delay_s=0.0), random.Random(1))
    for key, data in objects.items():
        bucket.create(key, data)
    return bucket, BucketView(bucket)


def _plan() -> list[PlannedAttempt]:
    plan = attempt_planner(CONFIG, "expert")
    return [plan(loaded, number, 0) for number in range(2) for loaded in find_tasks(CONFIG.tasks)]


def _chains(root: Path) -> dict[str, tuple[str, bool, list[bytes]]]:
    with RunStore.open(root, "r") as store:
        return {r.chain: (r.head, r.final, [link.body for link in store.links(r.chain)]) for r in store.attempts()}


async def test_a_run_that_is_a_part_of_work_is_copied_under_its_own_names(
    committed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    objects = {key: data for key, data in committed[1].items() if not key.startswith("runs/r/")}
    with RunStore.create(tmp_path, "r", {}) as store:
        found = await fetch_trials(store, _open(objects)[1], _plan(), PlacedNames.of_part("w", "r"))
    assert found == FetchResult(4, 4)
    assert _chains(tmp_path) == _chains(committed[0] / "one")
    damaged = objects | {final_key("w", "r/" + _plan()[0].id): b"x"}
    with RunStore.create(tmp_path / "other", "r", {}) as store, pytest.raises(StoreError, match="runs/w/finals/"):
        await fetch_trials(store, _open(damaged)[1], _plan(), PlacedNames.of_part("w", "r"))


async def test_finals_are_copied_once_and_superseded_trials_stay(
    committed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    _, view = _open(committed[1])
    with RunStore.create(tmp_path, "r", {}) as store:
        for _ in range(2):
            assert await fetch_trials(store, view, _plan()) == FetchResult(4, 4)
    assert _chains(tmp_path) == _chains(committed[0] / "one")
    assert audit(tmp_path, "r") == ()


def _interrupted(objects: dict[str, bytes], name: str) -> TrialRecord:
    """Returns a trial under the chain of an attempt's final that was interrupted before its last event."""
    final = msgspec.msgpack.decode(objects[final_key("r", name)], type=TrialRecord).body
    events = unpack_events(final)[:-1]
    body = pack_trial(final.chain, 0, head_of(final.chain, events), events, None, final.blobs)
    return TrialRecord(1, "r", name, new_token(), "interrupted", body)


def _put_cut(objects: dict[str, bytes], cut: TrialRecord) -> dict[str, bytes]:
    return objects | {cut_key("r", cut.attempt, cut.token): msgspec.msgpack.encode(cut)}


async def test_an_interrupted_trial_of_an_undecided_attempt_does_not_take_the_name_of_the_one_that_decides_it(
    committed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    planned = _plan()
    decided = _put_cut(committed[1], _interrupted(committed[1], planned[0].id))
    undecided = {key: data for key, data in decided.items() if key != final_key("r", planned[0].id)}
    with RunStore.create(tmp_path, "r", {}) as store:
        assert (await fetch_trials(store, _open(undecided)[1], planned)).finals == 3
        assert await fetch_trials(store, _open(decided)[1], planned) == FetchResult(4, 5)
    assert _chains(tmp_path) == _chains(committed[0] / "one")


async def test_a_cut_trial_under_the_name_of_another_attempt_is_refused(
    committed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    planned = _plan()
    moved = msgspec.structs.replace(_interrupted(committed[1], planned[0].id), attempt=planned[1].id)
    objects = _put_cut(committed[1], moved)
    del objects[final_key("r", planned[0].id)]
    with RunStore.create(tmp_path, "r", {}) as store, pytest.raises(StoreError, match="its chain is not of"):
        await fetch_trials(store, _open(objects)[1], planned)


def _change(**fields: Any) -> Callable[[TrialRecord, TrialRecord], TrialRecord]:
    return lambda one, _: msgspec.structs.replace(one, body=msgspec.structs.replace(one.body, **fields))


def _of(record: TrialRecord) -> TrialResult:
    assert record.body.result is not None
    return record.body.result


DAMAGE: dict[str, tuple[Callable[[TrialRecord, TrialRecord], TrialRecord], str]] = {
    "another attempt's": (lambda _, other: other, "it was moved"),
    "another attempt's, renamed": (
        lambda one, other: msgspec.structs.replace(other, attempt=one.attempt),
        "not a finished trial",
    ),
    "another's events": (
        lambda one, other: msgspec.structs.replace(
            one, body=msgspec.structs.replace(one.body, events=other.body.events, size=other.body.size)
        ),
        "do not give its head",
    ),
    "another result": (
        _change(result=TrialResult("pass", 1.0, None, None, "store", None, {})),
        "not that of its chain",
    ),
    "another score": (
        lambda one, _: msgspec.structs.replace(
            one, body=msgspec.structs.replace(one.body, result=_of(one)._replace(score=0.125))
        ),
        "not that of its chain",
    ),
    "no result": (_change(result=None), "not that of its chain"),
    "not final": (lambda one, _: msgspec.structs.replace(one, kind="retried"), "not a finished trial"),
    "another chain": (_change(retry=7), "not a finished trial"),
    "a missing blob": (_change(blobs=("blake3:" + "0" * 64,)), "is missing"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
async def test_a_damaged_final_is_refused_with_its_key(
    committed: tuple[Path, dict[str, bytes]],
    tmp_path: Path,
    damage: Callable[[TrialRecord, TrialRecord], TrialRecord],
    message: str,
) -> None:
    planned, (bucket, view) = _plan(), _open(committed[1])
    keys = [final_key("r", one.id) for one in planned]
    one, other = (msgspec.msgpack.decode(bucket.objects[key], type=TrialRecord) for key in keys[:2])
    bucket.objects[keys[0]] = msgspec.msgpack.encode(damage(one, other))
    with RunStore.create(tmp_path, "r", {}) as store:
        with pytest.raises(StoreError, match=message) as refused:
            await fetch_trials(store, view, planned)
        assert store.row(planned[0].chain(0)) is None
    assert keys[0] in str(refused.value)


async def test_a_final_of_another_seed_is_refused(committed: tuple[Path, dict[str, bytes]], tmp_path: Path) -> None:
    planned = [one._replace(seed=one.seed + 1) for one in _plan()]
    with RunStore.create(tmp_path, "r", {}) as store, pytest.raises(StoreError, match="not a finished trial"):
        await fetch_trials(store, _open(committed[1])[1], planned)
