"""The commands of the section on process measures of services run as they are written."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from scripts.make_reference import ROOT

PAGE = (ROOT / "docs" / "how-to" / "write-a-service.md").read_text()
SECTION = PAGE.partition("## Measure the conversation and the calls\n")[2].partition("\n## ")[0]
COMMANDS = re.findall(r"^\$ (.+)$", SECTION, re.MULTILINE)


@pytest.mark.long
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    done = [CliRunner().invoke(build_app(), shlex.split(command)[1:]) for command in COMMANDS]
    assert [one.exit_code for one in done] == [0, 0, 0]
    conversations, efficiency = done[1].stdout.split("\nefficiency\n")
    assert re.search(r"^oracle +- +4 +0\.00 +0 of \d+ +0\.000 \[", conversations, re.MULTILINE)
    assert re.search(r"^oracle +- +4 +1\.000 +1\.000 +1\.000 \[.*\] +(\d+) / \1 +1\.000 \[", efficiency, re.MULTILINE)
    assert re.search(r" (\d+) of \1 +(\d+) / \2 *$", efficiency, re.MULTILINE)
    (group,) = json.loads(done[2].stdout)["tables"]["conversations"]
    assert (group["emotion"], group["utility"], group["emotion_by_turn"]) == (1.0, 0.0, [1.0])
