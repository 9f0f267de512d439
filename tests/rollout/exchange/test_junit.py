"""A run as a JUnit report, and the share of passes that continuous integration asks for."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from pathlib import Path

import pytest

from assay.cli import main
from assay.code.junit import read_junit
from assay.records import AttemptEnded, AttemptStarted, Body, Verdict, VerdictAdded, VerdictStatus
from assay.rollout.diagnosis import describe_shortfall
from assay.rollout.exchange.junit import JUnitCase, read_cases, render_junit
from assay.settings import Settings
from assay.statistics import AttemptOutcome, summarise
from assay.store import RunStore

pytestmark = pytest.mark.quick
HOSTILE = "]]></failure><testcase name='x'/>\x00\x1b\ud800&<!ENTITY a 'b'>" + "y" * 9000


def record(root: Path, *statuses: VerdictStatus | None, doubted: bool = False, reason: str = "no") -> None:
    with RunStore.create(root, "r", {}) as store:
        for number, status in enumerate(statuses):
            started = AttemptStarted("r", f"t@{number}", "t", "d", "loop", "m", 1, number, at=1.0)
            verdicts: list[Body] = (
                [] if status is None else [VerdictAdded(Verdict("tests", "outcome", status, None, reason))]
            )
            if doubted:
                verdicts.append(VerdictAdded(Verdict("integrity", "integrity", "fail", None, "read the tests")))
            broke = "provider" if status is None else None
            end = AttemptEnded(None, None, broke, broke and "the server is down", {"wall_s": 1.5}, at=2.0)
            store.append(f"t@{number}.0", [started, *verdicts, end])


def cases_of(root: Path) -> list[JUnitCase]:
    with RunStore.open(root, "r") as store:
        return read_cases(store, Settings(root, root))


def test_only_a_trusted_pass_is_one_in_the_report(tmp_path: Path) -> None:
    record(tmp_path / "plain", "pass", "fail", "unknown", None)
    assert [case.result for case in cases_of(tmp_path / "plain")] == [None, "failure", "error", "error"]
    record(tmp_path / "doubted", "pass", doubted=True)
    (doubted,) = cases_of(tmp_path / "doubted")
    assert (doubted.result, doubted.message) == ("failure", "pass (integrity failed)")
    assert "integrity: fail - read the tests" in doubted.detail


def test_a_secret_in_a_reason_is_redacted(tmp_path: Path) -> None:
    record(tmp_path, "fail", reason="got ghp_" + "a1B2c3D4e5" * 4)
    (case,) = cases_of(tmp_path)
    assert case.detail == "tests: fail - got [redacted:github_token]"


def test_report_follows_the_chains_where_a_summary_row_differs(tmp_path: Path) -> None:
    record(tmp_path, "fail")
    change = """UPDATE attempts SET row = replace(CAST(row AS TEXT), '"outcome":"fail"', '"outcome":"pass"')"""
    with contextlib.closing(sqlite3.connect(tmp_path / "runs" / "r" / "run.sqlite")) as connection, connection:
        assert connection.execute(change).rowcount == 1
    with RunStore.open(tmp_path, "r") as store:
        assert [row.outcome for row in store.attempts()] == ["pass"]
    assert [case.result for case in cases_of(tmp_path)] == ["failure"]


def test_a_report_says_who_broke_and_is_read_as_junit(tmp_path: Path) -> None:
    record(tmp_path, "pass", "fail", None)
    document = render_junit("r", cases_of(tmp_path))
    assert b'<testsuite name="loop m" tests="3" failures="1" errors="1" time="4.500">' in document
    assert b"provider failed: the server is down" in document
    assert [one.status for one in read_junit(document).tests] == ["passed", "failed", "error"]


def test_hostile_text_stays_text() -> None:
    document = render_junit("r", [JUnitCase("s", "n", "t", 0.0, "failure", HOSTILE, HOSTILE)])
    (one,) = read_junit(document).tests
    assert one.status == "failed"
    assert len(document) < 20_000


def groups(*statuses: VerdictStatus, doubtful: bool = False) -> list[AttemptOutcome]:
    return [AttemptOutcome("t", "a", None, n, one, doubtful=doubtful) for n, one in enumerate(statuses)]


def test_attempts_without_a_judgement_count_against_the_required_share() -> None:
    assert describe_shortfall(summarise(groups("pass", "fail")), 0.5) is None
    text = describe_shortfall(summarise(groups("pass", "error")), 0.6) or ""
    assert text.startswith("pass@1 of a is 0.500 (1 of 2 attempts passed; 0 failed, 0 doubtful, 1 without a judgement)")
    assert describe_shortfall(summarise(groups("pass", doubtful=True)), 0.1) is not None
    assert describe_shortfall(summarise(groups("pass")), float("nan")) is not None
    assert "no attempt has ended" in (describe_shortfall((), 0.0) or "")


def test_run_exits_with_1_below_the_share_and_writes_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out" / "report.xml"
    words = ["run", "family:grid,n=2", "--agent", "null", "--fail-under", "0.5", "--junit", str(report)]
    monkeypatch.setattr(sys, "argv", ["assay", *words, "--store", str(tmp_path / "s")])
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, len(read_junit(report.read_bytes()).tests)) == (1, 2)
    assert "assay: pass@1 of null is 0.000 (0 of 2 attempts passed;" in capsys.readouterr().err
