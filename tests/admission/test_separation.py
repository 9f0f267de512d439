"""Admission of a real folder warns where the reference solution itself does not reach `separate`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.admission.separation import FIX_CASES, PRINT_THE_SAME, read_reasons, separation_findings
from assay.cli.app import build_app
from assay.records import Evidence
from tests.admission.folders import write_task
from tests.admission.test_soundness import seen
from tests.sampling import WHOLE

pytestmark = pytest.mark.long

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
LOWERED = {"time": TELLS_THE_TIME, "random-case": DRAWS_ITS_CASE} if WHOLE else {"time": TELLS_THE_TIME}
"""Both are told by two runs of the reference that differ; `make campaign` admits both."""
SCRIPTS = {**LOWERED, "one-case": ASKS_ONE_CASE}
SOLUTION = f"cat > /workspace/answer.py <<'PY'\n{PROGRAM}PY\n"


@pytest.fixture(scope="module")
def admitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """Each task's report by its name, as data, and the whole as Markdown."""
    folder = tmp_path_factory.mktemp("admitted")
    for name, middle in SCRIPTS.items():
        write_task(folder / "tasks" / name, HEAD + middle + TAIL, SOLUTION)
        config = folder / "tasks" / name / "task.toml"
        config.write_text(config.read_text() + CHECK)
    words = ["admit", str(folder / "tasks"), "--quick", "--n", "1", "--output", str(folder / "out"), "--json"]
    result = CliRunner().invoke(build_app(), [*words, "--store", str(folder / "store")])
    tasks = json.loads(result.stdout)["report"]["tasks"]
    return {task["task"].rpartition("/")[2]: task for task in tasks}, (folder / "out" / "report.md").read_text()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", LOWERED)
def test_a_solution_that_prints_another_text_each_time_is_named_with_the_remedy(
    admitted: tuple[dict[str, Any], str], name: str
) -> None:
    task, report = admitted[0][name], admitted[1]
    (found,) = [f for f in task["findings"] if f["kind"] == "separation-lowered"]
    assert (task["separation"], found["severity"]) == ("same-process", "weak")
    assert found["closed_by"] == [PRINT_THE_SAME, FIX_CASES]
    assert "/workspace/answer.py" in found["text"]
    assert report.count("separation-lowered") >= len(LOWERED)
    assert report.count("Separation of the passing solution: same-process.") == len(LOWERED)


@pytest.mark.timeout(600)
def test_a_solution_that_prints_the_same_text_each_time_is_not_warned_of(
    admitted: tuple[dict[str, Any], str],
) -> None:
    task = admitted[0]["one-case"]
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
