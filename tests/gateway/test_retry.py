from __future__ import annotations

import random
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.gateway.backends._retry import ClientOptions, backoff_delay, is_retryable, retry_after

pytestmark = pytest.mark.quick


@given(tries=st.integers(1, 10_000), seed=st.integers(0, 1000))
def test_a_wait_is_bounded_and_repeatable(tries: int, seed: int) -> None:
    options = ClientOptions(back_off_s=0.5, back_off_max_s=8)
    first, again = (backoff_delay(options, tries, None, random.Random(seed)) for _ in range(2))
    assert first == again
    assert 0.25 <= first <= 8


def test_waits_double() -> None:
    class Half(random.Random):
        def random(self) -> float:
            return 1.0

    options = ClientOptions(back_off_s=1, back_off_max_s=10)
    assert [backoff_delay(options, n, None, Half()) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 8, 10]


@given(asked=st.floats(0, 1000), seed=st.integers(0, 100))
def test_never_sooner_than_asked(asked: float, seed: int) -> None:
    assert backoff_delay(ClientOptions(), 1, asked, random.Random(seed)) >= asked


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "5", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date() -> None:
    found = retry_after({"retry-after": formatdate(time.time() + 60, usegmt=True)})
    assert found is not None
    assert 57 < found <= 60


@pytest.mark.parametrize(
    ("status", "code", "again"),
    [(429, "", True), (429, "insufficient_quota", False), (503, "", True), (501, "", False), (400, "", False)],
)
def test_what_is_worth_another_try(status: int, code: str, again: bool) -> None:
    assert is_retryable(status, code) is again
