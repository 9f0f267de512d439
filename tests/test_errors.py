"""The one place that attributes exceptions to a boundary."""

from __future__ import annotations

import asyncio

import pytest

from assay.errors import EnvironmentFailure, ProviderError, StoreError, boundary


def test_a_foreign_exception_is_attributed_and_kept_as_the_cause() -> None:
    broken = ExceptionGroup("several", [ExceptionGroup("inner", [OSError("disk full")]), KeyError("x")])
    with (
        pytest.raises(StoreError, match=r"^reading rows: OSError: disk full$") as caught,
        boundary(StoreError, "reading rows"),
    ):
        raise broken
    assert caught.value.__cause__ is broken


@pytest.mark.parametrize(
    "passed", [ProviderError("no answer"), KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()]
)
def test_our_own_errors_and_interrupts_pass_unchanged(passed: BaseException) -> None:
    outer, inner = boundary(EnvironmentFailure, "the outer"), boundary(StoreError, "the inner")
    with pytest.raises(type(passed)) as caught, outer, inner:
        raise passed
    assert caught.value is passed


def test_the_innermost_boundary_is_named() -> None:
    outer, inner = boundary(EnvironmentFailure, "the outer"), boundary(StoreError, "the inner")
    with pytest.raises(StoreError, match="the inner: ValueError: x"), outer, inner:
        raise ValueError("x")


def test_message_of_an_error_can_be_printed_and_recorded() -> None:
    assert str(StoreError("a \ud800 b")) == r"a \ud800 b"
