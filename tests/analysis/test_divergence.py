"""Divergence of two attempts, as numbers."""

from __future__ import annotations

import pytest

from assay.analysis.divergence import Divergence, diverge, mean_divergence
from assay.records import Step, ToolCall

pytestmark = pytest.mark.quick


def attempt(*turns: tuple[str, dict[str, object], str | None]) -> list[Step]:
    return [
        Step(at, "agent", tool_calls=(ToolCall(f"c{at}", name, "{}", arguments),), state=state)
        for at, (name, arguments, state) in enumerate(turns)
    ]


def test_plan_calls_and_states_are_told_apart() -> None:
    one = attempt(("look", {"id": 1}, "a"), ("look", {"id": 2}, "a"), ("pay", {"id": 2}, "b"))
    two = attempt(("look", {"id": 1}, "a"), ("look", {"id": 3}, "a"), ("pay", {"id": 3}, "c"))
    assert diverge(one, one) == Divergence(0, 0, 0)
    assert diverge(one, two) == Divergence(0, pytest.approx(2 / 3), 0.5)
    assert diverge(one, attempt()) == Divergence(1, 1, None)
    assert diverge(attempt(), attempt()) == Divergence(0, 0, None)


def test_states_that_were_not_observed_do_not_count_in_the_mean() -> None:
    found = [Divergence(0.5, 1, None), Divergence(0, 0, 0.25)]
    assert mean_divergence(found) == Divergence(0.25, 0.5, 0.25)
    assert mean_divergence([]) is None
