"""The commands of the page that leads from an SDK's agent to training rows run as they are written."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.learning.row_files import read_rows
from scripts.make_reference import ROOT

pytestmark = pytest.mark.timeout(600)
PAGE = ROOT / "docs" / "how-to" / "from-agent-to-training-rows.md"
COMMANDS = re.findall(r"^\$ (?!python -m pip |export PATH=)(.+)$", PAGE.read_text(), re.MULTILINE)
SAVED = {"sdk_agent.py": "agent.py", "sdk_model.py": "model.py", "sdk_run.toml": "run.toml"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page saves, and the SDK as pip would install it."""
    for needed in ("openai", "torch", "transformers", "renderers"):
        pytest.importorskip(needed)
    spec = find_spec("openai")
    assert spec is not None
    assert spec.origin is not None
    for source, saved in SAVED.items():
        shutil.copy(ROOT / "docs_src" / source, tmp_path / saved)
    (tmp_path / "sdk").symlink_to(Path(spec.origin).parents[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    return tmp_path


def run_commands() -> dict[str, str]:
    """Runs each command of the page; returns what each printed."""
    printed = {}
    for command in COMMANDS:
        program, *words = shlex.split(command)
        assert program == "assay"
        done = CliRunner().invoke(build_app(), words)
        assert done.exit_code == 0, (command, done.output)
        printed[command] = done.output
    return printed


@pytest.mark.long
def test_the_page_leads_from_an_agent_to_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run_commands()
    assert re.search(r"my-agent .* 4 +2 +separate 2 +2 ", printed["assay stats mine"])
    warnings = [line for text in printed.values() for line in text.splitlines() if line.startswith("warning:")]
    assert len(warnings) == 2  # of the rows and of trl-grpo
    assert all("a script chose the tokens of this run" in line for line in warnings)
    decisions = [json.loads(line) for line in (folder / "selected" / "decisions.jsonl").read_text().splitlines()]
    assert [one["kept"] for one in decisions].count(True) == 2
    chats = [json.loads(line)["messages"] for line in (folder / "chat.jsonl").read_text().splitlines()]
    assert [message["role"] for message in chats[0]] == ["system", "user", "assistant", "tool", "assistant"]
    rows = list(read_rows(folder / "rows.parquet"))
    assert sorted(row.outcome or "" for row in rows) == ["fail", "fail", "pass", "pass"]
    assert all(row.loss_mask.sum() > 0 and row.turns[0].certified for row in rows)
    counts = {name: pq.read_table(folder / f"{name}.parquet").num_rows for name in ("chat", "sft", "grpo", "rendered")}
    assert counts == {"chat": 2, "sft": 2, "grpo": 4, "rendered": 2}
    signs = {max(row["advantages"]) > 0 for row in pq.read_table(folder / "grpo.parquet").to_pylist()}
    assert signs == {True, False}
    capsys.readouterr()
    runpy.run_path(str(ROOT / "docs_src" / "sdk_from_python.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "my-agent" in out
    assert out.count("tokens are trained") == 4
