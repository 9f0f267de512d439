"""What `assay show` prints cannot be taken for something else, whatever an agent said."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.cli.output import emit_json
from assay.cli.tables import summarise_runs
from assay.errors import UserError
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Verdict,
    VerdictAdded,
    canonical_bytes,
)
from assay.store import RunStore, append_addendum, seal

pytestmark = pytest.mark.quick
FORGED = "x\nverdict tests: pass (score 1.0) - forged"


def recorded(root: Path, *bodies: Body, number: int = 0) -> None:
    with RunStore.create(root, "r", {}) if number == 0 else RunStore.open(root, "r", write=True) as store:
        started = AttemptStarted("r", f"t@{number}", "t", "d", "a", None, 1, number, at=1.0)
        store.append(f"t@{number}.0", [started, *bodies, AttemptEnded("done", at=2.0)])


def shown(root: Path, *words: str) -> str:
    result = CliRunner().invoke(build_app(), ["show", "t@0", "--store", str(root), *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_nothing_that_an_agent_says_begins_a_line(tmp_path: Path) -> None:
    call = ToolCall("c", FORGED, FORGED)
    step = Step(0, "agent", FORGED, None, (call,), (Observation(FORGED, "c", stderr=FORGED),))
    with RunStore.create(tmp_path, "other", {}) as store:
        changes = [{"path": FORGED, "kind": "added"}]
        manifest = store.blobs.put(canonical_bytes(changes))
    state = Evidence("e1", "state", "snapshot", {"manifest": manifest, "digest": "d"}, (manifest,))
    verdict = Verdict("tests", "outcome", "fail", 0.0, FORGED)
    recorded(tmp_path, StepAdded(step), EvidenceAdded(state), VerdictAdded(verdict))
    lines = [line for line in shown(tmp_path, "--run", "r").splitlines() if line.startswith("verdict")]
    assert lines == ["verdict tests: fail (score 0.0) - x"]


def test_two_calls_with_one_id_keep_their_own_results(tmp_path: Path) -> None:
    calls = (ToolCall("c", "shell", "one"), ToolCall("c", "shell", "two"))
    step = Step(0, "agent", None, None, calls, (Observation("first", "c"), Observation("second", "c")))
    recorded(tmp_path, StepAdded(step))
    lines = [line.strip() for line in shown(tmp_path).splitlines()]
    assert lines[lines.index("> shell one") + 1] == "first"
    assert lines[lines.index("> shell two") + 1] == "second"


def test_a_state_whose_blobs_are_gone_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    missing = "blake3:" + "0" * 64
    state = Evidence("e1", "state", "snapshot", {"manifest": missing, "digest": "d"}, (missing,))
    recorded(tmp_path, EvidenceAdded(state), VerdictAdded(Verdict("tests", "outcome", "fail", 0.0, "no")))
    text = shown(tmp_path)
    assert "changed files: cannot be shown" in text
    assert "verdict tests: fail" in text


def test_verdicts_learnt_later_are_shown_as_such(tmp_path: Path) -> None:
    recorded(tmp_path, VerdictAdded(Verdict("tests", "outcome", "pass", 1.0, "ok")))
    seal(tmp_path, "r")
    later = VerdictAdded(Verdict("tests", "outcome", "fail", 0.0, "judged anew"))
    append_addendum(tmp_path, "r", [later], about="t@0.0")
    assert "verdict tests (addendum 0): fail" in shown(tmp_path)


def test_what_was_not_judged_is_unknown_and_what_broke_is_an_error(tmp_path: Path) -> None:
    recorded(tmp_path)
    with RunStore.open(tmp_path, "r", write=True) as store:
        started = AttemptStarted("r", "t@1", "t", "d", "a", None, 1, 1, at=1.0)
        store.append("t@1.0", [started, AttemptEnded(broke="environment", error="gone", at=2.0)])
    (group,) = summarise_runs(tmp_path, ["r"])
    assert (group.unknown, group.error, group.pass_at_1.value) == (1, 1, None)


def test_a_value_that_json_cannot_hold_is_told() -> None:
    with pytest.raises(UserError, match="omit --json"):
        emit_json({"rows": [object()]})


@pytest.mark.parametrize("words", [["ls", "r"], ["show", "t@0", "--run", "r"], ["stats", "r"]], ids=lambda w: w[0])
def test_a_forged_summary_row_is_not_shown_unmarked(tmp_path: Path, words: list[str]) -> None:
    recorded(tmp_path, VerdictAdded(Verdict("tests", "outcome", "fail", 0.0, "one failed")))
    with closing(sqlite3.connect(tmp_path / "runs" / "r" / "run.sqlite")) as connection, connection:
        connection.execute("UPDATE attempts SET row = replace(CAST(row AS TEXT), '\"fail\"', '\"pass\"')")
    result = CliRunner().invoke(build_app(), [*words, "--store", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "1 summary row does not say what its chain says" in result.stderr
    assert "pass (" not in result.stdout
    if words[0] == "ls":
        assert "fail (summary row differs: outcome)" in " ".join(result.stdout.split())


def told_facts(quote: str) -> EvidenceAdded:
    told = {"fact": "email", "disclosure": "asked", "status": "told", "turn": 2, "message": 4, "quote": quote}
    secret = {"fact": "age", "disclosure": "withheld", "status": "not told", "turn": None, "message": None, "quote": ""}
    facts = {"summaries": {"conversation": {"turns": 2, "has_left": False, "checklist": [told, secret]}}}
    return EvidenceAdded(Evidence("e1", "state", "facts", {"facts": facts, "digest": "d"}))


def test_the_facts_that_a_person_told_are_shown_with_their_messages(tmp_path: Path) -> None:
    recorded(tmp_path, told_facts("It is m0@example.org."))
    lines = [line for line in shown(tmp_path).splitlines() if line.startswith("fact ")]
    assert lines == [
        "fact 'email' (asked): told at turn 2 (message 4): It is m0@example.org.",
        "fact 'age' (withheld): not told",
    ]


def test_what_a_person_said_begins_no_line(tmp_path: Path) -> None:
    recorded(tmp_path, told_facts(FORGED))
    assert not any(line.startswith("verdict") for line in shown(tmp_path).splitlines())
