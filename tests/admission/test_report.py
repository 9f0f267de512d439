"""The report as people read it: one golden text, and hostile words that stay words."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from assay.admission.config import AdmitConfig
from assay.admission.findings import AdmissionFinding
from assay.admission.probe import Group, SkippedProbe
from assay.admission.probe_results import ProbeResult
from assay.admission.probes import LEFT_OUT
from assay.admission.report import SetReport, markdown, summarise_set, write_report
from assay.admission.rewrites import Rewrite
from assay.admission.sensitivity import MutantComparison, MutantRow, judge_mutants
from assay.admission.soundness import TaskEvidence, judge_task
from assay.errors import UserError
from assay.settings import Settings

pytestmark = pytest.mark.quick
GOLDEN = Path(__file__).with_name("report.md")


def paid(name: str, group: Group, about: str = "", **cost: float) -> ProbeResult:
    """A probe that passed. `cost` holds seconds."""
    wanted = "pass" if group == "completeness" else "fail"
    return ProbeResult(name, group, wanted, "default", about, name, f"{name}.0", "pass", **cost)  # type: ignore[arg-type]


def a_report(name: str = "good/task") -> SetReport:
    observed = (
        paid("oracle.1", "completeness", judged_s=0.25, attempt_s=0.5, cpu_s=0.2),
        paid("oracle.2", "completeness", judged_s=0.35, attempt_s=0.5, cpu_s=0.2),
        paid("null.empty", "null", "an empty answer", attempt_s=1.0, cpu_s=0.6),
    )
    dropped = [Rewrite(f"mutant.{n:03}", "sensitivity", {}, "-a\n+b\n", "hunk-dropped") for n in range(9)]
    rows = [MutantRow(one, "fail") for one in dropped]
    last = Rewrite("mutant.010", "sensitivity", {}, "--- /w/a.py\n+++ /w/a.py\n-a < b\n+a <= b\n", "boundary")
    rows.append(MutantRow(last, "pass", "a4", MutantComparison("changed", "calls", "f(1) gives 2, and 3", 7)))
    untried = (SkippedProbe("oracle.clock", "completeness", "libfaketime is not installed"),)
    tried = TaskEvidence(name, "blake3:00", ("default",), True, observed, untried, judge_mutants(rows))
    return summarise_set("admit-1", AdmitConfig(tasks=("t",)), [judge_task(tried)])


def test_the_report_reads_as_it_did() -> None:
    assert markdown(a_report()) == GOLDEN.read_text()


def test_hostile_names_are_nothing_but_text() -> None:
    text = markdown(a_report("x|y\n## z [a](b) <script>\x1b[31m"))
    assert "\n## z" not in text
    assert "<script>" not in text.replace("\\<", "")
    assert "\x1b" not in text
    assert "[a](b)" not in text


def test_the_report_for_programs_is_the_same_data(tmp_path: Path) -> None:
    report = a_report()
    _, as_json = write_report(report, tmp_path / "new" / "folder", Settings(tmp_path, tmp_path))
    assert msgspec.json.decode(as_json.read_bytes(), type=SetReport) == report


def test_a_secret_in_a_report_is_redacted(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    for path in write_report(a_report(f"task {token}"), tmp_path, Settings(tmp_path, tmp_path)):
        plain = path.read_text().replace("\\", "")
        assert token not in plain
        assert "redacted:github" in plain


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"the report cannot be written: .*choose another --output"):
        write_report(a_report(), tmp_path / "file", Settings(tmp_path, tmp_path))


def test_numbers_of_a_set_are_of_its_tasks() -> None:
    summary = a_report().summary
    assert (summary.tasks, summary.admitted, summary.with_holes, summary.flaky) == (1, 0, 1, 0)
    assert (summary.sensitivity_best, summary.sensitivity_best_interval) == (0.9, None)
    assert (summary.battery_s, summary.in_verifications, summary.in_verifications_by_clock) == (2.0, 5.0, 4.0)
    assert (summary.most_in_verifications, summary.most_in_verifications_by_clock) == (5.0, 4.0)


def test_where_one_attempts_processor_time_is_not_known_the_clock_counts() -> None:
    told = paid("oracle.1", "completeness", attempt_s=1.0, cpu_s=0.1)
    observed = (told, paid("oracle.2", "completeness", attempt_s=2.0))
    cost = judge_task(TaskEvidence("t", "blake3:00", ("default",), True, observed, ())).cost
    assert (cost.battery_cpu_s, cost.in_verifications, cost.in_verifications_by_clock) == (None, 2.0, 2.0)


def test_severities_are_ordered_by_gravity() -> None:
    given = [AdmissionFinding(kind, "t", None, kind, "x") for kind in ("note", "weak", "hole", "broken")]  # type: ignore[arg-type]
    tried = TaskEvidence("t", "blake3:00", ("default",), True, (), (), more=tuple(given))
    found = [f.severity for f in judge_task(tried).findings]
    assert found == ["hole", "broken", "broken", "weak", "note"]


def test_a_task_that_accepts_a_wrong_solution_is_never_called_admitted() -> None:
    rewrite = Rewrite("mutant.001", "sensitivity", {}, "-a\n+b\n", "boundary")
    survivor = judge_mutants(
        [MutantRow(rewrite, "pass", "a4", MutantComparison("changed", "calls", "f(1) gives 2", 7))]
    )
    tried = TaskEvidence("t", "blake3:00", ("default",), True, (paid("oracle.1", "completeness"),), (), survivor)
    report = summarise_set("admit-1", AdmitConfig(tasks=("t",)), [judge_task(tried)])
    assert report.tasks[0].conclusion == "weak, accepts 1 wrong solution"
    assert (report.summary.admitted, report.summary.accept_wrong) == (0, 1)
    assert "default: admitted" not in markdown(report)
    assert "| admitted |" not in markdown(report)


def test_what_was_not_tested_is_one_line_with_the_number_of_tasks() -> None:
    ran = paid("oracle.1", "completeness")
    untried = (
        SkippedProbe("oracle.clock", "completeness", "not installed"),
        SkippedProbe("cheat.os-exit", "cheat", LEFT_OUT),
    )
    tasks = [judge_task(TaskEvidence(name, "blake3:00", ("default",), True, (ran,), untried)) for name in ("a", "b")]
    summary = summarise_set("admit-1", AdmitConfig(tasks=("t",)), tasks).summary
    assert summary.not_tested == f"clock (2 of 2 tasks: not installed); 1 probes (2 of 2 tasks: {LEFT_OUT})"
