"""No export carries a secret out of the store unless it is asked to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.records import AttemptEnded, AttemptStarted, Observation, Step, StepAdded, ToolCall, Truncation
from assay.rollout.exchange.config import ExportConfig
from assay.rollout.exchange.exporting import ExportReport, export_run
from assay.settings import Settings
from assay.store import RunStore

pytestmark = pytest.mark.quick
TOKEN = "ghp_" + "a1B2c3D4e5" * 4
KNOWN = "correct-horse-battery"


def record(root: Path, *texts: str, cut: bytes | None = None, manifest: dict[str, Any] | None = None) -> Settings:
    """A run with an attempt for each text, which a command printed."""
    asked = StepAdded(Step(0, "user", "Look."))
    with RunStore.create(root, "r", manifest or {}) as store:
        truncated = None if cut is None else Truncation(len(cut), store.blobs.put(cut))
        for number, text in enumerate(texts):
            call = ToolCall("c", "shell", '{"command": "cat it"}', {"command": "cat it"})
            step = Step(0, "agent", "I look.", None, (call,), (Observation(text, "c", truncated=truncated),))
            started = AttemptStarted("r", f"t@{number}", "t", "d", "loop", None, 1, number, at=1.0)
            store.append(f"t@{number}.0", [started, asked, StepAdded(step), AttemptEnded("done", at=2.0)])
    return Settings(root / "cache", root, openai_api_key=KNOWN)


def export(settings: Settings, name: str, **options: Any) -> tuple[ExportReport, str]:
    out = settings.store / name
    report = export_run("r", ExportConfig("chat", str(out), **options), settings)
    return report, out.read_text()


def test_an_attempt_with_a_secret_is_left_out_and_listed(tmp_path: Path) -> None:
    settings = record(tmp_path, "nothing here", f"token {TOKEN}", f"key {KNOWN}")
    report, text = export(settings, "rows.jsonl")
    assert (report.written, report.secret) == (1, ("t@1", "t@2"))
    assert (TOKEN in text, KNOWN in text) == (False, False)
    losses = json.loads((tmp_path / "rows.jsonl.losses.json").read_text())["losses"]
    reasons = {one["attempt"]: one["why"] for one in losses if one["field"] == "trajectory"}
    assert reasons["t@1"] == "left out: it holds github_token (--with-secrets writes such attempts too)"
    assert "OPENAI_API_KEY" in reasons["t@2"]


def test_secrets_are_exported_when_asked_for(tmp_path: Path) -> None:
    settings = record(tmp_path, f"token {TOKEN}")
    report, text = export(settings, "rows.jsonl", with_secrets=True)
    assert (report.written, report.secret, TOKEN in text) == (1, (), True)


def test_a_variable_that_the_run_passed_is_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "a value of my own")
    settings = record(tmp_path, "a value of my own", manifest={"config": {"pass_env": ["MY_TOKEN"]}})
    assert export(settings, "rows.jsonl")[0].secret == ("t@0",)


def test_the_command_names_what_it_left_out(tmp_path: Path) -> None:
    record(tmp_path, "fine", f"token {TOKEN}")
    words = ["export", "r", "--to", "chat", "--out", str(tmp_path / "rows.jsonl"), "--store", str(tmp_path)]
    result = CliRunner().invoke(build_app(), words)
    assert result.exit_code == 0, result.output
    assert "left out, because a secret is in it: 1 attempt (t@1); the list names it, --with-secrets" in result.stderr


def test_pages_with_a_secret_are_not_exported(tmp_path: Path) -> None:
    record(tmp_path, f"token {TOKEN}")
    words = ["view", "r", "--export", str(tmp_path / "site"), "--store", str(tmp_path)]
    result = CliRunner().invoke(build_app(), words)
    assert (result.exit_code, (tmp_path / "site").exists()) == (2, False)
    assert "1 of its attempts hold a secret, first t@0 (github_token); --with-secrets exports" in result.stderr
    assert CliRunner().invoke(build_app(), [*words, "--with-secrets"]).exit_code == 0


def test_training_rows_leave_attempts_with_a_secret_out(tmp_path: Path) -> None:
    settings = record(tmp_path, "nothing here", f"token {TOKEN}")
    config = WriteConfig(to="openai", out=str(tmp_path / "rows.jsonl"), include="all")
    report = export_for_training("r", config, settings)
    assert (report.written, report.secret) == (1, ("t@1",))
    assert TOKEN not in (tmp_path / "rows.jsonl").read_text()
