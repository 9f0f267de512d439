"""Admission of a real folder warns where the reference solution itself does not reach `separate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.admission.separation import FIX_CASES, PRINT_THE_SAME, read_reasons, separation_findings
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
TELLS_THE_TIME = '[ "$(python3 /workspace/answer.py)" -gt 0 ] && score=1\n'
DRAWS_ITS_CASE = 'n=$RANDOM$RANDOM$RANDOM\n[ "$(python3 /workspace/answer.py $n)" = $n ] && score=1\n'
ASKS_ONE_CASE = '[ "$(python3 /workspace/answer.py 42)" = 42 ] && score=1\n'
PROGRAM = """import sys
import time
print(*sys.argv[1:] or [time.time_ns()])
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
@pytest.mark.parametrize("middle", [TELLS_THE_TIME, DRAWS_ITS_CASE], ids=["time", "random case"])
def test_a_solution_that_prints_another_text_each_time_is_named_with_the_remedy(tmp_path: Path, middle: str) -> None:
    task, report = admitted(tmp_path, middle)
    (found,) = [f for f in task["findings"] if f["kind"] == "separation-lowered"]
    assert (task["separation"], found["severity"]) == ("same-process", "weak")
    assert found["closed_by"] == [PRINT_THE_SAME, FIX_CASES]
    assert "/workspace/answer.py" in found["text"]
    assert "separation-lowered" in report
    assert "Separation of the passing solution: same-process." in report


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_solution_that_prints_the_same_text_each_time_is_not_warned_of(tmp_path: Path) -> None:
    task, _ = admitted(tmp_path, ASKS_ONE_CASE)
    assert task["separation"] == "separate"
    assert [f for f in task["findings"] if f["kind"] == "separation-lowered"] == []


@pytest.mark.quick
def test_a_failing_attempt_and_malformed_evidence_give_no_reason() -> None:
    failed = seen("oracle.1", "completeness", "fail", separation="same-process", lowered=("command 1",))
    assert separation_findings("t", [failed]) == []
    assert read_reasons([Evidence("e", "audit", "separation", {"judged": 3})]) == ()


@pytest.mark.quick
def test_reasons_are_listed_once_in_order() -> None:
    facts = [Evidence(str(n), "audit", "separation", {"reference_difference": text}) for n, text in enumerate("bab")]
    assert read_reasons(facts) == ("b", "a")


@pytest.mark.quick
def test_many_reasons_are_counted() -> None:
    lowered = tuple(f"command {n}" for n in range(5))
    (found,) = separation_findings("t", [seen("oracle.1", "completeness", "pass", lowered=lowered)])
    assert "command 2; and 2 more" in found.text
