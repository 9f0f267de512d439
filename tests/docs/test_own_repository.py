"""The commands of the page that leads from a repository to a report run as they are written, on a small repository."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from scripts.make_reference import ROOT
from tests.synthesis.conftest import FILES, SHAPES, TESTS

pytestmark = pytest.mark.timeout(600)
PAGE = ROOT / "docs" / "how-to" / "from-your-repository-to-a-report.md"
COMMANDS = re.findall(r"^\$ (.+)$", PAGE.read_text(), re.MULTILINE)
FEWER = ("--count 3", "--count 1 --candidates 3 --repetitions 2")
"""The page asks for three tasks; one keeps the test short."""


def write_repository(folder: Path) -> None:
    """Writes the package with two commits: one with a wrong `clamp`, and its correction."""
    git = ["git", "-c", "init.defaultBranch=main", "-c", "user.name=A", "-c", "user.email=a@b", "-C", str(folder)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    early = TESTS.replace("    assert clamp(11) == 10\n", "").replace("    assert clamp(7, 4, 6) == 6\n", "")
    wrong = {"shapes/plane.py": SHAPES.replace("return high\n", "return low\n"), "tests/test_plane.py": early}
    for message, files in (("First", FILES | wrong), ("Correct the upper bound", FILES)):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", message]):
            subprocess.run([*git, *words], check=True, env=environment)


def run_commands() -> dict[str, str]:
    """Runs each command of the page; returns what each printed."""
    printed = {}
    for command in COMMANDS:
        program, *words = shlex.split(command.replace(*FEWER))
        assert program == "assay"
        done = CliRunner().invoke(build_app(), words)
        assert done.exit_code == 0, (command, done.output)
        printed[command] = done.output
    return printed


@pytest.mark.long
def test_the_page_leads_from_a_repository_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_repository(tmp_path / "my-repository")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    printed = run_commands()
    assert "1 task, nothing wrong" in printed["assay lint tasks"]
    table = printed["assay stats proof-0-oracle proof-1-null mine"]
    rates = {line.split()[0]: line.split()[3:5] for line in table.splitlines()[1:]}
    assert rates.keys() == {"oracle", "null", "repair"}
    assert (rates["oracle"], rates["null"]) == (["1", "1"], ["1", "0"])
    manifest = json.loads((tmp_path / "tasks" / "manifest.json").read_text())
    assert manifest["kept"] == 1
    assert len(manifest["dropped"]) == manifest["candidates"] - 1
    assert (tmp_path / "report.md").read_text().startswith("| agent |")
    assert (tmp_path / "report" / "index.html").exists()
