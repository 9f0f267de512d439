"""One word, one reason and one headline for each attempt."""

from __future__ import annotations

import pytest

from assay.verdicts import trust_of
from tests.verdicts.made import trajectory, verdict

pytestmark = pytest.mark.quick
PASS = verdict()


@pytest.mark.parametrize(
    ("verdicts", "word", "headline"),
    [
        ((PASS,), "pass", "pass"),
        ((PASS, verdict("pass", "integrity", "i")), "pass", "pass"),
        ((PASS, verdict("fail", "integrity", "i")), "doubt", "pass (integrity failed)"),
        ((PASS, verdict("unknown", "integrity", "i")), "doubt", "pass (integrity unknown)"),
        ((PASS, verdict("error", "integrity", "i")), "doubt", "pass (integrity not judged)"),
        ((PASS, verdict("fail", "safety", "s")), "pass", "pass (safety failed)"),
        ((verdict("fail"), verdict("fail", "integrity", "i")), "fail", "fail"),
        ((verdict("unknown"),), "unknown", "unknown"),
        ((verdict("error"),), "error", "error"),
        ((), "unknown", "unknown"),
    ],
)
def test_attempt_that_ended(verdicts, word, headline):
    trust = trust_of(trajectory(*verdicts))
    assert (trust.outcome_class, trust.headline) == (word, headline)
    assert trust.trusted is (word == "pass")
    assert (trust.doubt is not None) is (word == "doubt")


@pytest.mark.parametrize(
    ("mark", "words"),
    [("disagree", "does not hold when judged again"), ("flaky", "flaky when judged again")],
)
def test_pass_that_did_not_hold_when_judged_again(mark, words):
    trust = trust_of(trajectory(PASS), [verdict("unknown", check="reverify:tests", marks=[mark])])
    assert (trust.outcome_class, trust.headline) == ("doubt", f"pass ({words})")


@pytest.mark.parametrize("mark", ["agree", "cannot"])
def test_pass_that_was_not_judged_otherwise_is_trusted(mark):
    assert trust_of(trajectory(PASS), [verdict(check="reverify:tests", marks=[mark])]).trusted


def test_attempt_that_broke_without_a_verdict_is_an_error():
    trust = trust_of(trajectory(broke="environment"))
    assert (trust.outcome_class, trust.headline) == ("error", "error (environment broke)")


@pytest.mark.parametrize(("end", "word"), [("cut", "error"), ("open", "open")])
def test_attempt_without_an_end_is_never_a_pass(end, word):
    trust = trust_of(trajectory(PASS, end=end))
    assert trust.outcome_class == word
    assert trust.headline.startswith(word)
    assert trust.headline.endswith("judged pass)")
    assert trust.doubt is not None
    assert not trust.trusted


def test_unknown_grade_alone_is_no_reason_for_doubt():
    assert trust_of(trajectory(PASS)).trusted
    assert trust_of(trajectory(PASS)).separation == "unknown"


@pytest.mark.parametrize(
    ("grade", "counts"),
    [("no-agent-code", True), ("separate", True), ("same-user", False), ("same-process", False), ("unknown", False)],
)
def test_required_grade_accepts_itself_and_stronger_ones(grade, counts):
    trust = trust_of(trajectory(verdict(grade=grade)), require="separate")
    assert trust.trusted is counts
    if not counts:
        assert trust.doubt == f"its separation is {grade}, and separate is required"
        assert trust.headline == f"pass (separation {grade})"
