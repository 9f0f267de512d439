"""What `assay init` writes is green as written, in a real sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ASSAY = [sys.executable, "-c", "from assay.cli import main; main()"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("user")
    for kind, path in (("task", "tasks/hello"), ("agent", "my_agent.py"), ("check", "my_check.py")):
        assay(made, "init", kind, path)
    return made


def assay(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*ASSAY, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def group(folder: Path, *arguments: str) -> dict[str, Any]:
    (found,) = json.loads(assay(folder, "run", *arguments, "--json"))["groups"]
    return dict(found)


def test_task_passes_with_its_solution_and_lints_clean(folder: Path) -> None:
    assert "1 task, nothing wrong" in assay(folder, "lint", "tasks")
    assert group(folder, "tasks", "--agent", "oracle")["passed"] == 1


def test_task_fails_with_nothing_done(folder: Path) -> None:
    assert group(folder, "tasks", "--agent", "null")["failed"] == 1


def test_agent_runs_without_error(folder: Path) -> None:
    found = group(folder, "tasks", "--agent", "my_agent.py", "--agent-option", "command=ls")
    assert (found["failed"], found["error"], found["unknown"]) == (1, 0, 0)


def test_check_passes_the_solution_and_fails_nothing_done(folder: Path) -> None:
    written = (folder / "my_check.py").read_text()
    table = written[written.index("    [[metadata") : written.index("These parameters")].replace(
        "THIS_FILE", "my_check"
    )
    toml = folder / "tasks" / "hello" / "task.toml"
    toml.write_text(toml.read_text() + "\n" + table.replace("    ", ""))
    assert group(folder, "tasks", "--agent", "oracle")["passed"] == 1
    assert group(folder, "tasks", "--agent", "null")["failed"] == 1
