"""The questions to a worker follow from the seed, and the seed is found again in the evidence."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from assay.records import Evidence, Verdict
from assay.verify.calls.judge import draw_questions
from assay.verify.calls.power import _enough, _lower_bound
from assay.verify.reverification import read_recorded_seeds

from .conftest import PLAN

pytestmark = pytest.mark.quick


def test_a_seed_gives_the_same_questions_and_another_gives_others() -> None:
    assert draw_questions(PLAN, b"one") == draw_questions(PLAN, b"one")
    assert draw_questions(PLAN, b"one") != draw_questions(PLAN, b"two")


def test_a_tenth_of_the_inputs_is_asked_twice_in_shuffled_order() -> None:
    inputs, questions = draw_questions(PLAN, b"seed")
    asked = Counter(question.input for question in questions)
    assert set(asked) == set(range(len(inputs)))
    assert sum(count == 2 for count in asked.values()) == -(-len(inputs) // 10)
    assert [question.number for question in questions] == list(range(len(questions)))
    assert [question.input for question in questions] != sorted(question.input for question in questions)


def test_enough_inputs_are_drawn_for_those_that_will_be_dropped() -> None:
    inputs, _ = draw_questions(PLAN, b"seed")
    assert len(inputs) * PLAN.fair_share > PLAN.inputs


def trajectory(*evidence: Evidence) -> Any:
    verdict = Verdict("tests", "outcome", "pass", 1.0, "", ("v0.1",))
    return SimpleNamespace(verdicts=(verdict,), evidence=evidence)


def test_the_seed_of_a_verdict_is_that_of_the_evidence_which_it_cites() -> None:
    own = Evidence("v0.1", "audit", "calls", {"seed": "00ff"})
    other = Evidence("v1.1", "audit", "calls", {"seed": "11"})
    assert read_recorded_seeds(trajectory(other, own)) == {"tests": b"\x00\xff"}


@pytest.mark.parametrize("seed", [None, 7, "", "no hexadecimal"])
def test_a_malformed_seed_is_left_out(seed: Any) -> None:
    assert read_recorded_seeds(trajectory(Evidence("v0.1", "audit", "calls", {"seed": seed}))) == {}


def test_the_number_of_inputs_makes_a_pass_by_chance_unlikely() -> None:
    assert _enough(0.5, 1e-3) == 10
    assert 0.5**10 < 1e-3 < 0.5**9
    assert _lower_bound(0, 50) == 0.0
    assert 0.9 < _lower_bound(50, 50) < 1.0
