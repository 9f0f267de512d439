"""What judging makes of a record that lacks something, or holds what nobody can read."""

from __future__ import annotations

import msgspec
import pytest

from assay.analysis.judge import judge_integrity, judge_safety
from assay.analysis.subject import Subject
from assay.records import Evidence, Verdict, VerdictStatus
from tests.analysis.made import trajectory

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("table", ["no table", {}, {"name": 3}, {"rules": [{"when": "("}]}])
def test_a_contract_in_the_record_that_cannot_be_read_leaves_safety_unknown(table: object) -> None:
    contract = Evidence("e1", "audit", "contract", {"contract": table})
    subject = Subject(msgspec.structs.replace(trajectory(), evidence=(contract,)), (), lambda _: None)
    findings, (verdict,) = judge_safety(subject)
    assert (verdict.check, verdict.kind, verdict.status) == ("contract:e1", "safety", "unknown")
    assert verdict.evidence == ("e1",)
    assert "cannot be read" in verdict.reason
    assert not findings


def test_a_record_without_act_and_evidence_has_no_integrity_that_is_known() -> None:
    _, verdict = judge_integrity(Subject(trajectory(), (), lambda _: None))
    assert verdict.status == "unknown"


@pytest.mark.parametrize(("status", "marks", "expected"), [
    ("unknown", ("orphaned_processes",), "unknown"),
    ("pass", ("orphaned_processes",), "pass"),
    ("unknown", ("time_limit",), "pass"),
])  # fmt: skip
def test_integrity_is_unknown_where_a_check_could_not_tell_who_wrote_its_reward(
    status: VerdictStatus, marks: tuple[str, ...], expected: str
) -> None:
    ran = Evidence("e1", "audit", "execution", {"argv": ["sh"], "exit_code": 0})
    verdict = Verdict("tests", "outcome", status, None, "", marks=marks)
    whole = msgspec.structs.replace(trajectory(verdicts=(verdict,)), evidence=(ran,))
    assert judge_integrity(Subject(whole, (), lambda _: None))[1].status == expected
