"""Admission of a real folder warns where the script itself keeps right solutions below `separate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.admission.separation import COMPARE_TEXT, NAME_INPUTS, LoweredBy, read_lowered, separation_findings
from assay.cli.app import build_app
from assay.records import Evidence
from tests.admission.folders import write_task
from tests.admission.test_soundness import seen

CHECK = """
[[metadata.assay.checks]]
name = "tests"
kind = "script"

[metadata.assay.checks.parameters]
interpreter = ["/bin/bash"]
programs = ["/workspace/answer.py"]
"""
HEAD = "#!/bin/bash\nscore=0\n"
TAIL = "echo $score > /logs/verifier/reward.txt\n[ $score = 1 ]\n"
EVALUATES = '[[ "$(python3 /workspace/answer.py)" -eq 42 ]] && score=1\n'
LENDS = """f=/tmp/$(python3 /workspace/answer.py name).txt
echo 40+2 > "$f"
[ "$(python3 /workspace/answer.py "$f")" = 40+2 ] && score=1
"""
COMPARES = '[ "$(python3 /workspace/answer.py)" = 40+2 ] && score=1\n'
PROGRAM = """import sys
words = sys.argv[1:]
print("data" if words == ["name"] else open(words[0]).read() if words else "40+2")
"""
SOLUTION = f"cat > /workspace/answer.py <<'PY'\n{PROGRAM}PY\n"


def admitted(folder: Path, middle: str) -> tuple[dict[str, Any], str]:
    """Returns a task's report as data, and the whole as Markdown."""
    write_task(folder / "tasks" / "answers", HEAD + middle + TAIL, SOLUTION)
    config = folder / "tasks" / "answers" / "task.toml"
    config.write_text(config.read_text() + CHECK)
    words = ["admit", str(folder / "tasks"), "--quick", "--run", "first", "--output", str(folder / "out"), "--json"]
    result = CliRunner().invoke(build_app(), [*words, "--store", str(folder / "store")])
    (task,) = json.loads(result.stdout)["report"]["tasks"]
    return task, (folder / "out" / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("middle", "shown", "closed"),
    [(EVALUATES, "-eq 42", COMPARE_TEXT), (LENDS, "/tmp/data.txt", NAME_INPUTS)],
    ids=["evaluates", "lends"],
)
def test_a_script_that_lowers_its_own_grade_is_named_with_the_remedy(
    tmp_path: Path, middle: str, shown: str, closed: str
) -> None:
    task, report = admitted(tmp_path, middle)
    (found,) = [f for f in task["findings"] if f["kind"] == "separation-lowered"]
    assert (task["separation"], found["severity"]) == ("same-process", "weak")
    assert closed in found["closed_by"]
    assert shown in found["text"]
    assert "separation-lowered" in report
    assert "Separation of the passing solution: same-process." in report


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_script_that_compares_text_is_not_warned_of(tmp_path: Path) -> None:
    task, _ = admitted(tmp_path, COMPARES)
    assert task["separation"] == "separate"
    assert [f for f in task["findings"] if f["kind"] == "separation-lowered"] == []


@pytest.mark.quick
def test_a_failing_attempt_and_malformed_evidence_name_no_cause() -> None:
    lowered = LoweredBy(evaluations=("let x",))
    failed = seen("oracle.1", "completeness", "fail", separation="same-process", lowered=lowered)
    assert separation_findings("t", [failed]) == []
    assert read_lowered([Evidence("e", "audit", "separation", {"judged": 3})]) is None


@pytest.mark.quick
def test_many_files_are_counted() -> None:
    lowered = LoweredBy(tuple(f"/tmp/{n}" for n in range(5)))
    (found,) = separation_findings("t", [seen("oracle.1", "completeness", "pass", lowered=lowered)])
    assert "/tmp/2 and 2 more" in found.text
