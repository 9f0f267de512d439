"""The commit protocol, object by object."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.records import GENESIS
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.cluster.commits import (
    MOST_EVENTS,
    TrialBody,
    commit_final,
    decode_record,
    keep_cut,
    list_finals,
    new_token,
    pack_trial,
    read_cuts,
    read_final,
    read_finals,
    unpack_events,
)
from assay.rollout.cluster.objects import MOST_NAME, final_key, object_name
from assay.store.chain import link_digest
from assay.store.objects.interface import ObjectStoreError
from tests.simulation.bucket import Bucket, BucketFaults, BucketView
from tests.simulation.virtual_time import run_virtual

RESULT = TrialResult("pass", 1.0, "agent", None, None, None, {"model_calls": 2.0})


def _body(*events: bytes, retry: int = 0, result: TrialResult | None = RESULT) -> TrialBody:
    chain, head = f"t@0.{retry}", GENESIS
    for index, event in enumerate(events):
        head = link_digest(chain, index, head, event)
    return pack_trial(chain, retry, head, events, result)


def _bucket() -> tuple[Bucket, BucketView]:
    bucket = Bucket(BucketFaults(0.0, 0.0), random.Random(0))
    return bucket, BucketView(bucket)


def test_the_first_commit_wins_and_the_second_is_stored_as_cut() -> None:
    bucket, view = _bucket()

    async def program() -> None:
        first = await commit_final(view, "r", "t@0", "a" * 32, _body(b"{}"))
        other = msgspec.structs.replace(_body(b"[]"), result=RESULT._replace(outcome="fail", score=0.0))
        second = await commit_final(view, "r", "t@0", "b" * 32, other)
        assert (first.outcome, second.outcome) == ("won", "superseded")
        assert second.result == first.result == RESULT
        assert await list_finals(view, "r") == {"t@0"}
        (cut,) = await read_cuts(view, "r")
        assert (cut.kind, cut.token, unpack_events(cut.body)) == ("superseded", "b" * 32, (b"[]",))
        assert unpack_events((await read_final(view, "r", "t@0")).body) == (b"{}",)

    run_virtual(program())
    assert len(bucket.objects) == 2


def test_a_lost_answer_is_recognized_by_the_token() -> None:
    bucket, view = _bucket()
    bucket.lose_next = 1
    commit = run_virtual(commit_final(view, "r", "t@0", new_token(), _body(b"{}")))
    assert commit.outcome == "won"
    assert len(bucket.objects) == 1


def test_repeating_a_commit_changes_nothing() -> None:
    bucket, view = _bucket()

    async def program() -> list[str]:
        tokens = "a" * 32, "b" * 32, "a" * 32, "b" * 32
        return [(await commit_final(view, "r", "t@0", token, _body(b"{}"))).outcome for token in tokens]

    assert run_virtual(program()) == ["won", "superseded", "won", "superseded"]
    assert len(bucket.objects) == 2


def test_a_store_that_does_not_answer_is_given_up_after_the_patience() -> None:
    bucket, view = _bucket()
    bucket.outage_until = 1e9
    with pytest.raises(ObjectStoreError):
        run_virtual(commit_final(view, "r", "t@0", new_token(), _body(b"{}"), 60.0))
    bucket.outage_until = 30.0
    assert run_virtual(commit_final(view, "r", "t@0", new_token(), _body(b"{}"), 60.0)).outcome == "won"


def test_a_damaged_final_keeps_the_trial_as_cut_and_fails() -> None:
    bucket, view = _bucket()
    bucket.create(final_key("r", "t@0"), b"garbage")

    async def program() -> int:
        with pytest.raises(StoreError, match="is damaged"):
            await commit_final(view, "r", "t@0", new_token(), _body(b"{}"))
        return len(await read_cuts(view, "r"))

    assert run_virtual(program()) == 1


def test_finals_are_read_together_and_retried_trials_apart() -> None:
    _, view = _bucket()

    async def program() -> None:
        attempts = [f"team/task one@{number}" for number in range(5)]
        for attempt in attempts:
            await keep_cut(view, "r", attempt, new_token(), _body(b"{}"), "retried")
            await commit_final(view, "r", attempt, new_token(), _body(b"{}", retry=1))
        assert set(await read_finals(view, "r", attempts)) == set(attempts)
        assert await list_finals(view, "r") == {object_name(attempt) for attempt in attempts}
        assert {record.kind for record in await read_cuts(view, "r")} == {"retried"}
        with pytest.raises(StoreError, match="missing"):
            await read_final(view, "r", "absent@0")

    run_virtual(program())


def test_a_small_object_with_many_empty_events_is_refused_before_they_are_made() -> None:
    count = MOST_EVENTS + 1
    raw = b"\xdd" + count.to_bytes(4, "big") + b"\xc4\x00" * count
    packed = pa.Codec("zstd", 3).compress(raw, asbytes=True)
    body = msgspec.structs.replace(_body(b"{}"), size=len(raw), events=packed, length=count)
    assert len(packed) < 10_000
    with pytest.raises(StoreError, match="are damaged: Expected `array` of length <="):
        unpack_events(body)


def test_events_that_do_not_give_the_head_are_refused() -> None:
    body = _body(b"{}", b"[1]")
    assert unpack_events(body) == (b"{}", b"[1]")
    other = _body(b"{}", b"[2]")
    for changed in (
        msgspec.structs.replace(body, events=other.events),
        msgspec.structs.replace(body, events=b"garbage"),
        msgspec.structs.replace(body, size=body.size - 1),
        msgspec.structs.replace(body, size=0),
        msgspec.structs.replace(body, length=1),
        msgspec.structs.replace(body, chain="t@0.1"),
    ):
        with pytest.raises(StoreError):
            unpack_events(changed)


@pytest.mark.parametrize(
    "change",
    [
        {"token": "a"},
        {"token": "A" * 32},
        {"run": "other"},
        {"attempt": "other@0"},
        {"kind": "best"},
        {"schema": 2},
        {"more": 1},
        {"body": {}},
    ],
)
def test_a_changed_record_is_refused(change: dict[str, Any]) -> None:
    bucket, view = _bucket()
    run_virtual(commit_final(view, "r", "t@0", new_token(), _body(b"{}")))
    (data,) = bucket.objects.values()
    assert decode_record(data, "r", "t@0").attempt == "t@0"
    changed = msgspec.msgpack.encode({**msgspec.msgpack.decode(data), **change})
    with pytest.raises(StoreError):
        decode_record(changed, "r", "t@0")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_a_store_error(data: bytes) -> None:
    with pytest.raises(StoreError):
        decode_record(data, "r", None)


@given(st.text(max_size=300), st.text(max_size=300))
def test_names_are_plain_and_distinct(one: str, other: str) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in (one, other)]
    names = [object_name(text) for text in texts]
    assert (names[0] == names[1]) == (texts[0] == texts[1])
    for name in names:
        assert 0 < len(name) <= MOST_NAME
        assert name[0] not in "._@-"
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@=-")
