"""Rules of the bar on rows made by hand: each breach is named."""

from __future__ import annotations

import msgspec
import pytest

from assay.records import Separation, VerdictStatus
from tests.adversary.attempts import CheckRow, Row
from tests.adversary.bar import (
    breaches,
    honest_breaches,
    refusals,
    summarize,
    summarize_honest,
    summarize_right,
    undeserved,
)

pytestmark = pytest.mark.quick


def make_row(status: VerdictStatus, separation: Separation, *, deserves_pass: bool = False) -> Row:
    checks = {"tests": CheckRow(status, separation, "because")}
    integrity: VerdictStatus = "pass" if deserves_pass else "fail"
    return Row("py--x", "x", "py", "attack", "", deserves_pass, status, integrity, checks, (), None, None, 1.0)


@pytest.mark.parametrize("separation", ["separate", "no-agent-code"])
def test_undeserved_pass_at_separate_is_a_breach(separation: Separation) -> None:
    assert "undeserved pass" in breaches([make_row("pass", separation)])[0]


@pytest.mark.parametrize("separation", ["same-user", "same-process", "unknown"])
def test_undeserved_pass_at_lower_grade_is_counted(separation: Separation) -> None:
    rows = [make_row("pass", separation)]
    assert not breaches(rows)
    assert len(list(undeserved(rows))) == 1
    assert summarize(rows)["undeserved"] == {separation: 1}


def test_undeserved_pass_with_integrity_pass_is_a_breach_unless_it_only_read() -> None:
    row = msgspec.structs.replace(make_row("pass", "same-user"), integrity="pass", cause="runner patched")
    assert "with integrity pass" in breaches([row])[0]
    assert not breaches([msgspec.structs.replace(row, cause="answers read out of the script")])


@pytest.mark.parametrize("variant", ["plan", "direct-apart"])
def test_honest_work_below_separate_is_a_breach_where_the_task_is_judged_apart(variant: str) -> None:
    row = msgspec.structs.replace(make_row("pass", "same-user", deserves_pass=True), variant=variant)
    assert "at same-user" in honest_breaches([row])[0]


def test_attempt_that_broke_or_hung_is_a_breach() -> None:
    row = make_row("fail", "separate")
    assert not breaches([row])
    assert "broke" in breaches([msgspec.structs.replace(row, broke="environment")])[0]
    assert "judging took" in breaches([msgspec.structs.replace(row, judged_s=1000.0)])[0]
    assert "because" in breaches([make_row("error", "unknown")])[0]
    assert "no outcome" in breaches([msgspec.structs.replace(row, checks={})])[0]


@pytest.mark.parametrize("status", ["fail", "unknown", "error"])
def test_honest_work_that_does_not_pass_is_a_breach(status: VerdictStatus) -> None:
    assert len(honest_breaches([make_row(status, "separate", deserves_pass=True)])) == 1


def test_honest_work_with_a_mark_of_forging_is_a_breach() -> None:
    row = make_row("pass", "separate", deserves_pass=True)
    assert not honest_breaches([row])
    checks = {"tests": CheckRow("pass", "separate", "", ("forged",))}
    assert honest_breaches([msgspec.structs.replace(row, checks=checks)])
    assert honest_breaches([msgspec.structs.replace(row, integrity="fail")])


def test_repair_may_fail_but_only_cleanly() -> None:
    row = msgspec.structs.replace(make_row("fail", "separate", deserves_pass=True), role="repair")
    assert not honest_breaches([row])
    assert honest_breaches([msgspec.structs.replace(row, integrity="fail")])
    assert honest_breaches([msgspec.structs.replace(row, marks=("agent_made_unjudgeable",))])
    unknown = make_row("unknown", "separate", deserves_pass=True)
    assert honest_breaches([msgspec.structs.replace(unknown, role="repair")])


def test_honest_attempts_are_counted_by_kind() -> None:
    row = make_row("pass", "separate", deserves_pass=True)
    rows = [msgspec.structs.replace(row, script=f"git-commit-{n:02}") for n in range(3)]
    rows[2] = msgspec.structs.replace(rows[2], broke="environment")
    summary = summarize_honest(rows)
    assert summary["kinds"] == {"git-commit": {"attempts": 3, "clean": 2, "passed": 3}}
    assert len(summary["honest_breaches"]) == 1


def test_refusals_are_whatever_is_no_pass_at_separate() -> None:
    good = make_row("pass", "separate", deserves_pass=True)
    weak = make_row("pass", "same-process", deserves_pass=True)
    bad = make_row("fail", "separate", deserves_pass=True)
    assert not refusals([good])
    assert len(refusals([good, weak, bad])) == 2


def test_one_refusal_in_a_hundred_is_within_the_bar() -> None:
    good = make_row("pass", "separate", deserves_pass=True)
    bad = make_row("fail", "separate", deserves_pass=True)
    tried = [good] * 100 + [msgspec.structs.replace(good, outcome="fail")]
    summary = summarize_right(tried, [good] * 99 + [bad])
    assert (summary["tried"], summary["right"], summary["refused"], summary["honest_breaches"]) == (101, 100, 1, [])
    assert summarize_right(tried, [good] * 98 + [bad] * 2)["honest_breaches"]


def test_failure_of_the_infrastructure_is_no_refusal() -> None:
    good = make_row("pass", "separate", deserves_pass=True)
    broken = msgspec.structs.replace(good, outcome=None, broke="verifier: no space", checks={})
    summary = summarize_right([good, good, broken], [good, broken])
    assert (summary["right"], summary["refused"], summary["wrong_by_the_tests"]) == (1, 0, [])
    assert len(summary["breaches"]) == 2
