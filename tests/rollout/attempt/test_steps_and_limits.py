"""The pure parts of the loop: plans, limits, and the judgement over several steps."""

from __future__ import annotations

import pytest

from assay.errors import LimitReached
from assay.records import Limits, Usage, Verdict
from assay.rollout.attempt.steps import combine_steps, is_below_minimum
from assay.rollout.limits.meter import Meter
from assay.rollout.plan import attempt_seed, merge_limits, plan
from tests.rollout.counting import counting_task

pytestmark = pytest.mark.quick


def verdict(status: str, score: float | None, **rewards: float) -> Verdict:
    return Verdict("tests", "outcome", status, score, "", rewards=rewards)  # type: ignore[arg-type]


def test_plan_sees_every_task_before_any_twice() -> None:
    planned = plan([counting_task("a"), counting_task("b")], "x", 2, seed=0, limits=Limits())
    assert [p.id for p in planned] == ["a@0", "b@0", "a@1", "b@1"]
    assert len({p.seed for p in planned}) == 4


def test_seeds_are_the_same_wherever_derived() -> None:
    assert attempt_seed(1, "blake3:00", "null", 2) == attempt_seed(1, "blake3:00", "null", 2)
    assert 0 <= attempt_seed(2, "blake3:00", "null", 2) < 2**63


def test_the_stricter_limit_holds() -> None:
    assert merge_limits(Limits(turns=3, wall_s=9.0), Limits(turns=5, tokens=7)) == Limits(turns=3, tokens=7, wall_s=9.0)


def test_unknown_price_meets_a_cost_limit() -> None:
    meter = Meter(Limits(cost_usd=1.0))
    with pytest.raises(LimitReached, match="cost_usd"):
        meter.charge(Usage(1, 1), None)
    assert "cost_usd" not in meter.metrics()


def test_waiting_is_no_work() -> None:
    meter = Meter(Limits())
    with meter.waiting():
        pass
    assert 0.0 <= meter.working_s <= meter.wall_s


@pytest.mark.parametrize(("strategy", "status", "score"), [("mean", "fail", 0.5), ("final", "fail", 0.0)])
def test_steps_that_did_not_run_failed(strategy: str, status: str, score: float) -> None:
    found = combine_steps([[verdict("pass", 1.0)]], 2, strategy)
    assert (found.status, found.score) == (status, score)


def test_final_strategy_counts_the_last_step_alone() -> None:
    found = combine_steps([[verdict("fail", 0.0)], [verdict("pass", 1.0)]], 2, "final")
    assert (found.status, found.score) == ("pass", 1.0)


def test_unknown_step_leaves_the_whole_unknown() -> None:
    found = combine_steps([[verdict("pass", 1.0)], [verdict("unknown", None)]], 2, "mean")
    assert (found.status, found.score) == ("unknown", None)


@pytest.mark.parametrize("status", ["error", "unknown"])
@pytest.mark.parametrize("strategy", ["mean", "final"])
def test_steps_after_one_that_could_not_be_judged_were_not_observed(status: str, strategy: str) -> None:
    found = combine_steps([[verdict(status, None)]], 3, strategy)
    assert (found.status, found.score) == (status, None)


def test_steps_after_one_without_any_verdict_were_not_observed() -> None:
    assert combine_steps([[]], 2, "final").status == "unknown"


def test_a_missing_reward_is_below_everything() -> None:
    assert is_below_minimum([verdict("pass", 1.0, lines=0.4)], {"lines": 0.5})
    assert is_below_minimum([verdict("pass", 1.0)], {"other": 0.0})
    assert not is_below_minimum([verdict("pass", 1.0)], 1.0)
    assert not is_below_minimum([verdict("fail", 0.0)], None)
