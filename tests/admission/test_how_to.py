"""The commands of the how-to run as they are written, one after the other, in a folder with a task.

`make campaign` runs all of them; the admissions whose options test_admit and test_separation use run there alone.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from tests.admission.folders import CAREFUL, write_task
from tests.sampling import WHOLE

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "admit-a-set-of-tasks.md"
COMMANDS = re.findall(r"^\$ assay (.+)$", PAGE.read_text(), re.MULTILINE)
ADMISSIONS = [command for command in COMMANDS if command.startswith("admit ")]
LEAVES = {"report/report.md", "report/report.json"}
NEEDS_A_HOLE = "--fix"
"""Every task of the folder has holes where it is judged as it asks: the command ends with 1."""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_commands_run_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_task(tmp_path / "tasks" / "answer", CAREFUL)
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 8
    for command in COMMANDS if WHOLE else [one for one in COMMANDS if one not in ADMISSIONS[1:-1]]:
        done = CliRunner().invoke(build_app(), shlex.split(command))
        assert done.exit_code == (NEEDS_A_HOLE in command), (command, done.output)
    if not WHOLE:
        return
    assert all((tmp_path / name).is_file() for name in LEAVES)
    assert (tmp_path / "fixed" / "answer" / "task.toml").is_file()
