"""Repetitions of one check."""

from __future__ import annotations

from assay.records import Separation, Verdict
from assay.verify.interface import CheckResult
from assay.verify.outcome import _agree


def round_at(grade: Separation) -> CheckResult:
    return CheckResult(Verdict("c", "outcome", "pass", 1.0, "reward 1", separation=grade), ())


def test_repetitions_that_agree_have_the_weakest_of_their_grades() -> None:
    rounds = [round_at("separate"), round_at("same-process"), round_at("separate")]
    assert _agree(rounds).verdict.separation == "same-process"
