"""From attempts to findings: what counts against a verifier, what closes a hole, and what is only to be known."""

from __future__ import annotations

from typing import Any

import pytest

from assay.admission.difficulty import AgentRate, difficulty_findings
from assay.admission.probe import SkippedProbe
from assay.admission.probe_results import ProbeResult
from assay.admission.soundness import TaskEvidence, TaskReport, judge_task, list_effective_settings
from assay.rollout.plan import Verification
from assay.statistics import wilson

pytestmark = pytest.mark.quick


def seen(probe: str, group: Any, outcome: Any, verification: Verification = "default", **more: Any) -> ProbeResult:
    wanted = "pass" if group in ("completeness", "strictness") else "fail"
    attempt = f"t@{probe}"
    return ProbeResult(probe, group, wanted, verification, f"about {probe}", attempt, f"{attempt}.0", outcome, **more)


def judged(*observed: ProbeResult, has_oracle: bool = True, **more: Any) -> TaskReport:
    verifications = tuple(dict.fromkeys(one.verification for one in observed)) or ("default",)
    return judge_task(TaskEvidence("t", "blake3:t", verifications, has_oracle, observed, **({"untried": ()} | more)))


ORACLE = seen("oracle.1", "completeness", "pass", judged_s=0.5, attempt_s=1.0, peak_bytes=3 << 20)


def test_nothing_found_is_admitted() -> None:
    report = judged(ORACLE, seen("null.nothing", "null", "fail"))
    assert (report.admitted, report.findings) == ({"default": True}, ())
    assert (report.cost.verification_s, report.cost.peak_mib, report.cost.attempts) == (0.5, 3.0, 2)


@pytest.mark.parametrize("outcome", ["fail", "unknown", "error"])
def test_a_solution_that_never_passes_is_broken(outcome: str) -> None:
    (found,) = judged(seen("oracle.1", "completeness", outcome, reason="why")).findings
    assert (found.kind, found.severity) == ("oracle-fails", "broken")
    assert "why" in found.text


def test_a_solution_that_passes_now_and_then_is_flaky_with_its_rate() -> None:
    report = judged(ORACLE, seen("oracle.2", "completeness", "fail"), seen("oracle.3", "completeness", "pass"))
    (found,) = report.findings
    assert (found.kind, found.severity, report.is_admitted) == ("oracle-flaky", "broken", False)
    assert report.completeness.flake_rate == pytest.approx(1 / 3)
    assert report.completeness.flake_interval == wilson(1, 3)


def test_a_solution_that_could_not_be_judged_is_not_taken_for_sound() -> None:
    report = judged(seen("oracle.1", "completeness", None, broke="environment", error="no sandbox"))
    (found,) = report.findings
    assert (found.kind, report.is_admitted) == ("oracle-not-judged", False)
    assert "no sandbox" in found.text


def test_a_task_without_a_solution_is_not_admitted() -> None:
    report = judged(seen("null.nothing", "null", "fail"), has_oracle=False)
    assert [f.kind for f in report.findings] == ["no-oracle"]
    assert not report.is_admitted


def test_what_breaks_under_a_circumstance_is_named_and_does_not_refuse_the_task() -> None:
    report = judged(ORACLE, seen("oracle.clock", "completeness", "fail", holds=True, reason="expired"))
    (found,) = report.findings
    assert (found.kind, found.severity, report.is_admitted) == ("oracle-breaks-under", "weak", True)
    assert "a clock that is a year ahead" in found.text
    assert report.completeness.circumstances["clock"] == "fail"


def test_what_the_means_of_a_circumstance_break_by_themselves_says_nothing_of_it() -> None:
    shifted = seen("oracle.clock", "completeness", "fail", holds=True, reason="sleep failed")
    report = judged(ORACLE, shifted, seen("oracle.clock-control", "completeness", "fail", holds=True))
    assert report.findings == ()
    assert report.completeness.circumstances["clock"] == "not tested"
    assert [one.probe for one in report.untried] == ["oracle.clock"]
    fine = judged(ORACLE, shifted, seen("oracle.clock-control", "completeness", "pass", holds=True))
    assert [finding.kind for finding in fine.findings] == ["oracle-breaks-under"]


