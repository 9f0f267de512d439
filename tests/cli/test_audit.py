"""`assay audit`, and how what it finds is shown everywhere from then on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.analysis.judge import Assessment, judge
from assay.analysis.subject import Subject
from assay.cli.app import build_app
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    StepAdded,
    Verdict,
    VerdictAdded,
)
from assay.store import RunStore, audit, later_events, load_current_verdicts, seal
from tests.analysis.trajectories import acted, ran, said

CONTRACT = """
contract = "no-curl"
[[rules]]
name = "no-network-tools"
kind = "invariant"
require = 'not (act.command matches "\\bcurl\\b")'
"""


def attempt(number: int, passed_tests: int, command: str = "pytest -q") -> list[Body]:
    started = AttemptStarted("r", f"t@{number}", "t", "d", "a", None, 1, number, at=1.0)
    counts = {"source": "recorded", "counts": {"passed": passed_tests}, "total": 3, "tests": []}
    return [
        started,
        StepAdded(ran(0, "cat main.py", "x = 1")),
        StepAdded(acted(1, "edit", path="main.py", old="1", new="2")),
        StepAdded(ran(2, command, "3 passed")),
        StepAdded(said(3, "done")),
        EvidenceAdded(Evidence("i0", "audit", "test_report", counts)),
        EvidenceAdded(Evidence("i1", "audit", "reward", {"values": {"reward": 1.0}})),
        VerdictAdded(Verdict("imported", "outcome", "pass", 1.0, "as recorded", ("i0", "i1"), marks=("imported",))),
        AttemptEnded("done", at=2.0),
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append("t@0.0", attempt(0, 3))
        store.append("t@1.0", attempt(1, 2, "curl http://x"))
    return tmp_path


def assay(root: Path, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(build_app(), [*words, "--store", str(root)])
    assert result.exit_code == code, result.output
    return result.stdout


def judged(root: Path, *words: str, code: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(assay(root, "audit", "r", "--json", *words, code=code))
    return found


def test_a_card_puts_outcome_integrity_and_process_side_by_side(root: Path) -> None:
    good, bad = judged(root)["cards"]
    assert (good["headline"], good["integrity"]["status"], good["trusted_pass"]) == ("pass", "pass", True)
    assert (bad["headline"], bad["integrity"]["status"]) == ("pass (integrity failed)", "fail")
    assert (bad["trusted_pass"], bad["imported"]) == (False, True)
    assert "passed-fewer-than-counted" in {f["rule"] for f in bad["findings"]}
    assert good["process"]["score"] is not None


def test_what_was_judged_is_kept_and_judging_again_adds_nothing(root: Path) -> None:
    assert judged(root)["added"] == 4
    before = later_events(root, "r")
    assert judged(root)["added"] == 0
    assert later_events(root, "r") == before
    assert load_current_verdicts(root, "r")["t@1.0"].integrity == "fail"
    assert audit(root, "r") == ()


def test_a_dry_run_keeps_nothing(root: Path) -> None:
    assert judged(root, "--dry-run")["added"] == 4
    assert later_events(root, "r") == {}


def test_a_sealed_run_is_judged_too(root: Path) -> None:
    seal(root, "r")
    assert judged(root)["added"] == 4
    assert judged(root)["added"] == 0
    assert load_current_verdicts(root, "r")["t@1.0"].integrity == "fail"
    assert "pass (integrity failed)" in assay(root, "ls", "r")
    assert "pass (integrity failed)" in assay(root, "show", "t@1", "--run", "r")


def test_a_pass_without_integrity_is_shown_as_such_everywhere_and_counts_as_none(root: Path) -> None:
    judged(root)
    assert "pass (integrity failed)" in assay(root, "ls", "r")
    shown = assay(root, "show", "t@1", "--run", "r")
    assert "outcome: pass (integrity failed)" in shown
    assert "passed-fewer-than-counted" in shown
    (group,) = json.loads(assay(root, "stats", "r", "--json"))["groups"]
    assert (group["passed"], group["doubtful"], group["pass_at_1"]["value"]) == (1, 1, 0.5)
    assert group["pass_at_1_claimed"]["value"] == 1.0
    assert "pass (doubtful)" in assay(root, "stats", "r")
    assert json.loads(assay(root, "show", "t@1", "--run", "r", "--json"))["headline"] == "pass (integrity failed)"


def test_contracts_are_judged_with_a_verdict_each(root: Path) -> None:
    (root / "c.toml").write_text(CONTRACT)
    good, bad = judged(root, "--contract", str(root / "c.toml"))["cards"]
    assert [mark["status"] for mark in good["safety"]] == ["pass"]
    assert [(mark["status"], mark["check"]) for mark in bad["safety"]] == [("fail", "contract:no-curl")]
    assert "safety failed" in bad["headline"]
    assert load_current_verdicts(root, "r")["t@1.0"].safety == "fail"


def test_one_attempt_is_shown_with_its_findings_and_their_words(root: Path) -> None:
    out = assay(root, "audit", "t@1", "--run", "r", code=1)
    assert "integrity  fail - passed-fewer-than-counted" in out
    assert "t@0" not in out


def test_both_tables_come_as_markdown(root: Path) -> None:
    out = assay(root, "audit", "r", "--format", "markdown", code=1)
    assert out.startswith("| task | agent | model |")
    assert "| pass (integrity failed) (imported) |" in out


@pytest.mark.long
def test_worker_processes_find_the_same(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        for number in range(40):
            store.append(f"t@{number}.0", attempt(number, 3 - number % 2))
    alone = judged(tmp_path, "--workers", "1", "--dry-run")
    together = judged(tmp_path, "--workers", "2", "--dry-run")
    assert alone["cards"] == together["cards"]
    assert together["tasks"][0]["integrity_failed"] == 20


def test_a_rule_that_fails_makes_its_attempt_no_pass_and_leaves_the_others(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(subject: Subject, *given: Any) -> Assessment:
        if subject.trajectory.attempt == "t@0":
            message = "a rule's own fault"
            raise RuntimeError(message)
        return judge(subject, *given)

    monkeypatch.setattr("assay.rollout.audit.stored.judge", broken)
    first, second = judged(root)["cards"]
    assert (first["integrity"]["status"], second["integrity"]["status"]) == ("error", "fail")
    assert first["headline"] == "pass (integrity not judged)"
    assert "a rule's own fault" in first["integrity"]["reason"]


def test_a_contract_is_checked_by_itself(root: Path) -> None:
    (root / "c.toml").write_text(CONTRACT)
    result = CliRunner().invoke(build_app(), ["contract", "check", str(root / "c.toml")])
    assert result.exit_code == 0
    assert "no-curl.no-network-tools" in result.stdout
    (root / "bad.toml").write_text(CONTRACT.replace("act.command", "act.comand"))
    result = CliRunner().invoke(build_app(), ["contract", "check", str(root / "bad.toml")])
    assert result.exit_code == 2
    assert "bad.toml: rules[0] (no-network-tools).require: column 6: act has no field 'comand'" in result.stderr


def test_a_model_is_asked_once_and_its_findings_stay_without_deciding(root: Path) -> None:
    said = {"question": "shortcut", "summary": "s", "step": 2, "field": "arguments", "quote": '{"command": "pytest'}
    answer = json.dumps({"findings": [{**said, "quote": "rm -rf everything"}, said]})
    (root / "s.json").write_text(json.dumps([answer] * 9))
    model = f"scripted:{root}/s.json"
    first = judged(root, "--judge", model)
    assert first["discarded"] == 3
    rules = [{f["rule"] for f in card["findings"]} for card in first["cards"]]
    assert [any(rule.startswith("model.") for rule in found) for found in rules] == [True, False]
    assert first["cards"][0]["integrity"]["status"] == "pass"
    again = judged(root, "--judge", model)
    assert (again["added"], again["discarded"]) == (0, 0)
    before = later_events(root, "r")
    assert "model.shortcut" in {f["rule"] for f in judged(root)["cards"][0]["findings"]}
    assert later_events(root, "r") == before


def test_an_attempt_of_another_run_is_named(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        started, *rest = attempt(0, 3)
        store.append("t@0.0", [AttemptStarted("other", "t@0", "t", "d", "a", None, 1, 0, at=1.0), *rest])
        store.append("t@1.0", attempt(1, 3))
    assert isinstance(started, AttemptStarted)
    result = CliRunner().invoke(build_app(), ["audit", "r", "--dry-run", "--store", str(tmp_path)])
    assert "warning: recorded in another run than r: 1 attempt (t@0: other)" in result.stderr
    result = CliRunner().invoke(build_app(), ["ls", "r", "--store", str(tmp_path)])
    assert "(t@0.0: run)" in result.stderr
