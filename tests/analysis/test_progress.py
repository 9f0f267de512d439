"""Curves of progress, the distillation index, likeness of attempts: by hand, by definition and on released data."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.actions import actions_of
from assay.analysis.pdi import Proxies, Reflection, pdi, proxies, words
from assay.analysis.progress import observed_progress, progress_metrics, reported_progress
from assay.analysis.repeatability import repeatability, resource_consistency
from assay.records import Evidence, Observation, Step
from tests.analysis.made import call, step, trajectory


def test_measures_of_a_curve_by_hand() -> None:
    # Moves: .5, 0, -.25, +.75 -> 1.5 in all; best so far minus now: 0, 0, .25, 0.
    found = progress_metrics([0.5, 0.5, 0.25, 1.0])
    assert found.milestones == {"25": True, "50": True, "75": True, "100": True}
    assert (found.most, found.efficiency, found.effective) == (1.0, pytest.approx(1 / 1.5), pytest.approx(1 / 1.5))
    assert (found.regret, found.stagnation) == (pytest.approx(0.0625), 0.25)


def test_a_curve_that_never_moves_is_of_no_efficiency() -> None:
    found = progress_metrics([0.0, 0.0])
    assert (found.efficiency, found.effective, found.stagnation, found.most) == (0.0, 0.0, 1.0, 0.0)


@pytest.mark.parametrize("curve", [[], [1.5], [float("nan")], [-0.1]])
def test_what_is_no_curve_is_refused(curve: list[float]) -> None:
    with pytest.raises(ValueError, match="progress"):
        progress_metrics(curve)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_measures_are_those_of_a_loop(curve: list[float]) -> None:
    found = progress_metrics(curve)
    moved = [abs(b - a) for a, b in zip([0.0, *curve], curve, strict=False)]
    assert found.efficiency == pytest.approx(curve[-1] / sum(moved) if sum(moved) else 0.0)
    assert found.regret == pytest.approx(np.mean([max(curve[: n + 1]) - p for n, p in enumerate(curve)]))
    assert found.stagnation == pytest.approx(sum(m < 0.005 for m in moved) / len(moved))
    assert all(0.0 <= v <= 1.0 + 1e-9 for v in (found.most, found.efficiency, found.effective, found.regret))


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("=== 3 failed, 9 passed, 2 skipped in 1.20s ===", 9 / 12),
        ("5 passed, 1 warning in 0.1s", 1.0),
        ("1 passed in 0.1s\nagain\n1 failed, 1 error in 0.1s", 0.0),
        ("Ran 8 tests in 0.012s\n\nFAILED (failures=1, errors=1)", 6 / 8),
        ("Ran 8 tests in 0.012s\n\nOK", 1.0),
        ("Tests:       1 failed, 1 skipped, 3 passed, 5 total", 3 / 4),
        ("no tests ran in 0.01s", None),
        ("everything passed", None),
    ],
)
def test_the_agents_own_test_runs_make_a_curve(text: str, share: float | None) -> None:
    steps = [step(call("bash", {"command": "pytest"}), seen=[Observation(text)]), step(call("bash", {"command": "ls"}))]
    found = observed_progress(actions_of(trajectory(*steps)))
    assert [each.share for each in found] == ([] if share is None else [pytest.approx(share)])


def test_a_verifiers_reports_make_a_curve_over_the_steps() -> None:
    def report(number: int, counts: object, at: float | None) -> Evidence:
        return Evidence(f"e{number}", "audit", "test_report", {"counts": counts}, at=at)

    steps = tuple(Step(n, "agent", message="x", started=10.0 * n) for n in range(3))
    evidence = (report(0, {"passed": 1, "failed": 3}, 5.0), report(1, {"passed": 3, "failed": 0, "error": 1}, 25.0),
                report(2, {"passed": 4}, None), report(3, {"skipped": 4}, 30.0), report(4, None, 30.0))  # fmt: skip
    held = msgspec.structs.replace(trajectory(), steps=steps, evidence=evidence)
    assert reported_progress(held) == ((0, 0.25), (2, 0.75), (2, 1.0))


def test_the_index_by_hand() -> None:
    first = Reflection(words("run tests"), words("tests fail port"), words("try again"), words("test_a"))
    second = Reflection(words("port tests"), words("tests fail port"), words("try again"), words("test_b"))
    shares = proxies([first, second])
    assert shares == (Proxies(1 / 3, 0.0, 0.0), Proxies(2 / 3, 1.0, 0.5))
    before, after = pdi(shares)
    # Each of three z-scores of two values that rose is 1; half the weight.
    assert (before.index, after.index, after.weight) == (None, pytest.approx(-0.5), 0.5)
    assert not after.triggers


def test_the_weight_never_turns_the_index_round() -> None:
    published = [min(1, step / 2) for step in (-1, 0, 1, 2, 3)]
    assert published[0] == -0.5
    assert [point.weight for point in pdi([Proxies(0.1, 0.2, 0.3)] * 4)] == [0.0, 0.5, 1.0, 1.0]


def test_released_indices_are_recomputed_but_for_their_first_attempts(shared_data: Path) -> None:
    compared = 0
    for path in sorted((shared_data / "spark-skills").glob("*/attempts.json")):
        history = (json.loads(path.read_text()).get("pdi") or {}).get("history") or []
        points = pdi([Proxies(each["proxy_exec"], each["proxy_plan"], each["proxy_oss"]) for each in history])
        for point, each in list(zip(points, history, strict=True))[1:]:
            assert point.index == pytest.approx(each["weighted_pdi"], abs=2e-3)
            compared += 1
    assert compared == 50


def test_the_released_data_hold_an_index_whose_sign_is_turned(shared_data: Path) -> None:
    (history,) = [json.loads(path.read_text())["pdi"]["history"]
                  for path in (shared_data / "spark-skills").glob("lean4-proof/attempts.json")]  # fmt: skip
    assert (history[0]["step"], history[0]["weight"]) == (-1, -0.5)
    assert history[0]["raw_pdi"] > 0 > history[0]["weighted_pdi"]


def test_likeness_of_attempts_by_hand() -> None:
    found = repeatability(["ab", "ab", "ac", "xyz"], [True, True, True, False])
    assert found.outcome == pytest.approx(0.25)
    # Three pairs: one equal, two with half of the acts replaced; half the mass of the mixtures is apart there.
    assert found.sequence == pytest.approx(1 - (0.5 + 0.5) / 3)
    assert found.mixture == pytest.approx(1 - (0.5 + 0.5) / 3)
    assert (found.attempts, found.compared) == (4, 3)
    assert repeatability(["ab", "xyz"], [True, False]).sequence is None
    assert repeatability(["ab", "xyz"], [True, False], over="all").compared == 2


@given(st.lists(st.tuples(st.text(alphabet="ab", max_size=6), st.sampled_from([True, False, None])), max_size=6))
def test_likeness_is_a_share(attempts: list[tuple[str, bool | None]]) -> None:
    found = repeatability([each[0] for each in attempts], [each[1] for each in attempts], over="all")
    for value in (found.outcome, found.mixture, found.sequence):
        assert value is None or -1e-9 <= value <= 1.0 + 1e-9


def test_likeness_of_what_was_used() -> None:
    assert resource_consistency({"cost": [1.0, 1.0], "tokens": [2.0]}) == 1.0
    assert resource_consistency({"cost": [1.0, 3.0]}) == pytest.approx(math.exp(-math.sqrt(2) / 2))
    assert resource_consistency({"cost": [0.0, 0.0]}) is None