def test_a_circumstance_that_did_not_hold_is_not_tested() -> None:
    report = judged(ORACLE, seen("oracle.clock", "completeness", "fail", holds=False, ended="did nothing"))
    assert report.findings == ()
    assert report.untried == (SkippedProbe("oracle.clock", "completeness", "did nothing"),)
    assert report.completeness.circumstances["clock"] == "not tested"


def test_an_unsound_verdict_elsewhere_refuses_only_there() -> None:
    asked = seen("cheat.late-writer", "cheat", "pass", "as_asked")
    default = seen("cheat.late-writer", "cheat", "fail", marks=("left_processes",), reason="reward 0")
    oracle = seen("oracle.1", "completeness", "pass", "as_asked")
    report = judged(ORACLE, oracle, asked, default)
    assert report.admitted == {"default": True, "as_asked": False}
    (found,) = report.findings
    assert found.closed_by[0] == "no process outlives the script"
    assert "left_processes" in found.text


def test_doubt_about_a_cheat_is_no_pay() -> None:
    report = judged(ORACLE, seen("cheat.os-exit", "cheat", "unknown"), seen("cheat.nan-answer", "cheat", "error"))
    assert report.is_admitted


def test_a_cheat_that_was_not_judged_is_told() -> None:
    (found,) = judged(ORACLE, seen("cheat.os-exit", "cheat", None, broke="environment", error="gone")).findings
    assert (found.kind, found.severity) == ("not-judged", "note")


@pytest.mark.parametrize(
    ("marks", "setting"),
    [
        (("conftest",), "clean configuration"),
        (("no_tests", "reward_overruled"), "recorded test run"),
        (("exit_code", "reward_overruled"), "exit code demanded"),
        (("reward_problem", "reward_overruled"), "two rewards must agree"),
        ((), "fresh fork"),
        (("failed_tests",), "fresh fork"),
    ],
)
def test_the_setting_that_closed_a_hole_is_read_off_the_marks(marks: tuple[str, ...], setting: str) -> None:
    assert list_effective_settings(seen("cheat.x", "cheat", "fail", marks=marks, reason="reward 1, but any words")) == (
        setting,
    )


def rate(passed: int, judged: int, agent: str = "loop") -> AgentRate:
    return AgentRate(agent, "m", judged, passed, passed / judged, wilson(passed, judged))


def test_a_task_that_all_pass_is_too_easy_and_one_that_nobody_passes_impossible() -> None:
    assert [f.kind for f in difficulty_findings("t", [rate(40, 40)])] == ["too-easy"]
    assert [f.kind for f in difficulty_findings("t", [rate(0, 12), rate(0, 20, "b")])] == ["impossible"]
    assert difficulty_findings("t", [rate(3, 12)]) == difficulty_findings("t", [rate(4, 4)]) == []


def test_a_finding_names_what_the_verifier_printed_last() -> None:
    failed = seen("oracle.1", "completeness", "fail", reason="reward 0", output="AssertionError: 41 != 42")
    (found,) = judged(failed).findings
    assert "reward 0; the verifier's last line: AssertionError: 41 != 42" in found.text


def test_the_weakest_separation_of_the_passing_solution_is_reported() -> None:
    again = seen("oracle.2", "completeness", "pass", separation="separate")
    first = seen("oracle.1", "completeness", "pass", separation="same-user")
    failed = seen("oracle.3", "completeness", "fail", separation="same-process")
    assert judged(first, again, failed).separation == "same-user"


def test_attempts_that_broke_are_told_by_their_cause() -> None:
    broke = [seen(f"cheat.{n}", "cheat", None, broke="environment", error=n) for n in ("gone", "full")]
    texts = [found.text for found in judged(ORACLE, *broke).findings]
    assert ["environment: gone" in texts[0], "environment: full" in texts[1]] == [True, True]
