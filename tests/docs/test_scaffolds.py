"""What `assay init` writes is green as written, in a real sandbox."""

from __future__ import annotations

import io
import json
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("user")
    for kind, path in (("task", "tasks/hello"), ("agent", "my_agent.py"), ("check", "my_check.py")):
        assay(made, "init", kind, path)
    return made


def assay(folder: Path, *arguments: str) -> str:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(out):
        patch.setattr(sys, "argv", ["assay", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
    assert left.value.code in (0, None), out.getvalue()
    return out.getvalue()


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


@pytest.mark.long
def test_check_passes_the_solution_and_fails_nothing_done(folder: Path) -> None:
    written = (folder / "my_check.py").read_text()
    table = written[written.index("    [[metadata") : written.index("These parameters")].replace(
        "THIS_FILE", "my_check"
    )
    toml = folder / "tasks" / "hello" / "task.toml"
    toml.write_text(toml.read_text() + "\n" + table.replace("    ", ""))
    assert group(folder, "tasks", "--agent", "oracle", "--allow-task-code")["passed"] == 1
    assert group(folder, "tasks", "--agent", "null", "--allow-task-code")["failed"] == 1
