import itertools

from assay.records import Verdict, canonical_bytes, decode
from assay.verdicts import SEPARATIONS, meets, weakest


def test_weakest_of_two_grades_is_the_later_one():
    for stronger, weaker in itertools.combinations(SEPARATIONS, 2):
        assert weakest([stronger, weaker]) == weakest([weaker, stronger]) == weaker


def test_weakest_of_nothing_is_unknown():
    assert weakest([]) == "unknown"


def test_requirement_accepts_itself_and_everything_stronger():
    assert [grade for grade in SEPARATIONS if meets(grade, "separate")] == ["no-agent-code", "separate"]
    assert not meets("unknown", "same-process")


def test_verdict_without_a_grade_keeps_its_old_canonical_bytes():
    verdict = Verdict("tests", "outcome", "pass", 1.0, "all passed")
    assert b"separation" not in canonical_bytes(verdict)
    assert decode(canonical_bytes(verdict), Verdict).separation == "unknown"
