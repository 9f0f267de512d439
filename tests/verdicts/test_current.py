"""The newest verdict of each check counts, the worst of them stands for its kind, and own praise is no verdict."""

from __future__ import annotations

import pytest

from assay.verdicts import current_verdicts_of, is_own_praise, outcome_separation, worst_finding, worst_outcome
from tests.verdicts.made import trajectory, verdict

pytestmark = pytest.mark.quick


def test_worst_outcome_puts_what_could_not_be_judged_first():
    assert worst_outcome(["pass", "fail", "unknown"]) == "unknown"
    assert worst_outcome([]) is None


def test_worst_finding_puts_what_was_observed_first():
    assert worst_finding(["pass", "unknown", "error", "fail"]) == "fail"
    assert worst_finding([]) is None


def test_newest_reverification_of_each_check_counts():
    old = verdict("unknown", check="reverify:tests", marks=["flaky"])
    new = verdict("pass", check="reverify:tests", marks=["agree"])
    assert current_verdicts_of(trajectory(verdict()), [old, new]).reverified == "agree"
    assert current_verdicts_of(trajectory(verdict()), [new, old]).reverified == "flaky"


def test_reverification_before_the_end_is_not_an_outcome():
    again = verdict("fail", check="reverify:tests", marks=["disagree"])
    found = trajectory(verdict(), again)
    assert found.outcome == "pass"
    assert current_verdicts_of(found).reverified == "disagree"


@pytest.mark.parametrize(
    ("status", "kind", "marks", "praise"),
    [
        ("pass", "integrity", ["imported"], True),
        ("pass", "outcome", ["imported", "agree"], True),
        ("pass", "outcome", ["imported"], False),
        ("fail", "integrity", ["imported"], False),
        ("pass", "integrity", [], False),
    ],
)
def test_imported_verdict_that_vouches_for_its_own_record_is_praise(status, kind, marks, praise):
    assert is_own_praise(verdict(status, kind, marks=marks)) is praise


def test_own_praise_does_not_replace_an_earlier_finding():
    ours = verdict("fail", "integrity", "integrity")
    theirs = verdict("pass", "integrity", "integrity", ["imported"])
    assert current_verdicts_of(trajectory(verdict(), ours, theirs)).integrity == "fail"


def test_grade_is_the_weakest_over_outcome_checks():
    graded = [verdict(check="a", grade="separate"), verdict(check="b", grade="same-user")]
    assert outcome_separation(graded) == "same-user"
    assert outcome_separation([*graded, verdict(kind="safety", check="c")]) == "same-user"
    assert outcome_separation([]) == "unknown"


def test_grade_that_an_imported_record_claims_is_unknown():
    assert outcome_separation([verdict(marks=["imported"], grade="separate")]) == "unknown"
    again = verdict(check="reverify:tests", marks=["imported", "agree"], grade="separate")
    assert outcome_separation([verdict(), again]) == "unknown"


@pytest.mark.parametrize(("mark", "grade"), [("agree", "separate"), ("disagree", "unknown"), ("cannot", "unknown")])
def test_reverification_that_agrees_raises_the_grade(mark, grade):
    again = verdict(check="reverify:tests", marks=[mark], grade="separate")
    assert outcome_separation([verdict(), again]) == grade
