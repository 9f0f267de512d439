"""A store that does not answer gets one request at a time, and after its first answer all go on."""

from __future__ import annotations

import asyncio
import math
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.rollout.cluster import objects
from assay.rollout.cluster.objects import LONGEST_WAIT_S, object_name, object_name_maker
from assay.rollout.cluster.patient_store import PatientStore
from assay.rollout.plan import attempt_id
from assay.store.objects.interface import ObjectStoreError
from tests.simulation.bucket import Bucket, BucketFaults, BucketView
from tests.simulation.virtual_time import run_virtual


def _bucket() -> Bucket:
    return Bucket(BucketFaults(0.0, 1e-12), random.Random(1))


def test_after_a_minute_of_503_all_uploads_are_done_with_few_requests() -> None:
    bucket = _bucket()
    bucket.outage_until = 60.0
    store = PatientStore(BucketView(bucket))

    async def program() -> float:
        created = await asyncio.gather(*(store.create(f"k{number}", b"") for number in range(32)))
        assert all(created)
        return asyncio.get_running_loop().time()

    assert run_virtual(program()) < 60.0 + 1.5 * LONGEST_WAIT_S + 0.2
    assert len(bucket.objects) == 32
    assert bucket.unavailable < 32 + 20


def test_one_warning_gives_the_reason_of_a_long_outage(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects.outage_warning, "_warned_at", -math.inf)
    bucket = _bucket()
    bucket.outage_until = 20.0
    view = BucketView(bucket)
    store = PatientStore(view)

    async def program() -> None:
        await store.create("a", b"")
        assert caplog.messages == []
        bucket.outage_until = asyncio.get_running_loop().time() + 100.0
        create = objects.create_or_read(view, "c", b"", limit=10)
        await asyncio.gather(*(store.create(f"k{number}", b"") for number in range(8)), create)

    run_virtual(program())
    (message,) = caplog.messages
    found = re.fullmatch(r"requests to the place have failed for (\d+) s, and are repeated: .+", message)
    assert found is not None
    assert 30 <= int(found[1]) < 60


def test_a_lost_answer_is_repeated_and_refused() -> None:
    bucket = _bucket()
    store = PatientStore(BucketView(bucket))

    async def program() -> None:
        bucket.lose_next = 1
        assert not await store.create("k", b"mine")
        assert await store.read("k") == b"mine"
        with pytest.raises(FileNotFoundError):
            await store.read("absent")

    run_virtual(program())


def test_a_request_that_never_succeeds_and_one_that_is_cancelled_hold_up_no_other() -> None:
    class Refusing(BucketView):
        async def create(self, key: str, data: bytes) -> bool:
            if key == "refused":
                raise ObjectStoreError("413 Content Too Large")
            return await super().create(key, data)

    bucket = _bucket()
    bucket.outage_until = 30.0
    store = PatientStore(Refusing(bucket))

    async def program() -> None:
        refused = asyncio.create_task(store.create("refused", b""))
        others = [asyncio.create_task(store.create(f"k{number}", b"")) for number in range(3)]
        await asyncio.sleep(1.0)
        others[0].cancel()
        async with asyncio.timeout(120.0):
            assert await asyncio.gather(*others[1:]) == [True, True]
        assert not refused.done()
        refused.cancel()

    run_virtual(program())


@given(st.text(max_size=200), st.integers(0, 10**9))
def test_the_maker_of_names_gives_the_names_of_attempts(task: str, number: int) -> None:
    assert object_name_maker(task)(number) == object_name(attempt_id(task, number))
