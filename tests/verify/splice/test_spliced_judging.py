"""Tests judged from outside, in real sandboxes: honest work passes as `separate`, nothing else does."""

from __future__ import annotations

from typing import Any

from .conftest import solution


async def test_the_repair_passes_as_separate(shop: Any) -> None:
    outcome = await shop.judge(solution())
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome
    assert outcome.verdict.separations == {"separate": 8}


async def test_the_unrepaired_package_fails(shop: Any) -> None:
    outcome = await shop.judge("true")
    assert outcome.verdict.status == "fail"
    assert outcome.verdict.score == 0.0
