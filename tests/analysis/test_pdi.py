"""Posterior Distillation Index, by hand and on released data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.analysis.pdi import Proxies, Reflection, pdi, proxies, words


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
